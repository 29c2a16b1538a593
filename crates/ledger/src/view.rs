//! What a ledger shows and what it wants done.

use baton_types::{FileId, LineageId, NodeId, Term};
use baton_wire::ledger::{LedgerMessage, Record, Voter};

use crate::file::LedgerFile;
use crate::reform::NoReform;
use crate::survey::Survey;

/// Something for the caller to do, in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerOutput {
    /// Send this.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: LedgerMessage,
    },
    /// Write this over the ledger's file, durably, then call `persisted` with the token. At most
    /// one is under way.
    Persist {
        /// Rises by one.
        token: u64,
        /// The whole content.
        file: Box<LedgerFile>,
    },
    /// This record is committed. Once for each, in rising order.
    Committed(Record),
    /// This node leads from now on, and has committed the record it found.
    Leading {
        /// In which term.
        term: Term,
    },
    /// This node leads no longer.
    NotLeading,
    /// One line for the journal.
    Note(String),
    /// The same, of something that a person should know of.
    Warning(String),
    /// The answers to `survey` are in, or say why the group cannot be formed anew now.
    Surveyed(Result<Survey, NoReform>),
}

/// How a ledger stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// Its lineage, once accepted or formed.
    pub lineage: Option<LineageId>,
    /// Its ledger file.
    pub file: FileId,
    /// Its term.
    pub term: Term,
    /// What it does.
    pub role: Role,
    /// Whom it follows; itself when it leads.
    pub leader: Option<NodeId>,
    /// The newest record known to be committed.
    pub committed: Option<&'a Record>,
    /// The newest record held, committed or not. Nobody may act on it.
    pub newest: Option<&'a Record>,
    /// Whether a majority of the voters decides and this node is in touch with it. For a node that
    /// is no voter: whether it is told of a leader.
    pub quorum: bool,
    /// Why there is no quorum, in words; empty when there is one.
    pub quorum_reason: String,
    /// The voters of the newest record.
    pub voters: &'a [Voter],
    /// Whether a record of this leader waits for its majority.
    pub in_flight: bool,
    /// Whether `propose` would be taken now.
    pub ready: bool,
    /// Whether this node was a voter, lost its file, and waits to be let in again.
    pub needs_readmission: bool,
    /// Lineages that this node gave up.
    pub given_up: &'a [LineageId],
    /// Whether the last write failed.
    pub degraded: bool,
}

/// What a ledger does. Derived at every event, never kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// No lineage yet.
    Forming,
    /// No voter of its group.
    Spare,
    /// A voter that follows, or waits for a leader.
    Follower,
    /// Stands for election.
    Candidate,
    /// Leads its term.
    Leader,
}

/// Why a record cannot be proposed. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// Another node leads, or none.
    #[error("this node does not lead the group's ledger")]
    NotLeader,
    /// It leads, but has not yet committed the record that it found.
    #[error("the new leader has not yet committed the record that it found")]
    NotReady,
    /// One record at a time.
    #[error("a record is in flight")]
    InFlight,
    /// The node is no voter.
    #[error("the node is no voter")]
    NoVoter,
    /// The node is a voter already, or the voters are as many as allowed.
    #[error("the node is a voter already, or the voters are as many as allowed")]
    NoPlace,
    /// Of two lineages that met, this one stays.
    #[error("of two lineages that met, this one stays")]
    Stays,
    /// The last voter stays.
    #[error("the last voter cannot be removed")]
    LastVoter,
    /// The node leads: it stops doing so, and the next leader can remove it.
    #[error("the node leads: it hands over, and the next leader can remove it")]
    HandsOver,
    /// Without the node, the voters that answer are no majority of those that are left.
    #[error("the voters that answer are no majority of those that would be left")]
    TooFewLeft,
}
