//! The ring: one state machine of membership, probes, gossip and facts.
//!
//! Invariant: every entry point takes `now`; whatever has to leave the node is in `take_outputs`
//! afterwards; nothing happens between two calls. The behaviour of each part stands in its own
//! file.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use baton_types::{BootNonce, FactKey, Incarnation, Moment, NodeId, RingTiming};
use baton_wire::RingMessage;
use baton_wire::ring::{FactRecord, MemberState};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::exchange::Repair;
use crate::facts::Facts;
use crate::gossip::Gossip;
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
            versions: ring.me.versions,
            more: Vec::new(),
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

    /// The number of this node's newest record about itself. It rises when this node has to say that
    /// it lives after all.
    pub fn incarnation(&self) -> Incarnation {
        self.members.get(self.me.node).map_or(Incarnation(0), |me| me.incarnation)
    }

    /// Where a member receives datagrams and streams, whatever its state.
    pub fn addr_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.members.get(node).map(|member| member.addr)
    }

    /// A fact that is there.
    pub fn fact(&self, node: NodeId, key: &FactKey) -> Option<&[u8]> {
        self.facts.get(node, key)?.value.as_deref()
    }

    /// A fact of this node as it travels, to hand it to one peer ahead of gossip.
    pub fn my_fact(&self, key: &FactKey) -> Option<FactRecord> {
        self.facts.record(self.me.node, key)
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

    /// How many other members are alive or suspect.
    pub(crate) fn other_reachable(&self) -> usize {
        let me = self.members.get(self.me.node).is_some_and(|me| me.state.is_reachable());
        self.members.reachable() - usize::from(me)
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.outputs.push(RingOutput::Warning(text));
    }
}

/// Largest incarnation that is believed. It leaves room to go above it, and a fact version that
/// starts at it still counts up.
pub(crate) const INCARNATION_MAX: u64 = (1 << 31) - 1;

/// Refutations at once in each probe period: a ring refutes once in a while, two copies of one
/// node would do it without end.
pub(crate) const REFUTATIONS_PER_PERIOD: u32 = 8;
