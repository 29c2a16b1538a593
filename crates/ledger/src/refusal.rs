//! Refusing a lineage, and giving up one that can no longer come to be.
//!
//! Invariant: a file that refused a lineage never holds a record of it; the own lineage is given
//! up only when its proposer did so without a first record (because a voter that it names is gone, or
//! another proposal is to come to be), or when so many voters refused it that the others are no
//! majority.

use baton_types::{FileId, LineageId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, Voter};

use crate::file::REFUSED_MAX;
use crate::formation::FIRST;
use crate::lead::majority;
use crate::ledger::Ledger;
use crate::settings::Liveness;
use crate::view::LedgerOutput;

/// A refusal as it came.
pub(crate) struct Refusal {
    pub(crate) lineage: LineageId,
    pub(crate) own: Option<LineageId>,
    pub(crate) formed: bool,
    pub(crate) durable: bool,
}

impl Ledger {
    pub(crate) fn send_refusal(&mut self, to: NodeId, lineage: LineageId) {
        let own = self.durable.lineage().or(self.known).filter(|own| *own != lineage);
        let formed = own.is_some() && (own == self.known || self.committed.is_some());
        let durable = self.durable.has_refused(lineage);
        self.send(to, LedgerBody::Refuse { lineage, own, formed, durable });
    }

    pub(crate) fn receive_refusal(
        &mut self,
        now: Moment,
        from: NodeId,
        file: FileId,
        refusal: &Refusal,
    ) {
        if self.file.lineage() != Some(refusal.lineage) {
            return;
        }
        if let Some(accepted) = self.file.formation.accepted.clone() {
            if accepted.reform.is_some() {
                self.receive_reform_refusal(now, from, &accepted, refusal);
                return;
            }
            // Only the file that is named can be missing in a majority: what became of a lost one, and
            // whether it held the first record, nobody knows.
            if !accepted.voters.contains(&Voter { node: from, file }) {
                return;
            }
            let is_proposer = accepted.proposer == Voter { node: from, file };
            if refusal.durable && is_proposer {
                self.let_go(now, refusal);
            } else if accepted.proposer == self.me() {
                // Only this node can write the first record, and has not: its own refusal ends it.
                let gives_way = refusal.own.is_some_and(|own| own > refusal.lineage);
                if refusal.durable || gives_way || (refusal.formed && refusal.own.is_some()) {
                    self.let_go(now, refusal);
                }
            } else if refusal.durable {
                self.forming.refusals.insert(from);
                self.let_go_if_hopeless(now, accepted.voters.len(), refusal);
            }
            return;
        }
        // What comes after the first record may list others: their refusal says nothing of what was
        // committed before.
        let is_first = self.file.mark().version == FIRST.version;
        let is_listed = self.file.voters().contains(&Voter { node: from, file });
        if refusal.durable
            && is_listed
            && is_first
            && self.committed.is_none()
            && self.forming.founding.is_none()
        {
            self.forming.refusals.insert(from);
            self.let_go_if_hopeless(now, self.file.voters().len(), refusal);
        }
    }

    /// Gives the own lineage up when so many refused it for good that the others are no majority:
    /// then none of its records was or will be committed.
    fn let_go_if_hopeless(&mut self, now: Moment, voters: usize, refusal: &Refusal) {
        let mine = usize::from(
            self.file.record.is_none()
                && self.durable.has_refused(refusal.lineage)
                && !self.forming.refusals.contains(&self.settings.me),
        );
        if self.forming.refusals.len() + mine + majority(voters) > voters {
            self.let_go(now, refusal);
        }
    }

    /// Refuses the own lineage for good and is free for another one.
    fn let_go(&mut self, now: Moment, refusal: &Refusal) {
        if !self.refuse_for_good(refusal.lineage) {
            return;
        }
        self.outputs.push(LedgerOutput::Note(format!(
            "the formation of lineage {} is given up",
            refusal.lineage
        )));
        if self.lead.take().is_some_and(|lead| lead.ready) {
            self.outputs.push(LedgerOutput::NotLeading);
        }
        self.stand = None;
        self.follow = None;
        self.owed = Default::default();
        self.heard.clear();
        self.known = refusal.own.filter(|_| refusal.formed);
        self.told = None;
        self.forming.accepts.clear();
        self.forming.refusals.clear();
        // Others may have a better proposal under way: look around once more before the next one.
        self.seen_since = now;
        let file = self.change();
        file.term = Term::default();
        file.voted_for = None;
        file.record = None;
        file.formation.accepted = None;
        file.formation.heard_of = None;
    }

    pub(crate) fn refuse_for_good(&mut self, lineage: LineageId) -> bool {
        if self.file.has_refused(lineage) {
            return true;
        }
        if self.file.formation.refused.len() >= REFUSED_MAX {
            return false;
        }
        self.change().formation.refused.push(lineage);
        true
    }

    /// One of the voters of the accepted lineage speaks with another file: the one that is named is
    /// gone for good. If it was the proposer's, the lineage is refused; if another's, its own
    /// proposer ends it, which alone could have written the first record.
    pub(crate) fn watch_files(&mut self, now: Moment, from: NodeId, file: FileId) {
        let Some(accepted) = &self.file.formation.accepted else { return };
        let lineage = accepted.lineage;
        let is_gone = accepted.voter(from).is_some_and(|voter| voter.file != file);
        if accepted.reform.is_some() || !is_gone {
            return;
        }
        if accepted.proposer == self.me() {
            self.let_go(now, &Refusal { lineage, own: None, formed: false, durable: true });
        } else if accepted.proposer.node == from {
            self.refuse_for_good(lineage);
        }
    }

    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.seen
            .get(&node)
            .is_some_and(|seen| matches!(seen.liveness, Liveness::Dead | Liveness::Left))
    }
}
