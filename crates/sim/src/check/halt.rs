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
    /// A turn is taken in a record that forbids that.
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
        let paused = new.pause.is_some();
        if before.id != after.id || !(paused || cancelled(after)) {
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
                Err(format!("the turn of {:?} is taken in a record with {why}", turn.node))
            }
            None => Ok(()),
        }
    }

    /// A command was acknowledged as done.
    ///
    /// # Errors
    ///
    /// No committed record says so.
    pub fn acknowledged<'a>(
        self,
        id: CommandId,
        action: &CommandAction,
        states: impl IntoIterator<Item = &'a GroupState>,
    ) -> Result<(), String> {
        // The ledger's own matter: what they ask for is not in the content of its record.
        let of_ledger = matches!(
            action,
            CommandAction::ReadChannel
                | CommandAction::RemoveVoter { .. }
                | CommandAction::Adopt { .. }
        );
        if of_ledger {
            return Ok(());
        }
        match states.into_iter().any(|state| state.answer_to(id).is_some()) {
            true => Ok(()),
            false => Err(format!("{action:?} as {id:?}, which no committed record holds")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{node, rollout, running, with};
    use baton_rollout::rollout::Ending;
    use baton_rollout::state::Pause;
    use baton_types::{CommandAnswer, CommandResult, NodeName, Text, WallTime};

    fn paused(state: &GroupState) -> GroupState {
        let by = NodeName::new("n1").expect("a name");
        GroupState {
            pause: Some(Pause { by, at: WallTime(1), why: Text::default() }),
            ..state.clone()
        }
    }

    #[test]
    fn a_turn_taken_beside_a_pause_is_seen() {
        let offered = with(&running(), 1, TurnState::Offered);
        let taken = with(&offered, 1, TurnState::Taken);
        let check = HaltCheck;
        assert_eq!(check.record(Some(&offered), &taken), Ok(()));
        assert!(check.record(Some(&offered), &paused(&taken)).is_err(), "in the same record");
        assert!(check.record(Some(&paused(&offered)), &paused(&taken)).is_err());
        let monitored = with(&taken, 1, TurnState::Monitoring);
        assert_eq!(check.record(Some(&paused(&taken)), &paused(&monitored)), Ok(()), "it ends");
        assert_eq!(check.record(Some(&paused(&offered)), &taken), Ok(()), "resumed");
    }

    #[test]
    fn a_turn_taken_after_a_cancel_is_seen() {
        let mut offered = with(&running(), 2, TurnState::Offered);
        rollout(&mut offered).ending =
            Some(Ending { state: RolloutState::Cancelled, reason: Text::default() });
        let taken = with(&offered, 2, TurnState::Taken);
        let found = HaltCheck.record(Some(&offered), &taken);
        assert!(found.is_err_and(|what| what.contains(&format!("{:?}", node(2)))));
    }

    #[test]
    fn an_acknowledged_command_without_a_record_or_with_two_is_seen() {
        let id = CommandId::from_random(5);
        let mut state = running();
        let acknowledged =
            |state: &GroupState| HaltCheck.acknowledged(id, &CommandAction::Pause, Some(state));
        assert!(acknowledged(&state).is_err());
        let message = Text::default();
        let answer = CommandAnswer { result: CommandResult::Done, message, rollout: None };
        state.commands.push((id, answer.clone()));
        assert_eq!(acknowledged(&state), Ok(()));
        state.commands.push((id, answer));
        assert!(HaltCheck.record(None, &state).is_err());
    }
}
