//! What the ledgers of one group say to each other.
//!
//! Invariant: a message carries what its sender holds durably, so a receiver never counts on
//! something that a crash could take back; and it names the sender's lineage and ledger file, so
//! that a word from another history or of a lost file is recognized as such.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use baton_types::limits::RECORD_MAX_BYTES;
use baton_types::{FileId, LineageId, NodeId, Term};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::reform::{Holding, Reform};

/// The content of a record: at most [`RECORD_MAX_BYTES`] opaque bytes, shared and not copied.
#[derive(Clone, PartialEq, Eq)]
pub struct StateBytes(Arc<[u8]>);

/// The content of a record is larger than a record may be. No state changed; its maker is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ledger record's content has {found} bytes: at most {RECORD_MAX_BYTES} are allowed")]
pub struct StateTooLarge {
    /// Its size in bytes.
    pub found: usize,
}

impl StateBytes {
    /// Takes `bytes` over.
    ///
    /// # Errors
    ///
    /// More than [`RECORD_MAX_BYTES`].
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, StateTooLarge> {
        let bytes = bytes.into();
        match bytes.len() {
            found if found > RECORD_MAX_BYTES => Err(StateTooLarge { found }),
            _ => Ok(Self(bytes)),
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Default for StateBytes {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl fmt::Debug for StateBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for StateBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for StateBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(StateVisitor)
    }
}

struct StateVisitor;

impl serde::de::Visitor<'_> for StateVisitor {
    type Value = StateBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {RECORD_MAX_BYTES} bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<StateBytes, E> {
        StateBytes::new(bytes).map_err(E::custom)
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<StateBytes, E> {
        StateBytes::new(bytes).map_err(E::custom)
    }
}

/// Who votes: a node with a certain ledger file. The same node with another file is not this voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Voter {
    /// The node.
    pub node: NodeId,
    /// The file in which it keeps its votes and records.
    pub file: FileId,
}

/// The place of a record in its lineage. Records are ordered by term, then version.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Mark {
    /// The term of the leader that wrote it.
    pub term: Term,
    /// Rises with every record; 0 = no record.
    pub version: u64,
}

/// The one record of a group's ledger; each replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which history it belongs to.
    pub lineage: LineageId,
    /// The term of the leader that wrote it.
    pub term: Term,
    /// Rises with every record, from 1.
    pub version: u64,
    /// Who votes from this record on, committed or not; in the order of node ids.
    pub voters: Vec<Voter>,
    /// The lineage that this one gives way to, for good: nothing is decided in it any more.
    pub absorbed_by: Option<LineageId>,
    /// Lineages of the same group, formed apart, that are to give way to this one.
    pub absorbs: Vec<LineageId>,
    /// The lineages that this one took the place of: it was formed anew from one of them.
    pub replaces: Vec<LineageId>,
    /// The content, which the ledger does not read.
    pub state: StateBytes,
}

impl Record {
    /// Its place in its lineage.
    pub const fn mark(&self) -> Mark {
        Mark { term: self.term, version: self.version }
    }
}

/// A proposed formation: durable at its proposer before it is sent, and never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The lineage that is to be.
    pub lineage: LineageId,
    /// Who proposes; one of the voters.
    pub proposer: Voter,
    /// Who votes at first, with the files that they have: all of them must accept. In the order of
    /// node ids.
    pub voters: Vec<Voter>,
    /// What it goes on from; `None`: it is a group's first.
    pub reform: Option<Reform>,
}

/// How far a node was when it was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The ledger file that it had.
    pub file: FileId,
    /// Its term.
    pub term: Term,
    /// Its newest record.
    pub held: Mark,
}

/// One message between two ledgers of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerMessage {
    /// The sender's lineage; `None` while it has none.
    pub lineage: Option<LineageId>,
    /// The sender's ledger file.
    pub file: FileId,
    /// The sender's term.
    pub term: Term,
    /// The newest record that the sender holds durably.
    pub held: Mark,
    /// What it says.
    pub body: LedgerBody,
}

/// What a ledger says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerBody {
    /// Form this lineage.
    Propose(Proposal),
    /// The sender accepted that lineage, durably.
    Accept {
        /// The proposed lineage.
        lineage: LineageId,
    },
    /// The sender has refused that lineage, durably, or has another one.
    Refuse {
        /// What is refused.
        lineage: LineageId,
        /// The sender's own one.
        own: Option<LineageId>,
        /// Whether the own one is known to have a committed record.
        formed: bool,
        /// Whether the refusal is durable and the sender held no record of what it refuses.
        durable: bool,
    },
    /// The sender has just started from its file: what was last heard of it?
    Recall,
    /// The answer.
    Recalled {
        /// `None`: nothing.
        heard: Option<Heard>,
    },
    /// Your file is older than what the sender heard from you.
    Stale {
        /// What it heard.
        heard: Heard,
    },
    /// Would you vote for the sender in the term after its own?
    PreVote {
        /// Random; the answer repeats it.
        probe: u64,
    },
    /// The answer.
    PreVoteAnswer {
        /// Of the question.
        probe: u64,
        /// Yes.
        granted: bool,
    },
    /// Vote for the sender in its term.
    Vote {
        /// The addressee's file, as the sender's record lists it.
        voter: FileId,
        /// Random; the answer repeats it.
        probe: u64,
    },
    /// The answer; a yes is durable.
    VoteAnswer {
        /// Of the question.
        probe: u64,
        /// Yes.
        granted: bool,
    },
    /// The leader of the term speaks: a heartbeat, with the record for those that lack it.
    Append {
        /// The addressee's file, as the leader's record lists it.
        voter: FileId,
        /// Rises within the term; the answer repeats it.
        sequence: u64,
        /// When the next one is due at the latest.
        next: Duration,
        /// The leader's newest record.
        newest: Mark,
        /// How far records are committed, if the leader has committed one in its term.
        committed: Option<Mark>,
        /// The newest record.
        record: Option<Record>,
    },
    /// The answer; what the sender holds is in the message's `held`.
    AppendAnswer {
        /// Of the newest one heard.
        sequence: u64,
    },
    /// The sender is no voter with the file it has: let it in (again).
    Introduce,
    /// Answers `Introduce` and a vote asked by one that is no voter.
    Pointer {
        /// The leader, as far as the sender knows.
        leader: Option<NodeId>,
    },
    /// The group is to be formed, at first or anew: with which file would you vote, and what do
    /// you hold?
    Survey {
        /// Random; the answer repeats it.
        probe: u64,
    },
    /// The answer.
    Surveyed {
        /// Of the question.
        probe: u64,
        /// The leader that the sender hears.
        leader: Option<NodeId>,
        /// What it holds, if it holds anything.
        holding: Option<Holding>,
        /// The highest version that it knows of.
        version: u64,
        /// Further lineages in which it was or is about to be.
        others: Vec<LineageId>,
    },
    /// The lineage in which the addressee lives was replaced, for good.
    Replaced {
        /// Which.
        lineage: LineageId,
        /// By which.
        by: LineageId,
    },
}

/// Most voters that a record or a proposal may list; far above any sensible `voter_limit`, and
/// small enough that a forged list costs nothing.
pub const VOTERS_MAX: usize = 32;

/// Most lineages that one may take the place of: the last ones. Each takes an operator who lost a
/// majority; a voter that slept through more of them is cut off by its old term.
pub const REPLACED_MAX: usize = 16;

impl LedgerMessage {
    /// Whether everything in it is within the limits that honest senders keep; what is not, is
    /// dropped whole.
    pub fn is_sane(&self) -> bool {
        let mark = |mark: &Mark| number(mark.term.0) && number(mark.version);
        number(self.term.0)
            && mark(&self.held)
            && match &self.body {
                LedgerBody::Propose(proposal) => proposal.is_sane(),
                LedgerBody::Append { sequence, next, newest, committed, record, .. } => {
                    number(*sequence)
                        && *next <= INTERVAL_MAX
                        && mark(newest)
                        && committed.as_ref().is_none_or(|committed| {
                            mark(committed) && committed <= newest && committed.version > 0
                        })
                        && newest.term <= self.term
                        && record.as_ref().is_none_or(|record| {
                            record.is_sane()
                                && record.mark() == *newest
                                && Some(record.lineage) == self.lineage
                        })
                }
                LedgerBody::Recalled { heard: Some(heard) } | LedgerBody::Stale { heard } => {
                    number(heard.term.0) && mark(&heard.held)
                }
                LedgerBody::Surveyed { holding, version, others, .. } => {
                    number(*version)
                        && others.len() <= 2 * REPLACED_MAX
                        && holding.as_ref().is_none_or(Holding::is_sane)
                }
                _ => true,
            }
    }
}

impl Record {
    /// Whether its numbers and lists are within the limits.
    pub fn is_sane(&self) -> bool {
        number(self.term.0)
            && number(self.version)
            && self.version > 0
            && self.term.0 > 0
            && !self.voters.is_empty()
            && self.voters.len() <= VOTERS_MAX
            && self.voters.is_sorted_by(|a, b| a.node < b.node)
            && self.replaces.len() <= REPLACED_MAX
            && self.absorbs.len() <= REPLACED_MAX
    }
}

impl Proposal {
    /// What it lists for that node.
    pub fn voter(&self, node: NodeId) -> Option<Voter> {
        self.voters.iter().find(|voter| voter.node == node).copied()
    }

    /// Whether its lists are within the limits and its proposer is one of its voters.
    pub fn is_sane(&self) -> bool {
        !self.voters.is_empty()
            && self.voters.len() <= VOTERS_MAX
            && self.voters.is_sorted_by(|a, b| a.node < b.node)
            && self.voters.contains(&self.proposer)
            && self.reform.as_ref().is_none_or(Reform::is_sane)
    }
}

/// Terms and versions from outside: so far from the end of the numbers that adding to them never
/// overflows; no honest group gets there in a million years.
pub(crate) const fn number(value: u64) -> bool {
    value <= NUMBER_MAX
}

const NUMBER_MAX: u64 = u64::MAX >> 8;

/// The longest silence that a leader may announce.
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    fn record(voters: usize) -> Record {
        let voters = (0..voters as u128)
            .map(|n| Voter { node: NodeId::from_random(n), file: FileId::from_random(n) })
            .collect();
        Record {
            lineage: LineageId { members: 1, random: [7; 16] },
            term: Term(1),
            version: 1,
            voters,
            absorbed_by: None,
            absorbs: Vec::new(),
            replaces: Vec::new(),
            state: StateBytes::new(vec![1, 2, 3]).expect("small"),
        }
    }

    fn append(record: Record) -> LedgerMessage {
        LedgerMessage {
            lineage: Some(record.lineage),
            file: FileId::from_random(1),
            term: record.term,
            held: record.mark(),
            body: LedgerBody::Append {
                voter: FileId::from_random(1),
                sequence: 1,
                next: Duration::from_millis(150),
                newest: record.mark(),
                committed: None,
                record: Some(record),
            },
        }
    }

    #[test]
    fn reads_back_and_is_sane() {
        let message = append(record(3));
        assert!(message.is_sane());
        assert_eq!(
            decode::<LedgerMessage>(&encode(&message).expect("encodes")).ok(),
            Some(message)
        );
    }

    #[test]
    fn a_heartbeat_is_small() {
        let mut message = append(record(7));
        if let LedgerBody::Append { record, .. } = &mut message.body {
            *record = None;
        }
        assert!(crate::codec::encoded_len(&message) < 128);
    }

    #[test]
    fn content_over_the_limit_is_refused_when_made_and_when_read() {
        assert!(StateBytes::new(vec![0; RECORD_MAX_BYTES]).is_ok());
        let found = RECORD_MAX_BYTES + 1;
        assert_eq!(StateBytes::new(vec![0; found]), Err(StateTooLarge { found }));
        let forged = encode(&vec![0u8; found]).expect("encodes");
        assert!(decode::<StateBytes>(&forged).is_err());
    }

    #[test]
    fn numbers_at_the_end_and_huge_lists_are_not_sane() {
        let check = |change: &dyn Fn(&mut Record)| {
            let mut changed = record(3);
            change(&mut changed);
            assert!(!append(changed.clone()).is_sane(), "{changed:?}");
        };
        check(&|record| record.term = Term(u64::MAX));
        check(&|record| record.version = u64::MAX);
        check(&|record| record.version = 0);
        check(&|record| record.voters.clear());
        check(&|record| record.voters.reverse());
        check(&|r| r.voters = record(VOTERS_MAX + 1).voters);
        let mut message = append(record(1));
        message.term = Term(u64::MAX);
        assert!(!message.is_sane());
    }
}
