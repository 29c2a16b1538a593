//! Starting a service: a process is made, written down, and only then let be the program.

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
use crate::spawn::{Held, LaunchError, Plan, hold, user_for};

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
    let mut pending = Pending::new(inner, &request.group);
    if request.notify {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (uid, gid) = owner.unwrap_or(own);
        pending.bind(NotifyOwner { uid, gid })?;
    }
    let mut env = request.env.clone();
    env.insert(MARKER.to_owned(), pending.family.instance.clone());
    if pending.notify.is_some() {
        let path = inner.notify_path(&pending.family.instance);
        env.insert("NOTIFY_SOCKET".to_owned(), path.display().to_string());
    }
    let held = hold(Plan {
        argv: &request.argv,
        env: &env,
        cwd: &request.cwd,
        user: user.as_ref(),
        output: log.into(),
        cgroup: pending.family.cgroup.as_ref(),
    })?;
    pending.begin(request, held)
}

/// A launch that is not through yet: dropped, it leaves nothing behind.
struct Pending<'a> {
    inner: &'a Inner,
    group: GroupName,
    family: Family,
    notify: Option<(NotifyOwner, NotifySocket)>,
    is_through: bool,
}

impl<'a> Pending<'a> {
    fn new(inner: &'a Inner, group: &GroupName) -> Self {
        // The group is part of the marker, so that a lost record does not cost the service.
        let instance = format!("{}-{}-{group}", inner.run_id, random_hex());
        inner.instances().insert(instance.clone());
        let cgroup = inner.cgroups.as_ref().and_then(|root| match root.make(&instance) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                tracing::debug!(%error, %group, "no cgroup for a service");
                None
            }
        });
        let family = Family { instance, cgroup, main: None, is_ours: true };
        Self { inner, group: group.clone(), family, notify: None, is_through: false }
    }

    fn bind(&mut self, owner: NotifyOwner) -> Result<(), LaunchError> {
        let path = self.inner.notify_path(&self.family.instance);
        let socket = NotifySocket::bind(&path, owner)
            .map_err(|source| LaunchError::Notify { path, source })?;
        self.notify = Some((owner, socket));
        Ok(())
    }

    /// Writes down which process it is, then lets it be the program.
    fn begin(
        mut self,
        request: &LaunchRequest,
        held: Held,
    ) -> Result<(RunRecord, Launched, Handles), LaunchError> {
        let (pid, start_time) = held.id();
        self.family.main = Some((pid, start_time));
        let record = RunRecord {
            group: request.group.clone(),
            release: request.release.clone(),
            argv: request.argv.clone(),
            boot_id: self.inner.boot_id.clone(),
            instance: self.family.instance.clone(),
            launched_at: crate::clock::now().wall,
            cgroup: self.family.cgroup.as_ref().map(|cgroup| cgroup.path().to_owned()),
            notify: self.notify.as_ref().map(|(owner, _)| *owner),
            process: ProcessId { pid, start_time },
        };
        write_record(self.inner, &record)?;
        let spawned = held.let_go()?;
        self.is_through = true;
        let handles = Handles {
            handle: spawned.handle,
            tracked: Some(spawned.tracked),
            family: self.family.clone(),
            socket: self.notify.take().map(|(_, socket)| socket),
        };
        Ok((record, Launched { pid, start_time }, handles))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_through {
            return;
        }
        // Kills what may run, and removes the cgroup in any case.
        let group = &self.group;
        if let Err(survivors) = self.family.kill() {
            tracing::error!(%group, %survivors, "a failed start is still there");
        }
        if let Err(error) = remove_record(self.inner, group) {
            tracing::warn!(%group, %error, "cannot remove a run record");
        }
        self.inner.instances().remove(&self.family.instance);
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
