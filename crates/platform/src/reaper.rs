//! Reaping orphans without stealing anybody's child.
//!
//! The daemon is child subreaper: whatever a service leaves behind becomes its child and must be
//! waited for. Waiting for "any child" would steal the exit status of children that somebody else
//! in this process waits for. Invariant: only a zombie is reaped that is (a) not one that this
//! crate launched itself and (b) in another session than ours. Every launch here begins with
//! setsid, so an orphan of one is never in our session, while a child that other code of this
//! process started always is.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use tokio::signal::unix::{SignalKind, signal};

use crate::procfs::{self, Stat};

/// A process that its launcher waits for; the reaper leaves it alone while this lives.
#[derive(Debug)]
pub struct Tracked(u32);

impl Tracked {
    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.0
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        tracked().remove(&self.0);
    }
}

/// Runs `spawn` and tracks the process that it made, with no moment in between at which the
/// reaper could take it.
pub fn track<T, E>(spawn: impl FnOnce() -> Result<(u32, T), E>) -> Result<(Tracked, T), E> {
    let mut pids = tracked();
    let (pid, rest) = spawn()?;
    pids.insert(pid);
    Ok((Tracked(pid), rest))
}

/// Makes orphans of our children our own children.
pub fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(getpid())).map_err(io::Error::from)
}

/// Reaps every dead orphan; their number. `None`: somebody launches just now, ask again.
pub fn reap_orphans() -> Option<usize> {
    let pids = TRACKED.try_lock().ok()?;
    // By the same file as those of the children, so that both are told in the same way: a session
    // that began outside of our process namespace has number 0, which no call promises to return.
    let Some(own) = Stat::read(std::process::id()) else { return Some(0) };
    let children = procfs::children_of(std::process::id()).unwrap_or_else(|_| {
        let all = procfs::all().unwrap_or_default().processes;
        all.values().filter(|p| p.parent == std::process::id()).map(|p| p.pid).collect()
    });
    let mut reaped = 0;
    for pid in children.into_iter().filter(|pid| !pids.contains(pid)) {
        let orphan = Stat::read(pid).is_some_and(|s| s.is_zombie && s.session != own.session);
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let (true, Some(raw)) = (orphan, raw)
            && matches!(
                waitid(WaitId::Pid(raw), WaitIdOptions::EXITED | WaitIdOptions::NOHANG),
                Ok(Some(_))
            )
        {
            reaped += 1;
        }
    }
    Some(reaped)
}

/// Reaps whenever a child dies, until dropped.
pub async fn run() -> io::Result<()> {
    let mut deaths = signal(SignalKind::child())?;
    loop {
        let reaped = tokio::task::spawn_blocking(reap_orphans).await.map_err(io::Error::other)?;
        // A fork bomb's deaths are handled in batches.
        tokio::time::sleep(BATCH).await;
        if reaped.is_some() && deaths.recv().await.is_none() {
            return Ok(());
        }
    }
}

fn tracked() -> MutexGuard<'static, BTreeSet<u32>> {
    TRACKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Children belong to the process, so their list does too.
static TRACKED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

const BATCH: Duration = Duration::from_millis(50);
