//! The world: one queue of what happens when, and everybody in it.
//!
//! Invariant: what happens next is decided by (time, order of asking) alone; chance is drawn from
//! one generator in that order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use baton_node::{Event, Node, Reply, Request};
use baton_types::NodeId;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::builds::{Builds, Parcel};
use crate::check::Violation;
use crate::departures::Departure;
use crate::group::Group;
use crate::host::Host;
use crate::net::Network;
use crate::program::micros;
use crate::settings::Setup;
use crate::tally::{Occurrence, Tally};
use crate::trace::Trace;
use crate::traffic::Traffic;

/// See the module's page.
pub struct World {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    pub(crate) rng: StdRng,
    pub(crate) hosts: Vec<Host>,
    /// All links.
    pub net: Network,
    pub(crate) groups: Vec<Group>,
    /// How disks and machines fail.
    pub faults: Faults,
    /// What happened.
    pub trace: Trace,
    /// How often each fault and rare branch occurred so far.
    pub tally: Tally,
    pub(crate) violation: Option<Violation>,
    pub(crate) replies: BTreeMap<u64, Reply>,
    pub(crate) next_request: u64,
    /// Requests whose answer makes somebody a member no more.
    pub(crate) departures: BTreeMap<u64, Departure>,
    pub(crate) traffic: Traffic,
    /// Where hosts run two builds.
    pub(crate) builds: Option<Builds>,
    queue: BTreeMap<(u64, u64), What>,
    asked: u64,
    addrs: BTreeMap<SocketAddr, usize>,
    pub(crate) ids: BTreeMap<NodeId, usize>,
    /// Addresses that hosts had once.
    given_up: Vec<SocketAddr>,
    /// New ones that hosts got.
    fresh_addrs: u16,
    /// Events within the second that began then: a live-lock ends the run.
    spins: u32,
    second: u64,
    /// When the network last was bad, or became good.
    pub(crate) unsettled: u64,
}

/// How disks fail, and how often a daemon dies at a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Longest durable write.
    pub write_max: Duration,
    /// Writes that fail, of a thousand.
    pub write_fails: u32,
    /// Failed writes whose content is there all the same, of a thousand.
    pub failed_stays: u32,
    /// Writes during which the daemon dies, of a thousand.
    pub dies_at_write: u32,
}

/// Something that is going to happen.
pub(crate) enum What {
    /// A node's timer.
    Tick(usize),
    /// An envelope arrives.
    Deliver { to: usize, from: SocketAddr, parcel: Box<Parcel> },
    /// Something that the shell did for a daemon is done.
    Answer { host: usize, life: u64, event: Box<Event> },
    /// A durable write ends.
    Written { host: usize, life: u64, write: u64, ok: bool },
    /// Something of the shell that looks at the world when it is done.
    Done { host: usize, life: u64, job: Box<crate::effects::Job> },
    /// A program ends by itself.
    Exit { host: usize, pid: u32 },
    /// A program that was told to stop is gone.
    Stopped { host: usize, group: usize, pid: u32, life: u64, run: u64 },
    /// A fault or its end.
    Fault(crate::faults::Fault),
}

impl What {
    /// Until when it has to wait, because whom it happens to stands still at `now`.
    fn waits_until(&self, hosts: &[Host], now: u64) -> Option<u64> {
        match self {
            Self::Tick(host)
            | Self::Deliver { to: host, .. }
            | Self::Answer { host, .. }
            | Self::Written { host, .. }
            | Self::Done { host, .. } => hosts[*host].still_until(now),
            // A program goes on while only its daemon is stopped.
            Self::Exit { host, .. } | Self::Stopped { host, .. } => {
                hosts[*host].suspended_until(now)
            }
            Self::Fault(_) => None,
        }
    }

    /// Whom it happens to; nobody waits for a fault.
    fn host(&self) -> Option<usize> {
        match self {
            Self::Tick(host)
            | Self::Deliver { to: host, .. }
            | Self::Answer { host, .. }
            | Self::Written { host, .. }
            | Self::Done { host, .. }
            | Self::Exit { host, .. }
            | Self::Stopped { host, .. } => Some(*host),
            Self::Fault(_) => None,
        }
    }
}

impl World {
    /// A world of machines that were never switched on, and an empty depot.
    pub fn new(setup: Setup) -> Self {
        let mut rng = StdRng::seed_from_u64(setup.seed);
        let groups: Vec<Group> =
            setup.releases().into_iter().map(|release| Group::new(release, setup.hosts)).collect();
        let new = |index| Host::new(index, groups.len(), &mut rng);
        let hosts: Vec<Host> = (0..setup.hosts).map(new).collect();
        let ids = hosts.iter().enumerate().map(|(index, host)| (host.id, index)).collect();
        let addrs = hosts.iter().enumerate().map(|(index, host)| (host.addr, index)).collect();
        Self {
            groups,
            now: 0,
            rng,
            addrs,
            ids,
            given_up: Vec::new(),
            fresh_addrs: 0,
            net: Network::new(),
            faults: Faults { write_max: Duration::from_millis(3), ..Faults::default() },
            trace: Trace::new(setup.trace_lines),
            tally: Tally::default(),
            violation: None,
            replies: BTreeMap::new(),
            next_request: 0,
            departures: BTreeMap::new(),
            traffic: Traffic::default(),
            builds: None,
            queue: BTreeMap::new(),
            asked: 0,
            spins: 0,
            second: 0,
            unsettled: 0,
            hosts,
            setup,
        }
    }

    /// Microseconds since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// What went against a promise, if anything did; the run has ended there.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn host_at(&self, addr: SocketAddr) -> Option<usize> {
        self.addrs.get(&addr).copied()
    }

    /// A host that is off has another address from now on: a new one, or one that another host had.
    pub(crate) fn readdress(&mut self, host: usize, recycled: bool) {
        let old = self.hosts[host].addr;
        let taken = match recycled {
            true => self.given_up.pop(),
            false => None,
        };
        let addr = taken.unwrap_or_else(|| {
            self.fresh_addrs += 1;
            let [high, low] = self.fresh_addrs.to_be_bytes();
            SocketAddr::from(([10, 1, high, low], old.port()))
        });
        self.given_up.insert(0, old);
        self.addrs.remove(&old);
        self.addrs.insert(addr, host);
        self.hosts[host].addr = addr;
        self.tally.count(match taken {
            Some(_) => Occurrence::AddressRecycled,
            None => Occurrence::AddressChanged,
        });
        self.say(host, &format!("has the address {addr} from now on"));
    }

    /// Something happens `after` microseconds from now.
    pub(crate) fn later(&mut self, after: u64, what: What) {
        self.asked += 1;
        self.queue.insert((self.now.saturating_add(after), self.asked), what);
    }

    /// What was to happen to `host` at that time happens now.
    pub(crate) fn hasten(&mut self, host: usize, at: u64) {
        let then = self.queue.range((at, 0)..=(at, u64::MAX));
        let waiting = then.filter(|(_, what)| what.host() == Some(host));
        for key in waiting.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(what) = self.queue.remove(&key) {
                self.later(0, what);
            }
        }
    }

    pub(crate) fn answer(&mut self, host: usize, after: u64, event: Event) {
        let life = self.hosts[host].life;
        self.later(after, What::Answer { host, life, event: Box::new(event) });
    }

    /// A random number of microseconds within bounds of milliseconds.
    pub(crate) fn between(&mut self, least_ms: u64, most_ms: u64) -> u64 {
        self.rng.random_range(least_ms * 1_000..=most_ms * 1_000)
    }

    /// Runs until something went wrong or `until`, a world time, has come.
    pub(crate) fn run_to(&mut self, until: u64) {
        while self.violation.is_none() {
            match self.queue.first_key_value() {
                Some(((at, _), _)) if *at <= until => self.step(),
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    /// Runs for `span`.
    pub fn run_for(&mut self, span: Duration) {
        self.run_to(self.now + micros(span));
    }

    /// The next thing happens.
    pub(crate) fn step(&mut self) {
        let Some(((at, _), what)) = self.queue.pop_first() else { return };
        self.now = self.now.max(at);
        if self.now >= self.second + 1_000_000 {
            (self.second, self.spins) = (self.now, 0);
        }
        self.spins += 1;
        // More nodes have more to say: their probes alone are some events a second each.
        let most = SPINS_MAX.max(self.hosts.len() as u32 * SPINS_PER_HOST);
        if self.spins > most {
            self.violate("live-lock", format!("{most} events within a second"));
            return;
        }
        self.happen(what);
    }

    fn happen(&mut self, what: What) {
        // A machine that stands still does nothing; what comes meanwhile waits in its buffers.
        if let Some(until) = what.waits_until(&self.hosts, self.now) {
            self.later(until - self.now, what);
            return;
        }
        match what {
            What::Tick(host) => self.ticked(host),
            What::Deliver { to, from, parcel } => {
                if self.hosts[to].node.is_some()
                    && let Some(envelope) = self.read_envelope(to, *parcel)
                {
                    self.trace_envelope(to, from, &envelope);
                    self.handle(to, Event::Packet { from, envelope });
                }
            }
            What::Answer { host, life, event } => {
                if self.is_life(host, life) {
                    self.handle(host, *event);
                }
            }
            What::Written { host, life, write, ok } => self.written(host, life, write, ok),
            What::Done { host, life, job } => {
                if self.is_life(host, life) {
                    self.finish(host, *job);
                }
            }
            What::Exit { host, pid } => self.exits(host, pid),
            What::Stopped { host, group, pid, life, run } => {
                self.stopped(host, group, pid, life, run);
            }
            What::Fault(fault) => self.befall(fault),
        }
    }

    pub(crate) fn is_life(&self, host: usize, life: u64) -> bool {
        self.hosts[host].life == life && self.hosts[host].node.is_some()
    }

    /// Hands one event to a node, does what it wants done, and looks at what came of it.
    pub(crate) fn handle(&mut self, host: usize, event: Event) {
        if let Some(until) = self.hosts[host].still_until(self.now) {
            self.answer(host, until - self.now, event);
            return;
        }
        let now = self.hosts[host].clocks(self.now);
        let Some(node) = self.hosts[host].node.as_mut() else { return };
        node.handle(now, event);
        self.after(host);
    }

    /// A daemon starts.
    pub(crate) fn start_daemon(&mut self, host: usize) {
        if !self.hosts[host].powered || self.hosts[host].node.is_some() {
            return;
        }
        for file in self.hosts[host].disk.sync() {
            self.file_changed(host, &file);
        }
        self.take_build(host);
        let setup = self.setup.clone();
        let boot = self.hosts[host].boot(host, &setup, &mut self.rng);
        let now = self.hosts[host].clocks(self.now);
        self.hosts[host].daemon_since = self.now;
        self.say(host, "the daemon starts");
        self.hosts[host].node = Some(Node::new(boot, now));
        self.hosts[host].tick_at = None;
        self.groups.iter_mut().for_each(|group| group.checks.started(host));
        self.after(host);
    }

    fn after(&mut self, host: usize) {
        let effects = match self.hosts[host].node.as_mut() {
            Some(node) => node.take_effects(),
            None => return,
        };
        // What is committed is looked at before what follows from it, as an answer does.
        self.check(host);
        for effect in effects {
            self.carry_out(host, effect);
        }
        self.plan_tick(host);
    }

    fn plan_tick(&mut self, host: usize) {
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let due = self.hosts[host].world_time(node.next_tick()).max(self.now);
        if self.hosts[host].tick_at.is_none_or(|planned| due < planned) {
            self.hosts[host].tick_at = Some(due);
            self.later(due - self.now, What::Tick(host));
        }
    }

    fn ticked(&mut self, host: usize) {
        if self.hosts[host].tick_at.is_none_or(|planned| planned > self.now) {
            return;
        }
        self.hosts[host].tick_at = None;
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        if self.hosts[host].world_time(node.next_tick()) > self.now {
            self.plan_tick(host);
            return;
        }
        self.trace.quiet(self.now, host, 1, 0);
        self.handle(host, Event::Tick);
    }

    /// Asks a node something; the number under which [`World::reply`] finds what it says.
    pub fn ask(&mut self, host: usize, what: Request) -> u64 {
        self.next_request += 1;
        let request = self.next_request;
        self.say(host, &format!("request {request}: {}", crate::operator::words(&what)));
        self.handle(host, Event::Request { request, what });
        request
    }

    /// What a node said to a request.
    pub fn reply(&self, request: u64) -> Option<&Reply> {
        self.replies.get(&request)
    }

    pub(crate) fn say(&mut self, host: usize, words: &str) {
        self.trace.say(self.now, &self.hosts[host].name, words);
    }

    pub(crate) fn mutter(&mut self, host: usize, words: &str) {
        self.trace.mutter(self.now, &self.hosts[host].name, words);
    }

    pub(crate) fn violate(&mut self, invariant: &'static str, what: String) {
        if self.violation.is_none() {
            self.trace.say(self.now, "world", &format!("VIOLATION of {invariant}: {what}"));
            let violation = Violation {
                seed: self.setup.seed,
                invariant,
                what,
                at: Duration::from_micros(self.now),
                recent: self.trace.recent().map(str::to_owned).collect(),
                replay: self.setup.replay.clone(),
            };
            self.violation = Some(violation);
        }
    }
}

/// Events within one second: a burst of a whole group is far below, two parts that talk in a circle
/// without a delay are above.
const SPINS_MAX: u32 = 20_000;

/// A host of a large group may come to so many.
const SPINS_PER_HOST: u32 = 2_000;
