//! Steps that are the same whatever the bounds are and whichever rule is broken.
//!
//! Invariant: as for every action, a step uses only what one node holds itself.

use crate::state::{Message, Node, Record, Role, Stage, State, bit, turn_of};

impl State {
    /// Ledger: who hears nobody for the election timeout lets go; "a leader that is alone falls
    /// silent".
    pub(crate) fn silence(&mut self, me: u8) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        let promised = matches!(node.role, Role::Follower { promised: true, .. });
        if let Role::Leader { saved: false, .. } = node.role {
            // Its write goes on; that it ends first loses no order of events.
            return false;
        }
        node.role = Role::Follower { hears: false, promised };
        true
    }

    /// Ledger, electing: "asks the others whether they would vote for it": not while they hear a
    /// leader, nor for an older term or record.
    pub(crate) fn promise(&mut self, me: u8, by: u8) -> bool {
        let voter = self.nodes[usize::from(by)];
        let node = &mut self.nodes[usize::from(me)];
        let hears = matches!(voter.role, Role::Follower { hears: true, .. } | Role::Leader { .. });
        let is_old = node.term < voter.term || node.disk.mark() < voter.disk.mark();
        let Role::Follower { hears: false, promised: false } = node.role else { return false };
        if hears || is_old {
            return false;
        }
        node.role = Role::Follower { hears: false, promised: true };
        true
    }

    /// A leader's record: in its memory, sent to everybody, being written.
    pub(crate) fn write(&mut self, me: u8, record: Record) {
        let node = &mut self.nodes[usize::from(me)];
        node.newest = record;
        node.role = Role::Leader { acks: 0, saved: false, idle: false };
        let term = node.term;
        let Record { turns, counted, .. } = record;
        let mark = record.mark();
        self.sent.insert(Message::Append { term, from: me, mark, turns, counted });
    }

    pub(crate) fn saved(&mut self, me: u8) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        let Role::Leader { acks, saved: false, idle } = node.role else { return false };
        node.disk = node.newest;
        node.role = Role::Leader { acks, saved: true, idle };
        true
    }

    /// Ledger: an acknowledgement says what its sender holds on disk; a higher term ends a leader.
    pub(crate) fn held(&mut self, me: u8, term: u8, from: u8, mark: (u8, u8)) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        let Role::Leader { acks, saved, idle } = node.role else { return false };
        if from == me || term < node.term {
            return false;
        }
        if term > node.term {
            node.enter(term);
        } else if mark == node.newest.mark() {
            node.role = Role::Leader { acks: acks | bit(from), saved, idle };
        }
        true
    }

    /// Rollout, outcome (member): the outcome is on disk, then it is said.
    pub(crate) fn finish(&mut self, me: u8) -> bool {
        let Some(turn) = turn_of(me) else { return false };
        let node = &mut self.nodes[usize::from(me)];
        if node.stage != Stage::Begun {
            return false;
        }
        node.stage = Stage::Ended;
        self.sent.insert(Message::Outcome { turn })
    }
}

impl Node {
    /// Goes to a higher term, in which it has not voted yet; a write under way ends as it may.
    pub(crate) fn enter(&mut self, term: u8) {
        if term > self.term {
            self.term = term;
            self.vote = None;
            self.newest = self.disk;
            self.role = Role::Follower { hears: false, promised: false };
        }
    }
}
