//! How time goes by in the world: ticks, deliveries, writes and gossip, in order.

use std::time::Duration;

use baton_types::{Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, LedgerMessage};
use rand::RngExt;

use super::world::Disk;
use super::world::{Event, World, ms, node};
use crate::{Ledger, Liveness, Seen};

impl World {
    pub(super) fn step(&mut self, end: Moment) -> bool {
        let next_tick = self
            .hosts
            .iter()
            .enumerate()
            .filter_map(|(at, host)| Some((host.ledger.as_ref()?.next_tick().max(self.now), at)))
            .min();
        let next_event = self.events.first_key_value().map(|(key, _)| key.0);
        match (next_tick, next_event) {
            (Some((at, host)), event) if event.is_none_or(|event| at < event) => {
                if at > end {
                    return false;
                }
                self.spins = if at > self.now { 0 } else { self.spins + 1 };
                assert!(self.spins < 1_000, "next_tick stands still:\n{}", self.picture());
                self.now = at;
                self.ledger(host).tick(at);
                self.after(host);
            }
            (_, Some(at)) if at <= end => {
                self.spins = 0;
                self.now = at;
                if let Some((_, event)) = self.events.pop_first() {
                    self.happen(event);
                }
            }
            _ => return false,
        }
        true
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Deliver { from, to, message } => {
                if let Some(ledger) = &mut self.hosts[to].ledger {
                    ledger.receive(now, node(from), *message);
                    self.after(to);
                }
            }
            Event::Written { host, boot, token, file, ok } => {
                if self.hosts[host].boot == boot && self.hosts[host].ledger.is_some() {
                    if ok {
                        self.hosts[host].disk = Disk::Holds(file);
                    }
                    self.ledger(host).persisted(now, token, ok);
                    self.after(host);
                }
            }
            Event::Gossip => {
                self.schedule(ms(100), Event::Gossip);
                for host in self.up() {
                    let seen = self.seen_by(host);
                    self.ledger(host).see(now, &seen);
                    self.after(host);
                }
            }
        }
    }

    fn seen_by(&self, me: usize) -> Vec<Seen> {
        let was_up = |host: &usize| self.hosts[*host].boot > 0;
        let see = |host: usize| {
            let is_cut = self.cut.contains(&(me, host)) || self.cut.contains(&(host, me));
            let ledger = self.hosts[host].ledger.as_ref().filter(|_| host == me || !is_cut);
            let view = ledger.map(Ledger::view);
            let liveness = match &view {
                _ if self.left.contains(&host) => Liveness::Left,
                Some(_) => Liveness::Alive,
                None => Liveness::Dead,
            };
            Seen {
                node: node(host),
                liveness,
                lineage: view.as_ref().and_then(|v| v.committed).map(|record| record.lineage),
                replaces: view
                    .as_ref()
                    .and_then(|v| v.committed)
                    .map(|record| record.replaces.clone())
                    .unwrap_or_default(),
                absorbs: view
                    .as_ref()
                    .and_then(|v| v.committed)
                    .map(|record| record.absorbs.clone())
                    .unwrap_or_default(),
                leader: view.as_ref().filter(|v| v.committed.is_some()).and_then(|v| v.leader),
                term: view.as_ref().and_then(|v| v.committed).map_or(Term(0), |record| record.term),
                heard_of_me: None,
            }
        };
        (0..self.hosts.len()).filter(was_up).map(see).collect()
    }

    pub(super) fn post(&mut self, from: usize, to: NodeId, message: LedgerMessage) {
        assert!(message.is_sane(), "{message:?}");
        let Some(to) = (0..self.hosts.len()).find(|host| node(*host) == to) else { return };
        if let LedgerBody::Append { record, .. } = &message.body {
            *self.sent.entry("append").or_default() += 1;
            self.records_sent += usize::from(record.is_some());
        }
        let copies = 1 + u32::from(self.rng.random_range(0..1_000) < self.faults.duplication);
        for _ in 0..copies {
            let is_lost = self.rng.random_range(0..1_000) < self.faults.loss;
            let delay = self.rng.random_range(500..=self.faults.delay_max.max(1) * 1_000);
            if !is_lost && !self.cut.contains(&(from, to)) {
                let message = Box::new(message.clone());
                self.schedule(Duration::from_micros(delay), Event::Deliver { from, to, message });
            }
        }
    }

    pub(super) fn schedule(&mut self, span: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + span, self.sequence), event);
    }
}
