//! The turn itself: what each stage does once its record is on disk.
//!
//! Invariant: [`Member::enter`] runs only when the record that names the stage is on disk (or,
//! once the old release is down, when the disk refuses it: then going on is the lesser harm, and
//! a restart resumes from an earlier stage, which is safe to repeat).

use std::time::Duration;

use baton_types::limits::TURN_MAX_BOOTS;
use baton_types::manifest::HookKind;
use baton_types::policy::OnNotReady;
use baton_types::{ClaimId, Digest, Moment, Now, Target, Text, exact_duration, format_duration};
use baton_wire::TurnOutcome;
use rand::RngExt as _;

use super::file::Stage;
use super::prepare::fault;
use super::{
    Claimed, Doing, FetchResult, HookVerdict, Member, MemberInput, MemberOutput, ServiceNote,
};
use crate::limits::{BACK_OFF_MAX, BACK_OFF_MIN, ENVIRONMENT_TRIES, READY_INTERVAL};

impl Member {
    /// Something happened on this node.
    pub fn input(&mut self, now: Now, input: MemberInput) {
        match input {
            MemberInput::Persisted { token, ok } => self.persisted(now, token, ok),
            MemberInput::Fetched { digest, result } => {
                if self.prepare.as_ref().is_some_and(|p| p.target.key() == digest) {
                    self.prepare_fetched(now, &result);
                }
                if self.doing == Doing::Fetching && self.turn_target(digest, Target::key) {
                    self.fetched(now, result);
                }
            }
            MemberInput::Unpacked { digest, result } => {
                if self.doing == Doing::Unpacking && self.turn_target(digest, release_digest) {
                    self.unpacked(now, result);
                }
            }
            MemberInput::HookDone { kind, verdict } => {
                self.hook = None;
                if self.doing == Doing::Hook(kind) {
                    self.hook_done(now, kind, verdict);
                }
            }
            MemberInput::Service(note) => self.service(now, note),
        }
    }

    /// Goes on with the turn that the record names, after a start of the daemon.
    pub(super) fn resume(&mut self, now: Now) {
        let boot = self.boot;
        let Some(turn) = self.file.turn.as_mut() else { return };
        let rebooted = turn.boot != boot;
        if rebooted {
            turn.boot = boot;
            turn.boots = turn.boots.saturating_add(1);
            turn.since = now.moment;
        }
        let ended = matches!(turn.stage, Stage::Ended { .. });
        if turn.boots > TURN_MAX_BOOTS && !ended {
            let reason = format!("the machine booted {} times in this turn", turn.boots);
            self.end(now, TurnOutcome::Failed, &reason);
        } else if rebooted {
            self.save();
        } else {
            self.enter(now);
        }
    }

    /// Does what the stage says.
    pub(super) fn enter(&mut self, now: Now) {
        let Some(turn) = self.file.turn.as_ref() else { return };
        let target = turn.terms.target.clone();
        match &turn.stage {
            // What it runs is here, and installed.
            Stage::Offered if turn.terms.manner.keeps() => {
                self.set_stage(now, Stage::Installed);
                return self.enter(now);
            }
            Stage::Offered if self.is_prepared(&target) => {
                self.doing = Doing::Unpacking;
                self.outputs.push_back(MemberOutput::Unpack { target });
            }
            Stage::Offered => {
                self.doing = Doing::Fetching;
                let depot = turn.terms.depot.clone();
                self.outputs.push_back(MemberOutput::Fetch { target, depot });
            }
            Stage::Installed => match self.file.running.clone() {
                Some(running) => self.run_hook(now, HookKind::Ready, running),
                None => self.claim_turn(now),
            },
            Stage::Begun => self.stop_old(now),
            Stage::Rebooting { .. } => return self.reboot_in_turn(now),
            Stage::Started => {
                self.doing = Doing::Service;
                self.healthy = false;
                self.outputs.push_back(MemberOutput::StartService(target));
            }
            Stage::Healthy => self.run_hook(now, HookKind::Verify, target),
            Stage::Monitoring => {
                if self.doing == Doing::Idle && !self.healthy {
                    self.outputs.push_back(MemberOutput::StartService(target));
                }
                self.doing = Doing::Service;
                self.judge_monitoring(now);
            }
            Stage::Ended { .. } => {
                self.doing = Doing::Idle;
                self.send_outcome(now);
                return self.show_phase(now);
            }
        }
        self.say_progress(now);
    }

    fn fetched(&mut self, now: Now, result: FetchResult) {
        match fault(result) {
            None => {
                let Some(turn) = &self.file.turn else { return };
                let target = turn.terms.target.clone();
                self.doing = Doing::Unpacking;
                self.outputs.push_back(MemberOutput::Unpack { target });
            }
            Some((true, why)) => self.environment_fault(now, why),
            Some((false, why)) => self.end(now, TurnOutcome::Failed, why.as_str()),
        }
    }

    fn unpacked(&mut self, now: Now, result: FetchResult) {
        match fault(result) {
            None => {
                self.faults = 0;
                self.environment = false;
                self.note = Text::default();
                let Some(turn) = &self.file.turn else { return };
                let target = turn.terms.target.clone();
                self.run_hook(now, HookKind::Install, target);
                self.say_progress(now);
            }
            Some((true, why)) => self.environment_fault(now, why),
            Some((false, why)) => self.end(now, TurnOutcome::Failed, why.as_str()),
        }
    }

    /// Not a failure: nothing was stopped. Tried again, later each time.
    pub(super) fn environment_fault(&mut self, now: Now, why: Text) {
        self.faults = self.faults.saturating_add(1);
        self.environment = self.faults >= ENVIRONMENT_TRIES;
        self.note = why;
        let doubled = BACK_OFF_MIN * 2u32.saturating_pow(self.faults.min(16) - 1);
        self.doing = Doing::Pausing(now.moment + doubled.min(BACK_OFF_MAX));
        self.say_progress(now);
    }

    fn run_hook(&mut self, now: Now, kind: HookKind, target: Target) {
        if self.hook.is_some() {
            // One of an earlier turn that was withdrawn still runs; it ends by its own timeout.
            self.doing = Doing::Pausing(now.moment + READY_INTERVAL);
            return;
        }
        self.hook = Some(kind);
        self.doing = Doing::Hook(kind);
        self.outputs.push_back(MemberOutput::RunHook { kind, target });
    }

    fn hook_done(&mut self, now: Now, kind: HookKind, verdict: HookVerdict) {
        match (kind, verdict) {
            (HookKind::Install, HookVerdict::Yes { ran }) => {
                self.note = Text::default();
                self.set_stage(now, Stage::Installed);
                if ran { self.save() } else { self.enter(now) }
            }
            (HookKind::Install, HookVerdict::Reboot) => self.reboot_for_install(now),
            (HookKind::Install, HookVerdict::No(why) | HookVerdict::NotYet(why)) => {
                self.end(now, TurnOutcome::Failed, &format!("install failed: {why}"));
            }
            (HookKind::Ready, HookVerdict::Yes { .. }) => self.claim_turn(now),
            (HookKind::Ready, HookVerdict::NotYet(why) | HookVerdict::No(why)) => {
                self.not_ready(now, why);
            }
            (HookKind::Ready, HookVerdict::Reboot) => self.not_ready(now, Text::default()),
            (HookKind::Verify, HookVerdict::Yes { .. }) => {
                self.note = Text::default();
                self.set_stage(now, Stage::Monitoring);
                self.doing = Doing::Service;
                if self.terms(|terms| terms.monitor.is_zero()) {
                    self.judge_monitoring(now);
                } else {
                    self.save();
                }
            }
            (HookKind::Verify, HookVerdict::No(why) | HookVerdict::NotYet(why)) => {
                self.end(now, TurnOutcome::Failed, &format!("verify said no: {why}"));
            }
            (HookKind::Verify, HookVerdict::Reboot) => {
                self.end(now, TurnOutcome::Failed, "verify exited 76");
            }
            _ => {}
        }
    }

    fn not_ready(&mut self, now: Now, why: Text) {
        self.note = why;
        let Some(turn) = &self.file.turn else { return };
        let (timeout, policy) = (turn.terms.ready_timeout, turn.terms.on_not_ready);
        let deadline = turn.since + timeout;
        if now.moment < deadline {
            self.doing = Doing::Pausing((now.moment + READY_INTERVAL).min(deadline));
            return self.say_progress(now);
        }
        let reason = format!("not ready within {}: {}", exact_duration(timeout), self.note);
        match policy {
            OnNotReady::Fail => self.end(now, TurnOutcome::Failed, &reason),
            OnNotReady::Skip => self.end(now, TurnOutcome::Skipped, &reason),
            OnNotReady::Force => self.claim_turn(now),
        }
    }

    fn claim_turn(&mut self, now: Now) {
        let id = ClaimId::from_random(self.rng.random());
        self.claim = Some(Claimed { id, at: now.moment });
        self.doing = Doing::Claiming;
        self.note = Text::default();
        self.show_phase(now);
        self.send_claim(now);
    }

    /// The window has passed without a *go*: asks `ready` again, as what it said is old.
    pub(super) fn claim_again(&mut self, now: Now) {
        self.claim = None;
        if let Some(turn) = &mut self.file.turn {
            turn.since = now.moment;
        }
        self.enter(now);
    }

    /// *Begun* is on disk; the window is looked at once more, because writing takes time.
    fn stop_old(&mut self, now: Now) {
        if let Some(claimed) = self.claim.take()
            && now.moment.since(claimed.at) > self.settings.claim_window
        {
            self.set_stage(now, Stage::Installed);
            return self.save();
        }
        self.doing = Doing::Service;
        self.outputs.push_back(MemberOutput::StopService);
    }

    fn service(&mut self, now: Now, note: ServiceNote) {
        self.healthy = note == ServiceNote::Healthy;
        if note == ServiceNote::Unknown {
            self.awake_since = now.moment;
        }
        let Some(turn) = &self.file.turn else { return };
        match (&turn.stage, note) {
            (Stage::Begun, ServiceNote::Stopped) if self.doing == Doing::Service => {
                let target = turn.terms.target.clone();
                if self.file.running.as_ref() != Some(&target) {
                    self.file.previous = self.file.running.replace(target);
                }
                self.note = Text::default();
                self.stop_took = now.moment.since(turn.since);
                self.stage_after_stop(now);
                self.doing = Doing::Idle;
                self.save();
            }
            (Stage::Started, ServiceNote::Healthy) if self.doing == Doing::Service => {
                self.note = Text::default();
                self.set_stage(now, Stage::Healthy);
                self.enter(now);
            }
            (Stage::Started, note) => {
                if let Some(why) = complaint(&note) {
                    self.note = why;
                    self.say_progress(now);
                }
            }
            (Stage::Healthy | Stage::Monitoring, ServiceNote::Healthy) => {
                self.judge_monitoring(now)
            }
            (Stage::Healthy | Stage::Monitoring, note) => {
                if let Some(why) = complaint(&note) {
                    self.end(now, TurnOutcome::Failed, why.as_str());
                }
            }
            _ => {}
        }
    }

    /// Passed once it was healthy for long enough and is so now.
    pub(super) fn judge_monitoring(&mut self, now: Now) {
        let Some(turn) = &self.file.turn else { return };
        let over = now.moment >= turn.since + turn.terms.monitor;
        if turn.stage == Stage::Monitoring && over && self.healthy && self.saving.is_none() {
            self.end(now, TurnOutcome::Passed, "");
        }
    }

    /// Deadlines of the stage under way.
    pub(super) fn judge_deadline(&mut self, now: Now) {
        let Some(deadline) = self.stage_deadline() else { return };
        if now.moment < deadline {
            return;
        }
        let Some(turn) = &self.file.turn else { return };
        match turn.stage {
            Stage::Rebooting { .. } => self.did_not_reboot(now),
            Stage::Started => {
                let limit = turn.terms.start_timeout;
                let took = exact_duration(limit);
                // What was slow then is not the new release.
                let stop = match self.stop_took * 2 >= limit {
                    true => {
                        let stop = format_duration(self.stop_took);
                        format!(", of which stopping what ran before took {stop}")
                    }
                    false => String::new(),
                };
                let reason = format!("not healthy within {took}{stop}: {}", self.note);
                self.end(now, TurnOutcome::Failed, reason.trim_end_matches(": "));
            }
            Stage::Monitoring if self.healthy => self.judge_monitoring(now),
            Stage::Monitoring => {
                self.end(
                    now,
                    TurnOutcome::Failed,
                    "no health was heard after the daemon was started or the machine had stood still",
                );
            }
            _ => {}
        }
    }

    /// When the stage is over by itself.
    pub(super) fn stage_deadline(&self) -> Option<Moment> {
        let turn = self.file.turn.as_ref()?;
        match turn.stage {
            Stage::Rebooting { .. } => self.reboot_deadline(),
            // A restart of the daemon gives the service time to be heard again.
            Stage::Started => Some(turn.since.max(self.awake_since) + turn.terms.start_timeout),
            Stage::Monitoring if self.healthy => Some(turn.since + turn.terms.monitor),
            Stage::Monitoring => {
                let over = turn.since + turn.terms.monitor;
                Some(over.max(self.awake_since) + turn.terms.start_timeout)
            }
            _ => None,
        }
    }

    /// The turn is over for the member. It stays on what it was given.
    pub(super) fn end(&mut self, now: Now, outcome: TurnOutcome, reason: &str) {
        let Some(turn) = &mut self.file.turn else { return };
        let begun = turn.stage.is_disrupting();
        turn.stage = Stage::Ended { outcome, begun, reason: Text::new(reason) };
        turn.since = now.moment;
        self.doing = Doing::Idle;
        self.claim = None;
        self.environment = false;
        self.save();
    }

    pub(super) fn set_stage(&mut self, now: Now, stage: Stage) {
        self.doing = Doing::Idle;
        if let Some(turn) = &mut self.file.turn {
            turn.stage = stage;
            turn.since = now.moment;
        }
    }

    fn turn_target(&self, digest: Digest, named_by: fn(&Target) -> Digest) -> bool {
        self.file.turn.as_ref().is_some_and(|turn| named_by(&turn.terms.target) == digest)
    }

    fn terms(&self, ask: fn(&baton_wire::Terms) -> bool) -> bool {
        self.file.turn.as_ref().is_some_and(|turn| ask(&turn.terms))
    }
}

fn release_digest(target: &Target) -> Digest {
    target.release.digest
}

/// What a note says against the service, if anything.
fn complaint(note: &ServiceNote) -> Option<Text> {
    match note {
        ServiceNote::Healthy | ServiceNote::Unknown => None,
        ServiceNote::Stopped => Some(Text::new("stopped from outside of the turn")),
        ServiceNote::Unhealthy(why) => Some(Text::new(&format!("critical: {why}"))),
        ServiceNote::Exited(why) => Some(Text::new(&format!("the program {why}"))),
        ServiceNote::StartFailed(why) => Some(Text::new(&format!("could not be started: {why}"))),
    }
}

/// A retry of a failed write: soon, because a turn waits for it.
pub(super) const SAVE_AGAIN: Duration = Duration::from_secs(1);
