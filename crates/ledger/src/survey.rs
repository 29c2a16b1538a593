//! Looking for the newest record of a group whose majority is lost: what does everybody who is
//! alive hold, and does anybody hear a leader?
//!
//! Invariant: a survey changes nothing, here or elsewhere. Its result is refused while a leader is
//! heard of by anybody who answers, by this node or by the ring's facts.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{FileId, LineageId, Moment, NodeId, Term};
use baton_wire::ledger::{
    Holding, LedgerBody, LedgerMessage, Mark, REPLACED_MAX, Record, StateBytes, Voter,
};
use rand::RngExt;

use crate::lead::majority;
use crate::ledger::Ledger;
use crate::reform::NoReform;
use crate::settings::Liveness;
use crate::view::LedgerOutput;

/// What a group that lost its majority can be formed anew from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The content of the newest record among those that answered.
    pub state: StateBytes,
    /// The lineage of that record.
    pub from: LineageId,
    /// Who would vote: those that answered, up to the voter limit.
    pub voters: Vec<Voter>,
    /// Members that answered, this node included.
    pub members: u32,
    pub(crate) base: Mark,
    pub(crate) first: Mark,
    pub(crate) before: Vec<LineageId>,
    pub(crate) replaces: Vec<LineageId>,
}

/// A survey under way.
#[derive(Debug)]
pub(crate) struct Surveying {
    probe: u64,
    next: Moment,
    until: Moment,
    answers: BTreeMap<NodeId, Answer>,
}

/// What one node answered.
#[derive(Clone, Debug)]
struct Answer {
    file: FileId,
    term: Term,
    version: u64,
    leader: Option<NodeId>,
    holding: Option<Holding>,
    /// In which it lives.
    lineage: Option<LineageId>,
    lineages: Vec<LineageId>,
}

impl Surveying {
    pub(crate) fn due(&self) -> Moment {
        self.next.min(self.until)
    }
}

impl Ledger {
    /// Asks every member that is alive what it holds; `LedgerOutput::Surveyed` comes after two
    /// election timeouts, so that a leader who is there, or comes to be, is heard.
    ///
    /// # Errors
    ///
    /// A leader is heard of, another survey is under way, or this node has no ledger file on disk.
    pub fn survey(&mut self, now: Moment) -> Result<(), NoReform> {
        self.forget_silent_leader(now);
        if let Some(leader) = self.leader_heard_of() {
            return Err(NoReform::Leader(leader));
        }
        if self.surveying.is_some() || !self.writing.on_disk || self.writing.degraded {
            return Err(NoReform::Busy);
        }
        self.surveying = Some(Surveying {
            probe: self.rng.random(),
            next: now,
            until: now + self.settings.election_timeout.saturating_mul(2),
            answers: BTreeMap::new(),
        });
        self.tick(now);
        Ok(())
    }

    pub(crate) fn survey_tick(&mut self, now: Moment) {
        let Some(surveying) = &mut self.surveying else { return };
        if now >= surveying.until {
            let answers = std::mem::take(&mut surveying.answers);
            self.surveying = None;
            let result = self.conclude(answers);
            self.outputs.push(LedgerOutput::Surveyed(result));
            return;
        }
        if now < surveying.next {
            return;
        }
        surveying.next = now + self.settings.heartbeat.saturating_mul(2);
        let probe = surveying.probe;
        let answered: BTreeSet<NodeId> = surveying.answers.keys().copied().collect();
        // Those that may hold a record first.
        let voters: Vec<NodeId> = self.other_voters().iter().map(|voter| voter.node).collect();
        let (first, rest): (Vec<NodeId>, Vec<NodeId>) =
            self.alive.iter().copied().partition(|node| voters.contains(node));
        for node in first.into_iter().chain(rest).take(ASKED_MAX) {
            if !answered.contains(&node) {
                self.send(node, LedgerBody::Survey { probe });
            }
        }
    }

    pub(crate) fn receive_survey(&mut self, from: NodeId, message: &LedgerMessage, probe: u64) {
        let mut holding = self.holding();
        if let Some(holding) = &mut holding
            && message.lineage == Some(holding.lineage)
            && message.held >= holding.mark
        {
            holding.state = None;
        }
        let leader = self.leader_heard();
        let version = self.highest_version();
        let others = self.other_lineages();
        self.send(from, LedgerBody::Surveyed { probe, leader, holding, version, others });
    }

    pub(crate) fn receive_surveyed(&mut self, from: NodeId, message: &LedgerMessage, probe: u64) {
        let LedgerBody::Surveyed { leader, holding, version, others, .. } = &message.body else {
            return;
        };
        let Some(surveying) = self.surveying.as_mut().filter(|s| s.probe == probe) else { return };
        if surveying.answers.len() >= ASKED_MAX {
            return;
        }
        let lineages = others.iter().copied().chain(message.lineage).collect();
        let answer = Answer {
            file: message.file,
            term: message.term,
            version: *version,
            leader: *leader,
            holding: holding.clone(),
            lineage: message.lineage,
            lineages,
        };
        surveying.answers.insert(from, answer);
    }

    /// What this node could give to a lineage that is formed anew.
    pub(crate) fn holding(&self) -> Option<Holding> {
        if let Some(record) = &self.durable.record {
            let Record { lineage, voters, replaces, state, .. } = record.clone();
            let mark = record.mark();
            return Some(Holding { lineage, mark, voters, replaces, state: Some(state) });
        }
        let reform = self.durable.formation.accepted.as_ref()?.reform.as_ref()?;
        // Of what it is to replace, some came to be beside it: only what the base says is older.
        Some(Holding {
            lineage: reform.from,
            mark: reform.base,
            voters: Vec::new(),
            replaces: reform.before.clone(),
            state: Some(reform.state.clone()),
        })
    }

    fn highest_version(&self) -> u64 {
        let reform = self.durable.formation.accepted.as_ref().and_then(|p| p.reform.as_ref());
        reform.map_or(0, |reform| reform.first.version).max(self.durable.mark().version)
    }

    fn other_lineages(&self) -> Vec<LineageId> {
        let formation = &self.durable.formation;
        formation.replaced.iter().copied().chain(self.durable.lineage()).collect()
    }

    /// The leader that this node hears, or is.
    fn leader_heard(&self) -> Option<NodeId> {
        match (&self.lead, &self.follow) {
            (Some(_), _) => Some(self.settings.me),
            (None, Some(follow)) => Some(follow.leader),
            (None, None) => None,
        }
    }

    /// The leader that this node hears, or that a living member's facts name, if it is not gone
    /// and does not say itself that it leads no longer.
    pub(crate) fn leader_heard_of(&self) -> Option<NodeId> {
        let me = self.settings.me;
        let leads = |leader: &NodeId| {
            self.seen.get(leader).is_some_and(|seen| {
                let denies = seen.lineage.is_some() && seen.leader != Some(seen.node);
                let is_there = !matches!(seen.liveness, Liveness::Dead | Liveness::Left);
                is_there && !denies && seen.node != me
            })
        };
        let told = self.seen.values().filter(|seen| seen.liveness == Liveness::Alive);
        self.leader_heard().or_else(|| told.filter_map(|seen| seen.leader).find(leads))
    }

    fn conclude(&self, mut answers: BTreeMap<NodeId, Answer>) -> Result<Survey, NoReform> {
        let heard = answers.values().find_map(|answer| answer.leader);
        if let Some(leader) = self.leader_heard_of().or(heard) {
            return Err(NoReform::Leader(leader));
        }
        let me = self.settings.me;
        let own = Answer {
            file: self.durable.file,
            term: self.file.term.max(self.durable.term),
            version: self.highest_version(),
            leader: None,
            holding: self.holding(),
            lineage: self.durable.lineage(),
            lineages: self.other_lineages(),
        };
        answers.insert(me, own);
        let holdings = answers.values().filter_map(|answer| answer.holding.as_ref());
        let newest = holdings
            .clone()
            .filter(|holding| holding.state.is_some())
            .reduce(|best, other| if is_newer(other, best) { other } else { best })
            .ok_or(NoReform::NothingHeld)?;
        let Some(state) = newest.state.clone() else { return Err(NoReform::NothingHeld) };
        // Who gave the lineage up for a reform that is not finished has no vote in it any more.
        let votes = |voter: &&Voter| {
            answers.get(&voter.node).is_some_and(|answer| {
                answer.file == voter.file && answer.lineage == Some(newest.lineage)
            })
        };
        let answering = newest.voters.iter().filter(votes).count();
        if !newest.voters.is_empty() && answering >= majority(newest.voters.len()) {
            return Err(NoReform::Majority { answering, voters: newest.voters.len() });
        }
        let mut replaces: Vec<LineageId> = Vec::new();
        let named = answers.values().flat_map(|answer| answer.lineages.iter().copied());
        let before = holdings.flat_map(|h| h.replaces.iter().copied().chain([h.lineage]));
        // The one that it goes on from last, because the first ones are forgotten first.
        for lineage in before.chain(named) {
            if !replaces.contains(&lineage) && lineage != newest.lineage {
                replaces.push(lineage);
            }
        }
        replaces.push(newest.lineage);
        replaces.drain(..replaces.len().saturating_sub(REPLACED_MAX));
        let is_alive = |node: &NodeId| self.alive.contains(node);
        let there: Vec<NodeId> = answers.keys().copied().filter(is_alive).collect();
        let was_voter = |node: &NodeId| newest.voters.iter().any(|voter| voter.node == *node);
        let mut ranked = there.clone();
        ranked.sort_by_key(|node| (*node != me, !was_voter(node), *node));
        let voter = |node: NodeId| Some(Voter { node, file: answers.get(&node)?.file });
        let mut voters: Vec<Voter> =
            ranked.into_iter().filter_map(voter).take(self.voter_limit()).collect();
        voters.sort_unstable();
        let term = answers.values().map(|a| a.term).max().unwrap_or_default().max(newest.mark.term);
        let version = answers.values().map(|a| a.version).max().unwrap_or_default();
        let term = term.next().ok_or(NoReform::Busy)?;
        let version = version.max(newest.mark.version).saturating_add(1);
        Ok(Survey {
            state,
            from: newest.lineage,
            voters,
            members: u32::try_from(there.len()).unwrap_or(u32::MAX),
            base: newest.mark,
            first: Mark { term, version },
            before: newest.replaces.clone(),
            replaces,
        })
    }
}

/// A lineage that took the place of another one is the newer one, whatever its numbers. Of the
/// same place, a record is better than what a reform that was not finished goes on from.
fn is_newer(one: &Holding, other: &Holding) -> bool {
    if one.replaces.contains(&other.lineage) || other.replaces.contains(&one.lineage) {
        return one.replaces.contains(&other.lineage);
    }
    let is_record = one.mark == other.mark && !one.voters.is_empty() && other.voters.is_empty();
    one.mark > other.mark || is_record
}

/// Members that are asked: all voters, and many more than become voters.
const ASKED_MAX: usize = 64;
