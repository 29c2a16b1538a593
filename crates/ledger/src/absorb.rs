//! Giving up a lineage that another one took the place of: because the group was formed anew, or
//! because two lineages that were formed apart have met.
//!
//! Invariant: of two that met, the one that stays has said so in a committed record before the
//! other one gives way in one of its own, and one that said so gives way to no smaller one; so never
//! do both give way. A lineage that says in its record that it replaces another one wins over it, whatever
//! the sizes. Who lives in the replaced one and hears of that gives its file up before it says
//! anything else, and comes back as a member that lost its file.

use baton_types::{LineageId, Moment, NodeId};
use baton_wire::ledger::{LedgerBody, REPLACED_MAX};

use crate::ledger::Ledger;
use crate::settings::{Liveness, Seen};
use crate::view::{LedgerOutput, NotNow};

impl Ledger {
    /// Makes a record which says that `other`, formed apart, is to give way to this lineage.
    ///
    /// # Errors
    ///
    /// As `propose`.
    pub fn absorb(&mut self, now: Moment, other: LineageId) -> Result<u64, NotNow> {
        let version = self.write_next(now, |record| {
            record.absorbs.retain(|known| *known != other);
            record.absorbs.push(other);
            let surplus = record.absorbs.len().saturating_sub(REPLACED_MAX);
            record.absorbs.drain(..surplus);
        })?;
        self.settle(now);
        Ok(version)
    }

    /// Makes a record which says that `other` gave way.
    ///
    /// # Errors
    ///
    /// As `propose`.
    pub fn absorbed(&mut self, now: Moment, other: LineageId) -> Result<u64, NotNow> {
        let version = self.write_next(now, |record| {
            record.absorbs.retain(|known| *known != other);
            record.replaces.retain(|known| *known != other);
            record.replaces.push(other);
            let surplus = record.replaces.len().saturating_sub(REPLACED_MAX);
            record.replaces.drain(..surplus);
        })?;
        self.settle(now);
        Ok(version)
    }

    /// Makes the last record of this lineage: it gives way to `other`, whose committed record says
    /// that it absorbs this one.
    ///
    /// # Errors
    ///
    /// As `propose`; and this lineage, the larger one, is to absorb the other one.
    pub fn give_way(&mut self, now: Moment, other: LineageId) -> Result<u64, NotNow> {
        let stays = self
            .file
            .record
            .as_ref()
            .is_some_and(|record| record.absorbs.contains(&other) && record.lineage > other);
        if stays {
            return Err(NotNow::Stays);
        }
        let version = self.write_next(now, |record| record.absorbed_by = Some(other))?;
        self.settle(now);
        Ok(version)
    }

    /// The last record of this lineage is committed: this node leaves it.
    pub(crate) fn end_lineage(&mut self, now: Moment) {
        let last = self.committed.as_ref();
        if let Some((own, by)) = last.and_then(|record| Some((record.lineage, record.absorbed_by?)))
            && self.file.lineage() == Some(own)
        {
            self.give_way_to(now, own, by);
        }
    }

    /// A lineage that is to give way but has no leader left to do it is left by each node for
    /// itself: what a node loses with its file, the others could lose at any time. Not where it has
    /// a leader that only this node does not hear, nor where the others know of a record by which
    /// it stays: the other one may give way to it, and then nobody would hold anything.
    pub(crate) fn absorb_tick(&mut self, now: Moment) {
        if self.lead.is_some() || self.follow.is_some() {
            self.leaderless = None;
            return;
        }
        let since = *self.leaderless.get_or_insert(now);
        let patience = self.settings.election_timeout.saturating_mul(LEADERLESS);
        let Some(record) = self.file.record.as_ref().filter(|_| now >= since + patience) else {
            return;
        };
        let (own, absorbs) = (record.lineage, record.absorbs.clone());
        let leads =
            |seen: &Seen| seen.liveness == Liveness::Alive && seen.leader == Some(seen.node);
        let of_own = || self.seen.values().filter(|seen| seen.lineage == Some(own));
        if of_own().any(leads) {
            return;
        }
        let says = |by: LineageId| of_own().any(|seen| seen.absorbs.contains(&by));
        let stays = |by: LineageId| own > by && (absorbs.contains(&by) || says(by));
        let by = self.seen.values().find(|seen| leads(seen) && seen.absorbs.contains(&own));
        if let Some(by) = by.and_then(|seen| seen.lineage).filter(|by| !stays(*by))
            && self.writing.on_disk
        {
            self.give_way_to(now, own, by);
        }
    }

    /// Answers a node of a lineage that is replaced; says whether it is.
    pub(crate) fn tell_replaced(&mut self, from: NodeId, lineage: LineageId) -> bool {
        let Some(by) = self.successor_of(lineage) else { return false };
        self.send(from, LedgerBody::Replaced { lineage, by });
        true
    }

    /// The lineage that took the place of this one. The first record of a reform exists only if
    /// everybody in it gave the old one up, so holding one is enough to know.
    fn successor_of(&self, lineage: LineageId) -> Option<LineageId> {
        match &self.durable.record {
            Some(record) => {
                let is_over =
                    record.replaces.contains(&lineage) || self.durable.has_given_up(lineage);
                (is_over && record.lineage != lineage).then_some(record.lineage)
            }
            // What the base of an unfinished reform took the place of is over, come of that what may.
            None if let Some(accepted) = &self.durable.formation.accepted => {
                let reform = accepted.reform.as_ref()?;
                reform.before.contains(&lineage).then_some(reform.from)
            }
            None => {
                self.known.filter(|known| self.durable.has_given_up(lineage) && *known != lineage)
            }
        }
    }

    /// Somebody says that a lineage was replaced.
    pub(crate) fn receive_replaced(&mut self, now: Moment, lineage: LineageId, by: LineageId) {
        let is_own = self.file.lineage() == Some(lineage) && by != lineage;
        let replaced_it = |record: &baton_wire::ledger::Record| record.replaces.contains(&by);
        if is_own && self.writing.on_disk && !self.file.record.as_ref().is_some_and(replaced_it) {
            self.give_way_to(now, lineage, by);
        }
    }

    /// The lineage of the group that the members' facts name: not one that this node is done with,
    /// nor one that another of them replaces. Who knows of one already stays with it when another
    /// one is met: which of them gives way is not for those without a vote to say.
    pub(crate) fn seen_lineage(&self) -> Option<LineageId> {
        let is_replaced =
            |lineage: LineageId| self.seen.values().any(|seen| seen.replaces.contains(&lineage));
        let named = self.seen.values().filter_map(|seen| seen.lineage).filter(|lineage| {
            let is_done = self.file.has_refused(*lineage) || self.file.has_given_up(*lineage);
            !is_done && !is_replaced(*lineage)
        });
        let named: Vec<LineageId> = named.collect();
        let is_here = |known: &LineageId| {
            let mut living = self.seen.values().filter(|seen| !self.is_gone(seen.node));
            named.contains(known) && living.any(|seen| seen.lineage == Some(*known))
        };
        self.known.filter(is_here).or(named.into_iter().max())
    }

    /// Looks whether the members' facts say that the own lineage is replaced, or that an
    /// unfinished reform came too late.
    pub(crate) fn see_replaced(&mut self, now: Moment) {
        if let Some((from, _)) = self.reform_base() {
            let finished = |seen: &&Seen| seen.replaces.contains(&from);
            let led =
                |seen: &&Seen| seen.liveness == Liveness::Alive && seen.leader == Some(seen.node);
            let rival = self.seen.values().find(|seen| led(seen) && !finished(seen));
            let rival = rival.and_then(|seen| seen.lineage);
            let other = self.seen.values().find(finished).and_then(|seen| seen.lineage);
            if let Some((accepted, _)) = self.pending_reform()
                && let Some(other) = other.filter(|other| *other != accepted.lineage)
                && self.forming.founding.is_none()
                && self.writing.on_disk
            {
                let lineage = accepted.lineage;
                self.leave_reform(now, lineage, other);
                self.change().give_up(&[from]);
            } else if let Some(rival) = rival {
                self.gives_reform_up_for(now, rival);
            }
            return;
        }
        let Some(own) = self.file.lineage() else { return };
        let by = self.seen.values().find(|seen| seen.replaces.contains(&own));
        if let Some(by) = by.and_then(|seen| seen.lineage) {
            self.receive_replaced(now, own, by);
        }
    }

    fn give_way_to(&mut self, now: Moment, own: LineageId, by: LineageId) {
        self.outputs.push(LedgerOutput::Warning(format!(
            "lineage {own} was replaced by lineage {by}: this node gives it up, and a new ledger \
             file waits to be let in"
        )));
        self.give_up_file();
        self.known = Some(by);
        self.committed = None;
        self.introduce_anew(now);
        let file = self.change();
        file.give_up(&[own]);
        file.formation.heard_of = Some(by);
    }
}

/// Election timeouts without a leader after which nobody waits for one to end the lineage: many
/// more than an election takes.
const LEADERLESS: u32 = 10;
