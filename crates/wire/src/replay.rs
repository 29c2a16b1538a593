//! Replayed datagrams: a window of counters per sender and start of that sender.
//!
//! Invariant: a (sender, boot, counter) is accepted once. It is kept in memory only: after our own
//! restart an old packet can be accepted once more, and the protocols' rising numbers
//! (incarnation, term and version, claim and command ids) make that idle.

use std::collections::BTreeMap;

use baton_types::limits::RING_MAX_MEMBERS;
use baton_types::{BootNonce, NodeId};

/// The windows of all senders.
#[derive(Debug, Default)]
pub struct ReplayWindow {
    senders: BTreeMap<NodeId, Sender>,
}

#[derive(Debug)]
struct Sender {
    boot: BootNonce,
    highest: u64,
    /// Bit k: counter `highest - k` was seen.
    seen: u128,
}

impl ReplayWindow {
    /// Whether this packet is new; remembers it.
    ///
    /// Reordering within the last 128 packets of a sender is fine. A sender beyond
    /// [`RING_MAX_MEMBERS`] is let through unremembered: the ring refuses it by itself.
    pub fn accept(&mut self, sender: NodeId, boot: BootNonce, counter: u64) -> bool {
        let full = self.senders.len() >= RING_MAX_MEMBERS;
        match self.senders.get_mut(&sender) {
            Some(known) if known.boot == boot => known.accept(counter),
            Some(known) => {
                *known = Sender { boot, highest: counter, seen: 1 };
                true
            }
            None if full => true,
            None => {
                self.senders.insert(sender, Sender { boot, highest: counter, seen: 1 });
                true
            }
        }
    }
}

impl Sender {
    fn accept(&mut self, counter: u64) -> bool {
        if counter > self.highest {
            let ahead = counter - self.highest;
            self.seen = if ahead < WINDOW { self.seen << ahead | 1 } else { 1 };
            self.highest = counter;
            return true;
        }
        let behind = self.highest - counter;
        if behind >= WINDOW || self.seen >> behind & 1 == 1 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

/// Packets of one sender that may overtake each other: the bits of `seen`.
const WINDOW: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_once_also_out_of_order() {
        let mut window = ReplayWindow::default();
        let (node, boot) = (NodeId::from_random(1), BootNonce::from_random(1));
        for (counter, want) in [
            (5, true),
            (5, false),
            (7, true),
            (6, true),
            (6, false),
            (1_000, true),
            (1_000 - 127, true),
            (1_000 - 128, false),
            (7, false),
            (u64::MAX, true),
            (u64::MAX, false),
        ] {
            assert_eq!(window.accept(node, boot, counter), want, "{counter}");
        }
        assert!(window.accept(node, BootNonce::from_random(2), 5), "a new start counts anew");
    }
}
