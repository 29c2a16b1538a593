//! Daemons on 127.0.0.1, each with its own ports: for tests that need no root.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use tempfile::TempDir;
use toml::Table;

use crate::fleet::{keep_files, test_dir, test_dir_in};
use crate::host::{Host, HostSettings};
use crate::leftovers;

/// Hosts `n1`, `n2`, … that share the machine's loopback.
pub struct Loopback {
    hosts: Vec<Host>,
    dir: TempDir,
}

impl Loopback {
    /// Prepares `count` hosts. No daemon runs yet.
    pub fn new(count: usize) -> Self {
        Self::within(test_dir(), count)
    }

    /// The same, with everything below `base`.
    pub fn new_in(base: &Path, count: usize) -> Self {
        Self::within(test_dir_in(base), count)
    }

    fn within(dir: TempDir, count: usize) -> Self {
        let hosts = free_addrs(count)
            .into_iter()
            .enumerate()
            .map(|(index, addr)| {
                let name = format!("n{}", index + 1);
                Host::new(&name, addr, dir.path().join(&name), None)
            })
            .collect();
        Self { hosts, dir }
    }

    /// Configures every host with `service(index)`, to join all others, and starts them.
    pub fn start(&mut self, service: impl Fn(usize) -> Table) {
        self.configure(|index, settings| settings.services.push(service(index)));
        for host in &mut self.hosts {
            host.start();
        }
    }

    /// Configures every host to join all others, after `change(index, settings)`. No daemon starts.
    pub fn configure(&mut self, change: impl Fn(usize, &mut HostSettings)) {
        let all: Vec<SocketAddr> = self.hosts.iter().map(Host::ring).collect();
        for (index, host) in self.hosts.iter().enumerate() {
            let join = all.iter().copied().filter(|addr| *addr != all[index]).collect();
            let mut settings = HostSettings { join, ..HostSettings::default() };
            change(index, &mut settings);
            host.configure(&settings);
        }
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host with this index (from 0).
    pub fn host(&mut self, index: usize) -> &mut Host {
        &mut self.hosts[index]
    }

    /// The directory that holds everything of this test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            host.thaw();
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

/// Addresses whose port is free for both UDP and TCP, and which were all free at the same time.
pub fn free_addrs(count: usize) -> Vec<SocketAddr> {
    let mut held = Vec::new();
    for _ in 0..count * 20 {
        if held.len() == count {
            break;
        }
        let Ok(udp) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { continue };
        let Ok(addr) = udp.local_addr() else { continue };
        if let Ok(tcp) = TcpListener::bind(addr) {
            held.push((addr, udp, tcp));
        }
    }
    assert_eq!(held.len(), count, "not enough free ports on loopback");
    held.into_iter().map(|(addr, _, _)| addr).collect()
}
