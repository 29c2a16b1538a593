//! What travels between nodes: messages, their encoding, and the sealed datagrams and frames that
//! carry them.
//!
//! Invariant: nothing of an outside byte is believed before it is bounded, decrypted and decoded;
//! a failure is an error value that names what was wrong, never a panic and never a partial
//! message.

pub mod ask;
pub mod codec;
pub mod envelope;
#[cfg(test)]
mod golden;
pub mod ledger;
pub mod limits;
mod reform;
pub mod replay;
pub mod ring;
pub mod seal;
pub mod turn;
mod versions;

use baton_types::{GroupName, NodeId};
use serde::{Deserialize, Serialize};

pub use ask::{Answer, Ask, Question};
pub use envelope::{Envelope, Head};
pub use ledger::{
    Heard, LedgerBody, LedgerMessage, Mark, Proposal, Record, StateBytes, StateTooLarge, Voter,
};
pub use ring::RingMessage;
pub use turn::{Manner, Terms, TurnId, TurnMessage, TurnOutcome, TurnStep};
pub use versions::{NoRange, Versions};

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

/// A message on its way through somebody else, who need not be able to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    /// Its author.
    pub from: NodeId,
    /// Whom it is for.
    pub to: NodeId,
    /// What it is in: its author knows what the other one speaks.
    pub version: u8,
    /// A [`Message`], neither of the ring nor relayed itself.
    pub message: Vec<u8>,
}

impl Relayed {
    /// Wraps `message` for `to`; `None` for one that cannot be encoded. As for an envelope, all
    /// versions have one layout so far.
    pub fn new(from: NodeId, to: NodeId, version: u8, message: &Message) -> Option<Self> {
        Some(Self { from, to, version, message: codec::encode(message).ok()? })
    }

    /// The message, if a build that speaks `ours` can read it and it may come this way.
    pub fn open(&self, ours: Versions) -> Option<Message> {
        let message = ours.speaks(self.version).then(|| codec::decode_grown(&self.message));
        message?.ok().filter(|message| !matches!(message, Message::Ring(_) | Message::Relayed(_)))
    }
}
