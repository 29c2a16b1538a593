//! What an observer outside may see of a node's decisions: for the simulator's checkers and for
//! tests.
//!
//! Invariant: looking changes nothing.

use baton_ledger::View;
use baton_rollout::{GroupState, MemberFile};
use baton_supervise::ServiceState;
use baton_types::{GroupName, NodeId, Term};

use crate::group::Group;
use crate::node::Node;
use crate::shared::Shared;

/// One group of one node, as it is at this moment.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    group: &'a Group,
    shared: &'a Shared,
}

impl Node {
    /// One of this node's groups; `None` if it has no such service.
    pub fn observe(&self, group: &GroupName) -> Option<Observation<'_>> {
        let shared = self.shared();
        self.group(group).map(|group| Observation { group, shared })
    }

    /// Whether another node counts among a group's members as far as this one has heard, also where
    /// this one is none of them.
    pub fn counts(&self, group: &GroupName, node: NodeId) -> bool {
        self.shared().directory.member(group, node).is_some()
    }
}

impl<'a> Observation<'a> {
    /// Whether this node decides for the group.
    pub fn is_leading(&self) -> bool {
        self.group.is_leading()
    }

    /// Whether this node has met another lineage of the group, of which none has given way yet.
    pub fn has_met(&self) -> bool {
        self.group.has_met(self.shared)
    }

    /// Term and version of the last committed record that was seen since this start.
    pub fn place(&self) -> Option<(Term, u64)> {
        self.group.place()
    }

    /// Content of the last committed record.
    pub fn state(&self) -> &'a GroupState {
        self.group.state()
    }

    /// The ledger as it stands.
    pub fn ledger(&self) -> View<'a> {
        self.group.ledger.view()
    }

    /// The member's record, perhaps not yet on disk.
    pub fn member(&self) -> &'a MemberFile {
        self.group.member_file()
    }

    /// The service as its supervision sees it.
    pub fn service(&self) -> &'a ServiceState {
        self.group.service_state()
    }
}
