//! The leader: heartbeats, the one record in flight, its commitment, and stepping down.
//!
//! Invariant: a record is committed when a majority of its own voters holds it durably and it is
//! of this leader's term; the record that was found is written anew and committed before any
//! other; without answers from a majority for one election timeout the leader falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::{FileId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, Mark, Record, Voter};

use crate::lead::{Lead, majority};
use crate::ledger::Ledger;
use crate::settings::Liveness;
use crate::view::{LedgerOutput, NotNow};

impl Ledger {
    /// Leads the own term from now on: writes the found record anew, unchanged.
    pub(crate) fn start_leading(&mut self, now: Moment) {
        let term = self.file.term;
        if let Some(record) = &mut self.change().record {
            record.term = term;
            record.version = record.version.saturating_add(1);
        }
        self.take_lead(now);
    }

    /// Leads the own term with the record as it is.
    pub(crate) fn take_lead(&mut self, now: Moment) {
        self.follow = None;
        self.stand = None;
        self.lead = Some(Lead {
            term: self.file.term,
            since: now,
            sequence: 0,
            peers: BTreeMap::new(),
            ready: false,
            committed: None,
            next_beat: now,
            parting: None,
            kept_out: BTreeMap::new(),
            asking: BTreeMap::new(),
            returning: BTreeSet::new(),
            gone: BTreeMap::new(),
            vacancies: 0,
            informed: BTreeSet::new(),
        });
        self.watch_voters(now);
        self.beat(now);
    }

    /// Leads no longer, if it did.
    pub(crate) fn step_down(&mut self, now: Moment) {
        if let Some(lead) = self.lead.take() {
            self.election_at = now + self.election_span(self.settings.election_timeout);
            if lead.ready {
                self.outputs.push(LedgerOutput::NotLeading);
            }
        }
    }

    /// Leads no longer, as soon as nothing is in flight, so that another voter does. A record
    /// written by one that it does not list could be held by nobody else, and then neither may it
    /// stand again, nor can the others be elected by it.
    pub(crate) fn hand_over(&mut self, now: Moment) -> NotNow {
        let Some(lead) = &self.lead else { return NotNow::NotLeader };
        if !lead.is_idle(&self.file) {
            return if lead.ready { NotNow::InFlight } else { NotNow::NotReady };
        }
        let patience = self.patience();
        let note = "this node is to have no vote any more: it hands over to the next leader";
        self.outputs.push(LedgerOutput::Note(note.to_owned()));
        self.step_down(now);
        // Time for the others to miss it and to elect one, if they can.
        self.election_at = now + self.election_span(patience.saturating_mul(HANDING_OVER));
        NotNow::HandsOver
    }

    /// Beats when due; steps down without a majority.
    pub(crate) fn lead_tick(&mut self, now: Moment) {
        let Some(lead) = &self.lead else { return };
        if now >= self.quorum_ends_at(lead) {
            self.outputs.push(LedgerOutput::Note(format!(
                "no majority of the voters answered for {:?}: this node leads no longer",
                self.patience()
            )));
            self.step_down(now);
        } else if !self.can_read && lead.ready && now.since(lead.since) >= self.patience() {
            // Whoever can read the record has it by now, and stands long before this node does.
            self.step_down(now);
            self.election_at = self.election_at + self.patience() * UNREAD_PATIENCE;
        } else if now >= lead.next_beat {
            self.beat(now);
            self.admit(now);
        }
    }

    /// Takes a follower's answer.
    pub(crate) fn receive_append_answer(
        &mut self,
        now: Moment,
        from: NodeId,
        file: FileId,
        term: Term,
        held: Mark,
    ) {
        let voter = Voter { node: from, file };
        let is_voter = self.file.voters().contains(&voter);
        let newest = self.file.mark();
        let Some(lead) = &mut self.lead else { return };
        let is_parting = lead.parting == Some(voter);
        if !is_voter && !is_parting {
            return;
        }
        if term > lead.term {
            self.enter_term(now, term);
            return;
        }
        if term < lead.term {
            return;
        }
        if is_parting && held == newest {
            lead.parting = None;
            lead.informed.insert(voter);
        }
        let peer = lead.peer(voter);
        peer.held = peer.held.max(held);
        peer.answered = Some(now);
        if self.is_to_be_given(now, voter) {
            self.append_to(now, voter);
        }
    }

    /// Commits what a majority holds.
    pub(crate) fn lead_settle(&mut self, now: Moment) {
        let durable = if self.writing.on_disk { self.durable.mark() } else { Mark::default() };
        let (me, newest) = (self.me(), self.file.mark());
        let Some(lead) = &self.lead else { return };
        if newest.term != lead.term || lead.committed == Some(newest) {
            return;
        }
        let voters = self.file.voters();
        let holds = |voter: &&Voter| match **voter == me {
            true => durable == newest,
            false => lead
                .peers
                .get(&voter.node)
                .is_some_and(|peer| peer.file == Some(voter.file) && peer.held == newest),
        };
        if voters.iter().filter(holds).count() < majority(voters.len()) {
            return;
        }
        self.commit(now, newest);
    }

    /// Makes the next record out of the newest one.
    pub(crate) fn write_next(
        &mut self,
        now: Moment,
        edit: impl FnOnce(&mut Record),
    ) -> Result<u64, NotNow> {
        let lead = self.lead.as_ref().ok_or(NotNow::NotLeader)?;
        match (lead.ready, lead.is_idle(&self.file)) {
            (true, true) => {}
            (true, false) => return Err(NotNow::InFlight),
            (false, _) => return Err(NotNow::NotReady),
        }
        let term = lead.term;
        let mut next = self.file.record.clone().ok_or(NotNow::NotReady)?;
        if next.absorbed_by.is_some() {
            return Err(NotNow::InFlight);
        }
        edit(&mut next);
        next.term = term;
        next.version = next.version.saturating_add(1);
        let version = next.version;
        if next.voters != self.file.voters()
            && let Some(lead) = &mut self.lead
        {
            lead.since = now;
        }
        self.change().record = Some(next);
        self.beat(now);
        Ok(version)
    }

    /// Makes a record without that voter.
    pub(crate) fn write_without(&mut self, now: Moment, node: NodeId) -> Result<u64, NotNow> {
        let voters = self.file.voters();
        let leaving = voters.iter().find(|voter| voter.node == node).copied();
        let leaving = leaving.ok_or(NotNow::NoVoter)?;
        if voters.len() == 1 {
            return Err(NotNow::LastVoter);
        }
        // A dead one is told when it comes back and asks.
        let is_dead = self.seen.get(&node).is_some_and(|seen| seen.liveness == Liveness::Dead);
        let lead = self.lead.as_mut().ok_or(NotNow::NotLeader)?;
        if lead.is_idle(&self.file) {
            // It was a voter again since it was told.
            lead.informed.remove(&leaving);
            lead.parting = (!is_dead && !lead.asking.contains_key(&node)).then_some(leaving);
        }
        self.write_next(now, |record| record.voters.retain(|voter| voter.node != node))
    }

    /// Leaders and followers have the same patience, so that when the followers have lost it the
    /// leader has as well, give or take the way of one message.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.election_timeout.max(self.beat_interval().saturating_mul(2))
    }

    fn beat_interval(&self) -> Duration {
        let is_idle = self.lead.as_ref().is_some_and(|lead| lead.is_idle(&self.file));
        match is_idle && !self.open_turn {
            true => self.settings.heartbeat.saturating_mul(4),
            false => self.settings.heartbeat,
        }
    }

    /// Two heartbeats: time for a slow disk before a record is sent once more.
    const fn resend_after(&self) -> Duration {
        self.settings.heartbeat.saturating_mul(2)
    }

    pub(crate) fn quorum_ends_at(&self, lead: &Lead) -> Moment {
        let me = self.me();
        let mut contacts: Vec<Moment> = self
            .file
            .voters()
            .iter()
            .map(|voter| match *voter == me {
                true => Moment(u64::MAX),
                false => lead
                    .peers
                    .get(&voter.node)
                    .filter(|peer| peer.file == Some(voter.file))
                    .and_then(|peer| peer.answered)
                    .map_or(lead.since, |at| at.max(lead.since)),
            })
            .collect();
        contacts.sort_unstable_by(|a, b| b.cmp(a));
        let needed = majority(contacts.len());
        match contacts.get(needed.saturating_sub(1)) {
            Some(contact) => *contact + self.patience(),
            None => lead.since,
        }
    }

    fn commit(&mut self, now: Moment, newest: Mark) {
        let Some(record) = self.file.record.clone() else { return };
        let Some(lead) = &mut self.lead else { return };
        lead.committed = Some(newest);
        let is_first = !std::mem::replace(&mut lead.ready, true);
        let term = lead.term;
        lead.asking
            .retain(|node, (file, _)| !record.voters.contains(&Voter { node: *node, file: *file }));
        self.committed = Some(record.clone());
        self.told = Some(newest);
        if is_first {
            self.outputs.push(LedgerOutput::Leading { term });
        }
        self.outputs.push(LedgerOutput::Committed(record));
        self.beat(now);
        self.end_lineage(now);
        self.admit(now);
    }

    /// Speaks to every voter now.
    fn beat(&mut self, now: Moment) {
        let mut to = self.other_voters();
        let interval = self.beat_interval();
        if let Some(lead) = &mut self.lead {
            lead.next_beat = now + interval;
            lead.parting.take_if(|gone| to.iter().any(|voter| voter.node == gone.node));
            to.extend(lead.parting);
        }
        for voter in to {
            self.append_to(now, voter);
        }
    }

    /// Whether that voter is to be sent the newest record now. Who is not listed counts for nothing
    /// in it, so what it alone holds must not be newer than what a majority has: with it, it would
    /// refuse its vote to all who could lead.
    fn is_to_be_given(&mut self, now: Moment, voter: Voter) -> bool {
        let (newest, resend) = (self.file.mark(), self.resend_after());
        let is_listed = self.file.voters().contains(&voter);
        let Some(lead) = &mut self.lead else { return false };
        let is_for_it = is_listed || lead.committed == Some(newest);
        is_for_it && lead.peer(voter).wants(newest, now, resend)
    }

    /// Speaks to one voter; with the record if it lacks it and was not sent it lately.
    fn append_to(&mut self, now: Moment, voter: Voter) {
        let next = self.beat_interval();
        let newest = self.file.mark();
        let with_record = self.is_to_be_given(now, voter);
        let Some(lead) = &mut self.lead else { return };
        lead.sequence += 1;
        if with_record {
            lead.peer(voter).sent = Some((newest, now));
        }
        let (sequence, committed) = (lead.sequence, lead.committed);
        let record = if with_record { self.file.record.clone() } else { None };
        let Voter { node, file: voter } = voter;
        let body = LedgerBody::Append { voter, sequence, next, newest, committed, record };
        self.send(node, body);
    }
}

/// A leader that cannot read its record stands aside for so many times its patience.
const UNREAD_PATIENCE: u32 = 8;

/// Patiences for which a leader that handed over does not stand again.
const HANDING_OVER: u32 = 4;
