//! Going: for good (`leave`), for a restart (`goodbye`), and removing one that is gone
//! (`forget`).
//!
//! Invariant: a node that has gone sends nothing any more. `Left` comes once, after peers have
//! acknowledged it or after a bounded number of attempts.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{Moment, NodeId};
use baton_wire::RingMessage;
use baton_wire::ring::{ForgetRecord, MemberState, Way};

use crate::output::{ForgetError, RingOutput};
use crate::ring::{Phase, Ring};

/// A departure under way.
#[derive(Debug)]
pub(crate) struct Departure {
    asked: BTreeMap<u64, NodeId>,
    acknowledged: BTreeSet<NodeId>,
    attempts: u32,
    next_at: Moment,
}

impl Departure {
    pub(crate) fn next_at(&self) -> Moment {
        self.next_at
    }
}

impl Ring {
    /// Announces that this node will not come back; `RingOutput::Left` follows.
    pub fn leave(&mut self, now: Moment) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        self.phase = Phase::Leaving(Departure {
            asked: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            attempts: 0,
            next_at: now,
        });
        self.set_my_state(now, MemberState::Left);
        self.tick_leave(now);
    }

    /// Says that this node's daemon stops and may be back within the grace. The outputs are the
    /// last ones.
    pub fn goodbye(&mut self, now: Moment) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        self.save(now);
        self.set_my_state(now, MemberState::Restarting);
        let Some(me) = self.my_record(now) else { return };
        for (at, node) in self.draw_peers(GOODBYE_PEERS, None).into_iter().enumerate() {
            let Some(to) = self.addr_of(node) else { continue };
            let message = RingMessage::Member(me.clone());
            if at < GOODBYE_STREAMS {
                self.send_stream(to, vec![message]);
            } else {
                self.send_datagram(now, to, Some(message), None);
            }
        }
        self.phase = Phase::Gone;
    }

    /// Removes a member that is gone, here and on every node; a late rumour does not bring it
    /// back, a new start of it does.
    ///
    /// # Errors
    ///
    /// This node itself, an unknown member, and one that is not dead and has not left.
    pub fn forget(&mut self, now: Moment, node: NodeId) -> Result<(), ForgetError> {
        if node == self.me.node {
            return Err(ForgetError::Myself);
        }
        let incarnation = match (self.members.get(node), self.missing_member(node)) {
            (Some(member), _) if !matches!(member.state, MemberState::Dead | MemberState::Left) => {
                let (name, state) = (member.name.clone(), member.state);
                return Err(ForgetError::NotGone { name, state });
            }
            (Some(member), _) => member.incarnation,
            (None, Some(missing)) => missing.incarnation,
            (None, None) => return Err(ForgetError::Unknown(node)),
        };
        self.take_forget(now, ForgetRecord { node, incarnation, age_secs: 0 });
        Ok(())
    }

    pub(crate) fn tick_leave(&mut self, now: Moment) {
        let Phase::Leaving(departure) = &mut self.phase else { return };
        if departure.next_at > now {
            return;
        }
        departure.attempts += 1;
        departure.next_at = now + self.timing.probe_timeout;
        let attempts = departure.attempts;
        if self.is_alone() {
            self.gone();
            return;
        }
        if attempts > ATTEMPTS_MAX {
            self.warn("left the ring, but no peer has acknowledged it".to_owned());
            self.gone();
            return;
        }
        let Some(me) = self.my_record(now) else { return };
        for node in self.draw_peers(LEAVE_PEERS, None) {
            let Some(to) = self.addr_of(node) else { continue };
            let number = self.prober.next_number();
            if let Phase::Leaving(departure) = &mut self.phase {
                departure.asked.insert(number, node);
            }
            let message = RingMessage::Member(me.clone());
            let way = if attempts > DATAGRAM_ATTEMPTS { Way::Stream } else { Way::Datagram };
            let ping = RingMessage::Ping { number, target: node, digest: self.digest(), way };
            match way {
                Way::Datagram => self.send_datagram(now, to, Some(message), Some(ping)),
                Way::Stream => self.send_stream(to, vec![message, ping]),
            }
        }
    }

    pub(crate) fn departure_ack(&mut self, sender: NodeId, number: u64) {
        let others = self.other_reachable();
        let Phase::Leaving(departure) = &mut self.phase else { return };
        if departure.asked.get(&number) == Some(&sender) {
            departure.acknowledged.insert(sender);
            if departure.acknowledged.len() >= ACKNOWLEDGED_ENOUGH.min(others) {
                self.gone();
            }
        }
    }

    fn gone(&mut self) {
        self.phase = Phase::Gone;
        self.outputs.push(RingOutput::Left);
    }

    fn set_my_state(&mut self, now: Moment, state: MemberState) {
        if let Some(mut me) = self.members.get(self.me.node).cloned() {
            me.state = state;
            me.since = now;
            self.members.put(me);
            self.spread(now, crate::gossip::Rumour::Member(self.me.node));
        }
    }
}

/// Peers told in each attempt to leave.
const LEAVE_PEERS: usize = 5;

/// Peers that have to know; they tell the others.
const ACKNOWLEDGED_ENOUGH: usize = 3;

/// Attempts by datagram; then streams are tried.
const DATAGRAM_ATTEMPTS: u32 = 3;

/// Attempts in all; then the others find out by probing.
const ATTEMPTS_MAX: u32 = 8;

/// Peers told of a restart: without acknowledgement, so several.
const GOODBYE_PEERS: usize = 8;

/// Of those, by stream, in case datagrams are lost.
const GOODBYE_STREAMS: usize = 2;
