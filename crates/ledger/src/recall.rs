//! After a start: is the file that was found as new as what peers heard from it?
//!
//! Invariant: a node that starts from a file votes and acknowledges nothing before so many voters
//! answered that with itself they are a majority; if one of them heard more than the file holds,
//! the file is given up and the node waits to be let in again under a new one.

use std::collections::BTreeSet;

use baton_types::{Moment, NodeId};
use baton_wire::ledger::{Heard, LedgerBody, LedgerMessage};

use crate::file::LedgerFile;
use crate::lead::majority;
use crate::ledger::Ledger;
use crate::view::LedgerOutput;

/// The question to the peers.
#[derive(Debug)]
pub(crate) struct Recall {
    answered: BTreeSet<NodeId>,
    since: Moment,
    /// When it is asked again.
    pub(crate) next: Moment,
}

impl Recall {
    pub(crate) const fn new(now: Moment) -> Self {
        Self { answered: BTreeSet::new(), since: now, next: now }
    }
}

impl Ledger {
    pub(crate) fn recall_tick(&mut self, now: Moment) {
        let interval = self.settings.heartbeat.saturating_mul(2);
        let Some(recall) = self.recall.as_mut().filter(|recall| now >= recall.next) else { return };
        recall.next = now + interval;
        let answered = recall.answered.clone();
        for voter in self.other_voters() {
            if !answered.contains(&voter.node) {
                self.send(voter.node, LedgerBody::Recall);
            }
        }
        self.end_recall(now);
    }

    pub(crate) fn receive_recall(&mut self, from: NodeId, message: &LedgerMessage) {
        let heard = self.heard.get(&from).filter(|heard| heard.file == message.file).copied();
        self.send(from, LedgerBody::Recalled { heard });
    }

    pub(crate) fn receive_recalled(&mut self, now: Moment, from: NodeId, heard: Option<Heard>) {
        if !self.file.voters().iter().any(|voter| voter.node == from) {
            return;
        }
        let Some(recall) = &mut self.recall else { return };
        recall.answered.insert(from);
        if heard.is_some_and(|heard| self.compare_with(heard)) {
            return;
        }
        self.end_recall(now);
    }

    /// A majority is needed. The others are given an election timeout, in which nobody could be
    /// elected anyway: one of them may know that the whole lineage was replaced. Where a leader
    /// speaks, that question is decided.
    fn end_recall(&mut self, now: Moment) {
        let voters = self.file.voters().len();
        let Some(recall) = &self.recall else { return };
        let answered = recall.answered.len() + 1;
        let is_over = answered >= voters
            || self.follow.is_some()
            || now >= recall.since + self.settings.election_timeout;
        if answered >= majority(voters) && is_over {
            self.recall = None;
        }
    }

    /// Gives the file up if it is older than what a peer heard from it; says whether it did.
    pub(crate) fn compare_with(&mut self, heard: Heard) -> bool {
        let is_mine = heard.file == self.durable.file && heard.file == self.file.file;
        // Who accepted a reform gave its record up on purpose; what peers heard before says nothing.
        let is_before = self.pending_reform().is_some_and(|(_, reform)| {
            heard.held < reform.first && heard.term <= reform.first.term
        });
        let is_older = self.durable.term < heard.term || self.durable.mark() < heard.held;
        if !is_mine || is_before || !is_older || !self.writing.on_disk {
            return false;
        }
        self.outputs.push(LedgerOutput::Note(format!(
            "the ledger file went back to term {} version {}, peers heard term {} version {} from \
             it: a new one waits to be let in by the leader",
            self.durable.term,
            self.durable.mark().version,
            heard.term,
            heard.held.version
        )));
        self.give_up_file();
        true
    }

    /// Begins a new file, which nobody counts on.
    pub(crate) fn give_up_file(&mut self) {
        // One that is not finished yet may never come to be: nobody is told that it is there.
        let is_unfinished = self.pending_reform().is_some();
        self.known = self.file.lineage().filter(|_| !is_unfinished).or(self.known);
        let file = self.new_file_id();
        let replaced = std::mem::take(&mut self.file.formation.replaced);
        *self.change() = LedgerFile::new(file, true);
        self.file.formation.replaced = replaced;
        self.writing.on_disk = false;
        if self.lead.take().is_some_and(|lead| lead.ready) {
            self.outputs.push(LedgerOutput::NotLeading);
        }
        self.follow = None;
        self.stand = None;
        self.recall = None;
        self.owed = Default::default();
        self.heard.clear();
        self.told = None;
    }
}
