//! What changed between two records, in words: one line per step of a rollout, for the journal of
//! every node.

use std::collections::BTreeMap;

use baton_types::{NodeId, NodeName, ReleaseId, RolloutId};

use crate::state::GroupState;

/// One line for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How loud.
    pub level: Level,
    /// What happened.
    pub text: String,
    /// In which rollout.
    pub rollout: Option<RolloutId>,
    /// On which member.
    pub member: Option<NodeId>,
    /// Which release it is about.
    pub release: Option<ReleaseId>,
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Info,
    /// A person should look.
    Warning,
}

/// What `new` says that `old` did not; without an `old` record only what is under way.
pub fn narrate(
    old: Option<&GroupState>,
    new: &GroupState,
    names: &BTreeMap<NodeId, NodeName>,
) -> Vec<Line> {
    let _ = (old, new, names);
    Vec::new()
}
