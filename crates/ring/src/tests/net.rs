//! A network of rings on a virtual clock: seeded loss and delay, partitions, restarts; every
//! datagram is held to `max_packet`, and a loop that does not end fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use baton_types::{BootNonce, FactKey, Moment, NodeId, NodeName, Profile, RingTiming, Text};
use baton_wire::seal::OVERHEAD_BYTES;
use baton_wire::{Envelope, Head, Message, RingMessage, Versions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Me, MemberState, Ring, RingOutput, SavedRing};

pub(crate) struct Net {
    pub(crate) now: Moment,
    pub(crate) nodes: Vec<Node>,
    pub(crate) timing: RingTiming,
    pub(crate) loss: f64,
    /// Also lose streams with the probability of `loss`.
    pub(crate) lose_streams: bool,
    /// Two nodes that do not hear each other, in either way.
    pub(crate) cut: Option<(usize, usize)>,
    /// Drop every message that carries gossip outside pings, acks and states.
    pub(crate) mute: bool,
    pub(crate) trace: Vec<String>,
    rng: StdRng,
    queue: BTreeMap<(Moment, u64), Delivery>,
    sequence: u64,
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) addr: SocketAddr,
    pub(crate) ring: Option<Ring>,
    pub(crate) saved: SavedRing,
    /// Nodes of different sides do not hear each other.
    pub(crate) side: u8,
    pub(crate) paused: bool,
    pub(crate) sent: usize,
    pub(crate) sent_bytes: usize,
    pub(crate) streams: usize,
    pub(crate) events: Vec<RingOutput>,
    boots: u128,
}

struct Delivery {
    from: usize,
    from_addr: SocketAddr,
    to: SocketAddr,
    boot: BootNonce,
    messages: Vec<RingMessage>,
}

impl Net {
    pub(crate) fn new(count: usize, profile: Profile, seed: u64) -> Self {
        let mut net = Self {
            now: Moment::from_millis(1_000_000_000),
            nodes: Vec::new(),
            timing: profile.timing(),
            loss: 0.0,
            lose_streams: false,
            cut: None,
            mute: false,
            trace: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            queue: BTreeMap::new(),
            sequence: 0,
        };
        for at in 0..count {
            net.add(at);
        }
        net
    }

    /// All nodes run and know each other, through the first one.
    pub(crate) fn joined(count: usize, profile: Profile, seed: u64) -> Self {
        let mut net = Self::new(count, profile, seed);
        for at in 0..count {
            net.start(at);
        }
        net.run_until(60, "all see all", |net| net.all_see_all());
        net.settle();
        net
    }

    fn add(&mut self, at: usize) {
        self.nodes.push(Node {
            id: NodeId::from_random(1 + at as u128),
            addr: addr(at, 0),
            ring: None,
            saved: SavedRing::default(),
            side: 0,
            paused: false,
            sent: 0,
            sent_bytes: 0,
            streams: 0,
            events: Vec::new(),
            boots: 0,
        });
    }

    pub(crate) fn start(&mut self, at: usize) {
        let (seed, now, timing) = (self.rng.random(), self.now, self.timing.clone());
        let first = self.nodes[0].addr;
        let node = &mut self.nodes[at];
        node.boots += 1;
        let me = Me {
            node: node.id,
            name: NodeName::new(format!("n{at}")).expect("a name"),
            addr: node.addr,
            boot: BootNonce::from_random((at as u128) << 64 | node.boots),
            version: Text::new("0.1.0"),
            versions: Versions::OURS,
        };
        let mut ring = Ring::new(me, timing, node.saved.clone(), seed, now);
        ring.set_seeds(now, vec![first]);
        node.ring = Some(ring);
        self.flush(at);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].ring = None;
    }

    pub(crate) fn ring(&self, at: usize) -> &Ring {
        self.nodes[at].ring.as_ref().expect("runs")
    }

    /// Calls into one ring and carries out what comes of it.
    pub(crate) fn with<T>(&mut self, at: usize, call: impl FnOnce(&mut Ring, Moment) -> T) -> T {
        let now = self.now;
        let result = call(self.nodes[at].ring.as_mut().expect("runs"), now);
        self.flush(at);
        result
    }

    pub(crate) fn state(&self, seen_by: usize, of: usize) -> Option<MemberState> {
        self.ring(seen_by).member(self.nodes[of].id).map(|member| member.state)
    }

    pub(crate) fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].ring.is_some()).collect()
    }

    pub(crate) fn all_see(&self, of: usize, state: Option<MemberState>) -> bool {
        self.running().into_iter().filter(|at| *at != of).all(|at| self.state(at, of) == state)
    }

    pub(crate) fn all_see_all(&self) -> bool {
        self.running().into_iter().all(|of| self.all_see(of, Some(MemberState::Alive)))
    }

    pub(crate) fn digests_equal(&self) -> bool {
        let running = self.running();
        running.iter().all(|at| self.ring(*at).digest() == self.ring(running[0]).digest())
    }

    pub(crate) fn all_know(&self, owner: usize, key: &FactKey, value: Option<&[u8]>) -> bool {
        let owner = self.nodes[owner].id;
        self.running().into_iter().all(|at| self.ring(at).fact(owner, key) == value)
    }

    /// Whether any node ever reported that state of `of`.
    pub(crate) fn was_reported(&self, of: usize, state: MemberState) -> bool {
        let wanted = self.nodes[of].id;
        self.nodes.iter().flat_map(|node| &node.events).any(|event| {
            matches!(event, RingOutput::MemberChanged { node, new, .. }
                if *node == wanted && *new == Some(state))
        })
    }

    /// Runs until nobody has anything to tell and all know the same; forgets events and counts.
    pub(crate) fn settle(&mut self) {
        self.run_until(120, "all know the same", Self::digests_equal);
        self.run(Duration::from_secs(5));
        for node in &mut self.nodes {
            node.events.clear();
            node.sent = 0;
            node.sent_bytes = 0;
            node.streams = 0;
        }
    }

    pub(crate) fn run_until(&mut self, secs: u64, what: &str, done: impl Fn(&Self) -> bool) {
        let step = Duration::from_millis(20);
        let end = self.now + Duration::from_secs(secs);
        while !done(self) {
            assert!(self.now < end, "not within {secs} s: {what}\n{}", self.picture());
            self.run(step);
        }
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(next) = self.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(next);
            self.step();
            steps += 1;
            assert!(steps < 3_000_000, "a loop that does not end");
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<Moment> {
        let ticks = self.nodes.iter().filter(|node| !node.paused);
        let tick = ticks.filter_map(|node| node.ring.as_ref()).map(Ring::next_tick).min();
        let delivery = self.queue.first_key_value().map(|((at, _), _)| *at);
        tick.into_iter().chain(delivery).min()
    }

    fn step(&mut self) {
        if let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= self.now
        {
            let delivery = entry.remove();
            self.deliver(delivery);
            return;
        }
        for at in 0..self.nodes.len() {
            let now = self.now;
            let node = &mut self.nodes[at];
            let due = node.ring.as_mut().filter(|ring| ring.next_tick() <= now && !node.paused);
            if let Some(ring) = due {
                ring.tick(now);
                let next = ring.next_tick();
                assert!(next > now, "node {at} asks for a tick that it just had");
                self.flush(at);
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Some(to) = self.nodes.iter().position(|node| node.addr == delivery.to) else { return };
        if self.nodes[to].side != self.nodes[delivery.from].side || self.nodes[to].paused {
            return;
        }
        let is_cut = |(a, b)| (a, b) == (delivery.from, to) || (a, b) == (to, delivery.from);
        if self.cut.is_some_and(is_cut) {
            return;
        }
        let (now, sender) = (self.now, self.nodes[delivery.from].id);
        let Some(ring) = self.nodes[to].ring.as_mut() else { return };
        for message in delivery.messages {
            ring.receive(now, delivery.from_addr, sender, delivery.boot, message);
        }
        self.flush(to);
    }

    fn flush(&mut self, at: usize) {
        let Some(ring) = self.nodes[at].ring.as_mut() else { return };
        let outputs = ring.take_outputs();
        let boot = ring.me.boot;
        for output in outputs {
            self.trace.push(format!("{} {at} {output:?}", self.now.0));
            match output {
                RingOutput::Send { to, messages, stream } => {
                    self.send(at, boot, to, messages, stream);
                }
                RingOutput::Save(saved) => self.nodes[at].saved = saved,
                event => self.nodes[at].events.push(event),
            }
        }
    }

    fn send(
        &mut self,
        at: usize,
        boot: BootNonce,
        to: SocketAddr,
        messages: Vec<RingMessage>,
        stream: bool,
    ) {
        assert!(!messages.is_empty(), "an empty envelope");
        let sender = self.nodes[at].id;
        let content = messages.iter().cloned().map(Message::Ring).collect();
        let (counter, versions) = (u64::MAX, Versions::OURS);
        let head = Head { sender, boot, counter, versions, version: versions.newest() };
        let bytes = Envelope { head, messages: content }.encode().expect("encodes").len();
        let seal = OVERHEAD_BYTES;
        if !stream {
            assert!(bytes + seal <= self.timing.max_packet, "{bytes} bytes: {messages:?}");
        }
        self.nodes[at].sent += 1;
        self.nodes[at].sent_bytes += bytes;
        self.nodes[at].streams += usize::from(stream);
        let is_rumour = |message: &RingMessage| {
            matches!(message, RingMessage::Member(_) | RingMessage::Fact(_))
        };
        let messages: Vec<_> =
            messages.into_iter().filter(|m| !(self.mute && is_rumour(m))).collect();
        let lost = self.rng.random_bool(self.loss);
        if messages.is_empty() || (lost && (!stream || self.lose_streams)) {
            return;
        }
        // A stream repeats what is lost, which takes time.
        let late = if lost { self.rng.random_range(100_000..300_000) } else { 0 };
        let delay = late + self.rng.random_range(200..2_000);
        let from_addr = self.nodes[at].addr;
        let delivery = Delivery { from: at, from_addr, to, boot, messages };
        self.sequence += 1;
        let due = self.now + Duration::from_micros(delay);
        self.queue.insert((due, self.sequence), delivery);
    }

    fn picture(&self) -> String {
        let mut lines = String::new();
        for at in self.running() {
            let ring = self.ring(at);
            let states: Vec<_> = (0..self.nodes.len().min(20))
                .map(|of| self.state(at, of).map_or("-", MemberState::as_str))
                .collect();
            let facts = ring.facts().count();
            lines.push_str(&format!(
                "n{at} {:016x} {} facts {:?} {}\n",
                ring.digest(),
                facts,
                ring.counters(),
                states.join(" ")
            ));
        }
        lines
    }
}

pub(crate) fn addr(at: usize, generation: u8) -> SocketAddr {
    let [high, low] = u16::try_from(at + 1).expect("a small net").to_be_bytes();
    SocketAddr::from(([10, generation, high, low], 7117))
}

pub(crate) fn key(text: &str) -> FactKey {
    FactKey::new(text).expect("a key")
}
