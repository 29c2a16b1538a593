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
    /// When a member was last seen to be let in or out of the count by a record.
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

impl BudgetCheck {
    /// A committed record: what its rollout allows.
    pub fn record(&mut self, state: &GroupState) {
        if let Some(rollout) = &state.rollout {
            let group_size = rollout.group_size as usize;
            let budget = Budget {
                max_unavailable: rollout.policy().max_unavailable.budget(group_size),
                bounded: !rollout.is_first() && rollout.plan.strategy != Strategy::AtOnce,
            };
            self.budgets.insert((rollout.id, rollout.phase), budget);
        }
    }

    /// A turn of this rollout stops a member that is well.
    ///
    /// # Errors
    ///
    /// Too many others are unwell: they are named.
    pub fn disrupts(
        &mut self,
        now: u64,
        node: NodeId,
        rollout: RolloutId,
        phase: u8,
        others: &[Disruption],
        state: Option<&GroupState>,
    ) -> Result<(), Vec<NodeId>> {
        let Some(budget) = self.budgets.get(&(rollout, phase)).cloned() else {
            return Err(Vec::new());
        };
        let excused: BTreeSet<NodeId> = state.map(excused).unwrap_or_default();
        let unwell: Vec<NodeId> = others
            .iter()
            .filter(|other| !excused.contains(&other.node))
            .filter(|other| {
                other.unwell_since.is_some_and(|since| {
                    let by_turn =
                        self.disrupted.get(&other.node).is_some_and(|stopped| since <= *stopped);
                    by_turn || self.long_ago(now, other.node, since)
                })
            })
            .map(|other| other.node)
            .collect();
        self.disrupted.insert(node, now);
        match budget.bounded && unwell.len() + 1 > budget.max_unavailable {
            true => Err(unwell),
            false => Ok(()),
        }
    }

    /// A member counts again (it is uncordoned): everybody has yet to hear of it.
    pub fn counts_from(&mut self, node: NodeId, now: u64) {
        self.counted_since.insert(node, now);
    }

    fn long_ago(&self, now: u64, node: NodeId, since: u64) -> bool {
        let since = self.counted_since.get(&node).copied().unwrap_or(0).max(since);
        since + NEWS_TAKES <= now
    }
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
