//! How a ledger stands, as others may see it.
//!
//! Invariant: role, leader and quorum are derived from the state at every call, never kept beside
//! it.

use std::cmp::Reverse;

use baton_types::{LineageId, NodeId, Term};
use baton_wire::ledger::Voter;

use crate::ledger::Ledger;
use crate::view::{Role, View};

impl Ledger {
    /// How it stands.
    pub fn view(&self) -> View<'_> {
        let leader = self.leader();
        let quorum_reason = self.no_quorum_reason(leader);
        View {
            lineage: self.file.lineage(),
            file: self.file.file,
            term: self.file.term,
            role: self.role(),
            leader,
            committed: self.committed.as_ref(),
            newest: self.file.record.as_ref(),
            quorum: quorum_reason.is_empty(),
            quorum_reason,
            voters: self.file.voters(),
            in_flight: self.lead.as_ref().is_some_and(|lead| !lead.is_idle(&self.file)),
            ready: self.lead.as_ref().is_some_and(|lead| lead.is_idle(&self.file)),
            needs_readmission: self.file.formation.barred && !self.is_voter(),
            given_up: &self.file.formation.replaced,
            degraded: self.writing.degraded,
        }
    }

    pub(crate) fn me(&self) -> Voter {
        Voter { node: self.settings.me, file: self.file.file }
    }

    pub(crate) fn is_voter(&self) -> bool {
        self.file.voters().contains(&self.me())
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        match (&self.lead, &self.follow) {
            (Some(_), _) => Some(self.settings.me),
            (None, Some(follow)) => Some(follow.leader),
            (None, None) if !self.is_voter() && self.pending_reform().is_none() => {
                self.leader_told()
            }
            (None, None) => None,
        }
    }

    /// Whether that node says itself that it leads that term no longer.
    fn denies(&self, leader: NodeId, term: Term) -> bool {
        self.seen.get(&leader).is_some_and(|seen| {
            seen.lineage.is_some() && seen.leader != Some(leader) && seen.term >= term
        })
    }

    /// The leader of the newest term of which a living member of the own lineage tells.
    fn leader_told(&self) -> Option<NodeId> {
        let own = self.file.lineage().or(self.known);
        let mut named = self.leaders_named.iter();
        named.find(|(of, _)| own.is_none() || *of == own).map(|(_, leader)| *leader)
    }

    /// Who leads, by what the living say, the newest term first. What a dead one said last, and a
    /// leader that is gone or leads no longer, counts no more.
    pub(crate) fn name_leaders(&self) -> Vec<(Option<LineageId>, NodeId)> {
        let living = self.seen.values().filter(|seen| !self.is_gone(seen.node));
        let mut named: Vec<_> = living
            .filter_map(|seen| Some((seen.term, seen.leader?, seen.lineage)))
            .filter(|(term, leader, _)| !self.is_gone(*leader) && !self.denies(*leader, *term))
            .collect();
        named.sort_by_key(|(term, leader, _)| Reverse((*term, *leader)));
        named.into_iter().map(|(_, leader, lineage)| (lineage, leader)).collect()
    }

    fn role(&self) -> Role {
        match (&self.lead, &self.stand, &self.file.record) {
            (Some(_), ..) => Role::Leader,
            (None, Some(_), _) => Role::Candidate,
            (None, None, Some(_)) if self.is_voter() => Role::Follower,
            (None, None, None)
                if self.known.is_none()
                    && !self.file.formation.barred
                    && self.pending_reform().is_none() =>
            {
                Role::Forming
            }
            _ => Role::Spare,
        }
    }

    fn no_quorum_reason(&self, leader: Option<NodeId>) -> String {
        if let Some((proposal, _)) = self.pending_reform() {
            return format!(
                "the group is to be formed anew as lineage {}, which waits until all {} voters of \
                 it have accepted; if one of them does not come back, type the reform again",
                proposal.lineage,
                proposal.voters.len()
            );
        }
        match (self.role(), leader) {
            (Role::Leader, _) if self.lead.as_ref().is_some_and(|lead| lead.ready) => String::new(),
            (Role::Leader, _) => "the new leader has not yet committed its first record".to_owned(),
            (Role::Forming, _) => format!(
                "the group is forming: {} of the {} members it starts with are seen",
                self.alive.len(),
                self.settings.expect
            ),
            (_, Some(_)) => String::new(),
            (Role::Spare, None) if !self.file.formation.replaced.is_empty() => {
                "the group was formed anew without this node's vote, and no leader of it is heard \
                 that lets this node in"
                    .to_owned()
            }
            (Role::Spare, None) if self.file.formation.barred => {
                "the ledger file was lost or damaged, and no leader is heard that lets this node \
                 in again"
                    .to_owned()
            }
            (Role::Spare, None) => "no leader is heard".to_owned(),
            (_, None) if self.recall.is_some() => {
                "just started: a majority of the voters has not answered yet".to_owned()
            }
            (_, None) => format!("no leader among {} voters is heard", self.file.voters().len()),
        }
    }
}
