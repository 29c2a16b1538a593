//! Finding out who does not answer: SWIM section 3.1 and 4.3, with a stream beside the relays.
//!
//! Invariant: a member is accused only after it answered neither directly, nor through a relay,
//! nor by stream within one period, and only by a node whose own timers were not late.

use std::time::Duration;

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::ring::{ACCUSERS_MAX, MemberState, Way};
use rand::RngExt;
use rand::seq::SliceRandom;

use crate::ring::{Phase, REFUTATIONS_PER_PERIOD, Ring};

/// The round of probes.
#[derive(Debug)]
pub(crate) struct Prober {
    /// Whom to probe, the next one last.
    order: Vec<NodeId>,
    current: Option<Probe>,
    /// When the period ends and the next one begins.
    period_ends: Moment,
    number: u64,
    /// The last probe of a dead member.
    reconnect: Option<(u64, NodeId)>,
    pub(crate) reconnect_at: Moment,
}

#[derive(Debug)]
struct Probe {
    target: NodeId,
    number: u64,
    sent: Moment,
    /// When relays are asked; `None` once they were.
    indirect_at: Option<Moment>,
    answered: bool,
    /// Relays that have not said that they are well. Lifeguard's local health counts them.
    silent_relays: usize,
}

impl Prober {
    pub(crate) fn new(first: Moment, reconnect_at: Moment) -> Self {
        Self {
            order: Vec::new(),
            current: None,
            period_ends: first,
            number: 0,
            reconnect: None,
            reconnect_at,
        }
    }

    pub(crate) fn next_at(&self) -> Moment {
        let indirect = self.current.as_ref().filter(|probe| !probe.answered);
        let indirect = indirect.and_then(|probe| probe.indirect_at);
        let first = indirect.map_or(self.period_ends, |at| at.min(self.period_ends));
        first.min(self.reconnect_at)
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    pub(crate) fn hear_indirect_ack(&mut self, number: u64) {
        if let Some(probe) = self.current.as_mut().filter(|probe| probe.number == number) {
            probe.answered = true;
            probe.silent_relays = probe.silent_relays.saturating_sub(1);
        }
    }

    pub(crate) fn hear_nack(&mut self, number: u64) {
        if let Some(probe) = self.current.as_mut().filter(|probe| probe.number == number) {
            probe.silent_relays = probe.silent_relays.saturating_sub(1);
        }
    }
}

impl Ring {
    /// Puts a new member at a random place of the round.
    pub(crate) fn add_to_round(&mut self, node: NodeId) {
        if !self.prober.order.contains(&node) {
            let at = self.rng.random_range(0..=self.prober.order.len());
            self.prober.order.insert(at, node);
        }
    }

    /// Makes `node` the next one of the round.
    pub(crate) fn probe_next(&mut self, node: NodeId) {
        self.prober.order.retain(|other| *other != node);
        self.prober.order.push(node);
    }

    /// Makes `node` the last one of the round.
    #[cfg(test)]
    pub(crate) fn probe_last(&mut self, node: NodeId) {
        self.prober.order = self.members.iter().map(|m| m.node).filter(|n| *n != node).collect();
        self.prober.order.insert(0, node);
    }

    pub(crate) fn tick_probe(&mut self, now: Moment) {
        let waiting = self.prober.current.as_mut().filter(|probe| !probe.answered);
        if let Some(probe) = waiting
            && probe.indirect_at.is_some_and(|at| at <= now)
        {
            probe.indirect_at = None;
            let (target, number) = (probe.target, probe.number);
            self.probe_indirectly(now, target, number);
        }
        if self.prober.period_ends > now {
            return;
        }
        if let Some(probe) = self.prober.current.take()
            && !probe.answered
            && matches!(self.phase, Phase::Here)
        {
            self.accuse(now, probe.target);
        }
        self.prober.period_ends = now + self.timing.probe_period;
        self.begin_period(now);
        if let Some(target) = self.draw_target() {
            self.probe(now, target);
        }
    }

    pub(crate) fn hear_ack(&mut self, now: Moment, sender: NodeId, number: u64) {
        if self.members.get(sender).is_some() {
            self.seeds.joined();
        }
        let probe = self.prober.current.as_mut();
        if let Some(probe) = probe.filter(|p| p.number == number && p.target == sender) {
            probe.answered = true;
            if probe.indirect_at.is_some() {
                let round_trip = now.since(probe.sent);
                self.members.set_round_trip(sender, round_trip);
            }
        }
        if self.prober.reconnect == Some((number, sender)) {
            self.prober.reconnect = None;
            self.exchange_with(now, sender);
        }
        self.relay_ack(now, sender, number);
        self.departure_ack(sender, number);
    }

    pub(crate) fn answer_ping(
        &mut self,
        now: Moment,
        from: std::net::SocketAddr,
        sender: NodeId,
        number: u64,
        way: Way,
    ) {
        let about = self.accusation(now, sender);
        let ack = RingMessage::Ack { number, digest: self.digest() };
        match (way, self.addr_of(sender)) {
            (Way::Datagram, _) => self.send_datagram(now, from, about, Some(ack)),
            (Way::Stream, Some(to)) => {
                let mine = self.members.get(self.me.node).map(|member| member.record(now));
                let mine = mine.map(RingMessage::Member);
                self.send_stream(to, about.into_iter().chain(mine).chain([ack]).collect());
            }
            // A stream comes from a port of its own, so there is no address to answer to.
            (Way::Stream, None) => self.counters.refused_requests += 1,
        }
    }

    /// A node that was suspended or starved accuses nobody on the strength of answers that it may
    /// have slept through: it asks again first.
    pub(crate) fn notice_late(&mut self, now: Moment, late: Duration) {
        self.counters.late_ticks += 1;
        self.relays.clear();
        let earliest = now + self.timing.probe_period;
        let waiting = self.members.postpone(late, earliest);
        for node in waiting.into_iter().take(SUSPECTS_ASKED_MAX) {
            let number = self.prober.next_number();
            self.send_ping(now, node, number, Way::Datagram);
        }
        if let Some(probe) = self.prober.current.take().filter(|probe| !probe.answered) {
            self.prober.period_ends = now + self.timing.probe_period;
            self.probe(now, probe.target);
        }
    }

    /// One dead member and one seed that is nobody's address are tried, so that a split ring heals
    /// without help.
    pub(crate) fn tick_reconnect(&mut self, now: Moment) {
        if self.prober.reconnect_at > now {
            return;
        }
        let jitter = self.rng.random_range(0.9..1.1);
        self.prober.reconnect_at = now + self.timing.reconnect_interval.mul_f64(jitter);
        self.reap(now);
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        let dead: Vec<_> = self.members.iter().filter(|m| m.state == MemberState::Dead).collect();
        if !dead.is_empty() {
            let node = dead[self.rng.random_range(0..dead.len())].node;
            let number = self.prober.next_number();
            self.prober.reconnect = Some((number, node));
            self.send_ping(now, node, number, Way::Datagram);
        }
        self.retry_seed(now);
    }

    fn begin_period(&mut self, now: Moment) {
        self.repair.begin_period();
        self.refutations_left = REFUTATIONS_PER_PERIOD;
        if let Some(above) = self.refute_later.take() {
            self.refute(now, above);
        }
    }

    fn draw_target(&mut self) -> Option<NodeId> {
        if !matches!(self.phase, Phase::Here) || self.is_alone() {
            return None;
        }
        for _ in 0..2 {
            while let Some(node) = self.prober.order.pop() {
                if self.members.get(node).is_some_and(|member| member.state.is_reachable()) {
                    return Some(node);
                }
            }
            let me = self.me.node;
            let others = self.members.iter().filter(|m| m.state.is_reachable() && m.node != me);
            self.prober.order = others.map(|member| member.node).collect();
            self.prober.order.shuffle(&mut self.rng);
        }
        None
    }

    fn probe(&mut self, now: Moment, target: NodeId) {
        let number = self.prober.next_number();
        self.prober.current = Some(Probe {
            target,
            number,
            sent: now,
            indirect_at: Some(now + self.timing.probe_timeout),
            answered: false,
            silent_relays: 0,
        });
        self.send_ping(now, target, number, Way::Datagram);
    }

    fn probe_indirectly(&mut self, now: Moment, target: NodeId, number: u64) {
        let relays = self.draw_peers(self.timing.indirect_probes, Some(target));
        if let Some(probe) = &mut self.prober.current {
            probe.silent_relays = relays.len();
        }
        for relay in relays {
            if let Some(to) = self.addr_of(relay) {
                let request = RingMessage::PingRequest { number, target };
                self.send_datagram(now, to, None, Some(request));
            }
        }
        self.send_ping(now, target, number, Way::Stream);
    }

    fn accuse(&mut self, now: Moment, node: NodeId) {
        let Some(member) = self.members.get(node).filter(|m| m.state.is_reachable()) else {
            return;
        };
        if member.accusers.contains(&self.me.node) || member.accusers.len() >= ACCUSERS_MAX {
            return;
        }
        let mut record = member.record(now);
        record.state = MemberState::Suspect;
        record.accusers.push(self.me.node);
        self.take_record(now, record);
    }
}

/// Suspects that are asked at once after a late timer: as many as a healthy ring never has.
const SUSPECTS_ASKED_MAX: usize = 16;
