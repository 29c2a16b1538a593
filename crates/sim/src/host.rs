//! One machine of the world: its daemon, clock, disk, store and program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use baton_node::{Adopted, Boot, Manifests, Node, Revisions};
use baton_types::{BootNonce, Digest, Moment, NodeId, NodeName, Now, Text, WallTime};
use baton_wire::Head;
use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::builds::Build;
use crate::departures::Standing;
use crate::disk::Disk;
use crate::program::Process;
use crate::settings::{Setup, group_of};

/// See the module's page.
pub(crate) struct Host {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    /// The daemon, while it runs.
    pub(crate) node: Option<Node>,
    /// Counts the daemon's starts: answers to an earlier one reach nobody.
    pub(crate) life: u64,
    /// When its daemon was started last.
    pub(crate) daemon_since: u64,
    /// Whether the machine runs.
    pub(crate) powered: bool,
    pub(crate) machine_boot: u64,
    pub(crate) nonce: BootNonce,
    counter: u64,
    /// World time minus the machine's boot clock; before the world began for the first boot.
    booted: i64,
    /// What people's clock on it is off by, in milliseconds.
    pub(crate) skew: i64,
    /// Nothing runs on it until then: it is suspended, or its daemon is stopped.
    still_until: u64,
    /// Its program stands still from there to there, too: the last suspension.
    pub(crate) suspended: (u64, u64),
    pub(crate) disk: Disk,
    pub(crate) manifests: Manifests,
    pub(crate) revisions: Revisions,
    pub(crate) unpacked: BTreeSet<Digest>,
    /// What it has of each group of the world.
    pub(crate) services: Vec<Service>,
    /// Hooks that run, by group and number, with their start.
    pub(crate) hooks: BTreeMap<(usize, u64), u64>,
    /// When a hook was first asked on this machine, and how often.
    pub(crate) asked: BTreeMap<(Digest, &'static str), (u64, u32)>,
    /// The tick that is in the queue.
    pub(crate) tick_at: Option<u64>,
    /// A machine or daemon comes back by itself then; another plan replaces it.
    pub(crate) plan: u64,
    pub(crate) next_pid: u32,
    /// The life in which it was told to leave the ring: only a new start joins again.
    pub(crate) leaves_in: Option<u64>,
    /// What its daemon was built from, and what the next start takes.
    pub(crate) build: Build,
    pub(crate) wanted: Build,
}

/// What a host has of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    /// The program, while it runs.
    pub(crate) process: Option<Process>,
    /// The run whose start is under way.
    pub(crate) launching: Option<u64>,
    /// Since when no program of the service is well, while none runs.
    pub(crate) unwell_since: u64,
    /// When its daemon last had a turn of the group.
    pub(crate) in_turn_at: Option<u64>,
    pub(crate) standing: Standing,
}

impl Host {
    /// A machine that was never switched on.
    pub(crate) fn new(index: usize, groups: usize, rng: &mut StdRng) -> Self {
        let [.., high, low] = u32::try_from(index + 1).unwrap_or(u32::MAX).to_be_bytes();
        let addr = SocketAddr::from(([10, 0, high, low], 7946));
        Self {
            id: NodeId::from_random(rng.random()),
            name: format!("n{}", index + 1),
            addr,
            node: None,
            life: 0,
            daemon_since: 0,
            powered: false,
            machine_boot: 0,
            nonce: BootNonce::from_random(0),
            counter: 0,
            booted: -rng.random_range(0..3_600_000_000_i64),
            skew: rng.random_range(-100_000..100_000),
            still_until: 0,
            suspended: (0, 0),
            disk: Disk::default(),
            manifests: Manifests::new(),
            revisions: Revisions::new(),
            unpacked: BTreeSet::new(),
            services: vec![Service::default(); groups],
            hooks: BTreeMap::new(),
            asked: BTreeMap::new(),
            tick_at: None,
            plan: 0,
            next_pid: 100,
            leaves_in: None,
            build: Build::Now,
            wanted: Build::Now,
        }
    }

    /// Whether its daemon is of the next build.
    pub(crate) fn is_next(&self) -> bool {
        self.build == Build::Next
    }

    /// Whether its daemon has left the ring, or is about to.
    pub(crate) fn wants_to_leave(&self) -> bool {
        self.node.is_some() && self.leaves_in == Some(self.life)
    }

    /// When it goes on, if it stands still at `now`.
    pub(crate) fn still_until(&self, now: u64) -> Option<u64> {
        (now < self.still_until).then_some(self.still_until)
    }

    /// When a program on it goes on, if the whole machine stands still at `now`.
    pub(crate) fn suspended_until(&self, now: u64) -> Option<u64> {
        self.is_suspended(now).then_some(self.suspended.1)
    }

    /// Until when it last stood still.
    pub(crate) fn stood_still_until(&self) -> u64 {
        self.still_until
    }

    /// Its daemon, or with `all` everything on it, stands still from `now` to `until`.
    pub(crate) fn stand_still(&mut self, now: u64, until: u64, all: bool) {
        self.still_until = until;
        if all {
            self.suspended = (now, until);
        }
    }

    /// It goes on, whatever was planned.
    pub(crate) fn go_on(&mut self, now: u64) {
        self.still_until = self.still_until.min(now);
        self.suspended.1 = self.suspended.1.min(now);
    }

    /// Whether everything on it stands still.
    pub(crate) fn is_suspended(&self, now: u64) -> bool {
        (self.suspended.0..self.suspended.1).contains(&now)
    }

    /// The machine's clocks at world time `now`.
    pub(crate) fn clocks(&self, now: u64) -> Now {
        let moment = i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(self.booted);
        let millis = i64::try_from(now / 1_000).unwrap_or(i64::MAX);
        Now {
            moment: Moment(u64::try_from(moment).unwrap_or(0)),
            wall: WallTime(WORLD_BEGAN + millis + self.skew),
        }
    }

    /// The world time of one of its moments.
    pub(crate) fn world_time(&self, moment: Moment) -> u64 {
        let moment = i64::try_from(moment.0).unwrap_or(i64::MAX);
        u64::try_from(moment.saturating_add(self.booted)).unwrap_or(0)
    }

    /// The machine boots: its clock begins anew, nothing runs.
    pub(crate) fn power_on(&mut self, now: u64) {
        if self.machine_boot > 0 {
            self.booted = i64::try_from(now).unwrap_or(i64::MAX) - BOOT_TAKES;
        }
        self.machine_boot += 1;
        self.powered = true;
    }

    /// What a daemon is given at its start on this machine.
    pub(crate) fn boot(&mut self, index: usize, setup: &Setup, rng: &mut StdRng) -> Boot {
        self.life += 1;
        self.nonce = BootNonce::from_random(rng.random());
        self.counter = 0;
        self.hooks.clear();
        let mut adopted = BTreeMap::new();
        for (release, service) in setup.releases().iter().zip(&mut self.services) {
            service.launching = None;
            if let Some(process) = &service.process {
                let (pid, digest) = (process.pid, process.digest);
                adopted.insert(group_of(release), Adopted { pid, digest });
            }
        }
        Boot {
            node: self.id,
            name: NodeName::new(self.name.clone()).expect("a name"),
            addr: self.addr,
            version: Text::new("0.1.0"),
            versions: self.build.versions(),
            nonce: self.nonce,
            machine_boot: format!(
                "{:032x}",
                u128::from(self.machine_boot) << 64 | u128::from(self.addr.port())
            ),
            timing: setup.timing.clone(),
            labels: setup.labels.get(&index).cloned().unwrap_or_default(),
            has_seeds: setup.hosts > 1,
            services: setup.services(index),
            files: self.disk.found(),
            manifests: self.manifests.clone(),
            revisions: self.revisions.clone(),
            unpacked: self.unpacked.clone(),
            adopted,
            seed: rng.random(),
        }
    }

    /// The head of its next envelope.
    pub(crate) fn stamp(&mut self, version: u8, stream: bool) -> Head {
        if !stream {
            self.counter += 1;
        }
        Head {
            sender: self.id,
            boot: self.nonce,
            counter: if stream { 0 } else { self.counter },
            versions: self.build.versions(),
            version,
        }
    }
}

/// 2026-01-01T00:00:00Z, for people.
const WORLD_BEGAN: i64 = 1_767_225_600_000;

/// What the boot clock shows when a daemon starts at boot, in microseconds.
const BOOT_TAKES: i64 = 3_000_000;
