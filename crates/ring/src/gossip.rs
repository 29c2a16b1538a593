//! The queue of rumours that still have to be told.
//!
//! Invariant: a rumour is queued once; what it says is looked up when it is told, so it is always
//! the newest. Each is told a limited number of times, the most urgent and least told first. The
//! queue needs no limit of its own: the tables that it points into have theirs.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{FactKey, NodeId};
use baton_wire::RingMessage;
use baton_wire::codec::encoded_len;
use baton_wire::envelope::framed_len;

/// What a rumour is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rumour {
    Member(NodeId),
    Forget(NodeId),
    Fact(NodeId, FactKey),
}

/// How urgent a rumour is; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// About this node itself: it may be a refutation.
    Myself,
    /// About another member.
    Member,
    /// A fact.
    Fact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    urgency: Urgency,
    told: u32,
    sequence: u64,
}

/// Rumours to tell.
#[derive(Debug, Default)]
pub(crate) struct Gossip {
    ranks: BTreeMap<Rumour, Rank>,
    queue: BTreeSet<(Rank, Rumour)>,
    /// Those that no datagram can carry.
    large: BTreeMap<Rumour, u32>,
    sequence: u64,
}

impl Gossip {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.large.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ranks.clear();
        self.queue.clear();
        self.large.clear();
    }

    /// Queues `rumour` as news.
    pub(crate) fn push(&mut self, rumour: Rumour, urgency: Urgency) {
        self.remove(&rumour);
        self.sequence += 1;
        self.insert(rumour, Rank { urgency, told: 0, sequence: self.sequence });
    }

    /// Takes rumours whose messages fit into `budget` bytes, counts them as told, and drops those
    /// that were told `limit` times or that have nothing to say any more. What is larger than
    /// `whole`, an otherwise empty datagram, is set aside for `take_large`.
    pub(crate) fn take(
        &mut self,
        mut budget: usize,
        whole: usize,
        limit: u32,
        message_of: impl Fn(&Rumour) -> Option<RingMessage>,
    ) -> Vec<RingMessage> {
        let mut messages = Vec::new();
        let mut told = Vec::new();
        let mut gone = Vec::new();
        let mut too_large = Vec::new();
        let mut misses = 0;
        for (rank, rumour) in &self.queue {
            if budget < RUMOUR_MIN_BYTES || misses >= MISSES_MAX {
                break;
            }
            let Some(message) = message_of(rumour) else {
                gone.push(rumour.clone());
                continue;
            };
            let size = message_len(&message);
            if size > whole {
                too_large.push(rumour.clone());
            } else if size > budget {
                misses += 1;
            } else {
                budget -= size;
                messages.push(message);
                told.push((*rank, rumour.clone()));
            }
        }
        for rumour in gone {
            self.remove(&rumour);
        }
        for rumour in too_large {
            self.remove(&rumour);
            self.large.insert(rumour, 0);
        }
        for (rank, rumour) in told {
            self.remove(&rumour);
            if rank.told + 1 < limit {
                self.insert(rumour, Rank { told: rank.told + 1, ..rank });
            }
        }
        messages
    }

    /// The rumours for streams, counted as told to `peers` more members.
    pub(crate) fn take_large(&mut self, peers: u32, limit: u32) -> Vec<Rumour> {
        let rumours = self.large.keys().cloned().collect();
        self.large.retain(|_, told| {
            *told += peers;
            *told < limit
        });
        rumours
    }

    fn insert(&mut self, rumour: Rumour, rank: Rank) {
        self.queue.insert((rank, rumour.clone()));
        self.ranks.insert(rumour, rank);
    }

    fn remove(&mut self, rumour: &Rumour) {
        self.large.remove(rumour);
        if let Some(rank) = self.ranks.remove(rumour) {
            self.queue.remove(&(rank, rumour.clone()));
        }
    }
}

/// Bytes that `message` takes in an envelope: its length, the tag of its protocol and itself.
pub(crate) fn message_len(message: &RingMessage) -> usize {
    framed_len(encoded_len(message).saturating_add(1))
}

/// How often a rumour is told in a ring of `members` reachable ones: SWIM section 4.1, with the
/// factor that keeps the chance that a member misses it small even under loss.
pub(crate) fn tell_limit(members: usize) -> u32 {
    4 * ((members.max(1) + 1) as f64).log10().ceil() as u32
}

/// Below it not even the smallest rumour fits, so looking further is idle.
const RUMOUR_MIN_BYTES: usize = 20;

/// Rumours in a row that may turn out too large for what is left of a datagram before it is sent
/// as it is: bounds the work for one datagram.
const MISSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::Incarnation;
    use baton_wire::ring::ForgetRecord;

    fn rumour(at: u128) -> Rumour {
        Rumour::Forget(NodeId::from_random(at))
    }

    fn message(rumour: &Rumour) -> Option<RingMessage> {
        let Rumour::Forget(node) = rumour else { return None };
        let incarnation = Incarnation(1);
        Some(RingMessage::Forget(ForgetRecord { node: *node, incarnation, age_secs: 0 }))
    }

    #[test]
    fn urgent_first_then_least_told_and_none_beyond_the_limit() {
        let mut gossip = Gossip::default();
        gossip.push(rumour(1), Urgency::Member);
        gossip.push(rumour(2), Urgency::Member);
        gossip.push(rumour(3), Urgency::Myself);
        let size = message_len(&message(&rumour(1)).expect("a message"));
        let mut seen = Vec::new();
        while !gossip.is_empty() {
            let told = gossip.take(size, 1_000, 2, message);
            assert_eq!(told.len(), 1);
            seen.extend(told);
            assert!(seen.len() <= 6, "the limit holds");
        }
        let wanted = [3, 3, 1, 2, 1, 2].map(|at| message(&rumour(at)).expect("a message"));
        assert_eq!(seen, wanted);
    }

    #[test]
    fn what_fits_no_datagram_goes_by_stream() {
        let mut gossip = Gossip::default();
        gossip.push(rumour(1), Urgency::Fact);
        assert!(gossip.take(10_000, 5, 4, message).is_empty());
        assert_eq!(gossip.take_large(3, 4), [rumour(1)]);
        assert!(!gossip.is_empty());
        assert_eq!(gossip.take_large(3, 4), [rumour(1)]);
        assert!(gossip.is_empty());
    }

    #[test]
    fn the_limit_grows_with_the_logarithm() {
        for (members, limit) in [(0, 4), (1, 4), (9, 4), (10, 8), (99, 8), (100, 12), (4_096, 16)] {
            assert_eq!(tell_limit(members), limit, "{members}");
        }
    }
}
