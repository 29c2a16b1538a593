//! Taking over from the last daemon.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use baton_types::GroupName;

use super::launch::{remove_record, write_record};
use super::watch::{self, Handles};
use super::{Inner, Life, NOTIFY_PREFIX};
use crate::cgroup::Cgroup;
use crate::durable::DurableError;
use crate::family::{self, Family};
use crate::limits::RECORD_MAX_BYTES;
use crate::notify_socket::NotifySocket;
use crate::procfs::{self, Entry, Stat};
use crate::record::{NotifyOwner, ProcessId, RECORD_FORMAT, RECORD_SUFFIX, RunRecord};

/// A process that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Whose.
    pub group: GroupName,
    /// The release that it runs.
    pub release: String,
    /// Its pid.
    pub pid: u32,
    /// All that was written down about it.
    pub record: RunRecord,
}

/// A launch of the last daemon of which nothing runs any more; how it ended is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Whose.
    pub group: GroupName,
    /// The release that it ran.
    pub release: String,
    /// Whether the machine was rebooted since.
    pub rebooted: bool,
    /// All that was written down about it.
    pub record: RunRecord,
}

/// What was found at the start of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Running, and watched from now on.
    pub running: Vec<Adopted>,
    /// Recorded, but gone; leftovers of them were killed.
    pub gone: Vec<Gone>,
    /// Records that could not be read, as messages for the journal.
    pub damaged: Vec<String>,
    /// Processes that were started from this run directory but belong to nothing that runs, such
    /// as an interrupted hook. They were killed.
    pub strays_killed: usize,
}

pub(super) async fn adopt(inner: Arc<Inner>, life: Life) -> Result<Adoption, DurableError> {
    let worker = Arc::clone(&inner);
    let looked = tokio::task::spawn_blocking(move || look(&worker)).await;
    let (mut adoption, found) = looked.unwrap_or_else(|error| {
        Err(DurableError::Io {
            operation: "read the records in",
            path: inner.files.dir().to_owned(),
            source: std::io::Error::other(error),
        })
    })?;
    for (record, handles) in found {
        let Some((pid, _)) = handles.family.main else { continue };
        let adopted = Adopted {
            group: record.group.clone(),
            release: record.release.clone(),
            pid,
            record: record.clone(),
        };
        if let Err(error) = inner.output.follow(&record.group) {
            tracing::warn!(group = %record.group, %error, "cannot read along a service's log");
        }
        match watch::begin(&inner, &life, record, handles) {
            Ok(()) => adoption.running.push(adopted),
            Err(error) => adoption.damaged.push(format!(
                "{}: process {pid} runs but cannot be watched: {error}",
                adopted.group
            )),
        }
    }
    Ok(adoption)
}

type Found = Vec<(RunRecord, Handles)>;

fn look(inner: &Inner) -> Result<(Adoption, Found), DurableError> {
    let mut adoption = Adoption::default();
    let mut found = Found::new();
    for name in inner.files.names(RECORD_SUFFIX)? {
        let record = match read(inner, &name) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(error) => {
                adoption.damaged.push(error.to_string());
                continue;
            }
        };
        if inner.table().contains_key(&record.group) {
            continue;
        }
        let rebooted = record.boot_id != inner.boot_id;
        let taken = if rebooted { None } else { take_over(inner, record.clone())? };
        if let Some(taken) = taken {
            inner.instances().insert(record.instance.clone());
            found.push(taken);
            continue;
        }
        if !rebooted {
            clear(&record.instance, record.cgroup.as_ref());
        }
        remove_record(inner, &record.group)?;
        let (group, release) = (record.group.clone(), record.release.clone());
        adoption.gone.push(Gone { group, release, rebooted, record });
    }
    recover(inner, &mut adoption, &mut found)?;
    adoption.strays_killed = clear_strays(inner);
    remove_stray_sockets(inner);
    Ok((adoption, found))
}

fn read(inner: &Inner, name: &str) -> Result<Option<RunRecord>, DurableError> {
    let Some(bytes) = inner.files.read(name, RECORD_FORMAT, RECORD_MAX_BYTES)? else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(Some(record)),
        Err(error) => Err(DurableError::Damaged {
            path: inner.files.dir().join(name),
            moved_to: inner.files.move_aside(name)?,
            what: error.to_string(),
        }),
    }
}

fn take_over(
    inner: &Inner,
    record: RunRecord,
) -> Result<Option<(RunRecord, Handles)>, DurableError> {
    let cgroup = record.cgroup.as_deref().and_then(Cgroup::from_record);
    let ProcessId { pid, start_time } = record.process;
    let handle = procfs::open_exact(pid, start_time).map_err(|source| DurableError::Io {
        operation: "open the process of",
        path: PathBuf::from(record.group.to_string()),
        source,
    })?;
    let is_dead = Stat::read(pid).is_none_or(|stat| stat.is_zombie);
    let Some(handle) = handle.filter(|_| !is_dead) else { return Ok(None) };
    let socket = record.notify.and_then(|owner| {
        let path = inner.notify_path(&record.instance);
        NotifySocket::bind(&path, owner)
            .inspect_err(|error| {
                tracing::warn!(group = %record.group, %error, "no notify socket for a service");
            })
            .ok()
    });
    let main = Some((pid, start_time));
    let family = Family { instance: record.instance.clone(), cgroup, main, is_ours: false };
    Ok(Some((record, Handles { handle, tracked: None, family, socket })))
}

/// Kills what is left of a launch whose main process is gone: it is not known whether the pid
/// has been another session's since, so only marker and cgroup count.
fn clear(instance: &str, cgroup: Option<&PathBuf>) -> usize {
    let cgroup = cgroup.and_then(|path| Cgroup::from_record(path));
    let family = Family { instance: instance.to_owned(), cgroup, main: None, is_ours: false };
    family.kill().unwrap_or_else(|survivors| {
        tracing::error!(%survivors, "a service of the last daemon left processes behind");
        0
    })
}

/// Takes over services whose record is lost, damaged or newer than this program: their marker
/// says which group they are.
fn recover(inner: &Inner, adoption: &mut Adoption, found: &mut Found) -> Result<(), DurableError> {
    let prefix = format!("{}-", inner.run_id);
    for (stat, instance) in family::marked(&prefix) {
        let Some(group) = group_of(&instance) else { continue };
        let is_known = inner.instances().contains(&instance)
            || inner.table().contains_key(&group)
            || found.iter().any(|(record, _)| record.group == group);
        // A reboot that was only played leaves processes that a real one would have ended.
        let is_past = adoption.gone.iter().any(|g| g.rebooted && g.record.instance == instance);
        if is_known || is_past || stat.session != stat.pid {
            continue;
        }
        let record = record_of(inner, &stat, instance, group);
        let Some(taken) = take_over(inner, record)? else { continue };
        write_record(inner, &taken.0)?;
        inner.instances().insert(taken.0.instance.clone());
        adoption.gone.retain(|gone| gone.group != taken.0.group);
        found.push(taken);
    }
    Ok(())
}

/// `RUN-RANDOM-SERVICE.GROUP`; a hook's marker has no group.
fn group_of(instance: &str) -> Option<GroupName> {
    instance.splitn(3, '-').nth(2)?.parse().ok()
}

/// What a running process tells about itself.
fn record_of(inner: &Inner, stat: &Stat, instance: String, group: GroupName) -> RunRecord {
    let release = match procfs::environ_entry(stat.pid, |entry| entry.starts_with(RELEASE_ENTRY)) {
        Entry::Found(entry) => entry.split_once('=').map(|(_, release)| release.to_owned()),
        Entry::Absent | Entry::Unknown => None,
    };
    let socket = std::fs::metadata(inner.notify_path(&instance)).ok();
    let cgroup = inner.cgroups.iter().flat_map(|root| root.begin_with(&instance)).next();
    RunRecord {
        group,
        release: release.unwrap_or_default(),
        argv: procfs::argv(stat.pid),
        boot_id: inner.boot_id.clone(),
        instance,
        launched_at: crate::clock::now().wall,
        cgroup: cgroup.map(|cgroup| cgroup.path().to_owned()),
        notify: socket.map(|socket| NotifyOwner { uid: socket.uid(), gid: socket.gid() }),
        process: ProcessId { pid: stat.pid, start_time: stat.start_time },
    }
}

fn clear_strays(inner: &Inner) -> usize {
    let known = inner.instances().clone();
    let prefix = format!("{}-", inner.run_id);
    let strays: BTreeSet<String> = family::marked(&prefix)
        .into_iter()
        .map(|(_, instance)| instance)
        .filter(|instance| !known.contains(instance))
        .collect();
    let mut killed: usize = strays.iter().map(|instance| clear(instance, None)).sum();
    for cgroup in inner.cgroups.iter().flat_map(|root| root.begin_with(&prefix)) {
        let name = cgroup.path().to_string_lossy().into_owned();
        if known.iter().any(|instance| name.contains(instance)) {
            continue;
        }
        killed += clear("no marker", Some(&cgroup.path().to_owned()));
    }
    killed
}

/// Notify sockets of launches that are over, or never came to a program.
fn remove_stray_sockets(inner: &Inner) {
    let known: BTreeSet<PathBuf> =
        inner.instances().iter().map(|instance| inner.notify_path(instance)).collect();
    for entry in std::fs::read_dir(inner.files.dir()).into_iter().flatten().flatten() {
        let is_socket = entry.file_name().to_string_lossy().starts_with(NOTIFY_PREFIX);
        if is_socket && !known.contains(&entry.path()) {
            // Nobody will ask for it again.
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

/// How the program of a service is told its release.
const RELEASE_ENTRY: &[u8] = b"BATON_RELEASE=";
