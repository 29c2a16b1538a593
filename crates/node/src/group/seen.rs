//! What the ring tells a group's ledger of its members.

use baton_ledger::{Liveness, Seen};
use baton_ring::MemberState;
use baton_types::Term;

use super::Group;
use crate::shared::Shared;

impl Group {
    /// Members and voters as the ring has them, with what their facts say of their ledgers.
    pub(super) fn seen(&self, shared: &Shared) -> Vec<Seen> {
        let mut seen: Vec<Seen> = Vec::new();
        for (node, _) in shared.directory.members(&self.name) {
            let Some(member) = shared.ring.member(node) else { continue };
            let liveness = match member.state {
                MemberState::Alive => Liveness::Alive,
                MemberState::Suspect => Liveness::Suspect,
                MemberState::Restarting => Liveness::Restarting,
                MemberState::Dead => Liveness::Dead,
                MemberState::Left => Liveness::Left,
            };
            let told = shared.directory.ledger(&self.name, node);
            seen.push(Seen {
                node,
                liveness,
                lineage: told.map(|fact| fact.lineage),
                replaces: told.map(|fact| fact.replaces.clone()).unwrap_or_default(),
                absorbs: told.map(|fact| fact.absorbs.clone()).unwrap_or_default(),
                leader: told.and_then(|fact| fact.leader),
                term: told.map(|fact| fact.term).unwrap_or_default(),
                heard_of_me: None,
            });
        }
        // The facts of one that left or was forgotten are gone, its vote is not.
        for voter in self.ledger.view().voters {
            let has_left = shared.forgotten.contains(&voter.node)
                || shared.ring.member(voter.node).is_some_and(|m| m.state == MemberState::Left);
            if has_left && seen.iter().all(|entry| entry.node != voter.node) {
                let (node, liveness) = (voter.node, Liveness::Left);
                seen.push(Seen {
                    node,
                    liveness,
                    lineage: None,
                    replaces: Vec::new(),
                    absorbs: Vec::new(),
                    leader: None,
                    term: Term::default(),
                    heard_of_me: None,
                });
            }
        }
        // One that asked to be removed must not be let in again before it is gone.
        for node in self.removals.keys() {
            let here = |entry: &&mut Seen| entry.node == *node && entry.liveness == Liveness::Alive;
            if let Some(entry) = seen.iter_mut().find(here) {
                entry.liveness = Liveness::Leaving;
            }
        }
        seen
    }
}
