//! What goes into a ring at its start and what comes out of it.

use std::net::SocketAddr;

use baton_types::limits::{FACT_MAX_BYTES, NODE_MAX_FACTS};
use baton_types::{BootNonce, FactKey, NodeId, NodeName, Text};
use baton_wire::ring::{ForgetRecord, MemberRecord, MemberState};
use baton_wire::{RingMessage, Versions};
use serde::{Deserialize, Serialize};

/// This node, as it presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Identity, kept in the data directory.
    pub node: NodeId,
    /// Name.
    pub name: NodeName,
    /// The address that others shall use.
    pub addr: SocketAddr,
    /// This start of the daemon.
    pub boot: BootNonce,
    /// The program's version.
    pub version: Text,
    /// What it speaks.
    pub versions: Versions,
}

/// What a ring keeps on disk. The default is that of a new node; losing it costs one refutation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRing {
    /// No incarnation above it has ever left this node; the next start begins above it.
    pub incarnation_ceiling: u64,
    /// The members last known, without this node.
    pub members: Vec<MemberRecord>,
    /// The forgotten members, so that this node does not bring them back.
    pub forgotten: Vec<ForgetRecord>,
}

/// What the ring wants done, to be carried out in order: what a `Save` holds is durable before
/// the `Send`s after it leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingOutput {
    /// Send these messages in one envelope.
    Send {
        /// Where to.
        to: SocketAddr,
        /// In order; as a datagram they fit `max_packet`.
        messages: Vec<RingMessage>,
        /// By stream frame instead of datagram.
        stream: bool,
    },
    /// A member appeared (`old` is `None`), changed its state, went (`new` is `None`), or kept its
    /// state and changed its address, name, version or boot (`old` equals `new`).
    MemberChanged {
        /// Who.
        node: NodeId,
        /// State before.
        old: Option<MemberState>,
        /// State now.
        new: Option<MemberState>,
    },
    /// Another node's fact appeared, changed or went; read it with `Ring::fact`.
    FactChanged {
        /// The owner.
        node: NodeId,
        /// Which.
        key: FactKey,
    },
    /// Keep this on disk, in place of what was kept before.
    Save(SavedRing),
    /// `Ring::leave` is done: peers know, or were told as often as makes sense.
    Left,
    /// One line for the operator.
    Warning(String),
}

/// Why a fact was not set. Nothing changed; the caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// The value is too large for gossip.
    #[error("the fact {key} has {found} bytes: at most {FACT_MAX_BYTES} are allowed")]
    TooLarge {
        /// Which.
        key: FactKey,
        /// Its size in bytes.
        found: usize,
    },
    /// Too many facts.
    #[error("the fact {0} is one too many: a node may own {NODE_MAX_FACTS}")]
    TooMany(FactKey),
}

/// Why a member was not forgotten. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// This node itself.
    #[error("a node cannot forget itself: leave the ring instead")]
    Myself,
    /// No such member.
    #[error("no member has the id {0}")]
    Unknown(NodeId),
    /// It takes part.
    #[error("{name} is {state}: only a dead member or one that left can be forgotten")]
    NotGone {
        /// Its name.
        name: NodeName,
        /// Its state.
        state: MemberState,
    },
}

/// Input that was refused, counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Messages under this node's own id and boot: echoes.
    pub echoes: u64,
    /// Messages under this node's own id and another boot: a copy of this node's data directory.
    pub clones: u64,
    /// Records with a number, address or size that cannot be.
    pub refused_records: u64,
    /// Records of new members above the limit of the ring.
    pub refused_members: u64,
    /// Facts above the limit of their owner or of the ring.
    pub refused_facts: u64,
    /// Requests above the limits on what this node does for others.
    pub refused_requests: u64,
    /// Times that this node was far behind its own timers and held back its accusations.
    pub late_ticks: u64,
    /// Full-state exchanges that this node began because digests stayed different.
    pub repairs: u64,
}
