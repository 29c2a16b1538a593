//! When failures are too many.
//!
//! Invariant: a failure is counted once per (rollout, phase, member): what is counted is turns in
//! the state *failed*, of which each member has one.

use baton_types::policy::OnFailure;

use crate::rollout::Rollout;

/// Whether the failures of the phase under way, less those that an operator accepted, are
/// strictly more than the policy allows.
pub fn exceeded(rollout: &Rollout) -> bool {
    let counted = rollout.failures().saturating_sub(rollout.accepted as usize);
    rollout.policy().max_failures.exceeded_by(counted, rollout.total as usize)
}

/// What too many failures do: a rollback is never rolled back; a first rollout, a catch-up, a
/// restart and a reboot have nothing to go back to.
pub fn consequence(rollout: &Rollout) -> OnFailure {
    let no_step = !rollout.kind.is_step();
    match rollout.policy().on_failure {
        OnFailure::Rollback if rollout.phase >= 2 || rollout.is_first() || no_step => {
            OnFailure::Pause
        }
        OnFailure::Continue if rollout.phase >= 2 => OnFailure::Pause,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::TurnState;
    use crate::rules::start::tests::rollout;
    use crate::view::tests::view;

    #[test]
    fn strictly_more_than_allowed_after_what_was_accepted() {
        for (limit, failed, accepted, want) in [
            ("0", 0, 0, false),
            ("0", 1, 0, true),
            ("0", 1, 1, false),
            ("0", 2, 1, true),
            ("25%", 1, 0, false),
            ("25%", 2, 0, true),
            ("2", 2, 0, false),
            ("100%", 5, 0, false),
        ] {
            let mut rollout = rollout(&view(&["n1", "n2", "n3", "n4", "n5"], "n1"));
            rollout.plan.update.max_failures = limit.parse().expect("a limit");
            rollout.accepted = accepted;
            rollout.turns.iter_mut().take(failed).for_each(|turn| turn.state = TurnState::Failed);
            assert_eq!(exceeded(&rollout), want, "{failed} failed, {accepted} accepted, {limit}");
        }
    }

    #[test]
    fn what_cannot_be_rolled_back_is_paused() {
        let base = rollout(&view(&["n1"], "n1"));
        for (policy, phase, first, want) in [
            (OnFailure::Rollback, 1, false, OnFailure::Rollback),
            (OnFailure::Rollback, 2, false, OnFailure::Pause),
            (OnFailure::Rollback, 1, true, OnFailure::Pause),
            (OnFailure::Continue, 1, false, OnFailure::Continue),
            (OnFailure::Continue, 2, false, OnFailure::Pause),
            (OnFailure::Pause, 1, false, OnFailure::Pause),
        ] {
            let mut rollout = base.clone();
            rollout.plan.update.on_failure = policy;
            rollout.plan.rollback.on_failure = policy;
            rollout.phase = phase;
            if first {
                rollout.from = None;
            }
            assert_eq!(consequence(&rollout), want, "{policy} phase {phase} first {first}");
        }
    }
}
