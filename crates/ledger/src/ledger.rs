//! One group's ledger on one node: first the shape, the protocol follows.

use baton_types::{FileId, Moment, NodeId};
use baton_wire::ledger::{LedgerMessage, StateBytes};

use crate::file::LedgerFile;
use crate::settings::{LedgerSettings, Opened, Seen};
use crate::view::{LedgerOutput, NotNow, Role, View};

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    settings: LedgerSettings,
    file: LedgerFile,
    outputs: Vec<LedgerOutput>,
}

impl Ledger {
    /// Starts from what was found on disk. `seed` must be random and another one at every start.
    pub fn open(settings: LedgerSettings, opened: Opened, seed: u64, _now: Moment) -> Self {
        let file = match opened {
            Opened::File(file) => *file,
            Opened::Missing | Opened::Damaged => {
                LedgerFile::new(FileId::from_random(u128::from(seed)), false)
            }
        };
        Self { settings, file, outputs: Vec::new() }
    }

    /// Takes a message of another node of the group.
    pub fn receive(&mut self, _now: Moment, _from: NodeId, _message: LedgerMessage) {}

    /// Does what is due.
    pub fn tick(&mut self, _now: Moment) {}

    /// When `tick` is due next.
    pub fn next_tick(&self) -> Moment {
        Moment(u64::MAX)
    }

    /// The write with this token ended; `ok` only if it is durable.
    pub fn persisted(&mut self, _now: Moment, _token: u64, _ok: bool) {}

    /// Takes the ring's view of the group's members, whole, whenever it changed.
    pub fn see(&mut self, _now: Moment, _seen: &[Seen]) {}

    /// Makes a record with this content. Returns its version; `Committed` says when it holds.
    ///
    /// # Errors
    ///
    /// Not the leader, not ready, or a record is in flight.
    pub fn propose(&mut self, _now: Moment, _state: StateBytes) -> Result<u64, NotNow> {
        Err(NotNow::NotLeader)
    }

    /// Makes a record without this voter. It is not let in again by itself while this leader
    /// leads.
    ///
    /// # Errors
    ///
    /// As `propose`; and the node is no voter, or the last one.
    pub fn remove_voter(&mut self, _now: Moment, _node: NodeId) -> Result<u64, NotNow> {
        Err(NotNow::NotLeader)
    }

    /// Tells whether a turn is open: a leader without one sends heartbeats at a quarter of the
    /// rate.
    pub fn set_busy(&mut self, _now: Moment, _open_turn: bool) {}

    /// How it stands.
    pub fn view(&self) -> View<'_> {
        View {
            lineage: self.file.lineage(),
            file: self.file.file,
            term: self.file.term,
            role: Role::Forming,
            leader: None,
            committed: None,
            newest: self.file.record.as_ref(),
            quorum: false,
            quorum_reason: format!("{:?} forms its group", self.settings.me),
            voters: self.file.voters(),
            in_flight: false,
            ready: false,
            needs_readmission: false,
            degraded: false,
        }
    }

    /// What is to be done, in order. Call it after every other call.
    pub fn take_outputs(&mut self) -> Vec<LedgerOutput> {
        std::mem::take(&mut self.outputs)
    }
}
