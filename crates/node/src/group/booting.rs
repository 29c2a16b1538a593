//! While the boot of this machine is not complete its member begins no turn and passes none.
//!
//! A release that breaks the boot of its machine may well run there: were it believed at once, it
//! would reach the next machine. What is held back is not sent at all, as if the network had lost
//! it; the member repeats it, and the leader's `turn_timeout` judges a boot that never ends.

use baton_types::{Now, Text};
use baton_wire::turn::TurnStep;
use baton_wire::{Message, TurnId, TurnMessage, TurnOutcome};

use super::Group;
use crate::effect::{Level, Line};
use crate::notice::Notice;
use crate::shared::Shared;

/// Turns of which the journal was told last: messages are repeated, lines are not.
#[derive(Debug, Default)]
pub(super) struct ToldTurns {
    /// This one has ended here.
    pub(super) ended: Option<TurnId>,
    /// This one waits for the boot.
    pub(super) awaits_boot: Option<TurnId>,
}

impl Group {
    /// Whether `message` of the member must wait, or says less than why it does; the leader and the
    /// journal are told that instead.
    pub(super) fn awaits_boot(
        &mut self,
        now: Now,
        shared: &mut Shared,
        message: &TurnMessage,
    ) -> bool {
        let (turn, step) = match message {
            _ if !shared.is_booting => return false,
            TurnMessage::Claim { turn, .. }
            | TurnMessage::Progress { turn, step: TurnStep::Claiming, .. } => {
                (*turn, TurnStep::Claiming)
            }
            TurnMessage::Outcome { turn, outcome: TurnOutcome::Passed, .. } => {
                (*turn, TurnStep::Monitoring)
            }
            _ => return false,
        };
        let text = Text::new(BOOT_INCOMPLETE);
        if self.told_turns.awaits_boot.replace(turn) != Some(turn) {
            let words = format!("its turn here waits: {text}");
            let mut line =
                Line::new(Notice::OwnTurnAwaitsBoot, Level::Warning, words).of(&self.name);
            line.rollout = Some(turn.rollout);
            line.member = Some(Text::new(shared.name.as_str()));
            shared.log(line);
        }
        if self.phase != text {
            self.phase = text.clone();
            self.publish(now, shared);
        }
        if let Some(leader) = self.leader() {
            let progress = TurnMessage::Progress { turn, step, text, environment: false };
            shared.send(leader, Message::Turn(self.name.clone(), progress));
        }
        true
    }
}

const BOOT_INCOMPLETE: &str = "the boot of this machine is not complete";
