//! Invariant 5: after an acknowledged pause or cancel no member goes from *offered* to *taken*; and
//! an acknowledged command is in a committed record, once.

use std::collections::BTreeSet;

use baton_rollout::{GroupState, RolloutState, TurnState};
use baton_types::{CommandAction, CommandId};

/// Needs no memory: a pause is in the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct HaltCheck;

impl HaltCheck {
    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// A turn was taken although the record before it forbade that.
    pub fn record(self, old: Option<&GroupState>, new: &GroupState) -> Result<(), String> {
        let ids: BTreeSet<CommandId> = new.commands.iter().map(|(id, _)| *id).collect();
        if ids.len() != new.commands.len() {
            return Err("a command took effect twice".to_owned());
        }
        let Some(old) = old else { return Ok(()) };
        let (Some(before), Some(after)) = (old.rollout.as_deref(), new.rollout.as_deref()) else {
            return Ok(());
        };
        let cancelled = |rollout: &baton_rollout::Rollout| {
            rollout.ending.as_ref().is_some_and(|end| end.state == RolloutState::Cancelled)
        };
        let paused = old.pause.is_some() && old.pause == new.pause;
        if before.id != after.id || !(paused || cancelled(before)) {
            return Ok(());
        }
        let taken = after.turns.iter().find(|turn| {
            let taken = matches!(turn.state, TurnState::Taken | TurnState::Monitoring);
            let was = before.turn(turn.node).map_or(TurnState::Waiting, |turn| turn.state);
            taken && matches!(was, TurnState::Waiting | TurnState::Offered)
        });
        match taken {
            Some(turn) => {
                let why = if paused { "a pause" } else { "a cancel" };
                Err(format!("the turn of {:?} is taken after {why} was committed", turn.node))
            }
            None => Ok(()),
        }
    }

    /// A command was acknowledged as done.
    ///
    /// # Errors
    ///
    /// No committed record says so.
    pub fn acknowledged(
        self,
        id: CommandId,
        action: &CommandAction,
        state: Option<&GroupState>,
    ) -> Result<(), String> {
        if matches!(action, CommandAction::ReadChannel | CommandAction::RemoveVoter { .. }) {
            return Ok(());
        }
        match state.and_then(|state| state.answer_to(id)) {
            Some(_) => Ok(()),
            None => Err(format!("{action:?} as {id:?}, which no committed record holds")),
        }
    }
}
