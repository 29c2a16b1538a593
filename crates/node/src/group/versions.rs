//! In which version of the wire a group's record is written.
//!
//! Invariant: a leader writes what every known member of the group can read, dead ones too: they may
//! come back as they were.

use baton_rollout::GroupState;
use baton_wire::Versions;

use super::Group;
use crate::shared::Shared;

impl Group {
    /// The highest version that all members speak, as far as this node speaks it, too.
    pub(super) fn version_of_all(&self, shared: &Shared) -> u8 {
        let ours = shared.peers.ours();
        let told = shared.directory.members(&self.name).map(|(node, _)| node);
        let remembered = self.roster.iter().map(|(node, ..)| node);
        let voters = self.ledger.view().voters.iter().map(|voter| voter.node);
        let all = told.chain(remembered).chain(voters);
        let newest = all.filter_map(|node| shared.versions_of(node)).map(Versions::newest);
        newest.fold(ours.newest(), u8::min).max(ours.oldest())
    }

    /// Whether this node could go on from the newest record that it holds.
    pub(super) fn can_read_newest(&self, shared: &Shared) -> bool {
        let newest = self.ledger.view().newest;
        let version = newest.and_then(|record| GroupState::version_of(record.state.as_slice()));
        version.is_none_or(|version| shared.peers.ours().speaks(version))
    }
}
