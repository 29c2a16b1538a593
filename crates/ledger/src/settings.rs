//! What a ledger is given, by its configuration and by the ring.

use std::time::Duration;

use baton_types::{LineageId, NodeId, Term};
use baton_wire::ledger::{Heard, StateBytes};

use crate::file::LedgerFile;

/// What a ledger is told once.
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// This node.
    pub me: NodeId,
    /// From one message of a leader to the next while a turn is open; four times as long
    /// otherwise.
    pub heartbeat: Duration,
    /// Without a leader for this long (up to twice as long, drawn at random) a voter stands for
    /// election; a leader without answers from a majority for this long steps down.
    pub election_timeout: Duration,
    /// How long the view of the members must have been the same before a lineage is proposed.
    pub settle: Duration,
    /// Members that the group starts with. Only for formation.
    pub expect: u32,
    /// Most voters; at least 1, at most `VOTERS_MAX` of the wire count.
    pub voter_limit: usize,
    /// How long a voter must have been dead for the leader before a spare member replaces it.
    pub replace_dead_after: Duration,
    /// The content of a lineage's first record.
    pub initial_state: StateBytes,
}

/// What was found where the ledger's file should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Nothing: the first start, or the file was lost.
    Missing,
    /// Something that does not read as a ledger file, or fails its checksum.
    Damaged,
    /// The file.
    File(Box<LedgerFile>),
}

/// One member of the group, as the ring sees it. This node itself may be among them or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who.
    pub node: NodeId,
    /// How it is.
    pub liveness: Liveness,
    /// The lineage that its facts name.
    pub lineage: Option<LineageId>,
    /// The lineages that this lineage took the place of, as its facts say.
    pub replaces: Vec<LineageId>,
    /// The lineages, formed apart, that are to give way to this lineage, as its facts say.
    pub absorbs: Vec<LineageId>,
    /// The leader that its facts name.
    pub leader: Option<NodeId>,
    /// The term of the record that its facts tell of.
    pub term: Term,
    /// What it says it last heard of this node's own ledger, if it says so.
    pub heard_of_me: Option<Heard>,
}

/// How the ring sees a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Answers.
    Alive,
    /// Did not answer lately.
    Suspect,
    /// Said goodbye and will be back.
    Restarting,
    /// Gone.
    Dead,
    /// Is here, and asked to be removed from the voters: is not made one.
    Leaving,
    /// Left the ring or the group, or was forgotten.
    Left,
}
