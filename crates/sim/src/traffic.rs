//! What the nodes send each other, counted by what it is for.
//!
//! Invariant: counting changes nothing in a run.

use baton_wire::{Message, RingMessage, Versions, codec};

/// Messages and their bytes as encoded, without seal and headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How many.
    pub messages: u64,
    /// Their size together.
    pub bytes: u64,
}

impl Flow {
    fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += codec::encode(message).map_or(0, |bytes| bytes.len() as u64);
    }

    /// What came on top of `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { messages: self.messages - earlier.messages, bytes: self.bytes - earlier.bytes }
    }
}

/// All that was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Membership and facts.
    pub ring: Flow,
    /// Of that, what voters tell everybody of their ledgers.
    pub ledger_facts: Flow,
    /// Election and register.
    pub ledger: Flow,
    /// Between leader and members, commands, questions and answers.
    pub turns: Flow,
    /// Of the last two, copies on their way through others, because no answer came directly.
    pub copies: Flow,
}

impl Traffic {
    /// Counts what one node sends at once.
    pub(crate) fn add(&mut self, messages: &[Message]) {
        for message in messages {
            let relayed = match message {
                Message::Relayed(relayed) => {
                    self.copies.add(message);
                    relayed.open(Versions::OURS)
                }
                _ => None,
            };
            let message = relayed.as_ref().unwrap_or(message);
            if let Message::Ring(RingMessage::Fact(fact)) = message
                && fact.key.as_str().starts_with("ledger/")
            {
                self.ledger_facts.add(message);
            }
            match message {
                Message::Ring(_) => self.ring.add(message),
                Message::Ledger(..) => self.ledger.add(message),
                _ => self.turns.add(message),
            }
        }
    }
}
