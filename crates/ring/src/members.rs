//! The table of members and of forgotten ones.
//!
//! Invariant: digest, deadlines and the count of reachable members always fit the table, because
//! `put`, `remove` and `set_deadline` are the only ways to change it. A node is a member or
//! forgotten, never both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::{Incarnation, Moment, NodeId};
use baton_wire::ring::ForgetRecord;

use crate::digest::{Digest, item};
use crate::member::Member;

/// All members, this node included.
#[derive(Debug, Default)]
pub(crate) struct Members {
    members: BTreeMap<NodeId, Member>,
    forgotten: BTreeMap<NodeId, Forgotten>,
    deadlines: BTreeSet<(Moment, NodeId)>,
    reachable: usize,
    digest: Digest,
}

/// A tombstone.
#[derive(Clone, Copy, Debug)]
struct Forgotten {
    incarnation: Incarnation,
    heard: Moment,
    age_when_heard: Duration,
}

impl Members {
    pub(crate) fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Alive and suspect members, this node included.
    pub(crate) fn reachable(&self) -> usize {
        self.reachable
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Puts `member` in place of what was known of it, and of its tombstone.
    pub(crate) fn put(&mut self, member: Member) -> Option<Member> {
        self.unforget(member.node);
        let old = self.remove(member.node);
        self.digest = self.digest + member_item(&member);
        self.reachable += usize::from(member.state.is_reachable());
        if let Some(deadline) = member.deadline {
            self.deadlines.insert((deadline, member.node));
        }
        self.members.insert(member.node, member);
        old
    }

    pub(crate) fn remove(&mut self, node: NodeId) -> Option<Member> {
        let old = self.members.remove(&node)?;
        self.digest = self.digest - member_item(&old);
        self.reachable -= usize::from(old.state.is_reachable());
        if let Some(deadline) = old.deadline {
            self.deadlines.remove(&(deadline, node));
        }
        Some(old)
    }

    /// Notes that the suspect `node` was asked for the last time, and when its suspicion ends.
    pub(crate) fn set_asked_last(&mut self, node: NodeId, ends: Moment) {
        let Some(member) = self.members.get_mut(&node) else { return };
        if let Some(deadline) = member.deadline.replace(ends) {
            self.deadlines.remove(&(deadline, node));
        }
        self.deadlines.insert((ends, node));
        member.asked_last = true;
    }

    pub(crate) fn set_round_trip(&mut self, node: NodeId, round_trip: Duration) {
        if let Some(member) = self.members.get_mut(&node) {
            member.round_trip = Some(round_trip);
        }
    }

    pub(crate) fn first_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The member whose deadline is the first one over by `now`.
    pub(crate) fn first_due(&self, now: Moment) -> Option<NodeId> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, node)| *node)
    }

    /// Moves every deadline `by` later and at least to `earliest`; names the members that have
    /// one.
    pub(crate) fn postpone(&mut self, by: Duration, earliest: Moment) -> Vec<NodeId> {
        let moved: Vec<_> = std::mem::take(&mut self.deadlines).into_iter().collect();
        for (at, node) in &moved {
            let later = (*at + by).max(earliest);
            self.deadlines.insert((later, *node));
            if let Some(member) = self.members.get_mut(node) {
                member.deadline = Some(later);
            }
        }
        moved.into_iter().map(|(_, node)| node).collect()
    }

    /// Up to which incarnation `node` is forgotten.
    pub(crate) fn forgotten_up_to(&self, node: NodeId) -> Option<Incarnation> {
        self.forgotten.get(&node).map(|tombstone| tombstone.incarnation)
    }

    pub(crate) fn forgotten_len(&self) -> usize {
        self.forgotten.len()
    }

    /// Notes the tombstone and removes the member; gives back what it was.
    pub(crate) fn forget(&mut self, now: Moment, record: ForgetRecord) -> Option<Member> {
        let old = self.remove(record.node);
        self.unforget(record.node);
        let tombstone = Forgotten {
            incarnation: record.incarnation,
            heard: now,
            age_when_heard: Duration::from_secs(u64::from(record.age_secs)),
        };
        self.forgotten.insert(record.node, tombstone);
        self.digest = self.digest + forgotten_item(record.node, record.incarnation);
        old
    }

    /// Drops the tombstone.
    pub(crate) fn unforget(&mut self, node: NodeId) {
        if let Some(old) = self.forgotten.remove(&node) {
            self.digest = self.digest - forgotten_item(node, old.incarnation);
        }
    }

    pub(crate) fn forgotten(&self, now: Moment) -> impl Iterator<Item = ForgetRecord> {
        self.forgotten.iter().map(move |(node, tombstone)| tombstone.record(*node, now))
    }

    pub(crate) fn forget_record(&self, now: Moment, node: NodeId) -> Option<ForgetRecord> {
        self.forgotten.get(&node).map(|tombstone| tombstone.record(node, now))
    }
}

impl Forgotten {
    fn record(&self, node: NodeId, now: Moment) -> ForgetRecord {
        let age = now.since(self.heard) + self.age_when_heard;
        let age_secs = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        ForgetRecord { node, incarnation: self.incarnation, age_secs }
    }
}

fn member_item(member: &Member) -> Digest {
    let incarnation = member.incarnation.0.to_le_bytes();
    item(1, &[member.node.as_bytes(), &incarnation, &[member.state as u8], &member.boot.0])
}

fn forgotten_item(node: NodeId, incarnation: Incarnation) -> Digest {
    item(2, &[node.as_bytes(), &incarnation.0.to_le_bytes()])
}
