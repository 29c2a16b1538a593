//! Everything that leaves a node: datagrams filled up with rumours, stream frames, gossip.
//!
//! Invariant: a datagram fits `max_packet` with the envelope and the seal around it; gossip is
//! sent only while there is something to tell.

use std::net::SocketAddr;

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::ring::{MemberState, Way};
use rand::RngExt;

use crate::facts::Facts;
use crate::gossip::{Rumour, Urgency, message_len, tell_limit};
use crate::members::Members;
use crate::output::RingOutput;
use crate::ring::Ring;

impl Ring {
    /// Queues news for the others.
    pub(crate) fn spread(&mut self, now: Moment, rumour: Rumour) {
        let urgency = match &rumour {
            Rumour::Member(node) | Rumour::Forget(node) if *node == self.me.node => Urgency::Myself,
            Rumour::Member(_) | Rumour::Forget(_) => Urgency::Member,
            Rumour::Fact(..) => Urgency::Fact,
        };
        self.repair.changed(now);
        if self.repair.is_quiet && urgency != Urgency::Myself {
            return;
        }
        self.gossip.push(rumour, urgency);
        let earliest = self.gossip_last.map_or(now, |last| last + self.timing.gossip_interval);
        self.gossip_at = Some(self.gossip_at.unwrap_or(earliest.max(now)));
    }

    /// One datagram with `main`, what should be heard before it if there is room, and rumours.
    pub(crate) fn send_datagram(
        &mut self,
        now: Moment,
        to: SocketAddr,
        before: Option<RingMessage>,
        main: Option<RingMessage>,
    ) {
        let whole = self.datagram_bytes();
        let mut used = main.as_ref().map_or(0, message_len);
        let mut messages = Vec::new();
        if let Some(before) = before {
            let size = message_len(&before);
            if used + size <= whole {
                used += size;
                messages.push(before);
            }
        }
        messages.extend(main);
        let limit = tell_limit(self.members.reachable());
        let (members, facts) = (&self.members, &self.facts);
        let rumours = self.gossip.take(whole.saturating_sub(used), whole, limit, |rumour| {
            message_of(members, facts, now, rumour)
        });
        messages.extend(rumours);
        if !messages.is_empty() {
            self.outputs.push(RingOutput::Send { to, messages, stream: false });
        }
    }

    /// One stream frame.
    pub(crate) fn send_stream(&mut self, to: SocketAddr, messages: Vec<RingMessage>) {
        self.outputs.push(RingOutput::Send { to, messages, stream: true });
    }

    /// A ping, and before it what the target should hear about itself.
    pub(crate) fn send_ping(&mut self, now: Moment, target: NodeId, number: u64, way: Way) {
        let Some(to) = self.addr_of(target) else { return };
        let about = self.accusation(now, target);
        let ping = RingMessage::Ping { number, target, digest: self.digest(), way };
        match way {
            Way::Datagram => self.send_datagram(now, to, about, Some(ping)),
            Way::Stream => self.send_stream(to, about.into_iter().chain([ping]).collect()),
        }
    }

    /// What `node` should hear about itself because it may want to refute it.
    pub(crate) fn accusation(&self, now: Moment, node: NodeId) -> Option<RingMessage> {
        match self.members.get(node) {
            Some(member) if member.state != MemberState::Alive => {
                Some(RingMessage::Member(member.record(now)))
            }
            Some(_) => None,
            None => self.members.forget_record(now, node).map(RingMessage::Forget),
        }
    }

    /// Up to `count` other members that are alive or suspect, drawn at random.
    pub(crate) fn draw_peers(&mut self, count: usize, except: Option<NodeId>) -> Vec<NodeId> {
        let mut peers: Vec<NodeId> = self
            .members
            .iter()
            .filter(|member| member.state.is_reachable())
            .map(|member| member.node)
            .filter(|node| *node != self.me.node && Some(*node) != except)
            .collect();
        let count = count.min(peers.len());
        for at in 0..count {
            let other = self.rng.random_range(at..peers.len());
            peers.swap(at, other);
        }
        peers.truncate(count);
        peers
    }

    pub(crate) fn tick_gossip(&mut self, now: Moment) {
        if self.gossip_at.is_none_or(|at| at > now) {
            return;
        }
        self.gossip_at = None;
        if self.gossip.is_empty() {
            return;
        }
        if self.is_alone() {
            // Whoever joins later is told everything at once.
            self.gossip.clear();
            return;
        }
        self.gossip_last = Some(now);
        let peers = self.draw_peers(self.timing.gossip_fanout, None);
        let addrs: Vec<_> = peers.iter().filter_map(|node| self.addr_of(*node)).collect();
        for to in &addrs {
            self.send_datagram(now, *to, None, None);
        }
        self.gossip_by_stream(now, &addrs);
        if !self.gossip.is_empty() {
            self.gossip_at = Some(now + self.timing.gossip_interval);
        }
    }

    fn gossip_by_stream(&mut self, now: Moment, addrs: &[SocketAddr]) {
        let limit = tell_limit(self.members.reachable());
        let told = u32::try_from(addrs.len()).unwrap_or(u32::MAX).max(1);
        let large = self.gossip.take_large(told, limit);
        let (members, facts) = (&self.members, &self.facts);
        let messages: Vec<_> =
            large.iter().filter_map(|rumour| message_of(members, facts, now, rumour)).collect();
        for part in messages.chunks(LARGE_RUMOURS_PER_FRAME) {
            for to in addrs {
                self.send_stream(*to, part.to_vec());
            }
        }
    }

    fn datagram_bytes(&self) -> usize {
        self.timing.max_packet.saturating_sub(ENVELOPE_BYTES)
    }
}

/// What a rumour says now; nothing when what it is about is gone.
fn message_of(
    members: &Members,
    facts: &Facts,
    now: Moment,
    rumour: &Rumour,
) -> Option<RingMessage> {
    match rumour {
        Rumour::Member(node) => Some(RingMessage::Member(members.get(*node)?.record(now))),
        Rumour::Forget(node) => members.forget_record(now, *node).map(RingMessage::Forget),
        Rumour::Fact(node, key) => facts.record(*node, key).map(RingMessage::Fact),
    }
}

/// What is left of `max_packet` for the envelope's head (sender, boot, counter, versions) and the seal
/// (format, mode, key id, nonce, tag).
const ENVELOPE_BYTES: usize = 128;

/// Facts of up to 4 KiB in one frame: well below the largest frame.
const LARGE_RUMOURS_PER_FRAME: usize = 256;
