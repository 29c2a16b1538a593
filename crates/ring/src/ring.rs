//! The ring: one state machine of membership, probes, gossip and facts.
//!
//! Invariant: every entry point takes `now`; whatever has to leave the node is in `take_outputs`
//! afterwards; nothing happens between two calls. The behaviour of each part stands in its own
//! file.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use baton_types::{BootNonce, FactKey, Incarnation, Moment, NodeId, RingTiming};
use baton_wire::RingMessage;
use baton_wire::ring::{MemberState, Way};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::exchange::Repair;
use crate::facts::Facts;
use crate::gossip::{Gossip, Rumour, Urgency, message_len, tell_limit};
use crate::hear::Heard;
use crate::join::Seeds;
use crate::leave::Departure;
use crate::member::Member;
use crate::members::Members;
use crate::output::{Me, RingCounters, RingOutput, SavedRing};
use crate::probe::Prober;
use crate::relay::Relays;

/// One node's part in the ring.
#[derive(Debug)]
pub struct Ring {
    pub(crate) me: Me,
    pub(crate) timing: RingTiming,
    pub(crate) rng: StdRng,
    pub(crate) phase: Phase,
    pub(crate) members: Members,
    pub(crate) facts: Facts,
    pub(crate) fact_version: u64,
    pub(crate) gossip: Gossip,
    pub(crate) gossip_at: Option<Moment>,
    pub(crate) gossip_last: Option<Moment>,
    pub(crate) prober: Prober,
    pub(crate) relays: Relays,
    pub(crate) seeds: Seeds,
    pub(crate) repair: Repair,
    pub(crate) incarnation_ceiling: u64,
    pub(crate) refutations_left: u32,
    pub(crate) refute_later: Option<u64>,
    pub(crate) save_at: Option<Moment>,
    pub(crate) warned_names: BTreeSet<NodeId>,
    pub(crate) warned_clone: Option<Moment>,
    pub(crate) counters: RingCounters,
    pub(crate) outputs: Vec<RingOutput>,
}

/// Whether this node takes part.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It does.
    Here,
    /// It is telling others that it leaves.
    Leaving(Departure),
    /// It has left or said goodbye: deaf and silent.
    Gone,
}

impl Ring {
    /// A ring of one node, which looks for others once it knows seeds or remembers members.
    pub fn new(me: Me, timing: RingTiming, saved: SavedRing, seed: u64, now: Moment) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let first_probe = now + timing.probe_period.mul_f64(rng.random_range(0.0..1.0));
        // A ceiling that cannot be is damage: begin low, and rise when others say what they know.
        let ceiling = Some(saved.incarnation_ceiling).filter(|at| *at < INCARNATION_MAX);
        let ceiling = ceiling.unwrap_or_default();
        let incarnation = ceiling + 1;
        let mut ring = Self {
            prober: Prober::new(first_probe, now + timing.reconnect_interval),
            relays: Relays::default(),
            seeds: Seeds::new(now),
            repair: Repair::new(now),
            phase: Phase::Here,
            members: Members::default(),
            facts: Facts::default(),
            fact_version: incarnation << 32,
            gossip: Gossip::default(),
            gossip_at: None,
            gossip_last: None,
            incarnation_ceiling: ceiling,
            refutations_left: REFUTATIONS_PER_PERIOD,
            refute_later: None,
            save_at: None,
            warned_names: BTreeSet::new(),
            warned_clone: None,
            counters: RingCounters::default(),
            outputs: Vec::new(),
            me,
            timing,
            rng,
        };
        let myself = Member {
            node: ring.me.node,
            name: ring.me.name.clone(),
            addr: ring.me.addr,
            boot: ring.me.boot,
            version: ring.me.version.clone(),
            incarnation: Incarnation(incarnation),
            state: MemberState::Alive,
            since: now,
            round_trip: None,
            accusers: Vec::new(),
            age_before_since: std::time::Duration::ZERO,
            deadline: None,
            asked_last: false,
        };
        ring.members.put(myself);
        ring.restore(now, saved);
        ring.keep_ceiling_above(now, incarnation);
        ring
    }

    /// A message of `sender`, which is authentic, from the address `from`.
    pub fn receive(
        &mut self,
        now: Moment,
        from: SocketAddr,
        sender: NodeId,
        boot: BootNonce,
        message: RingMessage,
    ) {
        if matches!(self.phase, Phase::Gone) {
            return;
        }
        if sender == self.me.node {
            self.hear_own_id(now, from, boot);
            return;
        }
        match message {
            RingMessage::Ping { number, target, digest, way } => {
                if target == self.me.node {
                    self.answer_ping(now, from, sender, number, way);
                    self.compare_digest(now, sender, from, digest);
                }
            }
            RingMessage::Ack { number, digest } => {
                self.hear_ack(now, sender, number);
                self.compare_digest(now, sender, from, digest);
            }
            RingMessage::PingRequest { number, target } => {
                self.relay_ping(now, from, target, number);
            }
            RingMessage::IndirectAck { number } => self.prober.hear_indirect_ack(number),
            RingMessage::Nack { number } => self.prober.hear_nack(number),
            RingMessage::Member(record) => self.hear_member(now, record, Heard::Rumour),
            RingMessage::Fact(record) => self.hear_fact(now, record),
            RingMessage::Forget(record) => self.hear_forget(now, record),
            RingMessage::Join(record) => self.hear_join(now, sender, record),
            RingMessage::State { members, forgotten, facts, reply } => {
                self.hear_state(now, sender, members, forgotten, facts, reply);
            }
        }
    }

    /// Does what is due. To be called at `next_tick`; earlier does no harm, later is noticed.
    pub fn tick(&mut self, now: Moment) {
        if matches!(self.phase, Phase::Gone) {
            return;
        }
        let late = now.since(self.next_tick());
        if late > self.timing.probe_timeout {
            self.notice_late(now, late);
        }
        self.tick_probe(now);
        self.tick_relays(now);
        self.tick_deadlines(now);
        self.tick_join(now);
        self.tick_reconnect(now);
        self.tick_leave(now);
        self.tick_gossip(now);
        if self.save_at.is_some_and(|at| at <= now) {
            self.save(now);
        }
    }

    /// When `tick` has something to do next; it can become earlier with every call.
    pub fn next_tick(&self) -> Moment {
        let leave = match &self.phase {
            Phase::Here => None,
            Phase::Leaving(departure) => Some(departure.next_at()),
            Phase::Gone => return Moment(u64::MAX),
        };
        [
            Some(self.prober.next_at()),
            self.relays.next_at(),
            self.members.first_deadline(),
            self.next_join(),
            leave,
            self.gossip_at,
            self.save_at,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Moment(u64::MAX))
    }

    /// What is to be done since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<RingOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// All members, this node included, in the order of their ids.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// One member.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.get(node)
    }

    /// Where a member receives datagrams and streams, whatever its state.
    pub fn addr_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.members.get(node).map(|member| member.addr)
    }

    /// A fact that is there.
    pub fn fact(&self, node: NodeId, key: &FactKey) -> Option<&[u8]> {
        self.facts.get(node, key)?.value.as_deref()
    }

    /// All facts that are there, by owner and key; those of dead members too.
    pub fn facts(&self) -> impl Iterator<Item = (NodeId, &FactKey, &[u8])> {
        self.facts.values()
    }

    /// Whether another member has answered since the start.
    pub fn is_joined(&self) -> bool {
        self.seeds.is_joined()
    }

    /// Whether no other member is alive or suspect.
    pub fn is_alone(&self) -> bool {
        self.other_reachable() == 0
    }

    /// Input that was refused so far.
    pub fn counters(&self) -> RingCounters {
        self.counters
    }

    /// The sum of everything known; equal on nodes that know the same.
    pub fn digest(&self) -> u64 {
        (self.members.digest() + self.facts.digest()).0
    }

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

    /// How many other members are alive or suspect.
    pub(crate) fn other_reachable(&self) -> usize {
        let me = self.members.get(self.me.node).is_some_and(|me| me.state.is_reachable());
        self.members.reachable() - usize::from(me)
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.outputs.push(RingOutput::Warning(text));
    }

    fn datagram_bytes(&self) -> usize {
        self.timing.max_packet.saturating_sub(ENVELOPE_BYTES)
    }

    fn tick_gossip(&mut self, now: Moment) {
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

/// Largest incarnation that is believed. It leaves room to go above it, and a fact version that
/// starts at it still counts up.
pub(crate) const INCARNATION_MAX: u64 = (1 << 31) - 1;

/// What is left of `max_packet` for the envelope's head (sender, boot, length) and the seal
/// (version, key id, nonce, ring id, counter, tag).
pub(crate) const ENVELOPE_BYTES: usize = 128;

/// Refutations at once in each probe period: a ring refutes once in a while, two copies of one
/// node would do it without end.
pub(crate) const REFUTATIONS_PER_PERIOD: u32 = 8;

/// Facts of up to 4 KiB in one frame: well below the largest frame.
const LARGE_RUMOURS_PER_FRAME: usize = 256;
