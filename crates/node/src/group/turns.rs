//! The member's side: its messages, its record, and what it asks of depot, hooks and service.

use std::sync::Arc;

use baton_rollout::member::file::Stage;
use baton_rollout::{FetchResult, HookVerdict, MemberInput, MemberOutput, ServiceNote};
use baton_supervise::environment::check_commands;
use baton_supervise::verdict::{self, HookOutcome};
use baton_supervise::{HookResult, Launch, ServiceEvent};
use baton_types::manifest::{HookKind, Manifest};
use baton_types::member::{Desired, Health, ProcessState};
use baton_types::{NodeId, Now, Release, Target, Text};
use baton_wire::{Manner, Message, TurnMessage, TurnOutcome};

use super::Group;
use crate::effect::{Effect, Level, Line};
use crate::event::DepotFault;
use crate::files::{self, Waiting};
use crate::notice::Notice;
use crate::shared::Shared;

impl Group {
    /// A message of the group's leader for this member.
    pub(crate) fn take_from_leader(&mut self, now: Now, from: NodeId, message: TurnMessage) {
        // A go proves itself by the claim that it answers; everything else is believed only from
        // the leader that this node knows.
        let proves_itself =
            matches!(message, TurnMessage::Go { .. } | TurnMessage::OutcomeKept { .. });
        if proves_itself || self.leader().is_none_or(|leader| leader == from) {
            self.member.receive(now, from, message);
        }
    }

    /// Whether this member is in a turn, so that the node must not be in one of another group.
    pub(crate) fn in_turn(&self) -> bool {
        self.member.in_turn()
    }

    /// A turn write ended.
    pub(crate) fn turn_written(&mut self, now: Now, token: u64, ok: bool) {
        self.member.input(now, MemberInput::Persisted { token, ok });
    }

    pub(super) fn drive_member(&mut self, now: Now, shared: &mut Shared) -> bool {
        let outputs = self.member.take_outputs();
        let moved = !outputs.is_empty();
        for output in outputs {
            match output {
                MemberOutput::Send(message) if self.awaits_boot(shared, &message) => {}
                MemberOutput::Send(message) => {
                    self.tell_own_outcome(shared, &message);
                    if let Some(leader) = self.leader() {
                        shared.send(leader, Message::Turn(self.name.clone(), message));
                    }
                }
                MemberOutput::Persist { token, file } => {
                    let waiting = Waiting::Turn(self.name.clone(), token);
                    shared.write(files::turn(&self.name), &*file, waiting);
                    self.publish(now, shared);
                    self.keep_releases(shared);
                }
                MemberOutput::Fetch { target, depot } => {
                    self.keep_releases(shared);
                    self.fetch(shared, target, depot);
                }
                MemberOutput::Unpack { target } => self.unpack(now, shared, target.release),
                MemberOutput::RunHook { kind: HookKind::Ready, target } if shared.is_booting => {
                    self.turn_memory.held_ready = Some(target);
                }
                MemberOutput::RunHook { kind, target } => self.turn_hook(now, shared, kind, target),
                MemberOutput::StopService => self.stop_for_turn(now, shared),
                MemberOutput::StartService(target) => self.start_for_turn(now, shared, target),
                MemberOutput::Reboot => {
                    let turn = self.member.file().turn.as_ref();
                    let text = match turn.map(|turn| turn.terms.manner) {
                        Some(Manner::Reboot) => "this machine reboots: it is its turn",
                        _ => "the install hook asks for a reboot of this machine",
                    };
                    shared
                        .log(Line::new(Notice::OwnTurnReboot, Level::Warning, text).of(&self.name));
                    shared.effects.push(Effect::Reboot { group: self.name.clone() });
                }
                MemberOutput::Phase(phase) => {
                    self.phase = phase;
                    self.publish(now, shared);
                }
            }
        }
        moved
    }

    /// One line when this member's turn has ended by its own judgement; the message is repeated.
    fn tell_own_outcome(&mut self, shared: &mut Shared, message: &TurnMessage) {
        let TurnMessage::Outcome { turn, outcome, reason, .. } = message else { return };
        if self.turn_memory.told_end.replace(*turn) == Some(*turn) {
            return;
        }
        let target = self.member.file().turn.as_ref().map(|turn| turn.terms.target.to_string());
        let (level, end) = match outcome {
            TurnOutcome::Passed => (Level::Info, "passed".to_owned()),
            TurnOutcome::Skipped => (Level::Warning, format!("skipped: {reason}")),
            TurnOutcome::Failed => (Level::Warning, format!("failed: {reason}")),
        };
        let text = format!("{}: its turn here ended: {end}", target.unwrap_or_default());
        let mut line = Line::new(Notice::OwnTurnEnded, level, text).of(&self.name);
        line.rollout = Some(turn.rollout);
        line.member = Some(Text::new(shared.name.as_str()));
        shared.log(line);
    }

    fn unpack(&mut self, now: Now, shared: &mut Shared, release: Release) {
        if shared.unpacked.contains(&release.digest) {
            let digest = release.digest;
            self.member.input(now, MemberInput::Unpacked { digest, result: FetchResult::Done });
        } else {
            shared.effects.push(Effect::Unpack { group: self.name.clone(), release });
        }
    }

    /// A fetch ended.
    pub(crate) fn fetched(
        &mut self,
        now: Now,
        shared: &mut Shared,
        release: &Release,
        result: Result<Box<Manifest>, DepotFault>,
    ) {
        self.restore_fetched(now, shared, release, result.as_ref().err());
        let result = match result {
            Ok(_manifest) => FetchResult::Done,
            Err(fault) => fault_result(fault),
        };
        for target in self.fetched_targets(shared, release) {
            let result = match result {
                FetchResult::Done => self.can_be_started(shared, &target),
                ref failed => failed.clone(),
            };
            self.member.input(now, MemberInput::Fetched { digest: target.key(), result });
        }
    }

    /// Whether today's settings have what the release's commands ask for. A name that is not set
    /// here is this machine's fault, and is asked for again: it is found before anything is stopped.
    fn can_be_started(&self, shared: &Shared, target: &Target) -> FetchResult {
        match self.launch_of(shared, target).map(|launch| check_commands(&launch)) {
            Some(Err(cause)) => FetchResult::Environment(Text::new(&cause)),
            Some(Ok(())) | None => FetchResult::Done,
        }
    }

    /// An unpacking ended.
    pub(crate) fn unpacked(
        &mut self,
        now: Now,
        shared: &mut Shared,
        release: &Release,
        result: Result<(), DepotFault>,
    ) {
        self.restore_unpacked(now, shared, release, result.as_ref().err());
        let result = match result {
            Ok(()) => FetchResult::Done,
            Err(fault) => fault_result(fault),
        };
        self.member.input(now, MemberInput::Unpacked { digest: release.digest, result });
    }

    pub(super) fn turn_hook(
        &mut self,
        now: Now,
        shared: &mut Shared,
        kind: HookKind,
        target: Target,
    ) {
        let Some(launch) = self.launch_of(shared, &target) else {
            let text = format!("{target} is not on this machine");
            let verdict = HookVerdict::No(text.as_str().into());
            self.member.input(now, MemberInput::HookDone { kind, verdict });
            return;
        };
        // A program that is down cannot be asked, and what is down needs no leave to be replaced.
        let nobody_to_ask =
            kind == HookKind::Ready && self.service.status().process != ProcessState::Running;
        let hook = launch.manifest.hooks.get(kind).filter(|_| !nobody_to_ask);
        let Some(timeout) = hook.map(|hook| hook.timeout) else {
            let verdict = HookVerdict::Yes { ran: false };
            self.member.input(now, MemberInput::HookDone { kind, verdict });
            return;
        };
        // What a turn's hook is run for is the turn's rollout, not the one before.
        let turn = self.member.file().turn.as_ref().map(|turn| turn.turn.rollout);
        let launch = Arc::new(Launch { rollout: turn.or(launch.rollout), ..launch });
        // Odd numbers; the service's own hooks have even ones.
        self.next_hook += 2;
        let hook = self.next_hook + 1;
        self.hooks.insert(hook, (kind, Arc::clone(&launch)));
        let group = self.name.clone();
        shared.effects.push(Effect::RunHook { group, hook, kind, launch, timeout });
    }

    /// A hook of a turn ended.
    pub(super) fn turn_hook_done(&mut self, now: Now, hook: u64, result: &HookResult) {
        let Some((kind, launch)) = self.hooks.remove(&hook) else { return };
        let timeout = launch.manifest.hooks.get(kind).map(|hook| hook.timeout).unwrap_or_default();
        let verdict = match verdict::hook(kind, timeout, result) {
            HookOutcome::Ok => HookVerdict::Yes { ran: true },
            HookOutcome::NotYet(text) => HookVerdict::NotYet(text),
            HookOutcome::Reboot => HookVerdict::Reboot,
            HookOutcome::Failed(text) => HookVerdict::No(text),
        };
        self.member.input(now, MemberInput::HookDone { kind, verdict });
    }

    fn stop_for_turn(&mut self, now: Now, shared: &mut Shared) {
        if let Some(turn) = &self.member.file().turn {
            let what = match turn.terms.manner {
                Manner::Bring => "its go is here",
                Manner::Restart => "its go to restart is here",
                Manner::Reboot => "its go to reboot is here",
            };
            let text = format!("{}: {what}", turn.terms.target);
            let mut line = Line::new(Notice::OwnTurnGo, Level::Info, text).of(&self.name);
            line.rollout = Some(turn.turn.rollout);
            line.member = Some(Text::new(shared.name.as_str()));
            shared.log(line);
        }
        if self.wants_stopped() {
            // The turn is the operator's later word: what it starts is meant to run.
            self.set_desired(shared, Desired::Running);
        }
        if self.is_stopped() {
            self.restoring = None;
            self.note(now, ServiceNote::Stopped);
        } else {
            self.awaiting_stop = true;
            self.halt(now, shared);
        }
    }

    fn start_for_turn(&mut self, now: Now, shared: &mut Shared, target: Target) {
        self.rollout = self.member.file().turn.as_ref().map(|turn| turn.turn.rollout);
        if self.closing {
            // The next daemon goes on from the record.
            return;
        }
        if self.wants_stopped() {
            // Stopped by its operator after the turn began.
            self.note(now, ServiceNote::Stopped);
            return;
        }
        let Some(launch) = self.ready_launch(shared, &target) else {
            self.restore_target(shared, target);
            return;
        };
        let status = self.service.status();
        let runs = status.process == ProcessState::Running
            && status.launch.as_ref().is_some_and(|running| running.same_program(&launch));
        if runs {
            let note = if status.health.is_healthy() {
                Some(ServiceNote::Healthy)
            } else if status.health == Health::Critical {
                Some(ServiceNote::Unhealthy(status.health_text.clone()))
            } else {
                None
            };
            if let Some(note) = note {
                self.note(now, note);
            }
            return;
        }
        self.launch(now, shared, launch);
    }

    pub(super) fn note(&mut self, now: Now, note: ServiceNote) {
        self.member.input(now, MemberInput::Service(note));
    }

    /// What a program that is not up yet says of itself: if it never comes up, that is the reason.
    pub(super) fn tell_of_start(&mut self, now: Now) {
        let status = self.service.status();
        let starts = self.member.file().turn.as_ref().is_some_and(|t| t.stage == Stage::Started);
        if starts && status.pid.is_some() && !status.health.is_healthy() {
            let text = status.health_text.clone();
            self.note(now, ServiceNote::Unhealthy(text));
        }
    }

    /// What the service did, for the member's side and for the journal.
    pub(super) fn service_event(&mut self, now: Now, shared: &mut Shared, event: ServiceEvent) {
        let release =
            self.service.status().target().map(|target| target.to_string()).unwrap_or_default();
        let (notice, level, text, note) = match event {
            ServiceEvent::Started { pid } => {
                let text = format!("{release} started as process {pid}");
                (Notice::ServiceStarted, Level::Info, text, None)
            }
            ServiceEvent::FirstHealthy => {
                let text = format!("{release} is healthy");
                (Notice::ServiceHealthy, Level::Info, text, Some(ServiceNote::Healthy))
            }
            ServiceEvent::BecameHealthy => {
                let text = format!("{release} is healthy again");
                (Notice::ServiceHealthy, Level::Info, text, Some(ServiceNote::Healthy))
            }
            ServiceEvent::BecameUnhealthy { health, text } => (
                Notice::ServiceUnhealthy,
                Level::Warning,
                format!("{release} is {health}: {text}"),
                Some(ServiceNote::Unhealthy(text)),
            ),
            ServiceEvent::BecameUnknown => {
                let text = format!("{release} is checked anew: this machine stood still");
                (Notice::ServiceCheckedAnew, Level::Info, text, Some(ServiceNote::Unknown))
            }
            ServiceEvent::Exited { text, .. } => (
                Notice::ServiceExited,
                Level::Warning,
                format!("{release} {text}"),
                Some(ServiceNote::Exited(text)),
            ),
            ServiceEvent::StartFailed { text } => (
                Notice::ServiceStartFailed,
                Level::Warning,
                format!("{release} did not start: {text}"),
                Some(ServiceNote::StartFailed(text)),
            ),
            ServiceEvent::PostStopFailed { text } => {
                (Notice::ServiceHookFailed, Level::Warning, format!("{release}: {text}"), None)
            }
            ServiceEvent::Stopped => {
                // A turn has to hear of a stop by the operator, too. The end of the daemon is
                // none: the next one goes on with the turn.
                let awaited = std::mem::take(&mut self.awaiting_stop);
                let note = (awaited || !self.closing).then_some(ServiceNote::Stopped);
                let what = if release.is_empty() { "its program" } else { &release };
                (Notice::ServiceStopped, Level::Info, format!("{what} is stopped"), note)
            }
            ServiceEvent::RestartScheduled { delay, restarts } => {
                let delay = baton_types::format_duration(delay);
                let text = format!("{release} is started again in {delay} (restart {restarts})");
                (Notice::ServiceRestartScheduled, Level::Info, text, None)
            }
        };
        shared.log(Line::new(notice, level, text).of(&self.name));
        if let Some(note) = note {
            self.note(now, note);
        }
    }

    /// Everything that a program of `target` depends on, from today's settings; `None` while its
    /// manifest or its configuration revision is not on this machine.
    pub(super) fn launch_of(&self, shared: &Shared, target: &Target) -> Option<Launch> {
        let manifest = shared.manifests.get(&target.release.digest)?.clone();
        let revision = match target.config.digest {
            Some(digest) => Some(Arc::clone(shared.revisions.get(&digest)?)),
            None => None,
        };
        let health_timing = self.settings.health.or(manifest.health_timing);
        Some(Launch {
            health_timing,
            assume_healthy_after: self.settings.update.monitor,
            env: self.settings.env.clone(),
            revision,
            run_as: self.settings.run_as.clone(),
            rollout: self.rollout,
            ..Launch::new(target.clone(), manifest)
        })
    }
}

pub(super) fn fault_result(fault: DepotFault) -> FetchResult {
    if fault.environment {
        FetchResult::Environment(fault.text)
    } else {
        FetchResult::Refused(fault.text)
    }
}
