//! Forming a group anew, from the newest record that is left, after a majority was lost for good.
//!
//! Invariant: it is a formation, with a record in its proposal. Who accepts gives up the lineages
//! that it replaces in the same write, and says so only then; its first record exists only if every
//! voter of it has accepted. What a reform goes on from is never dropped before another lineage is
//! known to hold it.

use baton_types::{FileId, LineageId, Moment, NodeId};
use baton_wire::ledger::{Mark, Proposal, Reform, StateBytes, Voter};
use rand::RngExt;

use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::survey::Survey;
use crate::view::LedgerOutput;

/// Why a group is not formed anew. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReform {
    /// It is for a group without one.
    #[error("the group has a leader: {0}")]
    Leader(NodeId),
    /// They elect a leader by themselves.
    #[error(
        "{answering} of its {voters} voters answer: they are a majority and elect a leader by \
         themselves"
    )]
    Majority {
        /// Voters that answer with the listed file.
        answering: usize,
        /// All of them.
        voters: usize,
    },
    /// Nothing to go on from.
    #[error("no member that answers holds a record of the group")]
    NothingHeld,
    /// A survey is under way already, or the disk does not take the file.
    #[error(
        "this node asks the members already, or its ledger file is not on disk; try again in a \
         moment"
    )]
    Busy,
    /// Since the survey this node learned of something newer.
    #[error("the group changed while its members were asked; try again")]
    Overtaken,
}

impl Ledger {
    /// Proposes a new lineage that goes on from what `survey` found, with `state` as the content
    /// of its first record. Returns its id; `Committed` says when it holds.
    ///
    /// # Errors
    ///
    /// Something changed since the survey.
    pub fn reform(
        &mut self,
        now: Moment,
        survey: &Survey,
        state: StateBytes,
    ) -> Result<LineageId, NoReform> {
        if let Some(leader) = self.leader_heard_of() {
            return Err(NoReform::Leader(leader));
        }
        let random = self.rng.random::<u128>().to_be_bytes();
        let lineage = LineageId { members: survey.members, random };
        let reform = Reform {
            from: survey.from,
            base: survey.base,
            before: survey.before.clone(),
            replaces: survey.replaces.clone(),
            first: survey.first,
            state,
        };
        let (proposer, voters) = (self.me(), survey.voters.clone());
        let proposal = Proposal { lineage, proposer, voters, reform: Some(reform) };
        if !self.writing.on_disk || !proposal.is_sane() || !self.may_accept_reform(&proposal) {
            return Err(NoReform::Overtaken);
        }
        self.accept_reform(now, proposal);
        self.settle(now);
        Ok(lineage)
    }

    /// The reform that this node accepted and of which it holds no record yet.
    pub(crate) fn pending_reform(&self) -> Option<(&Proposal, &Reform)> {
        let accepted = self.file.formation.accepted.as_ref()?;
        Some((accepted, accepted.reform.as_ref()?))
    }

    pub(crate) fn receive_reform(
        &mut self,
        now: Moment,
        from: NodeId,
        file: FileId,
        proposal: &Proposal,
    ) {
        let lineage = proposal.lineage;
        let is_honest = proposal.proposer == Voter { node: from, file }
            && proposal.voter(self.settings.me).is_some();
        let has_record = self.file.record.as_ref().is_some_and(|r| r.lineage == lineage);
        if !is_honest || has_record || !self.writing.on_disk {
            return;
        }
        let own = self.pending_reform().map(|(accepted, _)| accepted.lineage);
        if own != Some(lineage) {
            if !self.may_accept_reform(proposal) {
                self.send_refusal(from, lineage);
                return;
            }
            self.accept_reform(now, proposal.clone());
        }
        match self.file.has_refused(lineage) {
            true => self.send_refusal(from, lineage),
            false => self.owed.accept = true,
        }
    }

    /// Whether this node gives up what it has for that lineage: it hears no leader, everything
    /// that it is part of is replaced or over, and it holds nothing newer.
    fn may_accept_reform(&self, proposal: &Proposal) -> bool {
        let Some(reform) = &proposal.reform else { return false };
        let lineage = proposal.lineage;
        let is_over = |own: LineageId| {
            own == lineage || reform.replaces.contains(&own) || self.file.has_refused(own)
        };
        let has_nothing_else = self
            .file
            .lineage()
            .is_none_or(|own| is_over(own) || (self.may_end_own_reform() && own < lineage));
        let knows_nothing_else = self.known.is_none_or(is_over);
        // A lineage that took the place of the base's is newer, whatever the operator's node knew.
        let holds_nothing_newer = self.holding().is_none_or(|held| {
            !held.replaces.contains(&reform.from)
                && (held.mark <= reform.base
                    || (held.lineage != reform.from && is_over(held.lineage)))
        });
        has_nothing_else
            && knows_nothing_else
            && holds_nothing_newer
            && !self.file.has_refused(lineage)
            && !self.file.has_given_up(lineage)
            && self.lead.is_none()
            && self.follow.is_none()
    }

    /// Two operators at once: of two proposals that meet, the one with the smaller lineage is
    /// withdrawn by its own proposer, who alone could have written its first record.
    fn may_end_own_reform(&self) -> bool {
        self.pending_reform().is_some_and(|(accepted, _)| accepted.proposer == self.me())
            && self.forming.founding.is_none()
    }

    fn accept_reform(&mut self, now: Moment, proposal: Proposal) {
        let Some(Reform { replaces, first, from, .. }) = proposal.reform.clone() else { return };
        if let Some(own) = self.file.lineage()
            && self.may_end_own_reform()
            && !self.refuse_for_good(own)
        {
            return;
        }
        if self.lead.take().is_some_and(|lead| lead.ready) {
            self.outputs.push(LedgerOutput::NotLeading);
        }
        self.follow = None;
        self.stand = None;
        self.recall = None;
        self.owed = Default::default();
        self.heard.clear();
        self.told = None;
        self.known = None;
        self.forming.accepts.clear();
        self.forming.refusals.clear();
        self.forming.founding = None;
        self.forming.since = now;
        self.forming.next = now;
        self.outputs.push(LedgerOutput::Warning(format!(
            "reform: lineage {from} is given up for lineage {}, proposed by {}, with {} voters",
            proposal.lineage,
            proposal.proposer.node,
            proposal.voters.len()
        )));
        let file = self.change();
        file.give_up(&replaces);
        file.term = first.term;
        file.voted_for = Some(proposal.proposer.node);
        file.record = None;
        file.formation.joined = None;
        file.formation.heard_of = None;
        file.formation.accepted = Some(proposal);
    }

    /// A voter of the reform refuses it, or its proposer ended it.
    pub(crate) fn receive_reform_refusal(
        &mut self,
        now: Moment,
        from: NodeId,
        accepted: &Proposal,
        refusal: &Refusal,
    ) {
        if from == accepted.proposer.node && refusal.durable {
            // What it goes on from stays, for the next reform.
            if !self.file.has_refused(accepted.lineage) && self.refuse_for_good(accepted.lineage) {
                let text = format!("reform: {from} gave up lineage {}", accepted.lineage);
                self.outputs.push(LedgerOutput::Warning(text));
            }
        } else if accepted.proposer == self.me() {
            let text = format!(
                "reform: {from} refuses lineage {}: it hears a leader or holds something newer",
                accepted.lineage
            );
            self.note(text, now);
        }
    }

    /// A leader of a lineage that was to be replaced is there after all, or somebody else's reform
    /// was finished: this node leaves its own, which is not, and waits to be let in. Its file goes,
    /// so no promise is broken; what it held, that leader has. Says whether it did.
    pub(crate) fn gives_reform_up_for(&mut self, now: Moment, other: LineageId) -> bool {
        let Some((accepted, reform)) = self.pending_reform() else { return false };
        let lineage = accepted.lineage;
        let is_over = reform.before.contains(&other);
        let is_rival = other != lineage && reform.replaces.contains(&other) && !is_over;
        // What was on its way when the leader died says nothing.
        let is_late = now >= self.forming.since + self.settings.election_timeout.saturating_mul(2);
        if !is_rival || !is_late || self.forming.founding.is_some() || !self.writing.on_disk {
            return false;
        }
        self.leave_reform(now, lineage, other);
        true
    }

    pub(crate) fn leave_reform(&mut self, now: Moment, lineage: LineageId, other: LineageId) {
        self.outputs.push(LedgerOutput::Warning(format!(
            "reform: lineage {lineage} is given up, because lineage {other} is led: a new ledger \
             file waits to be let in"
        )));
        self.give_up_file();
        self.known = Some(other);
        // Places of records count within one lineage only.
        self.committed.take_if(|record| record.lineage != other);
        self.introduce_anew(now);
        let formation = &mut self.file.formation;
        formation.replaced.clear();
        formation.heard_of = Some(other);
        // The others hear of it from its proposer. Who is left and comes back must not go on with it:
        // what was decided meanwhile is not in it.
        formation.refused.push(lineage);
    }

    /// The place of what the own, unfinished reform goes on from.
    pub(crate) fn reform_base(&self) -> Option<(LineageId, Mark)> {
        self.pending_reform().map(|(_, reform)| (reform.from, reform.base))
    }
}
