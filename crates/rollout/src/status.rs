//! The group, its rollout and its history as the control API shows them.

use std::collections::BTreeMap;

use baton_types::status::{GroupStatus, HistoryStatus, TargetStatus};
use baton_types::{NodeId, NodeName, Now, Target};

use crate::lead::Lead;
use crate::state::GroupState;
use crate::view::View;

/// What the ledger adds to a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerInfo {
    /// The leader, if one is known.
    pub leader: Option<NodeId>,
    /// The ledger's term.
    pub term: u64,
    /// The committed record's version.
    pub version: u64,
    /// Whether a majority of the voters answers.
    pub quorum: bool,
    /// Why not, or that the group is forming.
    pub quorum_reason: String,
    /// The voters.
    pub voters: Vec<NodeId>,
    /// The lineage, as people write it; empty before formation.
    pub lineage: String,
}

/// `baton rollout status G`.
pub fn status(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    ledger: &LedgerInfo,
) -> GroupStatus {
    let _ = (lead, now, state, view, ledger);
    GroupStatus::default()
}

/// `baton rollout history G`, newest first.
pub fn history(state: &GroupState) -> Vec<HistoryStatus> {
    state
        .history
        .iter()
        .rev()
        .map(|line| HistoryStatus {
            id: line.id.to_string(),
            kind: line.kind.to_string(),
            state: line.state.to_string(),
            from: line.from.as_ref().map(target_status),
            to: target_status(&line.to),
            started_at: line.started_at.to_string(),
            ended_at: line.ended_at.to_string(),
            reason: line.reason.to_string(),
            total: line.total as usize,
            passed: line.passed as usize,
            failures: line.failures as usize,
        })
        .collect()
}

pub(crate) fn target_status(target: &Target) -> TargetStatus {
    TargetStatus {
        release: target.release.to_string(),
        config: target.config.number,
        digest: target.release.digest.to_string(),
    }
}

pub(crate) fn name_of(names: &BTreeMap<NodeId, NodeName>, node: NodeId) -> String {
    names.get(&node).map_or_else(|| node.to_string(), ToString::to_string)
}
