//! Steps that are the same whatever the bounds are and whichever rule is broken.
//!
//! Invariant: as for every action, a step uses only what one node holds itself and what was sent.

use crate::state::{Append, Node, Record, Role, Stage, State, bit, turn_of};

impl State {
    /// A leader's record: in its memory, sent to everybody, being written.
    pub(crate) fn write(&mut self, me: u8, record: Record) {
        let node = &mut self.nodes[usize::from(me)];
        node.newest = record;
        node.role = Role::Leader { acks: 0, saved: false, idle: false };
        let term = node.term;
        self.send(Append { term, from: me, record });
    }

    fn send(&mut self, append: Append) {
        if let Err(place) = self.appends.binary_search(&append) {
            self.appends.insert(place, append);
        }
    }

    pub(crate) fn saved(&mut self, me: u8) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        let Role::Leader { acks, saved: false, idle } = node.role else { return false };
        node.disk = node.newest;
        node.role = Role::Leader { acks, saved: true, idle };
        true
    }

    /// Ledger: "every message carries what its sender holds on disk": the leader of that record
    /// is to learn that this node holds it.
    pub(crate) fn acknowledge(&mut self, me: u8, append: Append) {
        let is_waited_for = append.waits_for(me, &self.nodes);
        let leader = &mut self.nodes[usize::from(append.from)];
        if let Role::Leader { acks, .. } = &mut leader.role
            && is_waited_for
        {
            *acks |= bit(me);
        }
    }

    /// Rollout, go (member): only for the claim in its memory, within its window, and *begun* is
    /// on disk before the program stops.
    pub(crate) fn go(&mut self, me: u8, claim: u8) -> bool {
        let Some(turn) = turn_of(me) else { return false };
        let node = &mut self.nodes[usize::from(me)];
        if node.claim != Some(claim) || node.stage != Stage::Before {
            return false;
        }
        self.ghost.late |= node.over;
        self.ghost.early |= self.ghost.taken[usize::from(turn)] & bit(claim) == 0;
        node.stage = Stage::Begun;
        node.claim = None;
        node.over = false;
        true
    }

    /// Rollout, outcome (member): the outcome is on disk, then it is said.
    pub(crate) fn finish(&mut self, me: u8) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        if turn_of(me).is_none() || node.stage != Stage::Begun {
            return false;
        }
        node.stage = Stage::Ended;
        true
    }
}

impl Node {
    /// Goes to a higher term, in which it has not voted yet. A write under way ends as it may:
    /// here it is lost, and that it ended first is another order.
    pub(crate) fn enter(&mut self, term: u8) {
        if term > self.term {
            self.term = term;
            self.vote = None;
            self.newest = self.disk;
            self.role = Role::Follower;
        }
    }
}
