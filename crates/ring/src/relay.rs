//! Probes on behalf of others.
//!
//! Invariant: a relay asks only members that it knows, at the address that it knows, and only so
//! many at a time: it cannot be made to flood anybody.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::ring::Way;

use crate::ring::Ring;

/// The pings under way, by their own number.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    pings: BTreeMap<u64, Relayed>,
}

#[derive(Debug)]
struct Relayed {
    target: NodeId,
    answer_to: SocketAddr,
    their_number: u64,
    ends: Moment,
}

impl Relays {
    pub(crate) fn next_at(&self) -> Option<Moment> {
        self.pings.values().map(|ping| ping.ends).min()
    }

    pub(crate) fn clear(&mut self) {
        self.pings.clear();
    }
}

impl Ring {
    pub(crate) fn relay_ping(
        &mut self,
        now: Moment,
        from: SocketAddr,
        target: NodeId,
        their_number: u64,
    ) {
        if target == self.me.node {
            let answer = RingMessage::IndirectAck { number: their_number };
            self.send_datagram(now, from, None, Some(answer));
            return;
        }
        if self.members.get(target).is_none() || self.relays.pings.len() >= RELAYED_MAX {
            self.counters.refused_requests += 1;
            let answer = RingMessage::Nack { number: their_number };
            self.send_datagram(now, from, None, Some(answer));
            return;
        }
        let number = self.prober.next_number();
        let ends = now + self.timing.probe_timeout;
        self.relays.pings.insert(number, Relayed { target, answer_to: from, their_number, ends });
        self.send_ping(now, target, number, Way::Datagram);
    }

    pub(crate) fn relay_ack(&mut self, now: Moment, sender: NodeId, number: u64) {
        if self.relays.pings.get(&number).is_none_or(|ping| ping.target != sender) {
            return;
        }
        if let Some(ping) = self.relays.pings.remove(&number) {
            let answer = RingMessage::IndirectAck { number: ping.their_number };
            self.send_datagram(now, ping.answer_to, None, Some(answer));
        }
    }

    pub(crate) fn tick_relays(&mut self, now: Moment) {
        let over: Vec<u64> =
            self.relays.pings.iter().filter(|(_, p)| p.ends <= now).map(|(n, _)| *n).collect();
        for number in over {
            if let Some(ping) = self.relays.pings.remove(&number) {
                let answer = RingMessage::Nack { number: ping.their_number };
                self.send_datagram(now, ping.answer_to, None, Some(answer));
            }
        }
    }
}

/// Pings for others at a time: more than a ring of the largest size asks of one node in a period
/// with every tenth member dead.
const RELAYED_MAX: usize = 256;
