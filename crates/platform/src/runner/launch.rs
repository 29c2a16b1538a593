//! Starting a service: intent, fork, record, in this order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use baton_types::GroupName;

use super::watch::{self, Handles};
use super::{Inner, Life, Slot, random_hex};
use crate::durable::DurableError;
use crate::family::{Family, MARKER};
use crate::notify_socket::NotifySocket;
use crate::record::{NotifyOwner, ProcessId, RECORD_FORMAT, RECORD_SUFFIX, RunRecord};
use crate::spawn::{LaunchError, Plan, Spawned, spawn, user_for};

/// What to start.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// For which group.
    pub group: GroupName,
    /// Its release, written into the record.
    pub release: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment; a PATH is added if there is none.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// As whom; `None`: as the daemon.
    pub run_as: Option<String>,
    /// Whether it gets a notify socket.
    pub notify: bool,
}

/// A program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its pid.
    pub pid: u32,
    /// Its start time in ticks since boot.
    pub start_time: u64,
}

pub(super) async fn launch(
    inner: Arc<Inner>,
    life: Life,
    request: LaunchRequest,
) -> Result<Launched, LaunchError> {
    let group = request.group.clone();
    {
        let mut table = inner.table();
        if table.contains_key(&group) {
            return Err(LaunchError::Running(group.to_string()));
        }
        table.insert(group.clone(), Slot::Starting);
    }
    let worker = Arc::clone(&inner);
    let started = tokio::task::spawn_blocking(move || start(&worker, &request)).await;
    let started = started.unwrap_or_else(|_| Err(LaunchError::Ending(group.to_string())));
    match started {
        Ok((record, launched, handles)) => {
            watch::begin(&inner, &life, record, handles).map_err(|source| {
                inner.table().remove(&group);
                LaunchError::Start { program: group.to_string(), source }
            })?;
            Ok(launched)
        }
        Err(error) => {
            inner.table().remove(&group);
            Err(error)
        }
    }
}

fn start(
    inner: &Inner,
    request: &LaunchRequest,
) -> Result<(RunRecord, Launched, Handles), LaunchError> {
    if request.argv.is_empty() {
        return Err(LaunchError::Empty);
    }
    let user = user_for(&request.argv, request.run_as.as_deref())?;
    let owner = user.as_ref().map(|user| (user.uid, user.gid));
    let log_path = inner.output.path(&request.group);
    let log = inner
        .output
        .open(&request.group, owner)
        .map_err(|source| LaunchError::Log { path: log_path, source })?;
    let mut pending = Pending::new(inner, request);
    if request.notify {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (uid, gid) = owner.unwrap_or(own);
        pending.bind(NotifyOwner { uid, gid })?;
    }
    let mut env = request.env.clone();
    env.insert(MARKER.to_owned(), pending.record.instance.clone());
    if pending.socket.is_some() {
        let path = inner.notify_path(&pending.record.instance);
        env.insert("NOTIFY_SOCKET".to_owned(), path.display().to_string());
    }
    // The intent: from here on a crash leaves something to find the program by.
    write_record(inner, &pending.record)?;
    let spawned = spawn(Plan {
        argv: &request.argv,
        env: &env,
        cwd: &request.cwd,
        user: user.as_ref(),
        output: log.into(),
        cgroup: pending.family.cgroup.as_ref(),
    })?;
    pending.take(spawned)
}

/// A launch that is not through yet: dropped, it leaves nothing behind.
struct Pending<'a> {
    inner: &'a Inner,
    record: RunRecord,
    family: Family,
    socket: Option<NotifySocket>,
    spawned: Option<Spawned>,
    is_through: bool,
}

impl<'a> Pending<'a> {
    fn new(inner: &'a Inner, request: &LaunchRequest) -> Self {
        // The group is part of the marker, so that a lost record does not cost the service.
        let instance = format!("{}-{}-{}", inner.run_id, random_hex(), request.group);
        inner.instances().insert(instance.clone());
        let cgroup = inner.cgroups.as_ref().and_then(|root| match root.make(&instance) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                tracing::debug!(%error, group = %request.group, "no cgroup for a service");
                None
            }
        });
        let record = RunRecord {
            group: request.group.clone(),
            release: request.release.clone(),
            argv: request.argv.clone(),
            boot_id: inner.boot_id.clone(),
            instance: instance.clone(),
            launched_at: crate::clock::now().wall,
            cgroup: cgroup.as_ref().map(|cgroup| cgroup.path().to_owned()),
            notify: None,
            process: None,
        };
        let family = Family { instance, cgroup, main: None, is_ours: true };
        Self { inner, record, family, socket: None, spawned: None, is_through: false }
    }

    fn bind(&mut self, owner: NotifyOwner) -> Result<(), LaunchError> {
        let path = self.inner.notify_path(&self.record.instance);
        let socket = NotifySocket::bind(&path, owner)
            .map_err(|source| LaunchError::Notify { path, source })?;
        self.socket = Some(socket);
        self.record.notify = Some(owner);
        Ok(())
    }

    fn take(mut self, spawned: Spawned) -> Result<(RunRecord, Launched, Handles), LaunchError> {
        let (pid, start_time) = (spawned.pid, spawned.start_time);
        self.family.main = Some((pid, start_time));
        self.record.process = Some(ProcessId { pid, start_time });
        self.spawned = Some(spawned);
        write_record(self.inner, &self.record)?;
        self.is_through = true;
        let Some(spawned) = self.spawned.take() else { return Err(LaunchError::Empty) };
        let handles = Handles {
            handle: spawned.handle,
            tracked: Some(spawned.tracked),
            family: self.family.clone(),
            socket: self.socket.take(),
        };
        Ok((self.record.clone(), Launched { pid, start_time }, handles))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_through {
            return;
        }
        // Kills what may run, and removes the cgroup in any case.
        if let Err(survivors) = self.family.kill() {
            tracing::error!(group = %self.record.group, %survivors, "a failed start is still there");
        }
        if let Some(spawned) = self.spawned.take() {
            watch::reap(&spawned.handle);
        }
        if let Err(error) = remove_record(self.inner, &self.record.group) {
            tracing::warn!(group = %self.record.group, %error, "cannot remove a run record");
        }
        self.inner.instances().remove(&self.record.instance);
    }
}

pub(super) fn record_name(group: &GroupName) -> String {
    format!("{group}{RECORD_SUFFIX}")
}

pub(super) fn write_record(inner: &Inner, record: &RunRecord) -> Result<(), DurableError> {
    let name = record_name(&record.group);
    let bytes = serde_json::to_vec(record).map_err(|error| DurableError::Io {
        operation: "encode",
        path: inner.files.dir().join(&name),
        source: error.into(),
    })?;
    inner.files.write(&name, RECORD_FORMAT, &bytes)
}

pub(super) fn remove_record(inner: &Inner, group: &GroupName) -> Result<(), DurableError> {
    inner.files.remove(&record_name(group))
}
