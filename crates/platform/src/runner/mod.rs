//! The process runner: starts services, watches them, stops them with everything they started.
//!
//! Invariants: a group has at most one launch alive, also across a crash of the daemon (which process
//! it is is durable before the program begins). Nothing is signalled but (pid, start time). Dropping the runner
//! touches no service; the next one takes them over with [`Runner::adopt`]. `Exited` is reported
//! after the last process of the launch is dead.

mod adopt;
mod launch;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_types::manifest::StopSignal;
use baton_types::{GroupName, Text, hex};
use rustix::process::Signal;
use tokio::sync::{mpsc, watch as watching};

use crate::cgroup::CgroupRoot;
use crate::durable::{DurableError, DurableFiles};
use crate::limits::{KILL_DEADLINE, LOG_CAP_BYTES};
use crate::once::{self, OnceRequest, OnceResult};
use crate::output::Output;
use crate::spawn::LaunchError;

pub use adopt::{Adopted, Adoption, Gone};
pub use launch::{LaunchRequest, Launched};
pub use watch::Exit;
pub(crate) use watch::reap;

/// Where and how.
#[derive(Clone, Debug)]
pub struct RunnerSettings {
    /// Run records, relay offsets and notify sockets. A service that runs as another user must be
    /// able to pass through it to its notify socket.
    pub run_dir: PathBuf,
    /// The services' log files.
    pub log_dir: PathBuf,
    /// A log file above this is emptied.
    pub log_cap_bytes: u64,
    /// A delegated cgroup v2 to use; `None`: found by itself.
    pub cgroup_root: Option<PathBuf>,
    /// Whether cgroups are used at all.
    pub use_cgroups: bool,
    /// The file with this boot's id; another one lets a test play a reboot.
    pub boot_id_path: PathBuf,
}

impl RunnerSettings {
    /// The defaults for these two folders.
    pub fn new(run_dir: impl Into<PathBuf>, log_dir: impl Into<PathBuf>) -> Self {
        Self {
            run_dir: run_dir.into(),
            log_dir: log_dir.into(),
            log_cap_bytes: LOG_CAP_BYTES,
            cgroup_root: None,
            use_cgroups: true,
            boot_id_path: PathBuf::from(crate::clock::BOOT_ID_PATH),
        }
    }
}

/// What the runner reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerEvent {
    /// One line that the program printed.
    Output {
        /// Whose.
        group: GroupName,
        /// The line, cleaned and cut.
        line: String,
    },
    /// The program ended, and everything that it started is dead.
    Exited {
        /// Whose.
        group: GroupName,
        /// The pid it had.
        pid: u32,
        /// How it ended.
        exit: Exit,
    },
    /// The program spoke on its notify socket.
    Notify {
        /// Whose.
        group: GroupName,
        /// READY=1.
        ready: bool,
        /// STOPPING=1.
        stopping: bool,
        /// STATUS=.
        status: Option<Text>,
    },
}

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Files(#[from] DurableError),
    /// Something else that every runner needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Why a service is not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The launch itself is not finished.
    #[error("{0} is being started: it can be stopped in a moment")]
    Starting(GroupName),
    /// SIGKILL does not end it: it hangs in the kernel.
    #[error("{group} cannot be killed: {what}")]
    Unkillable {
        /// Whose processes.
        group: GroupName,
        /// Which.
        what: String,
    },
}

/// How a stop went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// The main process did not end in time and was killed.
    pub forced: bool,
    /// Processes that were killed: left behind by the main process, or with it.
    pub killed: usize,
}

/// The process runner. To be made inside a tokio runtime.
#[derive(Debug)]
pub struct Runner {
    inner: Arc<Inner>,
    life: Life,
    /// Every task of the runner ends when it is dropped.
    _alive: watching::Sender<()>,
    tasks_gone: mpsc::Receiver<()>,
}

impl Runner {
    /// Opens the folders, becomes child subreaper and begins to reap and to relay output. Call
    /// [`Runner::adopt`] before anything is launched.
    pub fn new(
        settings: RunnerSettings,
        events: mpsc::Sender<RunnerEvent>,
    ) -> Result<Self, RunnerError> {
        let system = |what| move |source| RunnerError::System { what, source };
        crate::reaper::become_subreaper().map_err(system("become child subreaper"))?;
        let files = DurableFiles::open(&settings.run_dir)?;
        let boot_id = crate::clock::boot_id_from(&settings.boot_id_path)
            .map_err(system("read the id of this boot"))?;
        let run_id = run_id(&files)?;
        let output = Output::new(&settings.log_dir, &settings.run_dir, settings.log_cap_bytes)
            .map_err(system("make the log folder"))?;
        let cgroups = match (settings.use_cgroups, settings.cgroup_root) {
            (false, _) => None,
            (true, Some(path)) => CgroupRoot::at(path),
            (true, None) => CgroupRoot::find(),
        };
        let (alive, is_alive) = watching::channel(());
        let (task, tasks_gone) = mpsc::channel(1);
        let inner = Arc::new(Inner {
            run_id,
            boot_id,
            files,
            cgroups,
            events,
            output,
            table: Mutex::new(BTreeMap::new()),
            instances: Mutex::new(BTreeSet::new()),
        });
        let life = Life { is_alive, _task: task };
        watch::start_reaper(life.clone());
        watch::start_relay(Arc::clone(&inner), life.clone());
        Ok(Self { inner, life, _alive: alive, tasks_gone })
    }

    /// Starts a program for a group that has none running. Once begun it is finished, also if the
    /// future is dropped.
    pub async fn launch(&self, request: LaunchRequest) -> Result<Launched, LaunchError> {
        let label = request.argv.first().cloned().unwrap_or_default();
        let launching = launch::launch(Arc::clone(&self.inner), self.life.clone(), request);
        tokio::spawn(launching).await.unwrap_or(Err(LaunchError::Ending(label)))
    }

    /// Takes over what the last daemon left running, and clears away what it left dead or half
    /// started. To be called once, before the first launch.
    pub async fn adopt(&self) -> Result<Adoption, DurableError> {
        adopt::adopt(Arc::clone(&self.inner), self.life.clone()).await
    }

    /// Asks the main process of `group` to end, kills it after `timeout`, and returns when
    /// nothing that it started is alive. A group without a process is stopped already.
    pub async fn stop(
        &self,
        group: &GroupName,
        signal: StopSignal,
        timeout: Duration,
    ) -> Result<StopReport, StopError> {
        let running = match self.inner.table().get(group) {
            None => return Ok(StopReport::default()),
            Some(Slot::Starting) => return Err(StopError::Starting(group.clone())),
            Some(Slot::Running(running)) => running.clone(),
        };
        // It may be dead already, which its watcher is about to notice.
        running.signal(number_of(signal)).ok();
        let mut done = running.done.clone();
        if let Ok(Ok(end)) = tokio::time::timeout(timeout, done.wait_for(Option::is_some)).await {
            return finished(group, false, 0, &end);
        }
        let family = Arc::clone(&running.family);
        let killed = tokio::task::spawn_blocking(move || family.kill()).await;
        let unkillable = |what| StopError::Unkillable { group: group.clone(), what };
        let killed = killed
            .map_err(|error| unkillable(error.to_string()))?
            .map_err(|survivors| unkillable(survivors.to_string()))?;
        match tokio::time::timeout(KILL_DEADLINE, done.wait_for(Option::is_some)).await {
            Ok(Ok(end)) => finished(group, true, killed, &end),
            _ => Err(unkillable(format!("process {} is not reported dead", running.pid))),
        }
    }

    /// Runs a hook or a check. When the future is dropped, everything it started is killed.
    pub async fn run_once(&self, request: OnceRequest) -> OnceResult {
        let instance = format!("{}-once-{}", self.inner.run_id, random_hex());
        let (keep, mut dropped) = mpsc::channel::<()>(1);
        let (inner, life) = (Arc::clone(&self.inner), self.life.clone());
        let running = tokio::spawn(async move {
            inner.instances().insert(instance.clone());
            let cancelled = async move {
                // Nothing is ever sent: this ends when the caller's future is gone.
                dropped.recv().await;
            };
            let result =
                once::run(request, instance.clone(), inner.cgroups.clone(), cancelled).await;
            inner.instances().remove(&instance);
            drop(life);
            result
        });
        let result = running.await;
        drop(keep);
        result.unwrap_or_else(|error| OnceResult {
            exit: once::OnceExit::CouldNotStart(error.to_string()),
            output: String::new(),
            took: Duration::ZERO,
        })
    }

    /// The last `count` lines that the group's program printed, oldest first.
    pub fn last_lines(&self, group: &GroupName, count: usize) -> io::Result<Vec<String>> {
        self.inner.output.last_lines(group, count)
    }

    /// The group's log file.
    pub fn log_path(&self, group: &GroupName) -> PathBuf {
        self.inner.output.path(group)
    }

    /// The pid of the group's main process, if it has one.
    pub fn pid(&self, group: &GroupName) -> Option<u32> {
        match self.inner.table().get(group) {
            Some(Slot::Running(running)) => Some(running.pid),
            _ => None,
        }
    }

    /// Where launches get their cgroups, if they get any.
    pub fn cgroups(&self) -> Option<&CgroupRoot> {
        self.inner.cgroups.as_ref()
    }

    /// Ends the runner's tasks and frees its folders; services run on. Work that was begun (a
    /// launch, the killing of leftovers) is finished first.
    pub async fn close(self) {
        let Self { inner, life, _alive, mut tasks_gone } = self;
        drop((inner, life, _alive));
        // Nothing is ever sent: this ends when the last task is gone.
        tasks_gone.recv().await;
    }
}

/// What the tasks share.
#[derive(Debug)]
struct Inner {
    /// Names this run directory in every marker, for as long as the directory lives.
    run_id: String,
    boot_id: String,
    files: DurableFiles,
    cgroups: Option<CgroupRoot>,
    events: mpsc::Sender<RunnerEvent>,
    output: Output,
    table: Mutex<BTreeMap<GroupName, Slot>>,
    /// Markers of launches that are alive; everything else under our run id is a stray.
    instances: Mutex<BTreeSet<String>>,
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, BTreeMap<GroupName, Slot>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_path(&self, instance: &str) -> PathBuf {
        // Short: a socket's path has 107 bytes at most. The second part of a marker is random.
        let random = instance.split('-').nth(1).unwrap_or(instance);
        let short = random.get(..12).unwrap_or(random);
        self.files.dir().join(format!("{NOTIFY_PREFIX}{short}"))
    }
}

/// Held by every task: tells it to end, and tells the runner that it has.
#[derive(Clone, Debug)]
struct Life {
    is_alive: watching::Receiver<()>,
    _task: mpsc::Sender<()>,
}

impl Life {
    /// Completes when the runner is dropped or closed.
    async fn over(&mut self) {
        while self.is_alive.changed().await.is_ok() {}
    }
}

/// A group's place in the table.
#[derive(Debug)]
enum Slot {
    Starting,
    Running(watch::Running),
}

fn finished(
    group: &GroupName,
    forced: bool,
    killed: usize,
    end: &Option<watch::End>,
) -> Result<StopReport, StopError> {
    match end {
        Some(watch::End { killed: Ok(more) }) => Ok(StopReport { forced, killed: killed + more }),
        Some(watch::End { killed: Err(survivors) }) => {
            Err(StopError::Unkillable { group: group.clone(), what: survivors.to_string() })
        }
        None => Err(StopError::Unkillable { group: group.clone(), what: "no end".to_owned() }),
    }
}

fn number_of(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Hup => Signal::HUP,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
        StopSignal::Kill => Signal::KILL,
    }
}

/// The id of this run directory; drawn anew if it was lost, which only makes strays of an older
/// id impossible to recognize.
fn run_id(files: &DurableFiles) -> Result<String, RunnerError> {
    match files.read(RUN_ID_NAME, 1, 64) {
        Ok(Some(bytes)) if hex::decode::<8>(&String::from_utf8_lossy(&bytes)).is_some() => {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(_) | Err(DurableError::Damaged { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let id = random_hex()[..16].to_owned();
    files.write(RUN_ID_NAME, 1, id.as_bytes())?;
    Ok(id)
}

/// 128 random bits, as 32 characters.
fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel's generator cannot fail for so few bytes once it is seeded; before that it
    // waits. Anything it leaves at zero still differs from launch to launch by the time.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(bytes.len()) {
        bytes = u128::from(crate::clock::now().moment.0).to_be_bytes();
    }
    hex::encode(&bytes)
}

const RUN_ID_NAME: &str = "run-id";
/// The beginning of a notify socket's file name.
const NOTIFY_PREFIX: &str = "notify-";
