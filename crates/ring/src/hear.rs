//! What a node makes of records about members, itself included.
//!
//! Invariant: of two records of one member the one with the higher (incarnation, state, boot)
//! wins, whatever the order in which they come; what a tombstone covers stays away; only this node
//! raises its own incarnation.

use std::time::Duration;

use baton_types::limits::RING_MAX_MEMBERS;
use baton_types::{BootNonce, Incarnation, Moment, NodeId};
use baton_wire::ring::{
    ACCUSERS_MAX, ForgetRecord, MORE_MAX_BYTES, MemberRecord, MemberState, Way,
};

use crate::gossip::Rumour;
use crate::member::Member;
use crate::output::RingOutput;
use crate::ring::{INCARNATION_MAX, Phase, Ring};
use crate::suspicion;

/// How a record came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// As a rumour: somebody found out just now.
    Rumour,
    /// In somebody's full state, which may be that of the other half of a split ring.
    State,
}

impl Ring {
    pub(crate) fn hear_member(&mut self, now: Moment, record: MemberRecord, heard: Heard) {
        if !is_plausible(&record) {
            self.counters.refused_records += 1;
            return;
        }
        if record.node == self.me.node {
            self.hear_about_me(now, record.incarnation, record.state, record.boot);
            return;
        }
        if self
            .members
            .forgotten_up_to(record.node)
            .is_some_and(|up_to| record.incarnation <= up_to)
        {
            return;
        }
        if self.is_leap(record.node, record.incarnation) {
            self.counters.refused_records += 1;
            return;
        }
        let Some(known) = self.members.get(record.node) else {
            self.hear_new_member(now, record);
            return;
        };
        if rank(&record) < (known.incarnation, known.state, known.boot) {
            return;
        }
        if rank(&record) == (known.incarnation, known.state, known.boot) {
            self.hear_accusers(now, record);
            return;
        }
        let is_split = heard == Heard::State
            && record.state == MemberState::Dead
            && known.state.is_reachable();
        if is_split {
            self.tell_the_accused(now, record);
            return;
        }
        self.take_record(now, record);
    }

    /// Makes `record` what this node knows, tells others, and says what changed.
    pub(crate) fn take_record(&mut self, now: Moment, record: MemberRecord) {
        let mut member = Member::from_record(record, now);
        let node = member.node;
        let old = self.members.get(node);
        if matches!(member.state, MemberState::Alive | MemberState::Suspect) {
            // How long others have suspected it must not cut its time to refute.
            let same = old
                .filter(|old| old.state == member.state && old.incarnation == member.incarnation);
            member.since = same.map_or(now, |old| old.since);
            member.asked_last = same.is_some_and(|old| old.asked_last);
            member.age_before_since = Duration::ZERO;
        }
        member.round_trip = old.filter(|o| o.boot == member.boot).and_then(|o| o.round_trip);
        member.deadline = self.deadline_of(&member, now);
        let is_reachable = member.state.is_reachable();
        let is_left = member.state == MemberState::Left;
        let new = member.state;
        let looks = details(&member);
        self.warn_of_name(&member);
        let old = self.members.put(member);
        let old_state = old.as_ref().map(|old| old.state);
        let looked = old.as_ref().map(details);
        if is_reachable && !old_state.is_some_and(MemberState::is_reachable) {
            self.add_to_round(node);
        }
        if is_left {
            self.drop_facts(node);
        }
        if old_state != Some(new) || looked != Some(looks) {
            self.outputs.push(RingOutput::MemberChanged { node, old: old_state, new: Some(new) });
            self.save_soon(now);
        }
        self.spread(now, Rumour::Member(node));
    }

    pub(crate) fn hear_forget(&mut self, now: Moment, record: ForgetRecord) {
        if record.incarnation.0 > INCARNATION_MAX || self.is_leap(record.node, record.incarnation) {
            self.counters.refused_records += 1;
            return;
        }
        if record.node == self.me.node {
            self.hear_about_me(now, record.incarnation, MemberState::Left, self.me.boot);
            return;
        }
        let age = Duration::from_secs(u64::from(record.age_secs));
        let is_old = age >= self.reap_from()
            || self.members.forgotten_up_to(record.node).is_some_and(|to| to >= record.incarnation)
            || self.members.get(record.node).is_some_and(|m| m.incarnation > record.incarnation);
        if is_old {
            return;
        }
        if self.members.forgotten_len() >= RING_MAX_MEMBERS {
            self.counters.refused_members += 1;
            return;
        }
        self.take_forget(now, record);
    }

    pub(crate) fn take_forget(&mut self, now: Moment, record: ForgetRecord) {
        let node = record.node;
        let missing = self.seeds.forget(node).then_some(MemberState::Dead);
        self.drop_facts(node);
        let old = self.members.forget(now, record).map(|old| old.state).or(missing);
        if old.is_some() {
            self.outputs.push(RingOutput::MemberChanged { node, old, new: None });
        }
        self.warned_names.remove(&node);
        self.save_soon(now);
        self.spread(now, Rumour::Forget(node));
    }

    /// Goes above what was said about this node, if it is wrong.
    pub(crate) fn hear_about_me(
        &mut self,
        now: Moment,
        incarnation: Incarnation,
        state: MemberState,
        boot: BootNonce,
    ) {
        let Some(mine) = self.members.get(self.me.node).map(|me| me.incarnation) else { return };
        if self.is_leap(self.me.node, incarnation) {
            self.counters.refused_records += 1;
            return;
        }
        let is_wrong = incarnation > mine
            || (incarnation == mine && (state != MemberState::Alive || boot != self.me.boot));
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        if incarnation < mine && state != MemberState::Alive {
            // Whoever says so has missed the refutation.
            self.spread(now, Rumour::Member(self.me.node));
        }
        if is_wrong {
            if self.refutations_left == 0 {
                self.refute_later = self.refute_later.max(Some(incarnation.0));
                return;
            }
            self.refutations_left -= 1;
            self.refute(now, incarnation.0);
        }
    }

    pub(crate) fn refute(&mut self, now: Moment, above: u64) {
        let Some(mut me) = self.members.get(self.me.node).cloned() else { return };
        let next = above.max(me.incarnation.0).saturating_add(1);
        if next > INCARNATION_MAX {
            self.counters.refused_records += 1;
            return;
        }
        me.incarnation = Incarnation(next);
        self.members.put(me);
        self.keep_ceiling_above(now, next);
        self.spread(now, Rumour::Member(self.me.node));
    }

    /// Notes a message under this node's own id.
    pub(crate) fn hear_own_id(&mut self, now: Moment, from: std::net::SocketAddr, boot: BootNonce) {
        if boot == self.me.boot {
            self.counters.echoes += 1;
            return;
        }
        self.counters.clones += 1;
        if self.warned_clone.is_none_or(|at| now.since(at) >= CLONE_WARNING_INTERVAL) {
            self.warned_clone = Some(now);
            let node = self.me.node;
            self.warn(format!(
                "a daemon at {from} uses this node's id {node}: one of the two data directories is \
                 a copy of the other"
            ));
        }
    }

    pub(crate) fn tick_deadlines(&mut self, now: Moment) {
        while let Some(node) = self.members.first_due(now) {
            let Some(member) = self.members.get(node) else { return };
            if member.state == MemberState::Suspect && !member.asked_last {
                self.ask_for_the_last_time(now, node);
                continue;
            }
            let mut record = member.record(now);
            record.state = MemberState::Dead;
            record.accusers.clear();
            record.age_secs = 0;
            self.take_record(now, record);
        }
    }

    fn reap_from(&self) -> Duration {
        self.timing.reap_after.saturating_sub(self.timing.reap_after / REAP_SLACK_SHARE)
    }

    /// Whether `incarnation` is implausibly far above what is known of `node`.
    fn is_leap(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let member = self.members.get(node).map(|member| member.incarnation);
        let known = member.max(self.members.forgotten_up_to(node));
        known.is_some_and(|known| incarnation.0.saturating_sub(known.0) > INCARNATION_JUMP_MAX)
    }

    fn hear_new_member(&mut self, now: Moment, record: MemberRecord) {
        let is_gone = matches!(record.state, MemberState::Dead | MemberState::Left);
        let age = Duration::from_secs(u64::from(record.age_secs));
        // Others reap at a slightly other time; without slack a reaped member came back for ever.
        if is_gone && age >= self.reap_from() {
            return;
        }
        if self.members.len() >= RING_MAX_MEMBERS {
            self.counters.refused_members += 1;
            return;
        }
        self.seeds.forget(record.node);
        self.take_record(now, record);
    }

    fn hear_accusers(&mut self, now: Moment, mut record: MemberRecord) {
        let Some(known) = self.members.get(record.node) else { return };
        let mut accusers = known.accusers.clone();
        for accuser in &record.accusers {
            if accusers.len() < ACCUSERS_MAX && !accusers.contains(accuser) {
                accusers.push(*accuser);
            }
        }
        if record.state == MemberState::Suspect && accusers.len() > known.accusers.len() {
            record.accusers = accusers;
            self.take_record(now, record);
        }
    }

    /// Somebody's state calls a member dead that is alive here. A split ring has healed, or it
    /// died just now: it is told, so that it can refute, and it is probed next.
    fn tell_the_accused(&mut self, now: Moment, record: MemberRecord) {
        let (node, to) = (record.node, self.addr_of(record.node));
        if let Some(to) = to
            && self.repair.may_tell()
        {
            let message = baton_wire::RingMessage::Member(record);
            self.send_datagram(now, to, Some(message), None);
            self.probe_next(node);
        }
    }

    /// A refutation may have been lost on its way here. Asking the suspect itself, both ways, costs
    /// two messages and keeps a node that is well from being called dead.
    fn ask_for_the_last_time(&mut self, now: Moment, node: NodeId) {
        self.members.set_asked_last(node, now + self.timing.probe_timeout);
        for way in [Way::Datagram, Way::Stream] {
            let number = self.prober.next_number();
            self.send_ping(now, node, number, way);
        }
    }

    fn deadline_of(&self, member: &Member, now: Moment) -> Option<Moment> {
        match member.state {
            MemberState::Suspect => {
                let members = self.members.reachable();
                let accusers = member.accusers.len();
                let span = suspicion::timeout(&self.timing, members, accusers);
                let span = if member.asked_last {
                    span
                } else {
                    span.saturating_sub(self.timing.probe_timeout)
                };
                Some((member.since + span).max(now))
            }
            MemberState::Restarting => {
                let left = self.timing.restart_grace.saturating_sub(member.age(now));
                Some(now + left)
            }
            MemberState::Alive | MemberState::Dead | MemberState::Left => None,
        }
    }

    fn warn_of_name(&mut self, member: &Member) {
        let is_clash = member.name == self.me.name && member.node != self.me.node;
        if is_clash && member.state.is_reachable() && self.warned_names.insert(member.node) {
            let (name, addr, node) = (&member.name, member.addr, member.node);
            let text = format!("the node {node} at {addr} has this node's name {name}");
            self.warn(text);
        }
    }

    pub(crate) fn drop_facts(&mut self, node: NodeId) {
        for key in self.facts.drop_owner(node) {
            self.outputs.push(RingOutput::FactChanged { node, key });
        }
    }
}

/// Whether a record can be true at all.
pub(crate) fn is_plausible(record: &MemberRecord) -> bool {
    let ip = record.addr.ip();
    let is_addr = !ip.is_unspecified() && !ip.is_multicast() && record.addr.port() != 0;
    is_addr
        && (1..=INCARNATION_MAX).contains(&record.incarnation.0)
        && record.accusers.len() <= ACCUSERS_MAX
        && record.more.len() <= MORE_MAX_BYTES
}

fn rank(record: &MemberRecord) -> (Incarnation, MemberState, BootNonce) {
    (record.incarnation, record.state, record.boot)
}

fn details(
    member: &Member,
) -> (std::net::SocketAddr, baton_types::NodeName, BootNonce, baton_types::Text) {
    (member.addr, member.name.clone(), member.boot, member.version.clone())
}

/// Incarnations rise by one with each refutation and by a block with each start; a jump beyond
/// that is forged and would take the member's room to refute.
const INCARNATION_JUMP_MAX: u64 = 1 << 20;

/// A member that is gone is not taken up again within the last 1/64 of `reap_after`.
const REAP_SLACK_SHARE: u32 = 64;

/// A copy of this node sends without end; once a minute is enough to be found in a journal.
const CLONE_WARNING_INTERVAL: Duration = Duration::from_secs(60);
