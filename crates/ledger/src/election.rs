//! Standing for election: first a question (pre-vote), then the vote.
//!
//! Invariant: a node asks for votes only in a term in which its vote for itself is on disk, and
//! leads only with the votes of a majority of the voters of the newest record it holds. The
//! question changes nothing on either side, so a node that flaps deposes nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_types::{FileId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, Voter};
use rand::RngExt;

use crate::lead::majority;
use crate::ledger::Ledger;

/// One attempt.
#[derive(Debug)]
pub(crate) struct Stand {
    probe: u64,
    step: Step,
    yes: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Asks whether it would be voted for.
    Asking,
    /// Its own vote is being written.
    Writing,
    /// Asks for votes.
    Voting,
}

impl Ledger {
    pub(crate) fn election_due(&self) -> Option<Moment> {
        self.may_stand().then_some(self.election_at)
    }

    /// Starts an attempt when it is time.
    pub(crate) fn election_tick(&mut self, now: Moment) {
        if !self.may_stand() || now < self.election_at {
            return;
        }
        self.follow = None;
        self.election_at = self.next_attempt(now);
        let probe = self.rng.random();
        self.stand = Some(Stand { probe, step: Step::Asking, yes: BTreeSet::new() });
        for voter in self.other_voters() {
            self.send(voter.node, LedgerBody::PreVote { probe });
        }
        self.receive_answer(now, self.settings.me, self.file.file, self.file.term, probe, true);
    }

    /// Asks for votes as soon as the own one is on disk.
    pub(crate) fn stand_settle(&mut self, now: Moment) {
        let votes_for_me = self.file.voted_for == Some(self.settings.me) && self.term_is_durable();
        let Some(stand) = self.stand.as_mut().filter(|stand| stand.step == Step::Writing) else {
            return;
        };
        if !votes_for_me {
            return;
        }
        stand.step = Step::Voting;
        let probe = stand.probe;
        self.election_at = self.next_attempt(now);
        for voter in self.other_voters() {
            self.send(voter.node, LedgerBody::Vote { voter: voter.file, probe });
        }
        self.receive_answer(now, self.settings.me, self.file.file, self.file.term, probe, true);
    }

    /// Takes the answer to the question or to the vote.
    pub(crate) fn receive_answer(
        &mut self,
        now: Moment,
        from: NodeId,
        file: FileId,
        term: Term,
        probe: u64,
        granted: bool,
    ) {
        let Some(listed) = self.file.voters().iter().find(|voter| voter.node == from).copied()
        else {
            return;
        };
        let is_listed = listed == Voter { node: from, file };
        if is_listed && term > self.file.term {
            self.enter_term(now, term);
            return;
        }
        let Some(stand) = self.stand.as_mut().filter(|stand| stand.probe == probe) else { return };
        if is_listed && granted {
            stand.yes.insert(from);
        }
        let (step, yes) = (stand.step, stand.yes.len());
        if step == Step::Writing || yes < majority(self.file.voters().len()) {
            return;
        }
        if step == Step::Asking {
            self.vote_for_itself(now);
        } else {
            self.stand = None;
            self.start_leading(now);
        }
    }

    /// A voter with a record, that leads nobody and knows what its peers know of it. A founder
    /// leads the first term by itself, and a vote that is still being written must not be
    /// overtaken by one for a later term: on a disk slower than an election that would go on for
    /// ever.
    fn may_stand(&self) -> bool {
        let is_writing = self.stand.as_ref().is_some_and(|stand| stand.step == Step::Writing);
        self.lead.is_none()
            && self.recall.is_none()
            && self.writing.on_disk
            && self.is_voter()
            && self.forming.founding.is_none()
            && !is_writing
    }

    fn vote_for_itself(&mut self, now: Moment) {
        let Some(term) = self.file.term.next() else { return };
        let me = self.settings.me;
        let file = self.change();
        file.term = term;
        file.voted_for = Some(me);
        self.owed.vote = None;
        self.election_at = self.next_attempt(now);
        let probe = self.rng.random();
        if let Some(stand) = &mut self.stand {
            stand.step = Step::Writing;
            stand.probe = probe;
            stand.yes.clear();
        }
    }

    /// The next attempt comes sooner than the first one, because by now the leader is known to be
    /// gone; at random, because two that ask at once would ask at once again.
    fn next_attempt(&mut self, now: Moment) -> Moment {
        let micros = u64::try_from(self.settings.election_timeout.as_micros()).unwrap_or(u64::MAX);
        let half = (micros / 2).max(1);
        now + Duration::from_micros(half.saturating_add(self.rng.random_range(0..half)))
    }

    pub(crate) fn other_voters(&self) -> Vec<Voter> {
        let me = self.settings.me;
        self.file.voters().iter().filter(|voter| voter.node != me).copied().collect()
    }
}
