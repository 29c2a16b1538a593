//! How a group gets its lineage: proposed by one, accepted by every voter-to-be.
//!
//! Invariant: a proposal is durable before it is sent and never changes; the first record is
//! durable before it is sent and exists only if every proposed voter accepted durably; who
//! accepted one lineage accepts another only after the first one can no longer come to be.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{FileId, LineageId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, LedgerMessage, Mark, Proposal, Record, VOTERS_MAX, Voter};
use rand::RngExt;

use crate::ledger::Ledger;
use crate::refusal::Refusal;

/// What is remembered of a formation between two starts.
#[derive(Debug)]
pub(crate) struct Forming {
    /// With which files the members that were asked would vote.
    files: BTreeMap<NodeId, FileId>,
    /// Who accepted this node's proposal, with which file.
    pub(crate) accepts: BTreeMap<NodeId, FileId>,
    /// Who refused the own lineage for good, while it held no record of it.
    pub(crate) refusals: BTreeSet<NodeId>,
    /// The first record, with this place, is being written by this node, which then leads.
    pub(crate) founding: Option<Mark>,
    /// When what waits for answers is said again.
    pub(crate) next: Moment,
    /// Since when the proposal is known, in this life of the node.
    pub(crate) since: Moment,
}

impl Forming {
    pub(crate) const fn new(now: Moment) -> Self {
        Self {
            files: BTreeMap::new(),
            accepts: BTreeMap::new(),
            refusals: BTreeSet::new(),
            founding: None,
            next: now,
            since: now,
        }
    }
}

impl Ledger {
    pub(crate) fn formation_due(&self) -> Option<Moment> {
        if self.file.formation.accepted.is_some() {
            return Some(self.forming.next);
        }
        let settled = self.seen_since + self.settings.settle;
        (self.may_form() && self.is_first_of_enough()).then_some(settled.max(self.forming.next))
    }

    /// Proposes when it is time, and says again what waits for answers.
    pub(crate) fn formation_tick(&mut self, now: Moment) {
        let heard_of = self.known.filter(|_| self.file.lineage().is_none());
        if heard_of.is_some() && heard_of != self.file.formation.heard_of && self.writing.on_disk {
            self.change().formation.heard_of = heard_of;
        }
        let is_settled = self.settings.expect <= 1 || now >= self.seen_since + self.settings.settle;
        if self.may_form() && is_settled && self.is_first_of_enough() {
            self.make_proposal(now);
        }
        let Some(accepted) = self.file.formation.accepted.clone() else { return };
        if now < self.forming.next {
            return;
        }
        self.forming.next = now + self.settings.heartbeat.saturating_mul(2);
        if accepted.proposer != self.me() {
            self.owed.accept = true;
            // What a reform goes on from is not given up with its proposer: an operator decides.
            if accepted.reform.is_none() && self.is_gone(accepted.proposer.node) {
                self.refuse_for_good(accepted.lineage);
            }
        }
        if self.durable.formation.accepted.as_ref() != Some(&accepted) {
            return;
        }
        if self.durable.has_refused(accepted.lineage) {
            for voter in accepted.voters {
                self.send_refusal(voter.node, accepted.lineage);
            }
        } else if accepted.proposer == self.me() {
            self.send_proposal(&accepted);
        }
    }

    /// Messages that are understood across lineages; says whether this was one.
    pub(crate) fn receive_any_lineage(
        &mut self,
        now: Moment,
        from: NodeId,
        message: &LedgerMessage,
    ) -> bool {
        self.watch_files(now, from, message.file);
        match &message.body {
            LedgerBody::Propose(proposal) if proposal.reform.is_some() => {
                self.receive_reform(now, from, message.file, proposal);
            }
            LedgerBody::Propose(proposal) => self.receive_proposal(from, message.file, proposal),
            LedgerBody::Accept { lineage } => {
                self.receive_accept(from, message.file, *lineage);
                let voter = Voter { node: from, file: message.file };
                if self.has_removed(voter, *lineage) {
                    self.receive_introduce(now, voter, true, Some(*lineage));
                }
            }
            LedgerBody::Refuse { lineage, own, formed, durable } => {
                let (lineage, own, formed, durable) = (*lineage, *own, *formed, *durable);
                let refusal = Refusal { lineage, own, formed, durable };
                let waits = message.lineage == Some(lineage);
                let is_over = self.durable.lineage() != Some(lineage);
                if waits && is_over && self.durable.has_refused(lineage) {
                    // It waits for others to refuse as well: this one did, and says so no more by
                    // itself. Two that both wait must not answer each other's refusals for ever.
                    self.send_refusal(from, lineage);
                }
                self.receive_refusal(now, from, message.file, &refusal);
                let voter = Voter { node: from, file: message.file };
                if waits && self.has_removed(voter, lineage) {
                    self.tell_removed(now, voter);
                }
            }
            LedgerBody::Recall => self.receive_recall(from, message),
            LedgerBody::Recalled { heard } => self.receive_recalled(now, from, *heard),
            LedgerBody::Stale { heard } => {
                self.compare_with(*heard);
            }
            LedgerBody::Introduce => {
                let voter = Voter { node: from, file: message.file };
                let counts_itself = message.held.version > 0;
                self.receive_introduce(now, voter, counts_itself, message.lineage);
            }
            LedgerBody::Pointer { leader } => self.receive_pointer(*leader),
            LedgerBody::Survey { probe } => self.receive_survey(from, message, *probe),
            LedgerBody::Surveyed { probe, .. } => {
                if self.may_form() && self.alive.contains(&from) {
                    self.forming.files.insert(from, message.file);
                    self.formation_tick(now);
                }
                self.receive_surveyed(from, message, *probe);
            }
            LedgerBody::Replaced { lineage, by } => self.receive_replaced(now, *lineage, *by),
            LedgerBody::PreVoteAnswer { probe, granted } if message.lineage.is_none() => {
                let term = Term::default();
                self.receive_answer(now, from, message.file, term, *probe, *granted);
            }
            LedgerBody::AppendAnswer { .. } if message.lineage.is_none() => {
                // It lacks even the first record, and its heartbeat says so.
                let (term, held) = (self.file.term, Mark::default());
                self.receive_append_answer(now, from, message.file, term, held);
            }
            _ => return false,
        }
        true
    }

    /// Goes on with what became durable: sends the proposal or the acceptance, founds, leads.
    pub(crate) fn formation_settle(&mut self, now: Moment) {
        if let Some(first) = self.forming.founding
            && self.is_durable()
            && self.durable.mark() == first
        {
            self.forming.founding = None;
            // Whoever stood for election meanwhile has left the first term: only votes make it
            // the leader of another one.
            if self.file.term == first.term {
                self.take_lead(now);
            }
        }
        let Some(accepted) = self.durable.formation.accepted.clone() else { return };
        let is_current = self.file.formation.accepted.as_ref() == Some(&accepted)
            && self.writing.on_disk
            && !self.file.has_refused(accepted.lineage);
        if !is_current {
            return;
        }
        if accepted.proposer != self.me() {
            if std::mem::take(&mut self.owed.accept) {
                let lineage = accepted.lineage;
                self.send(accepted.proposer.node, LedgerBody::Accept { lineage });
                // The group was formed, and who leads it now must know that one waits.
                let leader = self.introducing.leader.take();
                if let Some(leader) = leader.filter(|leader| *leader != accepted.proposer.node) {
                    self.send(leader, LedgerBody::Accept { lineage });
                }
            }
            return;
        }
        if self.forming.accepts.insert(self.settings.me, self.file.file).is_none() {
            self.send_proposal(&accepted);
        }
        let accepts = |voter: &Voter| {
            let node = voter.node;
            Some(Voter { node, file: *self.forming.accepts.get(&node)? })
        };
        let voters: Vec<Voter> = accepted.voters.iter().filter_map(accepts).collect();
        if voters.len() == accepted.voters.len() && self.forming.founding.is_none() {
            self.found(accepted, voters);
        }
    }

    fn may_form(&self) -> bool {
        let file = &self.file;
        let is_new = file.lineage().is_none() && !file.formation.barred;
        is_new && self.known.is_none() && self.writing.on_disk
    }

    fn is_first_of_enough(&self) -> bool {
        let members = &self.alive;
        let expect = usize::try_from(self.settings.expect).unwrap_or(usize::MAX);
        members.len() >= expect && (expect <= 1 || members.first() == Some(&self.settings.me))
    }

    /// Proposes, if it is known with which files the members would vote; else asks them. By its
    /// file a voter is told from one that lost its promises with its disk.
    fn make_proposal(&mut self, now: Moment) {
        let members = match self.settings.expect {
            ..=1 => BTreeSet::from([self.settings.me]),
            _ => self.alive.clone(),
        };
        let limit = self.settings.voter_limit.clamp(1, VOTERS_MAX);
        self.forming.files.insert(self.settings.me, self.file.file);
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let (mut voters, mut unknown) = (Vec::new(), Vec::new());
        for node in members.into_iter().take(limit) {
            match self.forming.files.get(&node) {
                Some(file) => voters.push(Voter { node, file: *file }),
                None => unknown.push(node),
            }
        }
        if !unknown.is_empty() {
            if now >= self.forming.next {
                self.forming.next = now + self.settings.heartbeat.saturating_mul(2);
                let probe = self.rng.random();
                for node in unknown {
                    self.send(node, LedgerBody::Survey { probe });
                }
            }
            return;
        }
        let random = self.rng.random::<u128>().to_be_bytes();
        let lineage = LineageId { members: count, random };
        let proposer = self.me();
        self.accept(Proposal { lineage, proposer, voters, reform: None });
    }

    fn accept(&mut self, proposal: Proposal) {
        self.forming.files.clear();
        self.forming.accepts.clear();
        self.forming.refusals.clear();
        let proposer = proposal.proposer.node;
        let file = self.change();
        file.term = FIRST.term;
        file.voted_for = Some(proposer);
        file.formation.accepted = Some(proposal);
    }

    fn send_proposal(&mut self, proposal: &Proposal) {
        let waiting: Vec<NodeId> = proposal
            .voters
            .iter()
            .map(|voter| voter.node)
            .filter(|node| !self.forming.accepts.contains_key(node))
            .collect();
        for node in waiting {
            self.send(node, LedgerBody::Propose(proposal.clone()));
        }
    }

    fn found(&mut self, accepted: Proposal, voters: Vec<Voter>) {
        let lineage = accepted.lineage;
        let (Mark { term, version }, replaces, state) = match accepted.reform {
            Some(reform) => (reform.first, reform.replaces, reform.state),
            None => (FIRST, Vec::new(), self.settings.initial_state.clone()),
        };
        let record = Record {
            lineage,
            term,
            version,
            voters,
            absorbed_by: None,
            absorbs: Vec::new(),
            replaces,
            state,
        };
        self.forming.founding = Some(record.mark());
        let file = self.change();
        file.record = Some(record);
        file.formation.accepted = None;
    }

    fn receive_proposal(&mut self, from: NodeId, file: FileId, proposal: &Proposal) {
        let lineage = proposal.lineage;
        let is_honest = proposal.proposer == Voter { node: from, file }
            && proposal.voter(self.settings.me).is_some();
        let has_record = self.file.record.as_ref().is_some_and(|r| r.lineage == lineage);
        if !is_honest || has_record || !self.writing.on_disk {
            return;
        }
        if !proposal.voters.contains(&self.me()) {
            // Of the file that is meant nothing is left: this one promises nothing in its name. The
            // proposer hears by this answer that it is gone.
            self.refuse_for_good(lineage);
            self.send_refusal(from, lineage);
            return;
        }
        if self.may_form() && !self.file.has_refused(lineage) {
            self.accept(proposal.clone());
        }
        let accepted = self.file.formation.accepted.as_ref().map(|accepted| accepted.lineage);
        if accepted == Some(lineage) && !self.file.has_refused(lineage) {
            self.owed.accept = true;
        } else {
            self.send_refusal(from, lineage);
        }
    }

    fn receive_accept(&mut self, from: NodeId, file: FileId, lineage: LineageId) {
        if self.durable.has_refused(lineage) {
            self.send_refusal(from, lineage);
            return;
        }
        let is_mine = self.durable.formation.accepted.as_ref().is_some_and(|accepted| {
            let listed = accepted.voter(from);
            accepted.lineage == lineage
                && accepted.proposer == self.me()
                && listed.is_some_and(|voter| accepted.reform.is_some() || voter.file == file)
        });
        if is_mine {
            self.forming.accepts.insert(from, file);
        }
    }

    /// Whether one that took part in forming this lineage was removed before it had the first
    /// record: it still waits for that, or for others to refuse.
    fn has_removed(&self, voter: Voter, lineage: LineageId) -> bool {
        let is_ours = self.committed.is_some()
            && self.file.record.as_ref().is_some_and(|record| record.lineage == lineage);
        is_ours && !self.file.voters().contains(&voter)
    }
}

/// The place of the first record.
pub(crate) const FIRST: Mark = Mark { term: Term(1), version: 1 };
