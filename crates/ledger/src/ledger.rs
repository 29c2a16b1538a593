//! One group's ledger on one node: its state, its entry points.
//!
//! Invariant: `durable` is what is on disk, `file` what will be once the write under way and the
//! next one are done. Every promise is made from `durable`; `file` only decides what may be
//! promised next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::{FileId, LineageId, Moment, NodeId};
use baton_wire::ledger::{Heard, LedgerBody, LedgerMessage, Mark, Record, StateBytes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::admission::Introducing;
use crate::election::Stand;
use crate::file::{HEARD_MAX, LedgerFile};
use crate::follower::{Follow, Owed};
use crate::formation::Forming;
use crate::lead::Lead;
use crate::recall::Recall;
use crate::settings::{LedgerSettings, Liveness, Opened, Seen};
use crate::survey::Surveying;
use crate::view::{LedgerOutput, NotNow};
use crate::writing::Writing;

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) settings: LedgerSettings,
    pub(crate) rng: StdRng,
    pub(crate) file: LedgerFile,
    pub(crate) durable: LedgerFile,
    pub(crate) writing: Writing,
    /// How far peers of this lineage are; copied into the file whenever it is written.
    pub(crate) heard: BTreeMap<NodeId, Heard>,
    pub(crate) seen: BTreeMap<NodeId, Seen>,
    /// The leaders that reachable members name, the newest term first, with their lineages. There
    /// may be a thousand members, and a spare one looks for the leader at every event.
    pub(crate) leaders_named: Vec<(Option<LineageId>, NodeId)>,
    /// Members that are alive in the ring, this node included.
    pub(crate) alive: BTreeSet<NodeId>,
    /// Since when the same members are alive.
    pub(crate) seen_since: Moment,
    /// A formed lineage of this group that somebody named.
    pub(crate) known: Option<LineageId>,
    pub(crate) committed: Option<Record>,
    /// How far the leader said that records are committed.
    pub(crate) told: Option<Mark>,
    pub(crate) follow: Option<Follow>,
    pub(crate) owed: Owed,
    pub(crate) stand: Option<Stand>,
    pub(crate) election_at: Moment,
    pub(crate) lead: Option<Lead>,
    pub(crate) open_turn: bool,
    pub(crate) can_read: bool,
    pub(crate) forming: Forming,
    pub(crate) recall: Option<Recall>,
    pub(crate) introducing: Introducing,
    /// Since when this node neither leads nor hears a leader.
    pub(crate) leaderless: Option<Moment>,
    pub(crate) surveying: Option<Surveying>,
    pub(crate) foreign_noted: Option<Moment>,
    pub(crate) outputs: Vec<LedgerOutput>,
}

impl Ledger {
    /// Starts from what was found on disk. `seed` must be random and another one at every start.
    pub fn open(settings: LedgerSettings, opened: Opened, seed: u64, now: Moment) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (file, on_disk, note) = match opened {
            Opened::File(file) if file.is_sane() => (*file, true, None),
            Opened::Missing => (LedgerFile::new(new_file_id(&mut rng), false), false, None),
            Opened::Damaged | Opened::File(_) => {
                let note = "the ledger file is damaged: a new one waits to be let in by the leader";
                (LedgerFile::new(new_file_id(&mut rng), true), false, Some(note))
            }
        };
        let mut ledger = Self {
            alive: BTreeSet::from([settings.me]),
            settings,
            rng,
            durable: file.clone(),
            heard: file.heard.clone(),
            known: file.formation.heard_of,
            file,
            writing: Writing::new(on_disk),
            seen: BTreeMap::new(),
            leaders_named: Vec::new(),
            seen_since: now,
            committed: None,
            told: None,
            follow: None,
            owed: Owed::default(),
            stand: None,
            election_at: now,
            lead: None,
            open_turn: false,
            can_read: true,
            forming: Forming::new(now),
            recall: None,
            introducing: Introducing::new(now),
            leaderless: None,
            surveying: None,
            foreign_noted: None,
            outputs: Vec::new(),
        };
        ledger.outputs.extend(note.map(|note| LedgerOutput::Note(note.to_owned())));
        if on_disk && ledger.is_voter() && ledger.file.voters().len() > 1 {
            ledger.recall = Some(Recall::new(now));
        }
        ledger.election_at = match ledger.file.voters().len() {
            1 => now,
            _ => now + ledger.election_span(ledger.settings.election_timeout),
        };
        ledger.tick(now);
        ledger
    }

    /// Takes a message of another node of the group.
    pub fn receive(&mut self, now: Moment, from: NodeId, message: LedgerMessage) {
        if from == self.settings.me || !message.is_sane() {
            self.note(format!("a ledger message of {from} is out of bounds and was dropped"), now);
            return;
        }
        self.forget_silent_leader(now);
        if message.lineage.is_some_and(|lineage| self.tell_replaced(from, lineage)) {
            // Nothing of a lineage that the own one replaced counts any more.
        } else if !self.receive_any_lineage(now, from, &message) {
            self.receive_own_lineage(now, from, message);
        }
        self.settle(now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.forget_silent_leader(now);
        self.recall_tick(now);
        self.formation_tick(now);
        self.election_tick(now);
        self.lead_tick(now);
        self.introduce_tick(now);
        self.absorb_tick(now);
        self.survey_tick(now);
        self.settle(now);
    }

    /// When `tick` is due next; never later than something that must happen by itself.
    pub fn next_tick(&self) -> Moment {
        let mut next = Moment(u64::MAX);
        let mut due = |at: Option<Moment>| next = next.min(at.unwrap_or(next));
        due(self.follow.as_ref().map(Follow::ends_at));
        due(self.recall.as_ref().map(|recall| recall.next));
        due(self.formation_due());
        due(self.election_due());
        due(self.lead.as_ref().map(|lead| lead.due(self)));
        due(self.introduce_due());
        due(self.surveying.as_ref().map(Surveying::due));
        due(self.writing.retry_at);
        next
    }

    /// Takes the ring's view of the group's members, whole, whenever it changed.
    pub fn see(&mut self, now: Moment, seen: &[Seen]) {
        let alive = seen.iter().filter(|seen| seen.liveness == Liveness::Alive);
        let alive = alive.map(|seen| seen.node).chain([self.settings.me]).collect();
        if self.alive != alive {
            self.alive = alive;
            self.seen_since = now;
        }
        self.seen = seen.iter().map(|seen| (seen.node, seen.clone())).collect();
        self.leaders_named = self.name_leaders();
        self.watch_voters(now);
        self.let_back_in(now);
        if let Some(lineage) = self.seen_lineage() {
            self.known = Some(lineage);
        }
        self.see_replaced(now);
        let heard: Vec<Heard> = self.seen.values().filter_map(|seen| seen.heard_of_me).collect();
        for heard in heard {
            self.compare_with(heard);
        }
        self.tick(now);
    }

    /// Makes a record with this content. Returns its version; `Committed` says when it holds.
    ///
    /// # Errors
    ///
    /// Not the leader, not ready, or a record is in flight.
    pub fn propose(&mut self, now: Moment, state: StateBytes) -> Result<u64, NotNow> {
        let version = self.write_next(now, |record| record.state = state)?;
        self.settle(now);
        Ok(version)
    }

    /// Makes a record without this voter. This leader does not let it in again before it was seen
    /// to be gone, comes with a new file, or has had the time to go and did not. A leader does not
    /// remove itself: it stops leading, and is to ask the next leader.
    ///
    /// # Errors
    ///
    /// As `propose`; and the node is no voter, or the last one, or the group would stand still
    /// without it, or it is this leader.
    pub fn remove_voter(&mut self, now: Moment, node: NodeId) -> Result<u64, NotNow> {
        let listed = self.file.voters().iter().find(|voter| voter.node == node).copied();
        let others = self.file.voters().len() > 1 && listed.is_some();
        if others && self.lead.is_some() && !self.may_go_on_without(now, node) {
            return Err(NotNow::TooFewLeft);
        }
        if others && node == self.settings.me && self.lead.is_some() {
            return Err(self.hand_over(now));
        }
        let version = self.write_without(now, node)?;
        if let (Some(lead), Some(voter)) = (&mut self.lead, listed) {
            lead.kept_out.insert(voter, now);
        }
        self.settle(now);
        Ok(version)
    }

    /// Tells whether a turn is open: a leader without one sends heartbeats at a quarter of the
    /// rate.
    pub fn set_busy(&mut self, now: Moment, open_turn: bool) {
        if self.open_turn != open_turn {
            self.open_turn = open_turn;
            self.tick(now);
        }
    }

    /// Tells whether this node can read what its newest record holds. One that cannot could decide
    /// nothing: it leads only for as long as others need to get that record of it.
    pub fn set_can_read(&mut self, can_read: bool) {
        self.can_read = can_read;
    }

    /// What is to be done, in order. Call it after every other call.
    pub fn take_outputs(&mut self) -> Vec<LedgerOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// A random span in which to wait for a leader: from `patience` to half as long again.
    pub(crate) fn election_span(&mut self, patience: Duration) -> Duration {
        let micros = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX / 4).max(2);
        Duration::from_micros(micros.saturating_add(self.rng.random_range(0..micros / 2)))
    }

    pub(crate) fn new_file_id(&mut self) -> FileId {
        new_file_id(&mut self.rng)
    }

    pub(crate) fn send(&mut self, to: NodeId, body: LedgerBody) {
        if to == self.settings.me || !self.writing.on_disk {
            return;
        }
        let message = LedgerMessage {
            lineage: self.durable.lineage(),
            file: self.durable.file,
            term: self.durable.term,
            held: self.durable.mark(),
            body,
        };
        self.outputs.push(LedgerOutput::Send { to, message });
    }

    /// Writes a line to the journal about what others did; one a minute, because others decide
    /// how often it happens.
    pub(crate) fn note(&mut self, text: String, now: Moment) {
        if self.foreign_noted.is_none_or(|at| now.since(at) >= NOTE_INTERVAL) {
            self.foreign_noted = Some(now);
            self.outputs.push(LedgerOutput::Note(text));
        }
    }

    /// Remembers how far a peer is, and tells it if its file went back.
    pub(crate) fn hear(&mut self, from: NodeId, message: &LedgerMessage) {
        let new = Heard { file: message.file, term: message.term, held: message.held };
        if let Some(old) = self.heard.get(&from).copied().filter(|old| old.file == new.file) {
            if new.term < old.term || new.held < old.held {
                self.send(from, LedgerBody::Stale { heard: old });
            }
            let (term, held) = (new.term.max(old.term), new.held.max(old.held));
            self.heard.insert(from, Heard { file: new.file, term, held });
        } else if self.heard.len() < HEARD_MAX || self.heard.contains_key(&from) {
            self.heard.insert(from, new);
        }
    }
}

fn new_file_id(rng: &mut StdRng) -> FileId {
    FileId::from_random(rng.random())
}

/// Strangers and forgers are worth one line a minute.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
