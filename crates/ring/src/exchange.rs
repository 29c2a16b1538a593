//! Full-state exchange by stream: for a node that joins, and as the repair when digests of peers
//! stay different although there is nothing to tell any more.
//!
//! Invariant: exchanges are rare. Each is asked for after several different digests in a row, and
//! not again for some periods, drawn at random so that the nodes of a ring do not exchange all at
//! once. A later version may narrow the difference down by ranges before it sends anything.

use std::net::SocketAddr;
use std::time::Duration;

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::codec::encoded_len;
use baton_wire::ring::{FactRecord, ForgetRecord, MemberRecord};
use rand::RngExt;

use crate::hear::{Heard, is_plausible};
use crate::ring::{Phase, Ring};

/// When to exchange.
#[derive(Debug)]
pub(crate) struct Repair {
    different_in_a_row: u32,
    not_before: Moment,
    changed_at: Moment,
    /// What this node still does for others in this period.
    answers_left: u32,
    tells_left: u32,
    /// Exchanges that this node may still ask for at the first difference, soon after it joined.
    eager_left: u32,
    /// Nothing is passed on: it is the state of the ring that this node joins.
    pub(crate) is_quiet: bool,
}

impl Repair {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            different_in_a_row: 0,
            not_before: now,
            changed_at: now,
            answers_left: ANSWERS_PER_PERIOD,
            tells_left: TELLS_PER_PERIOD,
            eager_left: EAGER_EXCHANGES,
            is_quiet: false,
        }
    }

    pub(crate) fn begin_period(&mut self) {
        self.answers_left = ANSWERS_PER_PERIOD;
        self.tells_left = TELLS_PER_PERIOD;
    }

    pub(crate) fn changed(&mut self, now: Moment) {
        self.changed_at = now;
        self.different_in_a_row = 0;
    }

    pub(crate) fn may_tell(&mut self) -> bool {
        let may = self.tells_left > 0;
        self.tells_left = self.tells_left.saturating_sub(1);
        may
    }

    fn may_answer(&mut self) -> bool {
        let may = self.answers_left > 0;
        self.answers_left = self.answers_left.saturating_sub(1);
        may
    }
}

impl Ring {
    pub(crate) fn compare_digest(
        &mut self,
        now: Moment,
        sender: NodeId,
        from: SocketAddr,
        theirs: u64,
    ) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        let is_stranger =
            self.members.get(sender).is_none() && self.members.forgotten_up_to(sender).is_none();
        if is_stranger {
            if self.repair.may_answer()
                && let Some(me) = self.my_record(now)
            {
                self.send_stream(from, vec![RingMessage::Join(me)]);
            }
            return;
        }
        if theirs == self.digest() {
            self.repair.different_in_a_row = 0;
            return;
        }
        let quiet_since = self.repair.changed_at + self.timing.gossip_interval * QUIET_INTERVALS;
        if self.is_eager(now) {
            self.exchange_with(now, sender);
            return;
        }
        if !self.gossip.is_empty() || now < quiet_since {
            return;
        }
        self.repair.different_in_a_row += 1;
        if self.repair.different_in_a_row >= DIFFERENT_IN_A_ROW {
            self.exchange_with(now, sender);
        }
    }

    /// Asks a member for everything and tells it everything, unless that happened just now.
    pub(crate) fn exchange_with(&mut self, now: Moment, node: NodeId) {
        let Some(to) = self.addr_of(node).filter(|_| now >= self.repair.not_before) else {
            return;
        };
        self.rest_from_exchange(now);
        self.repair.eager_left = self.repair.eager_left.saturating_sub(1);
        self.counters.repairs += 1;
        self.send_state(now, to, true);
    }

    pub(crate) fn hear_join(&mut self, now: Moment, sender: NodeId, record: MemberRecord) {
        if record.node != sender || !is_plausible(&record) {
            self.counters.refused_records += 1;
            return;
        }
        if !self.repair.may_answer() {
            self.counters.refused_requests += 1;
            return;
        }
        let to = record.addr;
        self.hear_member(now, record, Heard::Rumour);
        self.send_state(now, to, true);
    }

    pub(crate) fn hear_state(
        &mut self,
        now: Moment,
        sender: NodeId,
        members: Vec<MemberRecord>,
        forgotten: Vec<ForgetRecord>,
        facts: Vec<FactRecord>,
        reply: bool,
    ) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        let own = members.iter().find(|record| record.node == sender && is_plausible(record));
        let to = own.map(|record| record.addr).or_else(|| self.addr_of(sender));
        self.repair.is_quiet = !reply && self.is_young(now);
        for record in forgotten {
            self.hear_forget(now, record);
        }
        for record in members {
            self.hear_member(now, record, Heard::State);
        }
        for record in facts {
            self.hear_fact(now, record);
        }
        self.repair.is_quiet = false;
        if self.members.get(sender).is_some() && self.seeds.joined_at(now) {
            self.rest_from_exchange(now);
        }
        if !reply {
            return;
        }
        match to {
            Some(to) if self.repair.may_answer() => {
                self.rest_from_exchange(now);
                self.send_state(now, to, false);
            }
            _ => self.counters.refused_requests += 1,
        }
    }

    /// Sends everything known, in as many parts as it takes.
    pub(crate) fn send_state(&mut self, now: Moment, to: SocketAddr, reply: bool) {
        let Some(me) = self.my_record(now) else { return };
        let mut part = Part::begin(&me);
        let mut parts = Vec::new();
        for record in self.members.iter().filter(|m| m.node != me.node).map(|m| m.record(now)) {
            part.make_room(encoded_len(&record), &me, &mut parts);
            part.members.push(record);
        }
        for record in self.members.forgotten(now) {
            part.make_room(encoded_len(&record), &me, &mut parts);
            part.forgotten.push(record);
        }
        for record in self.facts.records() {
            part.make_room(encoded_len(&record), &me, &mut parts);
            part.facts.push(record);
        }
        for part in parts {
            self.send_stream(to, vec![part.into_message(false)]);
        }
        self.send_stream(to, vec![part.into_message(reply)]);
    }

    pub(crate) fn my_record(&self, now: Moment) -> Option<MemberRecord> {
        self.members.get(self.me.node).map(|member| member.record(now))
    }

    fn is_young(&self, now: Moment) -> bool {
        self.seeds.is_joining(now, self.timing.probe_period * YOUNG_PERIODS)
    }

    /// In a ring that starts all at once nobody knows much when he is asked, and gossip alone
    /// would take long to carry everything to everybody.
    fn is_eager(&self, now: Moment) -> bool {
        self.repair.eager_left > 0 && self.is_young(now)
    }

    fn rest_from_exchange(&mut self, now: Moment) {
        let is_eager = self.is_eager(now);
        let periods =
            self.rng.random_range(if is_eager { EAGER_REST_PERIODS } else { REST_PERIODS });
        let rest: Duration = self.timing.probe_period.mul_f64(periods);
        self.repair.not_before = now + rest;
        self.repair.different_in_a_row = 0;
    }
}

/// A frame's worth of state.
struct Part {
    members: Vec<MemberRecord>,
    forgotten: Vec<ForgetRecord>,
    facts: Vec<FactRecord>,
    bytes: usize,
}

impl Part {
    /// Every part begins with the sender, so that it can be answered.
    fn begin(me: &MemberRecord) -> Self {
        Self { members: vec![me.clone()], forgotten: Vec::new(), facts: Vec::new(), bytes: 0 }
    }

    fn make_room(&mut self, bytes: usize, me: &MemberRecord, parts: &mut Vec<Self>) {
        if self.bytes + bytes > PART_BYTES {
            parts.push(std::mem::replace(self, Self::begin(me)));
        }
        self.bytes += bytes;
    }

    fn into_message(self, reply: bool) -> RingMessage {
        let Self { members, forgotten, facts, .. } = self;
        RingMessage::State { members, forgotten, facts, reply }
    }
}

/// One comparison may meet a rumour under way; three in a row, with nothing to tell, do not.
const DIFFERENT_IN_A_ROW: u32 = 3;

/// After a change, rumours are given this many gossip intervals before digests count.
const QUIET_INTERVALS: u32 = 3;

/// Periods between two exchanges of one node.
const REST_PERIODS: std::ops::Range<f64> = 4.0..8.0;

/// For so many periods after it joined a node is young.
const YOUNG_PERIODS: u32 = 10;

/// Exchanges that a young node asks for at the first difference: with each, what everybody knows
/// doubles, and a ring of the largest size is not asked for its state more often by each newcomer.
const EAGER_EXCHANGES: u32 = 6;

/// Periods between two exchanges of a young node, the first after it joined: in a calm ring the
/// news of it has reached everybody by then, so that there is no difference.
const EAGER_REST_PERIODS: std::ops::Range<f64> = 1.0..2.0;

/// States sent on request in each period: a ring of 50 that starts at once joins through one
/// seed, and one node cannot be made to send without end.
const ANSWERS_PER_PERIOD: u32 = 64;

/// Members told in each period that somebody believes them dead.
const TELLS_PER_PERIOD: u32 = 256;

/// Size of one part: far below the largest frame, so that a part is sent and decoded in one go.
const PART_BYTES: usize = 1024 * 1024;
