//! Writes, repeats and the passing of time.

use baton_types::{Moment, Now, Text};
use baton_wire::{Manner, TurnMessage, TurnStep};

use super::file::Stage;
use super::reboot::REBOOT_PATIENCE;
use super::turn::SAVE_AGAIN;
use super::{Doing, Member, MemberOutput};
use crate::limits::{ENVIRONMENT_TRIES, PROGRESS_INTERVAL};
use baton_types::manifest::HookKind;

impl Member {
    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.prepare_tick(now);
        if self.unsaved.is_some_and(|at| at <= now.moment) {
            self.save();
        }
        if self.saving.is_some() || self.file.turn.is_none() {
            return;
        }
        self.judge_deadline(now);
        match self.doing {
            Doing::Pausing(until) if until <= now.moment => self.enter(now),
            Doing::Claiming => {
                let window = self.settings.claim_window;
                match self.claim {
                    Some(claimed) if now.moment.since(claimed.at) <= window => {
                        if self.is_time_to_repeat(now, self.settings.resend) {
                            self.send_claim(now);
                        }
                    }
                    _ => self.claim_again(now),
                }
            }
            _ => {}
        }
        let ended = self.file.turn.as_ref().is_some_and(|t| matches!(t.stage, Stage::Ended { .. }));
        if ended && self.saving.is_none() && self.is_time_to_repeat(now, self.settings.resend) {
            self.send_outcome(now);
        } else if !ended && self.is_time_to_repeat(now, PROGRESS_INTERVAL) {
            self.say_progress(now);
        }
    }

    /// When to call [`Member::tick`] next; ask after every other call.
    pub fn next_tick(&self) -> Option<Moment> {
        let retry = self.prepare.as_ref().and_then(|prepare| prepare.retry_at);
        let mut times = vec![retry, self.unsaved];
        if self.file.turn.is_some() && self.saving.is_none() {
            let ended =
                self.file.turn.as_ref().is_some_and(|t| matches!(t.stage, Stage::Ended { .. }));
            let quick = ended || self.doing == Doing::Claiming;
            let interval = if quick { self.settings.resend } else { PROGRESS_INTERVAL };
            times.push(self.stage_deadline());
            times.push(Some(self.sent.map_or(Moment(0), |sent| sent + interval)));
            if let Doing::Pausing(until) = self.doing {
                times.push(Some(until));
            }
        }
        times.into_iter().flatten().min()
    }

    /// The record is to be written as it is now; what the stage does waits for it.
    pub(super) fn save(&mut self) {
        self.tokens += 1;
        self.saving = Some(self.tokens);
        self.unsaved = None;
        let file = Box::new(self.file.clone());
        self.outputs.push_back(MemberOutput::Persist { token: self.tokens, file });
    }

    pub(super) fn persisted(&mut self, now: Now, token: u64, ok: bool) {
        if self.saving != Some(token) {
            return;
        }
        self.saving = None;
        if !ok {
            return self.could_not_save(now);
        }
        if self.file.turn.is_none() {
            if let Some(turn) = self.withdrawn.take() {
                self.outputs.push_back(MemberOutput::Send(TurnMessage::Withdrawn { turn }));
            }
            return;
        }
        // A write that was only repeated must not begin again what is under way.
        if self.doing == Doing::Idle || self.is_monitoring() {
            self.enter(now);
        }
    }

    fn could_not_save(&mut self, now: Now) {
        self.unsaved = Some(now.moment + SAVE_AGAIN);
        let Some(turn) = self.file.turn.as_ref() else { return };
        // A boot that the record does not know of would be followed by another one, and so on.
        let must_wait = turn.stage.is_before_begun() || turn.stage.is_down();
        if !must_wait || self.has_rebooted() {
            return self.enter(now);
        }
        // Nothing is done, and nothing stopped, on the word of a record that is not there.
        let is_stopped = matches!(turn.stage, Stage::Rebooting { .. });
        let turn_since = turn.since;
        if turn.stage == Stage::Begun {
            self.claim = None;
            self.set_stage(now, Stage::Installed);
        }
        self.faults = self.faults.saturating_add(1);
        self.environment = self.faults >= ENVIRONMENT_TRIES && !is_stopped;
        if is_stopped && now.moment >= turn_since + REBOOT_PATIENCE {
            let reason = "cannot write the turn's record to disk: the machine is not rebooted";
            return self.fail_without_reboot(now, reason);
        }
        self.note = Text::new("cannot write the turn's record to disk");
        self.say_progress(now);
    }

    fn is_monitoring(&self) -> bool {
        self.file.turn.as_ref().is_some_and(|turn| turn.stage == Stage::Monitoring)
    }

    fn is_time_to_repeat(&self, now: Now, interval: std::time::Duration) -> bool {
        self.sent.is_none_or(|sent| sent + interval <= now.moment)
    }

    pub(super) fn send_claim(&mut self, now: Now) {
        let (Some(turn), Some(claimed)) = (&self.file.turn, self.claim) else { return };
        let message = TurnMessage::Claim { turn: turn.turn, claim: claimed.id };
        self.sent = Some(now.moment);
        self.outputs.push_back(MemberOutput::Send(message));
    }

    pub(super) fn send_outcome(&mut self, now: Now) {
        let Some(turn) = &self.file.turn else { return };
        let Stage::Ended { outcome, begun, reason } = &turn.stage else { return };
        if self.saving.is_some() {
            return;
        }
        let message = TurnMessage::Outcome {
            turn: turn.turn,
            outcome: *outcome,
            begun: *begun,
            reason: reason.clone(),
        };
        self.sent = Some(now.moment);
        self.outputs.push_back(MemberOutput::Send(message));
    }

    /// Tells the leader and the ring where the turn stands.
    pub(super) fn say_progress(&mut self, now: Now) {
        self.show_phase(now);
        let (Some(turn), Some(step)) = (&self.file.turn, self.turn_step()) else { return };
        if self.saving.is_some() {
            return;
        }
        let message = TurnMessage::Progress {
            turn: turn.turn,
            step,
            text: self.note.clone(),
            environment: self.environment,
        };
        self.sent = Some(now.moment);
        self.outputs.push_back(MemberOutput::Send(message));
    }

    /// Puts the phase into the service fact when it changed.
    pub(super) fn show_phase(&mut self, _now: Now) {
        let manner = self.file.turn.as_ref().map_or(Manner::Bring, |turn| turn.terms.manner);
        let text = match self.turn_step() {
            None => Text::default(),
            Some(step) if self.note.is_empty() => Text::new(step.word_in(manner)),
            Some(step) => Text::new(&format!("{}: {}", step.word_in(manner), self.note)),
        };
        if text != self.phase {
            self.phase = text.clone();
            self.outputs.push_back(MemberOutput::Phase(text));
        }
    }

    fn turn_step(&self) -> Option<TurnStep> {
        let turn = self.file.turn.as_ref()?;
        Some(match turn.stage {
            Stage::Offered => match self.doing {
                Doing::Hook(HookKind::Install) | Doing::Rebooting => TurnStep::Installing,
                _ => TurnStep::Unpacking,
            },
            Stage::Installed if self.claim.is_some() => TurnStep::Claiming,
            Stage::Installed => TurnStep::AskingReady,
            Stage::Begun => TurnStep::Stopping,
            Stage::Rebooting { .. } => TurnStep::Rebooting,
            Stage::Started => TurnStep::Starting,
            Stage::Healthy => TurnStep::Verifying,
            Stage::Monitoring => TurnStep::Monitoring,
            Stage::Ended { .. } => return None,
        })
    }
}
