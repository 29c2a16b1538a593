//! Invariant 1: at no instant do turns disrupt more healthy members than the budget rule allows.
//!
//! Nodes decide by what they have heard; the observer knows. So he counts what no delay of news
//! excuses: members that are down by a turn, and members that have been unwell for longer than news
//! of it takes.

use std::collections::{BTreeMap, BTreeSet};

use baton_rollout::GroupState;
use baton_types::policy::Strategy;
use baton_types::{NodeId, RolloutId};

/// What rollouts allow, and who was disrupted by one.
#[derive(Clone, Debug, Default)]
pub struct BudgetCheck {
    budgets: BTreeMap<(RolloutId, u8), Budget>,
    /// When a turn last stopped a member that was well.
    disrupted: BTreeMap<NodeId, u64>,
    /// Members that no budget counts, by the last record.
    excused: BTreeSet<NodeId>,
    /// When a member that was not counted began to count again.
    counted_since: BTreeMap<NodeId, u64>,
}

#[derive(Clone, Debug)]
struct Budget {
    max_unavailable: usize,
    bounded: bool,
}

/// Another member, as it really is.
#[derive(Clone, Copy, Debug)]
pub struct Disruption {
    /// Which.
    pub node: NodeId,
    /// Since when it does not serve, in microseconds; `None` while it does.
    pub unwell_since: Option<u64>,
}

/// A member that is well is stopped by its turn.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// World time in microseconds.
    pub at: u64,
    /// Which member.
    pub node: NodeId,
    /// Since when it serves.
    pub well_since: u64,
    /// The rollout and the phase.
    pub turn: (RolloutId, u8),
}

impl BudgetCheck {
    /// A committed record at `now`: what its rollout allows, and who counts from then on.
    pub fn record(&mut self, now: u64, state: &GroupState) {
        let excused = excused(state);
        for node in self.excused.difference(&excused) {
            // Everybody has yet to hear of it.
            self.counted_since.insert(*node, now);
        }
        self.excused = excused;
        if let Some(rollout) = &state.rollout {
            let group_size = rollout.group_size as usize;
            let budget = Budget {
                max_unavailable: rollout.policy().max_unavailable.budget(group_size),
                bounded: rollout.plan.strategy != Strategy::AtOnce,
            };
            self.budgets.insert((rollout.id, rollout.phase), budget);
        }
    }

    /// Whether a record showed that rollout.
    pub fn knows(&self, rollout: RolloutId) -> bool {
        self.budgets.range((rollout, 0)..=(rollout, u8::MAX)).next().is_some()
    }

    /// A turn stops a member that is well.
    ///
    /// # Errors
    ///
    /// Too many others are unwell: they are named.
    pub fn disrupts(
        &mut self,
        stop: Stop,
        others: &[Disruption],
        state: Option<&GroupState>,
    ) -> Result<(), Vec<NodeId>> {
        let Some(mut budget) = self.budgets.get(&stop.turn).cloned() else {
            return Err(Vec::new());
        };
        // A turn of the way there may end on the way back, beside those that its policy allows.
        let (rollout, _) = stop.turn;
        let in_force = state.and_then(|state| state.rollout.as_deref()).map(|r| (r.id, r.phase));
        if let Some(now) = in_force.filter(|(id, _)| *id == rollout)
            && let Some(other) = self.budgets.get(&now)
        {
            budget.max_unavailable = budget.max_unavailable.max(other.max_unavailable);
        }
        let excused: BTreeSet<NodeId> = state.map(excused).unwrap_or_default();
        // One that has only just come up counted as ill when its turn was taken, and an ill one
        // loses nothing: then only members in turn are in its way.
        let known_well = stop.well_since + NEWS_TAKES <= stop.at;
        let open: BTreeSet<NodeId> = state.map(in_turn).unwrap_or_default();
        let unwell: Vec<NodeId> = others
            .iter()
            .filter(|other| !excused.contains(&other.node))
            .filter(|other| {
                other.unwell_since.is_some_and(|since| {
                    let by_turn =
                        self.disrupted.get(&other.node).is_some_and(|stopped| since <= *stopped)
                            && !self.counts_again(stop.at, other.node);
                    match known_well {
                        true => by_turn || self.long_ago(stop.at, other.node, since),
                        false => by_turn && open.contains(&other.node),
                    }
                })
            })
            .map(|other| other.node)
            .collect();
        self.disrupted.insert(stop.node, stop.at);
        match budget.bounded && unwell.len() + 1 > budget.max_unavailable {
            true => Err(unwell),
            false => Ok(()),
        }
    }

    /// Whether it counts again for so short a time that a turn may have been given before.
    fn counts_again(&self, now: u64, node: NodeId) -> bool {
        self.counted_since.get(&node).is_some_and(|since| since + NEWS_TAKES > now)
    }

    fn long_ago(&self, now: u64, node: NodeId, since: u64) -> bool {
        let since = self.counted_since.get(&node).copied().unwrap_or(0).max(since);
        since + NEWS_TAKES <= now
    }
}

/// Members whose turn is open.
fn in_turn(state: &GroupState) -> BTreeSet<NodeId> {
    let rollouts = state.rollout.iter();
    rollouts.flat_map(|rollout| rollout.open_turns()).map(|turn| turn.node).collect()
}

/// Members that no budget counts.
fn excused(state: &GroupState) -> BTreeSet<NodeId> {
    let let_pass = state.rollout.iter().flat_map(|rollout| &rollout.turns);
    let let_pass = let_pass.filter(|turn| turn.let_pass).map(|turn| turn.node);
    state.cordons.iter().copied().chain(let_pass).collect()
}

/// For so long, in microseconds, a leader may not yet know that a member is unwell: detection,
/// gossip under loss, and the window from its *go* to the stop.
pub(super) const NEWS_TAKES: u64 = 30_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples;

    const LONG: u64 = 10 * NEWS_TAKES;

    fn check(change: impl FnOnce(&mut GroupState), others: &[(u128, Option<u64>)]) -> usize {
        let mut state = samples::running();
        change(&mut state);
        let rollout = state.rollout.as_deref().expect("one").id;
        let mut check = BudgetCheck::default();
        check.record(0, &state);
        let others: Vec<Disruption> = others
            .iter()
            .map(|(node, unwell_since)| Disruption {
                node: samples::node(*node),
                unwell_since: *unwell_since,
            })
            .collect();
        let node = samples::node(1);
        let stop = Stop { at: LONG, node, well_since: 0, turn: (rollout, 1) };
        check.disrupts(stop, &others, Some(&state)).err().map_or(0, |named| named.len())
    }

    #[test]
    fn a_stop_beyond_the_budget_is_seen() {
        assert_eq!(check(|_| (), &[(2, None), (3, None)]), 0);
        assert_eq!(check(|_| (), &[(2, Some(0)), (3, None)]), 1);
        assert_eq!(check(|_| (), &[(2, Some(LONG - 1)), (3, None)]), 0, "nobody can know yet");
    }

    #[test]
    fn what_the_rule_leaves_out_is_left_out() {
        let ill = [(2, Some(0)), (3, None)];
        let cordoned = |state: &mut GroupState| state.cordons.extend([samples::node(2)]);
        assert_eq!(check(cordoned, &ill), 0);
        let let_pass = |state: &mut GroupState| {
            samples::turn(state, 2).let_pass = true;
        };
        assert_eq!(check(let_pass, &ill), 0);
        let at_once = |state: &mut GroupState| {
            samples::rollout(state).plan.strategy = Strategy::AtOnce;
        };
        assert_eq!(check(at_once, &ill), 0);
        let first = |state: &mut GroupState| samples::rollout(state).from = None;
        assert_eq!(check(first, &ill), 1, "who runs something has it to lose");
        let two = |state: &mut GroupState| {
            samples::rollout(state).plan.update.max_unavailable =
                baton_types::policy::Limit::Count(2);
        };
        assert_eq!(check(two, &ill), 0);
        assert_eq!(check(two, &[(2, Some(0)), (3, Some(0))]), 2);
    }

    #[test]
    fn a_member_that_a_turn_stopped_counts_at_once() {
        let state = samples::running();
        let turn = (state.rollout.as_deref().expect("one").id, 1);
        let mut check = BudgetCheck::default();
        check.record(0, &state);
        let stop = |node, at| Stop { at, node: samples::node(node), well_since: 0, turn };
        let other = |node, unwell_since| [Disruption { node: samples::node(node), unwell_since }];
        assert_eq!(check.disrupts(stop(1, LONG), &other(2, None), Some(&state)), Ok(()));
        let second = check.disrupts(stop(2, LONG + 1), &other(1, Some(LONG)), Some(&state));
        assert_eq!(second, Err(vec![samples::node(1)]));
        // It was let pass when the next turn was given, and counts again by a command since.
        let mut retried = check.clone();
        retried.counted_since.insert(samples::node(1), LONG);
        let second = retried.disrupts(stop(2, LONG + 1), &other(1, Some(LONG)), Some(&state));
        assert_eq!(second, Ok(()));
        // It was well again in between: its new illness is not that turn's.
        let third = check.disrupts(stop(3, LONG + 9), &other(1, Some(LONG + 8)), Some(&state));
        assert_eq!(third, Ok(()));
    }
}
