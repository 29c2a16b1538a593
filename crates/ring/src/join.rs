//! Finding the first other member.
//!
//! Invariant: seeds and remembered members are tried for ever: with a growing pause until another
//! member answers, and then, if their address belongs to no member that is alive, once in each
//! `reconnect_interval`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::ring::MemberRecord;
use rand::RngExt;

use crate::ring::{Phase, Ring};

/// Where others may be.
#[derive(Debug)]
pub(crate) struct Seeds {
    seeds: Vec<SocketAddr>,
    /// Members of the last life that were not heard of in this one.
    remembered: BTreeMap<NodeId, MemberRecord>,
    attempts: u32,
    next_at: Moment,
    joined: bool,
    joined_at: Option<Moment>,
}

impl Seeds {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            seeds: Vec::new(),
            remembered: BTreeMap::new(),
            attempts: 0,
            next_at: now,
            joined: false,
            joined_at: None,
        }
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }

    pub(crate) fn joined(&mut self) {
        self.joined = true;
    }

    /// Notes that a state has come; says whether it is the first one.
    pub(crate) fn joined_at(&mut self, now: Moment) -> bool {
        self.joined = true;
        let is_first = self.joined_at.is_none();
        self.joined_at.get_or_insert(now);
        is_first
    }

    /// Whether a state that comes now is that of the ring that this node joins.
    pub(crate) fn is_joining(&self, now: Moment, span: Duration) -> bool {
        self.joined_at.is_none_or(|at| now.since(at) < span)
    }

    pub(crate) fn remember(&mut self, record: MemberRecord) {
        self.remembered.insert(record.node, record);
    }

    /// Whether it was missing until now.
    pub(crate) fn forget(&mut self, node: NodeId) -> bool {
        self.remembered.remove(&node).is_some()
    }

    pub(crate) fn remembered(&self) -> &BTreeMap<NodeId, MemberRecord> {
        &self.remembered
    }

    fn addrs(&self) -> Vec<SocketAddr> {
        let mut addrs = self.seeds.clone();
        addrs.extend(self.remembered.values().map(|record| record.addr));
        addrs.sort_unstable();
        addrs.dedup();
        addrs
    }
}

impl Ring {
    /// Members that were alive in an earlier life of this node and were not heard of in this one.
    pub fn missing(&self) -> impl Iterator<Item = &MemberRecord> {
        self.seeds.remembered().values()
    }

    /// What was last known of a node that is missing.
    pub fn missing_member(&self, node: NodeId) -> Option<&MemberRecord> {
        self.seeds.remembered().get(&node)
    }

    /// The `join` addresses, as resolved now. To be called again when names resolve differently.
    pub fn set_seeds(&mut self, now: Moment, addrs: Vec<SocketAddr>) {
        let mut seeds = addrs;
        seeds.truncate(SEEDS_MAX);
        if seeds != self.seeds.seeds {
            self.seeds.seeds = seeds;
            self.seeds.attempts = 0;
            self.seeds.next_at = now;
        }
    }

    /// Asks at these addresses at once, whether this node is in a ring already or not.
    pub fn join_by(&mut self, now: Moment, addrs: &[SocketAddr]) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        let (me, all) = (self.me.addr, addrs.iter().copied());
        for to in all.filter(|addr| *addr != me).take(ADDRS_PER_ATTEMPT) {
            self.send_state(now, to, true);
        }
    }

    pub(crate) fn next_join(&self) -> Option<Moment> {
        let has_addrs = !self.seeds.seeds.is_empty() || !self.seeds.remembered.is_empty();
        (has_addrs && !self.seeds.joined && matches!(self.phase, Phase::Here))
            .then_some(self.seeds.next_at)
    }

    pub(crate) fn tick_join(&mut self, now: Moment) {
        if self.next_join().is_none_or(|at| at > now) {
            return;
        }
        let factor = 1u32 << self.seeds.attempts.min(BACK_OFF_DOUBLINGS);
        let pause = (self.timing.probe_period * factor).min(self.timing.reconnect_interval);
        self.seeds.attempts = self.seeds.attempts.saturating_add(1);
        self.seeds.next_at = now + pause.mul_f64(self.rng.random_range(0.75..1.25));
        for to in self.draw_addrs(ADDRS_PER_ATTEMPT) {
            self.send_state(now, to, true);
        }
    }

    /// Asks one address at which no living member is known.
    pub(crate) fn retry_seed(&mut self, now: Moment) {
        if !self.seeds.joined {
            return;
        }
        for to in self.draw_addrs(1) {
            if let Some(me) = self.my_record(now) {
                self.send_stream(to, vec![RingMessage::Join(me)]);
            }
        }
    }

    fn draw_addrs(&mut self, count: usize) -> Vec<SocketAddr> {
        let mut addrs = self.seeds.addrs();
        let known: Vec<_> =
            self.members.iter().filter(|m| m.state.is_reachable()).map(|m| m.addr).collect();
        addrs.retain(|addr| *addr != self.me.addr && !known.contains(addr));
        let count = count.min(addrs.len());
        for at in 0..count {
            let other = self.rng.random_range(at..addrs.len());
            addrs.swap(at, other);
        }
        addrs.truncate(count);
        addrs
    }
}

/// Seeds that are kept: `join` lists a handful; a name may resolve to a few addresses each.
const SEEDS_MAX: usize = 256;

/// Addresses tried at once: one of them answers unless most are down.
const ADDRS_PER_ATTEMPT: usize = 4;

/// The pause doubles so often, then `reconnect_interval` bounds it anyway.
const BACK_OFF_DOUBLINGS: u32 = 8;
