//! What travels between nodes: messages, their encoding, and the sealed datagrams and frames that
//! carry them.
//!
//! Invariant: nothing of an outside byte is believed before it is bounded, decrypted and decoded;
//! a failure is an error value that names what was wrong, never a panic and never a partial
//! message.

pub mod ask;
pub mod codec;
pub mod ledger;
pub mod limits;
mod reform;
pub mod replay;
pub mod ring;
pub mod seal;
pub mod turn;

use baton_types::{BootNonce, GroupName, NodeId};
use serde::{Deserialize, Serialize};

pub use ask::{Answer, Ask, Question};
pub use ledger::{
    Heard, LedgerBody, LedgerMessage, Mark, Proposal, Record, StateBytes, StateTooLarge, Voter,
};
pub use ring::RingMessage;
pub use turn::{Manner, Terms, TurnId, TurnMessage, TurnOutcome, TurnStep};

/// What one datagram or one stream frame carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Who sends it; authenticated together with the content.
    pub sender: NodeId,
    /// The sender's start, so that an answer to an earlier life is recognized.
    pub boot: BootNonce,
    /// Rises with every datagram of that start, for the replay window; 0 on a stream.
    pub counter: u64,
    /// In order; a receiver handles them one after the other.
    pub messages: Vec<Message>,
}

/// One message of any protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Membership and facts.
    Ring(RingMessage),
    /// A group's election and register.
    Ledger(GroupName, LedgerMessage),
    /// Between a group's leader and one of its members.
    Turn(GroupName, TurnMessage),
    /// A command or a reading question for a group's leader.
    Ask(Ask),
    /// What came of it.
    Answer(Answer),
    /// A message of another node, for a third one that its author cannot reach.
    Relayed(Relayed),
}

/// A message on its way through somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    /// Its author.
    pub from: NodeId,
    /// Whom it is for.
    pub to: NodeId,
    /// Neither of the ring nor relayed itself.
    pub message: Box<Message>,
}
