//! What the members of a ring say to each other.
//!
//! Invariant: every message can be lost, repeated or arrive late without harm. Records carry the
//! numbers (incarnation, fact version) by which a receiver orders them; nothing depends on the
//! order in which they arrive.

use std::net::SocketAddr;

use baton_types::{BootNonce, FactKey, Incarnation, NodeId, NodeName, Text};
use serde::{Deserialize, Serialize};

use crate::Versions;

/// One message of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RingMessage {
    /// Are you there? Answered with `Ack` by `target` and by nobody else, so that another node on
    /// a recycled address does not answer for it.
    Ping {
        /// Matches the answer; counts up at the sender.
        number: u64,
        /// Who is meant.
        target: NodeId,
        /// The sender's digest over everything it knows.
        digest: u64,
        /// The way the answer has to take.
        way: Way,
    },
    /// The answer to `Ping`.
    Ack {
        /// The ping's number.
        number: u64,
        /// The answering node's digest over everything it knows.
        digest: u64,
    },
    /// Please ping `target` for me; answered with `IndirectAck` or `Nack`.
    PingRequest {
        /// Matches the answer.
        number: u64,
        /// Who does not answer the sender.
        target: NodeId,
    },
    /// The target of a `PingRequest` has answered the relay.
    IndirectAck {
        /// The request's number.
        number: u64,
    },
    /// The target of a `PingRequest` has not answered the relay either; it shows that the relay
    /// itself is well.
    Nack {
        /// The request's number.
        number: u64,
    },
    /// A rumour about a member.
    Member(MemberRecord),
    /// A rumour about a fact.
    Fact(FactRecord),
    /// A rumour about a forgotten member.
    Forget(ForgetRecord),
    /// The sender wants to know everything; answered with `State` to the record's address.
    Join(MemberRecord),
    /// One part of everything that the sender knows. A large state travels in several parts.
    State {
        /// Members, the sender itself among those of the first part.
        members: Vec<MemberRecord>,
        /// Forgotten members.
        forgotten: Vec<ForgetRecord>,
        /// Facts of all members.
        facts: Vec<FactRecord>,
        /// The receiver shall answer with its own state. Set in the last part only.
        reply: bool,
    },
}

/// The way on which a ping travels and its answer has to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// A datagram, answered to where it came from.
    Datagram,
    /// A stream frame, answered by a stream to the advertised address.
    Stream,
}

/// How the ring sees a member. At one incarnation, a later variant overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// Takes part.
    Alive,
    /// Did not answer; it has time to refute that.
    Suspect,
    /// Said that its daemon restarts; no failure within the grace.
    Restarting,
    /// Failed, as far as the ring can tell.
    Dead,
    /// Said that it will not come back.
    Left,
}

impl MemberState {
    /// Whether messages to such a member make sense: alive or suspect.
    pub const fn is_reachable(self) -> bool {
        matches!(self, Self::Alive | Self::Suspect)
    }

    /// The word for people and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Restarting => "restarting",
            Self::Dead => "dead",
            Self::Left => "left",
        }
    }
}

impl std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What one node knows about one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Identity.
    pub node: NodeId,
    /// Its name; two members may bear the same one.
    pub name: NodeName,
    /// Where it receives datagrams and streams.
    pub addr: SocketAddr,
    /// The start of its daemon that this record is about.
    pub boot: BootNonce,
    /// The program's version.
    pub version: Text,
    /// Orders the records of one member: the highest wins.
    pub incarnation: Incarnation,
    /// At one incarnation, the later state wins.
    pub state: MemberState,
    /// Who has failed to reach it; only for `Suspect`, at most [`ACCUSERS_MAX`].
    pub accusers: Vec<NodeId>,
    /// For how many seconds it has been in this state, as far as the sender knows. Durations can
    /// be compared between nodes, moments cannot.
    pub age_secs: u32,
    /// What it speaks.
    pub versions: Versions,
    /// What builds newer than this one say of themselves; kept and passed on. At most
    /// [`MORE_MAX_BYTES`].
    pub more: Vec<u8>,
}

/// One fact of one node. Only the owner raises the version; the highest wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRecord {
    /// The owner.
    pub node: NodeId,
    /// What it is about.
    pub key: FactKey,
    /// Orders the values of one fact.
    pub version: u64,
    /// The value, whatever it means; `None` once it was removed.
    pub value: Option<Vec<u8>>,
}

/// A member that an operator had forgotten. It overrides every record of the member up to and
/// including this incarnation, so that a late rumour cannot bring it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetRecord {
    /// Who is forgotten.
    pub node: NodeId,
    /// Up to where.
    pub incarnation: Incarnation,
    /// How many seconds ago, as far as the sender knows.
    pub age_secs: u32,
}

/// Accusers that a suspicion names: the first one and the three confirmations after which the
/// suspicion does not get any shorter.
pub const ACCUSERS_MAX: usize = 4;

/// Room in a member's record for newer builds: a record must fit a datagram.
pub const MORE_MAX_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn golden_bytes_of_the_first_format() {
        let node = NodeId::from_random(0);
        let record = MemberRecord {
            node,
            name: NodeName::new("n1").expect("a name"),
            addr: "10.0.0.1:7117".parse().expect("an address"),
            boot: BootNonce::from_random(1),
            version: Text::new("0.1.0"),
            incarnation: Incarnation(3),
            state: MemberState::Suspect,
            accusers: vec![],
            age_secs: 2,
            versions: Versions::new(1, 2).expect("a range"),
            more: vec![9],
        };
        let mut wanted = vec![5];
        wanted.extend_from_slice(node.as_bytes());
        wanted.extend_from_slice(&[2, b'n', b'1', 0, 10, 0, 0, 1, 251, 0xcd, 0x1b]);
        wanted.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        wanted.extend_from_slice(&[5, b'0', b'.', b'1', b'.', b'0', 3, 1, 0, 2, 1, 2, 1, 9]);
        let message = RingMessage::Member(record);
        let bytes = codec::encode(&message).expect("encodes");
        assert_eq!(bytes, wanted);
        assert_eq!(codec::decode::<RingMessage>(&bytes).expect("decodes"), message);
    }

    #[test]
    fn unknown_states_and_names_with_control_characters_do_not_decode() {
        assert!(codec::decode::<MemberState>(&[4]).is_ok());
        assert!(codec::decode::<MemberState>(&[5]).is_err());
        assert!(codec::decode::<NodeName>(&[2, b'n', b'\n']).is_err());
        assert!(codec::decode::<FactKey>(&[1, 0]).is_err());
    }
}
