//! What outlives the daemon, and for how long what is gone stays known.
//!
//! Invariant: no incarnation above the saved ceiling ever leaves this node; a lost or damaged file
//! costs a refutation and nothing else.

use std::time::Duration;

use baton_types::limits::RING_MAX_MEMBERS;
use baton_types::{Moment, NodeId};
use baton_wire::ring::{ForgetRecord, MemberState};

use crate::hear::is_plausible;
use crate::member::Member;
use crate::output::{RingOutput, SavedRing};
use crate::ring::{INCARNATION_MAX, Ring};

impl Ring {
    /// Drops members that are gone, and tombstones, for as long as nobody needs them any more.
    pub(crate) fn reap(&mut self, now: Moment) {
        let after = self.timing.reap_after;
        let old: Vec<(NodeId, MemberState)> = self
            .members
            .iter()
            .filter(|m| matches!(m.state, MemberState::Dead | MemberState::Left))
            .filter(|m| m.age(now) >= after)
            .map(|m| (m.node, m.state))
            .collect();
        for (node, state) in old {
            self.members.remove(node);
            self.drop_facts(node);
            self.warned_names.remove(&node);
            self.outputs.push(RingOutput::MemberChanged { node, old: Some(state), new: None });
            self.save_soon(now);
        }
        let is_old = |f: &ForgetRecord| Duration::from_secs(u64::from(f.age_secs)) >= after;
        let old: Vec<_> = self.members.forgotten(now).filter(is_old).map(|f| f.node).collect();
        for node in old {
            self.members.unforget(node);
        }
    }

    /// What was saved becomes: dead and left members, tombstones, and addresses to try. Who was
    /// alive then may not be any more, so nothing is claimed of him.
    pub(crate) fn restore(&mut self, now: Moment, saved: SavedRing) {
        for forgotten in saved.forgotten.into_iter().take(RING_MAX_MEMBERS) {
            if forgotten.incarnation.0 <= INCARNATION_MAX && forgotten.node != self.me.node {
                self.members.forget(now, forgotten);
            }
        }
        for record in saved.members.into_iter().take(RING_MAX_MEMBERS - 1) {
            if record.node == self.me.node || !is_plausible(&record) {
                continue;
            }
            if matches!(record.state, MemberState::Dead | MemberState::Left) {
                self.members.put(Member::from_record(record, now));
            } else {
                self.seeds.remember(record);
            }
        }
    }

    /// Lets the saved ceiling stay ahead of `incarnation`, so that no refutation waits for a disk.
    pub(crate) fn keep_ceiling_above(&mut self, now: Moment, incarnation: u64) {
        if incarnation.saturating_add(CEILING_BLOCK / 2) > self.incarnation_ceiling {
            self.incarnation_ceiling = incarnation.saturating_add(CEILING_BLOCK);
            self.save(now);
        }
    }

    pub(crate) fn save(&mut self, now: Moment) {
        self.save_at = None;
        let me = self.me.node;
        let mut members: Vec<_> =
            self.members.iter().filter(|m| m.node != me).map(|m| m.record(now)).collect();
        // Who is missing is remembered for the next life too.
        members.extend(self.missing().cloned());
        let forgotten = self.members.forgotten(now).collect();
        let incarnation_ceiling = self.incarnation_ceiling;
        self.outputs.push(RingOutput::Save(SavedRing { incarnation_ceiling, members, forgotten }));
    }

    pub(crate) fn save_soon(&mut self, now: Moment) {
        self.save_at = Some(self.save_at.unwrap_or(now + SAVE_DELAY));
    }
}

/// How far the saved ceiling is ahead: refutations between two writes.
const CEILING_BLOCK: u64 = 64;

/// Changes that come close together are saved together; losing the last ones costs nothing but
/// addresses to try.
const SAVE_DELAY: Duration = Duration::from_secs(5);
