//! One network namespace with a name of its own, and everything that runs in it.
//!
//! Invariant: dropping it kills every process in it and removes it. A run that was itself killed
//! leaves its namespaces behind; the next run removes those whose process is gone.

use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::leftovers;
use crate::shell;

/// A network namespace.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates the namespace `bt<process id>x<fleet>-<suffix>` with its loopback up.
    pub fn create(fleet: u32, suffix: &str) -> Self {
        let name = format!("{PREFIX}{}x{fleet}-{suffix}", std::process::id());
        shell::run(&["ip", "netns", "add", &name]);
        let namespace = Self { name };
        shell::run(&["ip", "-n", &namespace.name, "link", "set", "lo", "up"]);
        namespace
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and returns its result. Processes that it
    /// starts stay inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        run_inside(Some(&self.name), work)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs `work` on a thread of its own: inside the namespace `name`, or where the caller is.
pub fn run_inside<T: Send>(name: Option<&str>, work: impl FnOnce() -> T + Send) -> T {
    let outcome = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter(name);
            work()
        });
        inside.join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Moves the calling thread into the namespace `name`, for good; nothing happens for `None`.
pub fn enter(name: Option<&str>) {
    let Some(name) = name else { return };
    let path = format!("/run/netns/{name}");
    let file = File::open(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"));
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .unwrap_or_else(|fault| panic!("cannot enter {path}: {fault}"));
}

/// A number for the next fleet of this process; also sweeps up after runs that were killed.
pub fn next_fleet() -> u32 {
    static FLEETS: AtomicU32 = AtomicU32::new(1);
    let number = FLEETS.fetch_add(1, Ordering::Relaxed);
    if number == 1 {
        sweep();
    }
    number
}

/// Removes the namespaces of test runs whose process is gone.
fn sweep() {
    for line in shell::run(&["ip", "netns", "list"]).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('x'))
            .and_then(|(pid, _)| pid.parse::<i32>().ok());
        if owner.is_some_and(|pid| !leftovers::exists(pid)) {
            remove(name);
        }
    }
}

fn remove(name: &str) {
    leftovers::kill_all(|| {
        let list = shell::try_run(&["ip", "netns", "pids", name]).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    });
    if let Err(fault) = shell::try_run(&["ip", "netns", "del", name]) {
        println!("{fault}");
    }
}

const PREFIX: &str = "bt";
