//! A voter that follows: it takes the leader's records, and votes when there is no leader.
//!
//! Invariant: a record is taken only from the leader of the own term and only if its (term,
//! version) is greater than the own one's; a vote is given once per term, never while a leader is
//! heard, and never to one whose record is older.

use std::time::Duration;

use baton_types::{FileId, LineageId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, LedgerMessage, Mark, Record, Voter};

use crate::ledger::Ledger;
use crate::view::LedgerOutput;

/// The leader that this node hears.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) leader: NodeId,
    heard_at: Moment,
    patience: Duration,
}

impl Follow {
    /// When the leader counts as lost.
    pub(crate) fn ends_at(&self) -> Moment {
        self.heard_at + self.patience
    }
}

/// Answers that wait for a write.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// A vote: to whom, and the question's number.
    pub(crate) vote: Option<(NodeId, u64)>,
    /// To a heartbeat: the term must be on disk.
    pub(crate) beat: Option<(NodeId, u64)>,
    /// To a record: it must be on disk.
    pub(crate) record: Option<(NodeId, u64, Mark)>,
    /// An acceptance to the proposer.
    pub(crate) accept: bool,
}

/// A leader's message without its envelope.
struct Appended {
    sequence: u64,
    next: Duration,
    committed: Option<Mark>,
    record: Option<Record>,
}

impl Ledger {
    /// Messages that mean something only within one lineage.
    pub(crate) fn receive_own_lineage(
        &mut self,
        now: Moment,
        from: NodeId,
        message: LedgerMessage,
    ) {
        let Some(lineage) = message.lineage else { return };
        let is_committed = matches!(message.body, LedgerBody::Append { committed: Some(_), .. });
        let was_refused_in_vain =
            self.file.has_refused(lineage) && self.file.lineage().is_none_or(|own| own == lineage);
        if is_committed && was_refused_in_vain {
            // The others formed it while this node took its proposer for dead. What a file
            // refused it refuses for ever, so another file is needed.
            self.known = Some(lineage);
            self.outputs.push(LedgerOutput::Note(format!(
                "lineage {lineage}, which this node refused, was formed: a new ledger file waits \
                 to be let in by the leader"
            )));
            self.give_up_file();
            return;
        }
        if is_committed && self.gives_reform_up_for(now, lineage) {
            return;
        }
        if !self.belongs(lineage, &message.body) {
            self.answer_foreign(now, from, lineage);
            return;
        }
        if is_committed {
            self.known = Some(lineage);
        }
        self.hear(from, &message);
        let (file, term, held) = (message.file, message.term, message.held);
        match message.body {
            LedgerBody::PreVote { probe } => {
                let granted = self.would_vote(term, held, Voter { node: from, file });
                self.send(from, LedgerBody::PreVoteAnswer { probe, granted });
                self.point_out(Voter { node: from, file });
            }
            LedgerBody::Vote { voter, probe } => {
                if voter != self.file.file {
                    return;
                }
                self.receive_vote(now, from, lineage, (file, term, held), probe);
            }
            LedgerBody::PreVoteAnswer { probe, granted } => {
                self.receive_answer(now, from, file, term, probe, granted);
            }
            LedgerBody::VoteAnswer { probe, granted } => {
                // The header says which term is on the voter's disk: a vote of another is none.
                let granted = granted && term == self.file.term;
                self.receive_answer(now, from, file, term, probe, granted);
            }
            LedgerBody::Append { voter, sequence, next, newest: _, committed, record } => {
                if voter != self.file.file {
                    self.receive_pointer(Some(from));
                    return;
                }
                let appended = Appended { sequence, next, committed, record };
                self.receive_append(now, from, lineage, term, appended);
            }
            LedgerBody::AppendAnswer { .. } => {
                self.receive_append_answer(now, from, file, term, held);
            }
            _ => {}
        }
    }

    /// Goes to `term`, in which this node has not voted yet.
    pub(crate) fn enter_term(&mut self, now: Moment, term: Term) {
        self.step_down(now);
        self.stand = None;
        self.owed.vote = None;
        self.owed.beat = None;
        self.owed.record = None;
        let file = self.change();
        file.term = term;
        file.voted_for = None;
    }

    /// Lets go of a leader that was not heard for too long.
    pub(crate) fn forget_silent_leader(&mut self, now: Moment) {
        if self.follow.as_ref().is_some_and(|follow| now >= follow.ends_at()) {
            self.follow = None;
        }
    }

    /// Whether this node is of that lineage, or may come to be by this message: leaders and
    /// candidates address only those that their record lists.
    fn belongs(&self, lineage: LineageId, body: &LedgerBody) -> bool {
        if self.file.has_refused(lineage) || self.file.has_given_up(lineage) {
            return false;
        }
        match self.file.lineage() {
            Some(own) => own == lineage,
            None => !matches!(
                body,
                LedgerBody::AppendAnswer { .. }
                    | LedgerBody::VoteAnswer { .. }
                    | LedgerBody::PreVoteAnswer { .. }
            ),
        }
    }

    fn would_vote(&self, candidate_term: Term, candidate_held: Mark, candidate: Voter) -> bool {
        let mine = self.file.mark();
        let listed = self.file.voters().contains(&candidate);
        let is_up_to_date = candidate_held > mine || (candidate_held == mine && listed);
        self.lead.is_none()
            && self.follow.is_none()
            && self.recall.is_none()
            && candidate_term >= self.file.term
            && is_up_to_date
    }

    fn receive_vote(
        &mut self,
        now: Moment,
        from: NodeId,
        lineage: LineageId,
        (file, term, held): (FileId, Term, Mark),
        probe: u64,
    ) {
        let hears_leader = self.lead.is_some() || self.follow.is_some();
        if hears_leader || self.recall.is_some() || term < self.file.term {
            self.send(from, LedgerBody::VoteAnswer { probe, granted: false });
            return;
        }
        if term > self.file.term {
            self.join(lineage);
            self.enter_term(now, term);
        }
        let is_free = self.file.voted_for.is_none_or(|voted| voted == from);
        if !is_free || !self.would_vote(term, held, Voter { node: from, file }) {
            self.send(from, LedgerBody::VoteAnswer { probe, granted: false });
            return;
        }
        if self.file.voted_for.is_none() {
            self.change().voted_for = Some(from);
        }
        self.owed.vote = Some((from, probe));
        self.election_at = now + self.election_span(self.settings.election_timeout);
    }

    fn receive_append(
        &mut self,
        now: Moment,
        from: NodeId,
        lineage: LineageId,
        term: Term,
        appended: Appended,
    ) {
        if term < self.file.term {
            // Tells a leader of the past what time it is, in the header.
            self.send(from, LedgerBody::AppendAnswer { sequence: appended.sequence });
            return;
        }
        if term == self.file.term && self.lead.is_some() {
            self.note(format!("{from} says it leads term {term}, which this node leads"), now);
            return;
        }
        let patience = self.settings.election_timeout.max(appended.next.saturating_mul(2));
        self.follow = Some(Follow { leader: from, heard_at: now, patience });
        self.stand = None;
        self.election_at = now + self.election_span(patience);
        if self.recall.is_some() {
            return;
        }
        self.join(lineage);
        if term > self.file.term {
            self.enter_term(now, term);
        }
        self.told = self.told.max(appended.committed);
        let Some(record) = appended.record else {
            self.owed.beat = Some((from, appended.sequence));
            return;
        };
        let mark = record.mark();
        if mark > self.file.mark() && mark.term == term {
            let file = self.change();
            file.record = Some(record);
            file.formation.accepted = None;
            file.formation.joined = None;
        }
        self.owed.record = Some((from, appended.sequence, mark.min(self.file.mark())));
    }

    /// Becomes part of `lineage`, if this node is part of none.
    fn join(&mut self, lineage: LineageId) {
        if self.file.lineage().is_none() {
            self.change().formation.joined = Some(lineage);
        }
    }

    /// A message of another history changes nothing here. Who lives in one that this node refused
    /// is told so.
    fn answer_foreign(&mut self, now: Moment, from: NodeId, lineage: LineageId) {
        if self.durable.has_refused(lineage) {
            self.send_refusal(from, lineage);
        } else if let Some(own) = self.file.lineage() {
            self.note(format!("{from} lives in lineage {lineage}, this node in {own}"), now);
        }
    }
}
