//! Invariant 4: failures are the distinct (rollout, phase, member) with a failed outcome.

use std::collections::BTreeSet;

use baton_rollout::{GroupState, Rollout, TurnState};
use baton_types::policy::OnFailure;
use baton_types::{NodeId, RolloutId};

/// What was seen of outcomes.
#[derive(Clone, Debug, Default)]
pub struct CountCheck {
    /// Members whose turn stands as failed, counted from the changes alone.
    failed: BTreeSet<(RolloutId, u8, NodeId)>,
}

impl CountCheck {
    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// A failure is counted twice or not at all, or the threshold is passed over.
    pub fn record(&mut self, old: Option<&GroupState>, new: &GroupState) -> Result<(), String> {
        let Some(rollout) = new.rollout.as_deref().or(new.last.as_deref()) else { return Ok(()) };
        for turn in &rollout.turns {
            let key = (rollout.id, turn.phase, turn.node);
            match turn.state {
                TurnState::Failed => self.failed.insert(key),
                _ => self.failed.remove(&key),
            };
        }
        let here = (rollout.id, rollout.phase);
        let counted = self.failed.iter().filter(|(id, phase, _)| (*id, *phase) == here).count();
        if counted != rollout.failures() {
            return Err(format!(
                "rollout {:?} counts {} failures, there were {counted}",
                rollout.id,
                rollout.failures()
            ));
        }
        let before = old.and_then(|old| old.rollout.as_deref()).filter(|old| old.id == rollout.id);
        if let Some(before) = before
            && exceeded(before)
            && rollout.phase == before.phase
            && rollout.epoch == before.epoch
            && rollout.state.offers()
            && newly(before, rollout, TurnState::Offered)
        {
            return Err(format!(
                "rollout {:?} offers a turn after {} failures of at most {}",
                rollout.id,
                before.failures(),
                before.policy().max_failures
            ));
        }
        Ok(())
    }
}

/// Whether more failed than the policy allows and an end of the offers follows from it.
fn exceeded(rollout: &Rollout) -> bool {
    let policy = rollout.policy();
    let failures = rollout.failures().saturating_sub(rollout.accepted as usize);
    let goes_on = rollout.phase == 1 && policy.on_failure == OnFailure::Continue;
    !goes_on && policy.max_failures.exceeded_by(failures, rollout.total as usize)
}

/// Whether a turn came to `state` between the two.
fn newly(before: &Rollout, after: &Rollout, state: TurnState) -> bool {
    after.turns.iter().enumerate().any(|(at, turn)| {
        let old = || before.turn_near(at, turn.node);
        turn.state == state && old().is_none_or(|old| old.state != state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{rollout, running, turn, with};

    #[test]
    fn a_member_that_is_counted_twice_is_seen() {
        let failed = with(&running(), 1, TurnState::Failed);
        let mut check = CountCheck::default();
        assert_eq!(check.record(None, &failed), Ok(()));
        let mut twice = failed.clone();
        let again = turn(&mut twice, 1).clone();
        rollout(&mut twice).turns.push(again);
        assert!(check.record(Some(&failed), &twice).is_err());
    }

    #[test]
    fn an_offer_beyond_the_threshold_is_seen() {
        let failed = with(&running(), 1, TurnState::Failed);
        let offered = with(&failed, 2, TurnState::Offered);
        assert!(CountCheck::default().record(Some(&failed), &offered).is_err());
        let mut resumed = offered.clone();
        rollout(&mut resumed).epoch += 1;
        assert_eq!(CountCheck::default().record(Some(&failed), &resumed), Ok(()));
        let mut tolerant = failed.clone();
        rollout(&mut tolerant).plan.update.on_failure = OnFailure::Continue;
        assert_eq!(CountCheck::default().record(Some(&tolerant), &offered), Ok(()));
    }
}
