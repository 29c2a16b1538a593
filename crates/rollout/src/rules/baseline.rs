//! What becomes the baseline, and what a rollback goes to.
//!
//! Invariant: a rollback's target is always one that a rollout brought to the group successfully,
//! and repeated rollbacks step back, never forth.

use baton_types::{Target, Version};

use crate::rollout::{Rollout, RolloutKind, RolloutState, TurnState};
use crate::state::{Ended, GroupState};

/// How a rollout without waiting or open turns ends.
pub fn end_state(rollout: &Rollout) -> RolloutState {
    if rollout.phase >= 2 {
        return RolloutState::RolledBack;
    }
    let good = rollout.turns.iter().all(|turn| turn.state == TurnState::Passed);
    if good { RolloutState::Completed } else { RolloutState::CompletedWithExceptions }
}

/// Whether the target of a rollout that ended in `state` becomes the baseline.
pub fn becomes_baseline(rollout: &Rollout, state: RolloutState) -> bool {
    if rollout.kind == RolloutKind::CatchUp {
        return false;
    }
    let passed = rollout.count(TurnState::Passed);
    let tolerated =
        !rollout.policy().max_failures.exceeded_by(rollout.failures(), rollout.total as usize);
    match state {
        RolloutState::Completed => true,
        RolloutState::CompletedWithExceptions => passed > 0 && tolerated,
        // It ends with more failures only after an operator accepted them; what was left must not
        // come back by the next rollback or catch-up.
        RolloutState::RolledBack => {
            rollout.kind == RolloutKind::Rollback && (tolerated || passed > 0)
        }
        _ => false,
    }
}

/// The rollout that ended last, catch-ups aside.
pub fn last_ended(state: &GroupState) -> Option<&Ended> {
    state.history.iter().rev().find(|line| line.kind != RolloutKind::CatchUp)
}

/// Where a rollback of something ended goes, and which target it leaves as bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// Where to.
    pub to: Target,
    /// What is rejected.
    pub left: Option<Target>,
}

/// Decides where `rollback` goes while no update is under way.
///
/// # Errors
///
/// A sentence for the operator: why there is nothing to go back to, and what there is.
pub fn rollback_of_ended(state: &GroupState, to: Option<&Version>) -> Result<Back, String> {
    let Some(baseline) = state.baseline() else {
        return Err("no rollout of this group has completed, so there is nothing to roll back to"
            .to_owned());
    };
    let mixed = state.member_targets.iter().any(|(_, target)| !target.same_as(baseline));
    let left_by_last = || {
        let last = last_ended(state)?;
        (!last.to.same_as(baseline)).then(|| last.to.clone())
    };
    if let Some(version) = to {
        let named = |target: &&Target| target.release.id.version == *version;
        return match state.completed.iter().rev().find(named) {
            Some(target) if target.same_as(baseline) && !mixed => {
                Err(format!("{target} is the baseline already"))
            }
            Some(target) if target.same_as(baseline) => {
                Ok(Back { to: target.clone(), left: left_by_last() })
            }
            Some(target) => Ok(Back { to: target.clone(), left: Some(baseline.clone()) }),
            None => Err(format!("{version} never completed here; {}", list(state))),
        };
    }
    if mixed {
        return Ok(Back { to: baseline.clone(), left: left_by_last() });
    }
    let unfinished = [RolloutState::Cancelled, RolloutState::Superseded];
    if last_ended(state).is_some_and(|last| unfinished.contains(&last.state)) {
        return Err(format!(
            "the last rollout was cancelled before it touched a member: every member has the \
             baseline {baseline}; {}",
            list(state)
        ));
    }
    match state.baselines.iter().rev().nth(1) {
        Some(target) => Ok(Back { to: target.clone(), left: Some(baseline.clone()) }),
        None => Err(format!("nothing completed before the baseline {baseline}; {}", list(state))),
    }
}

/// What can be named by `--to`.
fn list(state: &GroupState) -> String {
    let names: Vec<String> = state.completed.iter().map(ToString::to_string).collect();
    format!("`rollback --to VERSION` takes what completed: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::start::tests::rollout;
    use crate::view::tests::{node, target, view};
    use baton_types::{RolloutId, WallTime};

    fn state(baselines: &[u8], last: Option<(RolloutState, u8)>) -> GroupState {
        let mut state = GroupState::default();
        baselines.iter().for_each(|version| state.set_baseline(&target(*version)));
        if let Some((end, version)) = last {
            state.log(Ended {
                id: RolloutId::from_random(1),
                kind: RolloutKind::Update,
                state: end,
                from: None,
                to: target(version),
                started_at: WallTime(0),
                ended_at: WallTime(0),
                reason: "".into(),
                total: 1,
                passed: 0,
                failures: 0,
            });
        }
        state
    }

    #[test]
    fn where_a_rollback_goes() {
        let go = |state: &GroupState, to: Option<&str>| {
            let to = to.map(|v| Version::new(v).expect("a version"));
            rollback_of_ended(state, to.as_ref())
        };
        let back = |to: u8, left: u8| Ok(Back { to: target(to), left: Some(target(left)) });
        let three = state(&[1, 2, 3], Some((RolloutState::Completed, 3)));
        assert_eq!(go(&three, None), back(2, 3));
        assert_eq!(go(&three, Some("1")), back(1, 3));
        assert!(go(&three, Some("9")).is_err_and(|e| e.contains("9 never completed here")));
        assert!(go(&three, Some("3")).is_err_and(|e| e.contains("baseline already")));
        let one = state(&[1], Some((RolloutState::Completed, 1)));
        assert!(go(&one, None).is_err_and(|e| e.contains("redis/1")));
        assert!(go(&state(&[], None), None).is_err());
        let mut mixed = state(&[1, 2], Some((RolloutState::Cancelled, 3)));
        assert!(go(&mixed, None).is_err());
        mixed.member_targets.set(node("n1"), &target(3));
        assert_eq!(go(&mixed, None), back(2, 3));
    }

    #[test]
    fn what_becomes_the_baseline() {
        use RolloutState::{Cancelled, Completed, CompletedWithExceptions, RolledBack};
        for (passed, failed, limit, end, want) in [
            (5, 0, "0", Completed, true),
            (4, 0, "0", CompletedWithExceptions, true),
            (0, 0, "0", CompletedWithExceptions, false),
            (4, 1, "0", CompletedWithExceptions, false),
            (4, 1, "1", CompletedWithExceptions, true),
            (5, 0, "0", Cancelled, false),
            (5, 0, "0", RolledBack, false),
        ] {
            let mut rollout = rollout(&view(&["n1", "n2", "n3", "n4", "n5"], "n1"));
            rollout.plan.update.max_failures = limit.parse().expect("a limit");
            for (at, turn) in rollout.turns.iter_mut().enumerate() {
                turn.state = match at {
                    _ if at < passed => TurnState::Passed,
                    _ if at < passed + failed => TurnState::Failed,
                    _ => TurnState::Absent,
                };
            }
            assert_eq!(becomes_baseline(&rollout, end), want, "{passed} {failed} {limit} {end}");
        }
    }
}
