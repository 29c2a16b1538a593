//! Peers that do not answer although the ring has them for reachable: what this node has for them
//! also goes through others, which is how a link that is broken between just two nodes stops nobody.
//!
//! Invariant: a relay passes on only what its author handed to it, and only once, so a message
//! travels over at most two links and nobody can be made to flood anybody.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::{Moment, NodeId};
use baton_wire::{LedgerBody, Message, Relayed, TurnMessage};
use rand::seq::IteratorRandom as _;

use crate::shared::Shared;

/// Since when each peer owes an answer, and who does not hear this node.
#[derive(Debug)]
pub(crate) struct Relays {
    silent: BTreeMap<NodeId, Silence>,
    /// Peers whose messages came through others, so that they wait for this node, and until when
    /// that is believed. Their own may come directly as well: a link may be broken one way.
    deaf: BTreeMap<NodeId, Moment>,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The first message that nothing came back for.
    since: Moment,
    /// The last one.
    last: Moment,
}

impl Relays {
    pub(crate) fn new(heartbeat: Duration) -> Self {
        let patience = heartbeat * PATIENCE_HEARTBEATS;
        Self { silent: BTreeMap::new(), deaf: BTreeMap::new(), patience }
    }

    /// Something for another node came from `peer` itself.
    pub(crate) fn heard(&mut self, peer: NodeId) {
        self.silent.remove(&peer);
    }

    /// Something from `author` came through another node.
    fn heard_of(&mut self, now: Moment, author: NodeId) {
        self.deaf.insert(author, now + self.patience * FORGOTTEN_AFTER);
    }

    /// Whether what is sent to `peer` now should also go through others. A silence begins with a
    /// message that wants an answer; while it lasts everything takes both ways.
    fn is_due(&mut self, now: Moment, peer: NodeId, wants_answer: bool) -> bool {
        let fresh = Silence { since: now, last: now };
        // An answer may never come, because nothing is wanted any more: after a long pause the count
        // begins anew.
        let is_forgotten = |last: Moment| now.since(last) > self.patience * FORGOTTEN_AFTER;
        match self.silent.get_mut(&peer) {
            Some(silence) if !is_forgotten(silence.last) => silence.last = now,
            _ if wants_answer => {
                self.silent.insert(peer, fresh);
            }
            _ => {
                self.silent.remove(&peer);
            }
        }
        let silent_since = self.silent.get(&peer).map(|silence| silence.since);
        if self.deaf.get(&peer).is_some_and(|until| *until <= now) {
            self.deaf.remove(&peer);
        }
        self.deaf.contains_key(&peer)
            || silent_since.is_some_and(|since| now.since(since) >= self.patience)
    }
}

impl Shared {
    /// Hands copies of `message` to a few others if `to` has not answered for a while.
    pub(crate) fn relay(&mut self, to: NodeId, message: &Message) {
        let is_reachable = |node| self.ring.member(node).is_some_and(|m| m.state.is_reachable());
        if !is_reachable(to) || !self.relays.is_due(self.moment, to, wants_answer(message)) {
            return;
        }
        let me = self.me;
        let others = self
            .ring
            .members()
            .filter(|member| member.state.is_reachable() && member.node != me && member.node != to);
        let through = others.map(|member| member.addr).sample(&mut self.rng, RELAYS);
        let version = self.ring.addr_of(to).map(|addr| self.peers.version_for(addr));
        let relayed = version.and_then(|version| Relayed::new(me, to, version, message));
        let Some(relayed) = relayed else { return };
        for addr in through {
            self.send_to(addr, vec![Message::Relayed(relayed.clone())], false);
        }
    }

    /// Passes on what `sender` handed to this node for another one, whether this one could read it or
    /// not; the message itself if it is for this node.
    pub(crate) fn take_relayed(&mut self, sender: NodeId, relayed: Relayed) -> Option<Message> {
        if relayed.to == self.me {
            if relayed.from == self.me || self.ring.member(relayed.from).is_none() {
                return None;
            }
            let message = relayed.open(self.peers.ours())?;
            self.relays.heard_of(self.moment, relayed.from);
            return Some(message);
        }
        if sender == relayed.from
            && let Some(member) = self.ring.member(relayed.to)
            && member.state.is_reachable()
        {
            self.send_to(member.addr, vec![Message::Relayed(relayed)], false);
        }
        None
    }
}

/// Whether the peer answers it, or is to go on because of it, soon and with a message of its own.
const fn wants_answer(message: &Message) -> bool {
    match message {
        Message::Ledger(_, message) => matches!(
            message.body,
            LedgerBody::Propose(_)
                | LedgerBody::Accept { .. }
                | LedgerBody::Recall
                | LedgerBody::PreVote { .. }
                | LedgerBody::Vote { .. }
                | LedgerBody::Append { .. }
                | LedgerBody::Introduce
                | LedgerBody::Survey { .. }
        ),
        Message::Turn(_, message) => matches!(
            message,
            TurnMessage::Prepare { .. }
                | TurnMessage::Offer { .. }
                | TurnMessage::Claim { .. }
                | TurnMessage::Go { .. }
                | TurnMessage::Outcome { .. }
                | TurnMessage::Withdraw { .. }
        ),
        Message::Ask(_) => true,
        Message::Ring(_) | Message::Answer(_) | Message::Relayed(_) => false,
    }
}

/// Unanswered for so many heartbeats: well below an election timeout, which is eight of them.
const PATIENCE_HEARTBEATS: u32 = 3;

/// So many times the patience without anything sent.
const FORGOTTEN_AFTER: u32 = 8;

/// Others that a message is handed to: one of them may not reach the peer either.
const RELAYS: usize = 2;
