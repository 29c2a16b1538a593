//! Reboots of the machine within a turn: those that `install` asks for, and the one of a rolling
//! reboot.
//!
//! Invariant: a machine is rebooted only on the word of a record that is on disk, and at most
//! [`TURN_MAX_BOOTS`] times in one turn, so that no fault makes it boot for ever.

use std::time::Duration;

use baton_types::limits::TURN_MAX_BOOTS;
use baton_types::{Moment, Now, Text, exact_duration};
use baton_wire::{Manner, TurnOutcome};

use super::file::Stage;
use super::{Doing, Member, MemberOutput};

impl Member {
    /// `install` exited 76.
    pub(super) fn reboot_for_install(&mut self, now: Now) {
        let boots = self.file.turn.as_ref().map_or(0, |turn| turn.boots);
        if boots >= TURN_MAX_BOOTS {
            let reason = format!("install asked for more than {TURN_MAX_BOOTS} reboots");
            return self.end(now, TurnOutcome::Failed, &reason);
        }
        self.note = Text::new("rebooting for install");
        self.reboot(now);
    }

    /// Nothing of the service runs any more: what comes next.
    pub(super) fn stage_after_stop(&mut self, now: Now) {
        let boot = self.boot;
        let Some(turn) = &mut self.file.turn else { return };
        if turn.terms.manner == Manner::Reboot {
            turn.stage = Stage::Rebooting { boot };
            turn.since = now.moment;
        } else {
            // `since` stays: `start_timeout` counts from the stop.
            turn.stage = Stage::Started;
        }
    }

    /// The record says that this machine is to reboot: it does, or it has and the service starts.
    pub(super) fn reboot_in_turn(&mut self, now: Now) {
        if self.has_rebooted() {
            self.note = Text::default();
            self.set_stage(now, Stage::Started);
            return self.save();
        }
        let boots = self.file.turn.as_ref().map_or(0, |turn| turn.boots);
        if boots >= TURN_MAX_BOOTS {
            let reason = format!("the machine booted {boots} times in this turn already");
            return self.fail_without_reboot(now, &reason);
        }
        self.reboot(now);
    }

    /// Whether the machine has booted since the record asked for it.
    pub(super) fn has_rebooted(&self) -> bool {
        let stage = self.file.turn.as_ref().map(|turn| &turn.stage);
        matches!(stage, Some(Stage::Rebooting { boot }) if *boot != self.boot)
    }

    /// Until when the machine has to be gone.
    pub(super) fn reboot_deadline(&self) -> Option<Moment> {
        let turn = self.file.turn.as_ref().filter(|_| self.doing == Doing::Rebooting)?;
        Some(turn.since.max(self.awake_since) + REBOOT_PATIENCE)
    }

    /// The machine is still there.
    pub(super) fn did_not_reboot(&mut self, now: Now) {
        let took = exact_duration(REBOOT_PATIENCE);
        self.fail_without_reboot(now, &format!("this machine did not reboot within {took}"));
    }

    /// What was stopped for the reboot serves again.
    pub(super) fn fail_without_reboot(&mut self, now: Now, reason: &str) {
        self.end(now, TurnOutcome::Failed, reason);
        if let Some(running) = self.file.running.clone() {
            self.outputs.push_back(MemberOutput::StartService(running));
        }
    }

    fn reboot(&mut self, now: Now) {
        self.doing = Doing::Rebooting;
        self.say_progress(now);
        self.outputs.push_back(MemberOutput::Reboot);
    }
}

/// From the request until the machine's shutdown has ended the daemon; a healthy one takes seconds,
/// and a service that does not stop holds it for a minute and a half. A disk that refuses the record
/// gets as long.
pub(super) const REBOOT_PATIENCE: Duration = Duration::from_secs(5 * 60);
