//! Invariant 6: a rollback's target is always one that became the baseline by the rule; no other
//! way changes the baseline.

use std::collections::{BTreeMap, BTreeSet};

use baton_rollout::state::Ended;
use baton_rollout::{GroupState, Rollout, RolloutKind, RolloutState};
use baton_types::limits::BASELINES_MAX;
use baton_types::policy::Limit;
use baton_types::{Digest, RolloutId, Target};

/// What was seen of rollouts and baselines.
#[derive(Clone, Debug, Default)]
pub struct BaselineCheck {
    /// What each rollout tolerates, in the phase that was seen last.
    tolerated: BTreeMap<RolloutId, Limit>,
    /// Every target that ever was the baseline.
    were: BTreeSet<Digest>,
}

impl BaselineCheck {
    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// The baseline changed otherwise than by the rule, or something goes back to what never was
    /// one.
    pub fn record(&mut self, old: Option<&GroupState>, new: &GroupState) -> Result<(), String> {
        let nothing = GroupState::default();
        let old = old.unwrap_or(&nothing);
        for rollout in [&new.rollout, &new.next, &new.last].into_iter().flatten() {
            self.tolerated.insert(rollout.id, rollout.policy().max_failures);
        }
        let mut expected = keys(&old.baselines);
        let known: BTreeSet<RolloutId> = old.history.iter().map(|line| line.id).collect();
        for line in new.history.iter().filter(|line| !known.contains(&line.id)) {
            if self.becomes_baseline(line) {
                let key = line.to.key();
                match expected.iter().position(|known| *known == key) {
                    Some(at) => expected.truncate(at + 1),
                    None => expected.push(key),
                }
                expected.drain(..expected.len().saturating_sub(BASELINES_MAX));
                self.were.insert(key);
            }
        }
        if keys(&new.baselines) != expected {
            return Err(format!(
                "the baselines are {}; by the rule there are {} of them, and the last is {}",
                words(&new.baselines),
                expected.len(),
                if keys(&new.baselines).last() == expected.last() { "the same" } else { "another" }
            ));
        }
        [&new.rollout, &new.next].into_iter().flatten().try_for_each(|rollout| self.goes(rollout))
    }

    /// The rule, from what the history says of an ended rollout.
    fn becomes_baseline(&self, line: &Ended) -> bool {
        let failures = line.failures as usize;
        // One that nobody saw under way tolerates nothing that is known of.
        let limit = self.tolerated.get(&line.id).copied().unwrap_or(Limit::Count(0));
        let tolerated = !limit.exceeded_by(failures, line.total as usize);
        match line.state {
            _ if line.kind == RolloutKind::CatchUp => false,
            RolloutState::Completed => true,
            RolloutState::CompletedWithExceptions => line.passed > 0 && tolerated,
            RolloutState::RolledBack => {
                line.kind == RolloutKind::Rollback && (line.passed > 0 || tolerated)
            }
            _ => false,
        }
    }

    fn goes(&self, rollout: &Rollout) -> Result<(), String> {
        let back = rollout.phase >= 2 || rollout.kind == RolloutKind::Rollback;
        match back && !self.were.contains(&rollout.target().key()) {
            true => Err(format!(
                "{:?} goes back to {}, which never was the baseline",
                rollout.id,
                rollout.target()
            )),
            false => Ok(()),
        }
    }
}

fn keys(targets: &[Target]) -> Vec<Digest> {
    targets.iter().map(Target::key).collect()
}

fn words(targets: &[Target]) -> String {
    let words: Vec<String> = targets.iter().map(ToString::to_string).collect();
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{rollout, running};
    use crate::depot::release;
    use baton_types::WallTime;

    fn target(version: &str) -> Target {
        Target::of(release(version))
    }

    fn ended(id: u128, kind: RolloutKind, state: RolloutState, to: &str) -> Ended {
        Ended {
            id: RolloutId::from_random(id),
            kind,
            state,
            from: None,
            to: target(to),
            started_at: WallTime(0),
            ended_at: WallTime(0),
            reason: "".into(),
            total: 3,
            passed: 3,
            failures: 0,
        }
    }

    /// Release 1 has completed.
    fn first() -> (BaselineCheck, GroupState) {
        let state = GroupState {
            history: vec![ended(1, RolloutKind::Update, RolloutState::Completed, "1")],
            baselines: vec![target("1")],
            ..GroupState::default()
        };
        let mut check = BaselineCheck::default();
        assert_eq!(check.record(None, &state), Ok(()));
        (check, state)
    }

    #[test]
    fn a_baseline_that_no_rule_made_is_seen() {
        use RolloutKind::{CatchUp, Rollback, Update};
        use RolloutState::{Cancelled, Completed, CompletedWithExceptions, RolledBack};
        let (check, old) = first();
        for (kind, state, passed, failures, becomes) in [
            (Update, Completed, 3, 0, true),
            (Update, CompletedWithExceptions, 2, 0, true),
            (Update, CompletedWithExceptions, 2, 1, false),
            (Update, CompletedWithExceptions, 0, 0, false),
            (Update, Cancelled, 2, 0, false),
            (Update, RolledBack, 2, 0, false),
            (CatchUp, Completed, 3, 0, false),
            (Rollback, RolledBack, 3, 0, true),
        ] {
            let line = Ended { passed, failures, ..ended(2, kind, state, "2") };
            let mut new = old.clone();
            new.history.push(line);
            let stays = check.clone().record(Some(&old), &new);
            assert_eq!(stays.is_err(), becomes, "{kind} {state}: it stays");
            new.baselines.push(target("2"));
            let moves = check.clone().record(Some(&old), &new);
            assert_eq!(moves.is_ok(), becomes, "{kind} {state}: it changes");
        }
        let mut silently = old.clone();
        silently.baselines.clear();
        assert!(check.clone().record(Some(&old), &silently).is_err());
    }

    #[test]
    fn a_way_back_to_what_never_was_one_is_seen() {
        let (check, old) = first();
        let back = |to: &str, phase: u8, kind: RolloutKind| {
            let mut new = GroupState { history: old.history.clone(), ..running() };
            let rollout = rollout(&mut new);
            (rollout.from, rollout.to, rollout.phase, rollout.kind) =
                (Some(target(to)), target(to), phase, kind);
            check.clone().record(Some(&old), &new)
        };
        assert_eq!(back("1", 2, RolloutKind::Update), Ok(()));
        assert!(back("3", 2, RolloutKind::Update).is_err());
        assert_eq!(back("1", 2, RolloutKind::Rollback), Ok(()));
        assert!(back("3", 2, RolloutKind::Rollback).is_err());
        assert_eq!(back("3", 1, RolloutKind::Update), Ok(()), "forth goes anything");
    }
}
