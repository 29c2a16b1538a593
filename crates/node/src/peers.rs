//! What peers speak, and so in which version something is said to them.
//!
//! Invariant: what is said to a peer is in a version that it speaks, as far as its record and its
//! last envelope tell. One of the two may be of an earlier start of it, so what both allow counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use baton_types::limits::RING_MAX_MEMBERS;
use baton_types::{Moment, NodeId};
use baton_wire::{Envelope, Head, Message, Versions};

use crate::effect::{Effect, Level, Line};
use crate::notice::Notice;
use crate::shared::Shared;

/// The ranges of peers, by their address.
#[derive(Debug)]
pub(crate) struct Peers {
    ours: Versions,
    known: BTreeMap<SocketAddr, Known>,
    /// Nodes with which nothing is shared, and when the journal last named them.
    named: BTreeMap<NodeId, Moment>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// By the record of a member with this address.
    recorded: Option<Versions>,
    /// By the last envelope from there.
    heard: Option<Versions>,
}

impl Peers {
    pub(crate) fn new(ours: Versions) -> Self {
        Self { ours, known: BTreeMap::new(), named: BTreeMap::new() }
    }

    /// What this node speaks.
    pub(crate) fn ours(&self) -> Versions {
        self.ours
    }

    /// A member's record says so.
    pub(crate) fn recorded(&mut self, addr: SocketAddr, versions: Versions) {
        self.known(addr).recorded = Some(versions);
    }

    /// An envelope from `from` says so, whose sender the ring knows to be reached at `reached`.
    fn heard(&mut self, from: SocketAddr, reached: Option<SocketAddr>, versions: Versions) {
        // The other end of a stream is at no address at which its node can be reached; but where
        // another node was reached before, it may be this one now.
        let is_reached_there = reached.is_none_or(|reached| reached == from);
        if is_reached_there || self.known.contains_key(&from) {
            self.known(from).heard = Some(versions);
        }
        // What came from elsewhere proves nothing of who is there now: another node may have come
        // back under that address, before its owner's new one is known. So it only lowers.
        if let Some(known) = reached.and_then(|reached| self.known.get_mut(&reached))
            && known.heard.is_some_and(|heard| versions.newest() < heard.newest())
        {
            known.heard = Some(versions);
        }
    }

    fn known(&mut self, addr: SocketAddr) -> &mut Known {
        // Addresses that nobody has any more: what is still true is heard again.
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&addr) {
            self.known.clear();
        }
        self.known.entry(addr).or_default()
    }

    /// In which version something is said to whoever is there. Before the first word from there it is
    /// the lowest that both speak: the record may be of an earlier start, and one that cannot read what
    /// a stranger says to it by stream, or from a new address, has no way to say so.
    pub(crate) fn version_for(&self, addr: SocketAddr) -> u8 {
        let Known { recorded, heard } = self.known.get(&addr).copied().unwrap_or_default();
        let by_record = recorded.and_then(|recorded| self.ours.overlap(recorded));
        let Some(heard) = heard else {
            return by_record.unwrap_or(self.ours).oldest();
        };
        let both = by_record.and_then(|both| both.overlap(heard));
        let all = both.or_else(|| self.ours.overlap(heard));
        all.map_or(self.ours.oldest(), Versions::newest)
    }

    /// Whether the journal is to name this node now.
    fn is_to_be_named(&mut self, now: Moment, node: NodeId) -> bool {
        self.named.retain(|_, at| now.since(*at) < NAMED_AGAIN);
        if self.named.contains_key(&node) || self.named.len() >= NAMED_MAX {
            return false;
        }
        self.named.insert(node, now);
        true
    }
}

impl Shared {
    /// Notes what the sender of an envelope speaks, and gives the messages: none of a version that
    /// this node does not.
    pub(crate) fn open(&mut self, from: SocketAddr, envelope: Envelope) -> (Head, Vec<Message>) {
        let Envelope { head, messages } = envelope;
        if head.sender == self.me {
            return (head, messages);
        }
        let reached = self.ring.addr_of(head.sender);
        self.peers.heard(from, reached, head.versions);
        let addr = reached.unwrap_or(from);
        let ours = self.peers.ours();
        if ours.speaks(head.version) {
            return (head, messages);
        }
        match ours.overlap(head.versions) {
            // It had an earlier start of this node in mind: the head of an answer says so.
            Some(_) => self.send_to(addr, Vec::new(), false),
            None if self.peers.is_to_be_named(self.moment, head.sender) => {
                let name = self.name_of(head.sender);
                let text = format!(
                    "{name} at {addr} speaks {}: neither understands the other until the older of \
                     the two runs a build in between",
                    apart(head.versions, ours)
                );
                let mut line = Line::new(Notice::WireTooFarApart, Level::Error, text);
                line.member = Some(baton_types::Text::new(&name));
                self.log(line);
            }
            None => {}
        }
        (head, Vec::new())
    }

    /// Sends messages in one envelope.
    pub(crate) fn send_to(&mut self, to: SocketAddr, messages: Vec<Message>, stream: bool) {
        let version = self.peers.version_for(to);
        self.effects.push(Effect::Send { to, version, messages, stream });
    }
}

/// Two ranges that do not overlap, in words.
pub(crate) fn apart(theirs: Versions, ours: Versions) -> String {
    format!("version {theirs} of the wire, this node {ours}")
}

/// Addresses of a ring of the largest size, and as many that its members had before.
const KNOWN_MAX: usize = 2 * RING_MAX_MEMBERS;

/// How often the journal names one node.
const NAMED_AGAIN: Duration = Duration::from_secs(600);

/// Nodes that it names in that time: the rest of a fleet is known by then.
const NAMED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn range(oldest: u8, newest: u8) -> Versions {
        Versions::new(oldest, newest).expect("a range")
    }

    #[test]
    fn record_and_word_count_both_and_the_word_where_they_exclude_each_other() {
        let addr = SocketAddr::from(([10, 0, 0, 1], 7117));
        for (what, recorded, heard, version) in [
            ("a stranger", None, None, 2),
            ("by its record, which may be of an earlier start", Some((2, 3)), None, 2),
            ("by its record, which rose above ours", Some((3, 5)), None, 3),
            ("by its word", None, Some((2, 3)), 3),
            ("it went back", Some((3, 4)), Some((1, 3)), 3),
            ("it was upgraded", Some((1, 2)), Some((2, 3)), 2),
            ("its record is older than both", Some((1, 1)), Some((3, 5)), 4),
            ("nothing in common", Some((5, 6)), Some((5, 6)), 2),
        ] {
            let mut peers = Peers::new(range(2, 4));
            if let Some((oldest, newest)) = recorded {
                peers.recorded(addr, range(oldest, newest));
            }
            if let Some((oldest, newest)) = heard {
                peers.heard(addr, Some(addr), range(oldest, newest));
            }
            assert_eq!(peers.version_for(addr), version, "{what}");
        }
    }

    #[test]
    fn a_word_from_elsewhere_only_lowers() {
        let at = |last| SocketAddr::from(([10, 0, 0, last], 7117));
        let (old, new, port) = (at(1), at(2), SocketAddr::from(([10, 0, 0, 1], 40_000)));
        let mut peers = Peers::new(range(1, 2));
        // Another node came back under the address at which the ring still has the sender.
        peers.heard(old, None, range(1, 1));
        peers.heard(new, Some(old), range(1, 2));
        assert_eq!(peers.version_for(old), 1, "who is there now is another one");
        peers.heard(old, Some(old), range(1, 2));
        assert_eq!(peers.version_for(old), 2, "it says so itself");
        peers.heard(port, Some(old), range(1, 1));
        assert_eq!(peers.version_for(old), 1, "it went back, and said so by stream");
        assert!(!peers.known.contains_key(&port), "nobody is reached at the end of a stream");
    }

    #[test]
    fn addresses_without_end_are_forgotten_and_not_everybody_is_named() {
        let mut peers = Peers::new(Versions::OURS);
        for at in 0..=KNOWN_MAX as u32 {
            let [_, b, c, d] = at.to_be_bytes();
            peers.heard(SocketAddr::from(([10, b, c, d], 7117)), None, Versions::OURS);
            assert!(peers.known.len() <= KNOWN_MAX);
        }
        let mut named = |node: u128, second: u64| {
            peers.is_to_be_named(Moment::from_millis(second * 1_000), NodeId::from_random(node))
        };
        assert!(named(1, 0) && !named(1, 599) && named(1, 600));
        assert_eq!((2..100).filter(|node| named(*node, 600)).count(), NAMED_MAX - 1);
    }
}
