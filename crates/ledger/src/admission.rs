//! Letting nodes in: those whose file is new, and spare members while voters are wanted.
//!
//! Invariant: one record adds one voter or removes one, and only while nothing else is in flight;
//! a voter whose file is gone is removed before the node comes back under its new one; no such
//! record is begun unless those that answer are a majority of the voters that it lists.

use std::collections::BTreeSet;

use baton_types::{LineageId, Moment, NodeId};
use baton_wire::ledger::{LedgerBody, Voter};

use crate::lead::majority;
use crate::ledger::Ledger;
use crate::settings::Liveness;
use crate::view::LedgerOutput;

/// When this node asks to be let in.
#[derive(Debug)]
pub(crate) struct Introducing {
    next: Moment,
    asked: u32,
    /// Where to ask, as somebody said.
    pub(crate) leader: Option<NodeId>,
    /// The record that lists this node was never committed, as far as its peers know.
    doubted: bool,
}

impl Introducing {
    pub(crate) const fn new(now: Moment) -> Self {
        Self { next: now, asked: 0, leader: None, doubted: false }
    }
}

impl Ledger {
    /// Asks anew, because the group's history is another one now.
    pub(crate) fn introduce_anew(&mut self, now: Moment) {
        self.introducing = Introducing::new(now);
    }

    pub(crate) fn introduce_due(&self) -> Option<Moment> {
        self.is_outside().then_some(self.introducing.next)
    }

    /// Asks the leader to be let in; or, where none is known, everybody.
    pub(crate) fn introduce_tick(&mut self, now: Moment) {
        if self.follow.is_some() || self.lead.is_some() {
            self.introducing.doubted = false;
        }
        if !self.is_outside() {
            self.introducing.asked = 0;
            return;
        }
        if now < self.introducing.next {
            return;
        }
        // A spare member may stay one for ever, so it asks rarely after the first few times.
        let patience = match self.introducing.asked {
            ..EAGER_MAX => 1,
            _ => 10,
        };
        self.introducing.next = now + self.settings.election_timeout.saturating_mul(patience);
        self.introducing.asked = self.introducing.asked.saturating_add(1);
        let told = self.introducing.leader.take();
        let leader = self.follow.as_ref().map(|follow| follow.leader).or(told).or(self.leader());
        match leader.filter(|leader| *leader != self.settings.me) {
            Some(leader) => self.send(leader, LedgerBody::Introduce),
            None => {
                let members: Vec<NodeId> = self.alive_members().into_iter().collect();
                for node in members.into_iter().take(ASKED_MAX) {
                    self.send(node, LedgerBody::Introduce);
                }
            }
        }
    }

    /// A node asks to be let in. One that may count itself among the voters is told otherwise.
    pub(crate) fn receive_introduce(
        &mut self,
        now: Moment,
        voter: Voter,
        counts_itself: bool,
        lineage: Option<LineageId>,
    ) {
        let Voter { node: from, file } = voter;
        if self.file.record.is_none() || lineage.is_some_and(|l| Some(l) != self.file.lineage()) {
            return;
        }
        let is_listed = self.file.voters().contains(&voter);
        if let Some(lead) = &mut self.lead
            && !is_listed
            && (lead.asking.len() < ASKING_MAX || lead.asking.contains_key(&from))
        {
            lead.asking.insert(from, (file, now));
            if counts_itself {
                self.tell_removed(now, voter);
            }
        }
        let leader = self.leader();
        self.send(from, LedgerBody::Pointer { leader });
        self.admit(now);
    }

    /// Tells a candidate that is no voter whom to ask instead of standing.
    pub(crate) fn point_out(&mut self, candidate: Voter) {
        let hears_leader = self.lead.is_some() || self.follow.is_some();
        if hears_leader && !self.file.voters().contains(&candidate) {
            let leader = self.leader();
            self.send(candidate.node, LedgerBody::Pointer { leader });
        }
    }

    /// One that may count itself among the voters is told the record that does not list it.
    pub(crate) fn tell_removed(&mut self, now: Moment, voter: Voter) {
        let span = self.patience();
        let Some(lead) = &mut self.lead else { return };
        let has_room = lead.informed.len() < ASKING_MAX && !lead.informed.contains(&voter);
        if has_room && lead.is_free_to_tell(now, span) {
            lead.parting = Some(voter);
        }
    }

    pub(crate) fn receive_pointer(&mut self, leader: Option<NodeId>) {
        self.introducing.doubted |= leader.is_some();
        self.introducing.leader = leader.or(self.introducing.leader);
    }

    /// Begins the next record that lets a node in, if there is one to let in.
    pub(crate) fn admit(&mut self, now: Moment) {
        self.let_back_in(now);
        let keep = self.settings.election_timeout.saturating_mul(ASKING_KEPT);
        let Some(lead) = self.lead.as_mut().filter(|lead| lead.is_idle(&self.file)) else { return };
        lead.asking.retain(|_, (_, at)| now.since(*at) < keep);
        let Some(lead) = &self.lead else { return };
        let me = self.me();
        let voters = self.file.voters();
        let lost = voters.iter().find(|voter| {
            voter.node != me.node
                && lead.asking.get(&voter.node).is_some_and(|(file, _)| *file != voter.file)
        });
        if let Some(lost) = lost.copied() {
            if self.may_go_on_without(now, lost.node) {
                self.begin(now, "removed, because its ledger file is gone", lost.node, None);
                if let Some(lead) = &mut self.lead {
                    lead.returning.insert(lost.node);
                }
            }
            return;
        }
        let count = self.answering(now, None);
        if let Some(spare) = self.spare()
            && voters.len() < self.voter_limit()
        {
            let fills = lead.returning.contains(&spare.node) || lead.vacancies > 0;
            if count == voters.len() || (fills && count + 1 >= majority(voters.len() + 1)) {
                self.begin(now, "added", spare.node, Some(spare));
                if let Some(lead) = &mut self.lead
                    && !lead.returning.remove(&spare.node)
                {
                    lead.vacancies = lead.vacancies.saturating_sub(1);
                }
                return;
            }
        }
        if let Some(gone) = self.gone_voter(now)
            && self.may_go_on_without(now, gone.node)
        {
            self.begin(now, gone.why, gone.node, None);
            if let Some(lead) = &mut self.lead {
                lead.vacancies += 1;
            }
        }
    }

    /// Whether the voters that answer, and this one, are a majority of those that are left without
    /// `node`: otherwise the group would stand still with its removal.
    pub(crate) fn may_go_on_without(&self, now: Moment, node: NodeId) -> bool {
        let left = self.file.voters().len().saturating_sub(1);
        self.answering(now, Some(node)) >= majority(left)
    }

    fn answering(&self, now: Moment, without: Option<NodeId>) -> usize {
        let Some(lead) = &self.lead else { return 0 };
        let (me, span) = (self.me(), self.patience());
        let others = self.file.voters().iter().filter(|voter| {
            Some(voter.node) != without && (**voter == me || lead.answers(**voter, now, span))
        });
        others.count()
    }

    /// Members that are alive in the ring, this node included.
    pub(crate) fn alive_members(&self) -> BTreeSet<NodeId> {
        self.seen
            .values()
            .filter(|seen| seen.liveness == Liveness::Alive)
            .map(|seen| seen.node)
            .chain([self.settings.me])
            .collect()
    }

    fn begin(&mut self, now: Moment, what: &str, node: NodeId, add: Option<Voter>) {
        let version = match add {
            None => self.write_without(now, node),
            Some(voter) => self.write_next(now, |record| {
                record.voters.push(voter);
                record.voters.sort_unstable();
            }),
        };
        if let Ok(version) = version {
            self.outputs.push(LedgerOutput::Note(format!(
                "voter {node} is {what}, by the record of version {version}"
            )));
        }
    }

    /// No voter, as far as it knows, of a group that has its lineage.
    fn is_outside(&self) -> bool {
        let is_left_out = !self.is_voter() || self.introducing.doubted;
        let formation = &self.file.formation;
        let has_lineage = self.known.is_some()
            || self.file.record.is_some()
            || formation.joined.is_some()
            || formation.barred;
        self.writing.on_disk && is_left_out && has_lineage && formation.accepted.is_none()
    }
}

/// Times that a node asks at every election timeout before it asks at every tenth.
const EAGER_MAX: u32 = 8;

/// Members that are asked at once where no leader is known: more than any usual set of voters.
const ASKED_MAX: usize = 16;

/// Nodes that wait to be let in: many more than there are places.
const ASKING_MAX: usize = 64;

/// Election timeouts after which a node that does not ask again is forgotten; longer than the
/// pause between two questions of a spare member.
const ASKING_KEPT: u32 = 25;
