//! While the boot of this machine is not complete its member begins no turn and passes none.
//!
//! A release that breaks the boot of its machine may well run there: were it believed at once, it
//! would reach the next machine. What is held back is not sent at all, as if the network had lost
//! it; the member repeats it, and the leader's `turn_timeout` judges a boot that never ends. `ready`
//! may take the program out of service, so it is not asked before.

use baton_types::manifest::HookKind;
use baton_types::{Now, Target, Text};
use baton_wire::turn::TurnStep;
use baton_wire::{Message, TurnId, TurnMessage, TurnOutcome};

use super::Group;
use crate::effect::{Level, Line};
use crate::notice::Notice;
use crate::shared::Shared;

/// What is remembered of turns beside the member's record.
#[derive(Debug, Default)]
pub(super) struct TurnMemory {
    /// The turn whose end here was told last: messages are repeated, lines are not.
    pub(super) told_end: Option<TurnId>,
    /// The turn of which it was told last that it waits for the boot.
    told_wait: Option<TurnId>,
    /// In whose release `ready` is asked once the boot is complete.
    pub(super) held_ready: Option<Target>,
}

impl Group {
    /// Whether `message` of the member must wait, or says less than why it does; the leader and the
    /// journal are told that instead.
    pub(super) fn awaits_boot(&mut self, shared: &mut Shared, message: &TurnMessage) -> bool {
        let (turn, step) = match message {
            _ if !shared.is_booting => return false,
            TurnMessage::Progress {
                turn,
                step: step @ (TurnStep::AskingReady | TurnStep::Claiming),
                ..
            } => (*turn, *step),
            TurnMessage::Claim { turn, .. } => (*turn, TurnStep::Claiming),
            TurnMessage::Outcome { turn, outcome: TurnOutcome::Passed, .. } => {
                (*turn, TurnStep::Monitoring)
            }
            _ => return false,
        };
        let text = Text::new(BOOT_INCOMPLETE);
        if self.turn_memory.told_wait.replace(turn) != Some(turn) {
            let words = format!("its turn here waits: {text}");
            let mut line = Line::new(Notice::OwnTurnAwaitsBoot, Level::Info, words).of(&self.name);
            line.rollout = Some(turn.rollout);
            line.member = Some(Text::new(shared.name.as_str()));
            shared.log(line);
        }
        if let Some(leader) = self.leader() {
            let progress = TurnMessage::Progress { turn, step, text, environment: false };
            shared.send(leader, Message::Turn(self.name.clone(), progress));
        }
        true
    }

    /// The boot is complete. Claims and outcomes follow by the member's own repeats.
    pub(crate) fn boot_complete(&mut self, now: Now, shared: &mut Shared) {
        if let Some(target) = self.turn_memory.held_ready.take() {
            self.turn_hook(now, shared, HookKind::Ready, target);
        }
    }
}

const BOOT_INCOMPLETE: &str = "the boot of this machine is not complete";
