//! Hosts in network namespaces of their own, joined by a bridge.
//!
//! Invariant: the bridge lives in a namespace of its own as well, so the addresses of two fleets
//! are the same and never meet, and the machine's own network is not touched.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::host::Host;
use crate::leftovers;
use crate::namespace::{Namespace, next_fleet};
use crate::packet_filter::PacketFilter;
use crate::shell;

/// A fleet of hosts `n1`, `n2`, … with the addresses 10.77.0.1, 10.77.0.2, …
pub struct Fleet {
    hosts: Vec<Host>,
    filters: Vec<PacketFilter>,
    // Dropped after the hosts, in this order: what runs in them ends, then their files go.
    namespaces: Vec<Namespace>,
    outside: Namespace,
    dir: TempDir,
}

impl Fleet {
    /// Lays the cables of `count` hosts. No daemon runs yet.
    pub fn new(count: usize) -> Self {
        assert!((1..=200).contains(&count), "{count} hosts do not fit 10.77.0.0/24");
        let number = next_fleet();
        let dir = test_dir();
        let outside = Namespace::create(number, "br");
        let bridge = outside.name().to_owned();
        shell::run(&["ip", "-n", &bridge, "link", "add", "br0", "type", "bridge"]);
        shell::run(&["ip", "-n", &bridge, "addr", "add", "10.77.0.254/24", "dev", "br0"]);
        shell::run(&["ip", "-n", &bridge, "link", "set", "br0", "up"]);

        let mut fleet =
            Self { hosts: Vec::new(), filters: Vec::new(), namespaces: Vec::new(), outside, dir };
        for index in 0..count {
            let name = format!("n{}", index + 1);
            let namespace = Namespace::create(number, &name);
            let addr = Self::addr(index);
            let (inside, port) = (namespace.name(), format!("p{}", index + 1));
            let cidr = format!("{addr}/24");
            #[rustfmt::skip]
            shell::run(&["ip", "link", "add", "eth0", "netns", inside, "type", "veth",
                "peer", "name", &port, "netns", &bridge]);
            shell::run(&["ip", "-n", &bridge, "link", "set", &port, "master", "br0", "up"]);
            shell::run(&["ip", "-n", inside, "addr", "add", &cidr, "dev", "eth0"]);
            shell::run(&["ip", "-n", inside, "link", "set", "eth0", "up"]);
            let home = fleet.dir.path().join(&name);
            let ring = (addr, RING_PORT).into();
            fleet.hosts.push(Host::new(&name, ring, home, Some(inside.to_owned())));
            fleet.filters.push(PacketFilter::default());
            fleet.namespaces.push(namespace);
        }
        fleet
    }

    /// The address of the host with this index (from 0).
    pub fn addr(index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, index as u8 + 1)
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Never: a fleet has at least one host.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host with this index (from 0).
    pub fn host(&mut self, index: usize) -> &mut Host {
        &mut self.hosts[index]
    }

    /// The index of the host with this name.
    pub fn index_of(&self, name: &str) -> usize {
        let found = self.hosts.iter().position(|host| host.name() == name);
        found.unwrap_or_else(|| panic!("the fleet has no host {name:?}"))
    }

    /// Where the host with this index stands.
    pub fn namespace(&self, index: usize) -> &Namespace {
        &self.namespaces[index]
    }

    /// The place beside the hosts, from which clients and observers reach them all.
    pub fn outside(&self) -> &Namespace {
        &self.outside
    }

    /// The directory that holds everything of this fleet. Every user may pass through it, as
    /// services may run as another one.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Cuts the cable between two hosts.
    pub fn cut(&mut self, a: usize, b: usize) {
        self.filters[a].drop_from(Self::addr(b));
        self.filters[a].drop_to(Self::addr(b));
        self.apply(a);
    }

    /// `from` is not heard by `to` any more; the other way still works.
    pub fn cut_one_way(&mut self, from: usize, to: usize) {
        self.filters[to].drop_from(Self::addr(from));
        self.apply(to);
    }

    /// Cuts every cable between the two sides.
    pub fn partition(&mut self, left: &[usize], right: &[usize]) {
        for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b))) {
            self.cut(a, b);
        }
    }

    /// Of all that arrives at `host`, this share is lost.
    pub fn drop_rate(&mut self, host: usize, percent: u8) {
        self.filters[host].lose(percent);
        self.apply(host);
    }

    /// Mends the cable between two hosts.
    pub fn mend(&mut self, a: usize, b: usize) {
        self.filters[a].allow(Self::addr(b));
        self.filters[b].allow(Self::addr(a));
        self.apply(a);
        self.apply(b);
    }

    /// Mends everything: no cut, no loss.
    pub fn mend_all(&mut self) {
        for index in 0..self.len() {
            self.filters[index] = PacketFilter::default();
            self.apply(index);
        }
    }

    fn apply(&self, index: usize) {
        self.filters[index].apply(self.namespaces[index].name());
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // First the daemons, so that none restarts a service that is killed next.
        for host in &mut self.hosts {
            host.signal(Signal::CONT);
            host.kill_if_running();
        }
        let dir = self.dir.path().to_owned();
        leftovers::kill_all(|| leftovers::processes_of(&dir));
        if keep_files() {
            self.dir.disable_cleanup(true);
            println!("kept: {}", dir.display());
        }
    }
}

/// A fresh directory that every user may pass through, below `BATON_TEST_DIR` if that is set.
pub(crate) fn test_dir() -> TempDir {
    test_dir_in(&std::env::var_os("BATON_TEST_DIR").map_or_else(std::env::temp_dir, PathBuf::from))
}

/// A directory for one test below `base`.
pub(crate) fn test_dir_in(base: &Path) -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix("baton-test-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(base)
        .unwrap_or_else(|fault| panic!("no directory below {}: {fault}", base.display()))
}

/// Whether the files of a test stay after it.
pub(crate) fn keep_files() -> bool {
    std::env::var_os("BATON_TEST_KEEP").is_some()
}

pub(crate) const RING_PORT: u16 = 7117;
