//! A committed outcome of a turn never changes: it stands until a new attempt or the way back.

use baton_rollout::{GroupState, Rollout, Turn, TurnState};

/// Needs no memory: outcomes are in the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutcomeCheck;

impl OutcomeCheck {
    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// A turn that had ended stands otherwise now.
    pub fn record(self, old: Option<&GroupState>, new: &GroupState) -> Result<(), String> {
        let Some(old) = old else { return Ok(()) };
        for before in [&old.rollout, &old.last].into_iter().flatten() {
            let after = [&new.rollout, &new.last].into_iter().flatten();
            let Some(after) = after.into_iter().find(|after| after.id == before.id) else {
                continue;
            };
            for (at, turn) in before.turns.iter().enumerate().filter(|(_, turn)| has_outcome(turn))
            {
                stands(before, after, (at, turn))?;
            }
        }
        Ok(())
    }
}

fn has_outcome(turn: &Turn) -> bool {
    matches!(turn.state, TurnState::Passed | TurnState::Failed)
}

fn stands(before: &Rollout, after: &Rollout, (at, turn): (usize, &Turn)) -> Result<(), String> {
    let Some(now) = after.turn_near(at, turn.node) else {
        return Err(format!("the turn of {:?}, which {}, is gone", turn.node, turn.state));
    };
    if now.phase > turn.phase || (now.state, now.attempts) == (turn.state, turn.attempts) {
        return Ok(());
    }
    // Only who failed gets a new attempt, and only by a command, which begins a new epoch. Who is
    // not there at that moment is left out at once.
    let waits = match now.state {
        TurnState::Waiting => true,
        TurnState::Skipped | TurnState::Absent => now.gone,
        _ => now.attempts > turn.attempts,
    };
    let again = turn.state == TurnState::Failed && before.epoch < after.epoch && waits;
    match again {
        true => Ok(()),
        false => Err(format!(
            "the turn of {:?} {} in attempt {}, now it stands as {} in attempt {}",
            turn.node, turn.state, turn.attempts, now.state, now.attempts
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{rollout, running, turn, with};

    #[test]
    fn an_outcome_that_changes_is_seen() {
        use TurnState::{Absent, Failed, Monitoring, Offered, Passed, Skipped, Waiting};
        for (was, is, fits) in [
            (Passed, Passed, true),
            (Failed, Failed, true),
            (Monitoring, Failed, true),
            (Skipped, Waiting, true),
            (Absent, Passed, true),
            (Passed, Failed, false),
            (Failed, Passed, false),
            (Passed, Waiting, false),
            (Failed, Waiting, false),
            (Passed, Offered, false),
        ] {
            let old = with(&running(), 1, was);
            let new = with(&running(), 1, is);
            assert_eq!(OutcomeCheck.record(Some(&old), &new).is_ok(), fits, "{was} {is}");
            let mut ended = new.clone();
            ended.last = ended.rollout.take();
            assert_eq!(OutcomeCheck.record(Some(&old), &ended).is_ok(), fits, "{was} {is}, ended");
        }
    }

    #[test]
    fn a_new_attempt_and_the_way_back_are_no_change() {
        let failed = with(&running(), 1, TurnState::Failed);
        let mut again = with(&failed, 1, TurnState::Waiting);
        assert!(OutcomeCheck.record(Some(&failed), &again).is_err(), "nobody typed retry");
        rollout(&mut again).epoch += 1;
        assert_eq!(OutcomeCheck.record(Some(&failed), &again), Ok(()));
        turn(&mut again, 1).state = TurnState::Skipped;
        assert!(OutcomeCheck.record(Some(&failed), &again).is_err(), "it is there");
        turn(&mut again, 1).gone = true;
        assert_eq!(OutcomeCheck.record(Some(&failed), &again), Ok(()));
        let passed = with(&running(), 1, TurnState::Passed);
        let mut twice = with(&passed, 1, TurnState::Offered);
        rollout(&mut twice).epoch += 1;
        turn(&mut twice, 1).attempts = 2;
        assert!(OutcomeCheck.record(Some(&passed), &twice).is_err(), "it passed");
        turn(&mut twice, 1).phase = 2;
        assert_eq!(OutcomeCheck.record(Some(&passed), &twice), Ok(()), "it goes back");
        rollout(&mut twice).turns.remove(0);
        assert!(OutcomeCheck.record(Some(&passed), &twice).is_err(), "it is gone");
    }
}
