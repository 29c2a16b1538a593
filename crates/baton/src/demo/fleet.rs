//! The daemons of a demo: real processes, each with a directory of its own.
//!
//! Invariant: what is started here is ended here, by its process id, services included; a service
//! outlives its daemon by design, so that ending the daemons is not enough.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_daemon::client::{Client, ClientError};
use baton_types::status::{GroupStatus, RingMemberStatus};
use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::ground::{Ground, NodePlace, new_boot};
use super::leftovers::{Ours, kill_all, processes_of, signal};
use crate::exit::Failure;

/// The daemons, by the name of their node.
#[derive(Debug)]
pub(crate) struct Fleet {
    ground: Ground,
    daemons: BTreeMap<String, Child>,
}

impl Fleet {
    /// None of them runs yet.
    pub(crate) fn new(ground: Ground) -> Self {
        Self { ground, daemons: BTreeMap::new() }
    }

    /// Starts the daemon of a node.
    pub(crate) fn start(&mut self, node: &NodePlace) -> Result<(), Failure> {
        let failed = |cause| Failure::failed(format!("cannot start {}: {cause}", node.name));
        let log = OpenOptions::new().create(true).append(true).open(node.log()).map_err(failed)?;
        let mut command = Command::new(&self.ground.program);
        command
            .args(["run", "--config"])
            .arg(node.dir.join("baton.toml"))
            .current_dir(&node.dir)
            .env("BATON_BOOT_ID_FILE", node.boot_id())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            // Ctrl-C is for the demo alone, which ends its daemons in good order.
            .process_group(0);
        // What the demo itself may have been started with is not meant for its daemons.
        for name in ["JOURNAL_STREAM", "NOTIFY_SOCKET", "WATCHDOG_USEC", "RUST_LOG"] {
            command.env_remove(name);
        }
        let child = command.spawn().map_err(failed)?;
        self.daemons.insert(node.name.clone(), child);
        Ok(())
    }

    /// Kills a node's daemon and nothing else, as a crash of it would. Returns its process id.
    pub(crate) async fn kill_daemon(&mut self, node: &NodePlace) -> Result<u32, Failure> {
        let Some(mut child) = self.daemons.remove(&node.name) else {
            return Err(Failure::failed(format!("{} has no daemon", node.name)));
        };
        let pid = child.id().unwrap_or_default();
        child
            .kill()
            .await
            .map_err(|cause| Failure::failed(format!("cannot kill {}: {cause}", node.name)))?;
        Ok(pid)
    }

    /// Kills all that runs on a node at once and gives its machine a new boot id, as a power cut
    /// does. Returns how many processes ended, the daemon first.
    pub(crate) async fn cut_power(&mut self, node: &NodePlace) -> Result<usize, Failure> {
        let running = processes_of(&node.dir, &self.ground.program).len();
        self.kill_daemon(node).await?;
        let left = kill_all(&node.dir, &self.ground.program);
        if let Some(left) = left.first() {
            return Err(Failure::failed(format!(
                "{} cannot be killed: {}",
                left.pid, left.command
            )));
        }
        new_boot(node)?;
        Ok(running)
    }

    /// The process of each daemon that runs.
    pub(crate) fn pids(&self) -> BTreeMap<String, u32> {
        let pid = |(name, child): (&String, &Child)| Some((name.clone(), child.id()?));
        self.daemons.iter().filter_map(pid).collect()
    }

    /// A daemon that has ended by itself is a failure of the demo.
    pub(crate) fn check_alive(&mut self) -> Result<(), Failure> {
        for (name, child) in &mut self.daemons {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Failure::failed(format!("the daemon of {name} has ended: {status}")));
            }
        }
        Ok(())
    }

    /// Asks one node for the group.
    pub(crate) async fn status(&self, node: &NodePlace) -> Result<GroupStatus, ClientError> {
        Client::new(&node.socket()).get(&format!("/v1/status?group={}", super::GROUP)).await
    }

    /// Asks one node for the ring.
    pub(crate) async fn members(&self, node: &NodePlace) -> Vec<RingMemberStatus> {
        // A daemon that does not answer yet is asked again.
        Client::new(&node.socket()).get("/v1/members").await.unwrap_or_default()
    }

    /// Ends every daemon in good order, and every service with it; then makes sure. Returns what
    /// had to be killed.
    pub(crate) async fn stop(&mut self) -> Result<Vec<Ours>, Failure> {
        for child in self.daemons.values() {
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                signal(pid, Signal::TERM);
            }
        }
        let end = Instant::now() + STOP_LIMIT;
        for child in self.daemons.values_mut() {
            // Who does not end in time is killed below.
            let left = end.saturating_duration_since(Instant::now());
            tokio::time::timeout(left, child.wait()).await.ok();
        }
        let (dir, program) = (self.ground.dir.clone(), self.ground.program.clone());
        let stubborn = processes_of(&dir, &program);
        let left = tokio::task::spawn_blocking(move || kill_all(&dir, &program));
        let left = left.await.map_err(|cause| Failure::failed(cause.to_string()))?;
        self.daemons.clear();
        match left.first() {
            None => Ok(stubborn),
            Some(process) => Err(Failure::failed(format!(
                "{} process(es) of the demo cannot be ended; the first is {}: {}",
                left.len(),
                process.pid,
                process.command
            ))),
        }
    }

    /// The last lines of each daemon's log.
    pub(crate) fn log_tails(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.ground.nodes {
            let text = read_text(node.log());
            let all: Vec<&str> = text.lines().collect();
            if all.is_empty() {
                continue;
            }
            lines.push(format!("--- {} (the last of {} lines)", node.name, all.len()));
            let tail = all.iter().skip(all.len().saturating_sub(TAIL_LINES));
            lines.extend(tail.map(|line| (*line).to_owned()));
        }
        lines
    }
}

/// A log as far as it can be read.
pub(crate) fn read_text(path: PathBuf) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The services' own `stop_timeout` is 2 s, and a goodbye takes less than one.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// Enough to see what the last step was.
const TAIL_LINES: usize = 15;
