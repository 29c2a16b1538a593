//! Programs, hooks and checks: what the node wants run, by the platform's runner.
//!
//! Invariant: the node hears of a program's launch before it hears of its end, and every hook,
//! check and halt is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_depot::{ReleaseStore, RevisionStore, written_name};
use baton_node::{CheckResult, Event, ExitKind, HookEnd, HookResult, Launch};
use baton_platform::{
    Exit, LaunchRequest, OnceExit, OnceRequest, OnceResult, Runner, RunnerEvent, StopError,
};
use baton_supervise::environment::{Surroundings, argv, environment, expand};
use baton_supervise::verdict;
use baton_types::manifest::{HealthCheck, HookKind, StopSignal};
use baton_types::{GroupName, NodeName, Text};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::disk::describe;
use crate::launching::Launching;
use crate::written::Writing;

/// The programs of one node.
#[derive(Debug)]
pub(crate) struct Programs {
    runner: Arc<Runner>,
    store: Arc<ReleaseStore>,
    node: NodeName,
    data_dir: PathBuf,
    done: UnboundedSender<Event>,
    /// Processes whose launch the node has heard of.
    announced: BTreeMap<GroupName, u32>,
    /// Ends that came before their launch was announced.
    early: BTreeMap<GroupName, (u32, Exit)>,
    /// Hooks that can be cancelled.
    hooks: BTreeMap<(GroupName, u64), oneshot::Sender<()>>,
    releases: BTreeMap<GroupName, String>,
    /// Halts under way. A second one for the same launch could outlive the first, and would then
    /// end the launch that followed.
    halting: BTreeSet<(GroupName, u64)>,
    /// Launches that the runner may not know of yet, by group.
    launching: Launching,
}

impl Programs {
    /// `running` are the processes that were adopted.
    pub(crate) fn new(
        runner: Arc<Runner>,
        store: Arc<ReleaseStore>,
        node: NodeName,
        data_dir: &Path,
        done: UnboundedSender<Event>,
        running: BTreeMap<GroupName, u32>,
    ) -> Self {
        Self {
            runner,
            store,
            node,
            data_dir: data_dir.to_owned(),
            done,
            announced: running,
            early: BTreeMap::new(),
            hooks: BTreeMap::new(),
            releases: BTreeMap::new(),
            halting: BTreeSet::new(),
            launching: Launching::default(),
        }
    }

    /// The release whose program last was launched, for the lines that it prints.
    pub(crate) fn release_of(&self, group: &GroupName) -> &str {
        self.releases.get(group).map_or("", String::as_str)
    }

    /// Starts a program.
    pub(crate) fn launch(&mut self, group: GroupName, run: u64, launch: &Launch) {
        self.releases.insert(group.clone(), launch.target.release.to_string());
        let request = self.prepare(&group, launch, true).and_then(|prepared| {
            let writing = prepared.writing(launch)?;
            let argv = argv(&launch.manifest.run.command, &prepared.env, &prepared.release_dir)
                .map_err(|cause| cause.to_string())?;
            let request = LaunchRequest {
                group: group.clone(),
                release: launch.target.key().to_string(),
                argv,
                env: prepared.env,
                cwd: prepared.state_dir,
                run_as: launch.run_as.clone(),
                notify: true,
            };
            Ok((request, writing))
        });
        let (runner, done) = (Arc::clone(&self.runner), self.done.clone());
        let launching = self.launching.clone();
        launching.begin(&group);
        tokio::spawn(async move {
            let launched = match written(request).await {
                Ok(request) => runner.launch(request).await.map_err(|cause| describe(&cause)),
                Err(reason) => Err(reason),
            };
            launching.end(&group);
            let event = match launched {
                Ok(launched) => Event::Launched { group, run, pid: launched.pid },
                Err(reason) => Event::LaunchFailed { group, run, reason: Text::new(&reason) },
            };
            done.send(event).ok();
        });
    }

    /// To be told of every event before the node is: keeps launch and end in order.
    pub(crate) fn announce(&mut self, event: &Event) -> Option<Event> {
        if let Event::Halted { group, run } = event {
            self.halting.remove(&(group.clone(), *run));
        }
        let Event::Launched { group, pid, .. } = event else { return None };
        self.announced.insert(group.clone(), *pid);
        match self.early.remove(group) {
            Some((early, exit)) if early == *pid => self.ended(group, *pid, exit),
            _ => None,
        }
    }

    /// What the runner reports, as the node's event; `None` for one that has to wait.
    pub(crate) fn runner_event(&mut self, event: RunnerEvent) -> Option<Event> {
        match event {
            RunnerEvent::Exited { group, pid, exit } => {
                if self.announced.get(&group) == Some(&pid) {
                    self.ended(&group, pid, exit)
                } else {
                    self.early.insert(group, (pid, exit));
                    None
                }
            }
            RunnerEvent::Notify { group, ready, status, .. } => {
                Some(Event::Notified { group, ready, status })
            }
            RunnerEvent::Output { .. } => None,
        }
    }

    fn ended(&mut self, group: &GroupName, pid: u32, exit: Exit) -> Option<Event> {
        self.announced.remove(group);
        let lines = self.runner.last_lines(group, 1).unwrap_or_default();
        let last_output = Text::last_line(&lines.join("\n"));
        Some(Event::Exited { group: group.clone(), pid, how: kind(exit), last_output })
    }

    /// Stops a program and everything that it started.
    pub(crate) fn halt(
        &mut self,
        group: GroupName,
        run: u64,
        signal: StopSignal,
        timeout: Duration,
    ) {
        if !self.halting.insert((group.clone(), run)) {
            // The one under way kills after its timeout, and tries until it is done.
            return;
        }
        let (runner, done) = (Arc::clone(&self.runner), self.done.clone());
        let launching = self.launching.clone();
        tokio::spawn(async move {
            // What is not up yet would else come up after it was stopped, and nobody would know it.
            while launching.is_under_way(&group) {
                tokio::time::sleep(STARTING).await;
            }
            loop {
                match runner.stop(&group, signal, timeout).await {
                    Ok(_) => break,
                    Err(StopError::Starting(_)) => tokio::time::sleep(STARTING).await,
                    Err(cause) => {
                        tracing::error!("{cause}");
                        tokio::time::sleep(UNKILLABLE).await;
                    }
                }
            }
            done.send(Event::Halted { group, run }).ok();
        });
    }

    /// Runs a hook.
    pub(crate) fn hook(
        &mut self,
        group: GroupName,
        hook: u64,
        kind: HookKind,
        launch: &Launch,
        timeout: Duration,
    ) {
        let command = launch.manifest.hooks.get(kind).map(|hook| hook.command.clone());
        let label = format!("{group} {}", kind.key());
        let command = command.unwrap_or_default();
        let request = self.prepare(&group, launch, false).and_then(|prepared| {
            let writing = prepared.writing(launch)?;
            Ok((once(prepared, launch, &command, label, timeout)?, writing))
        });
        let (runner, done) = (Arc::clone(&self.runner), self.done.clone());
        let (cancel, cancelled) = oneshot::channel::<()>();
        self.hooks.retain(|_, sender| !sender.is_closed());
        self.hooks.insert((group.clone(), hook), cancel);
        tokio::spawn(async move {
            let result = match written(request).await {
                Err(reason) => HookResult { end: HookEnd::NotStarted, text: Text::new(&reason) },
                Ok(request) => tokio::select! {
                    result = runner.run_once(request) => hook_result(&result),
                    Ok(()) = cancelled => {
                        HookResult { end: HookEnd::Cancelled, text: Text::default() }
                    }
                },
            };
            done.send(Event::HookDone { group, hook, result }).ok();
        });
    }

    /// Kills a hook; it is answered all the same.
    pub(crate) fn cancel_hook(&mut self, group: GroupName, hook: u64) {
        if let Some(cancel) = self.hooks.remove(&(group, hook)) {
            // It may have ended by itself in this very moment.
            cancel.send(()).ok();
        }
    }

    /// Runs a health check.
    pub(crate) fn check(
        &self,
        group: GroupName,
        check: u64,
        what: HealthCheck,
        timeout: Duration,
        launch: &Launch,
    ) {
        let done = self.done.clone();
        let checking: Result<Checking, String> = match what {
            HealthCheck::Exec(command) => self
                .prepare(&group, launch, false)
                .and_then(|prepared| {
                    once(prepared, launch, &command, format!("{group} health"), timeout)
                })
                .map(|request| Checking::Exec(Box::new(request))),
            HealthCheck::Http(url) => self.expanded(&group, launch, &url).map(Checking::Http),
            HealthCheck::Tcp(addr) => self.expanded(&group, launch, &addr).map(Checking::Tcp),
        };
        let runner = Arc::clone(&self.runner);
        tokio::spawn(async move {
            let result = match checking {
                Err(reason) => verdict::not_asked(&Text::new(&reason)),
                Ok(checking) => checking.run(&runner, timeout).await,
            };
            done.send(Event::Checked { group, check, result }).ok();
        });
    }

    fn expanded(&self, group: &GroupName, launch: &Launch, text: &str) -> Result<String, String> {
        let prepared = self.prepare(group, launch, false)?;
        expand(text, &prepared.env).map_err(|cause| cause.to_string())
    }

    /// Environment and folders of a service; its state folder is made if it is not there.
    fn prepare(
        &self,
        group: &GroupName,
        launch: &Launch,
        make_state: bool,
    ) -> Result<Prepared, String> {
        let release = &launch.target.release;
        let release_dir = self
            .store
            .path(&release.digest)
            .ok_or_else(|| format!("{release} is not unpacked on this machine"))?;
        let state_dir = self.data_dir.join("state").join(group.to_string());
        if make_state || !state_dir.is_dir() {
            make_state_dir(&state_dir, launch.run_as.as_deref())?;
        }
        let config_dir = launch.target.config.digest.filter(|_| launch.revision.is_some());
        let config_dir = config_dir.map(|revision| {
            let folder = RevisionStore::new(&config_path(&self.data_dir)).group_folder(group);
            folder.join(written_name(&revision, &release.digest))
        });
        let shown_dir = config_dir.as_ref().map(|dir| dir.display().to_string());
        let place = Surroundings {
            node: self.node.clone(),
            group: group.clone(),
            release_dir: release_dir.display().to_string(),
            state_dir: state_dir.display().to_string(),
            census: census_path(&self.data_dir, group).display().to_string(),
            config_dir: shown_dir.unwrap_or_default(),
            // The runner makes the socket and names it to the program itself.
            notify_socket: None,
        };
        let env = environment(launch, &place);
        Ok(Prepared { env, release_dir: place.release_dir, state_dir, config_dir })
    }
}

struct Prepared {
    env: BTreeMap<String, String>,
    release_dir: String,
    state_dir: PathBuf,
    /// Where the files of the configuration revision are, if there is one.
    config_dir: Option<PathBuf>,
}

impl Prepared {
    /// What is to be written before the program or a hook starts. A check is asked of a program
    /// that runs: for it everything is there.
    fn writing(&self, launch: &Launch) -> Result<Option<Writing>, String> {
        match (&launch.revision, &self.config_dir) {
            (Some(revision), Some(folder)) => {
                let run_as = launch.run_as.as_deref();
                Writing::new(folder.clone(), revision, &self.env, run_as).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The request, once the files that it relies on are written.
async fn written<T>(request: Result<(T, Option<Writing>), String>) -> Result<T, String> {
    let (request, writing) = request?;
    if let Some(writing) = writing {
        let done = tokio::task::spawn_blocking(move || writing.write()).await;
        done.unwrap_or_else(|cause| Err(format!("configuration files: {cause}")))?;
    }
    Ok(request)
}

fn once(
    prepared: Prepared,
    launch: &Launch,
    command: &[String],
    label: String,
    timeout: Duration,
) -> Result<OnceRequest, String> {
    let argv =
        argv(command, &prepared.env, &prepared.release_dir).map_err(|cause| cause.to_string())?;
    Ok(OnceRequest {
        label,
        argv,
        env: prepared.env,
        cwd: prepared.state_dir,
        run_as: launch.run_as.clone(),
        timeout,
        output_max_bytes: OUTPUT_MAX_BYTES,
    })
}

enum Checking {
    Exec(Box<OnceRequest>),
    Http(String),
    Tcp(String),
}

impl Checking {
    async fn run(self, runner: &Runner, timeout: Duration) -> CheckResult {
        let asked = match self {
            Self::Exec(request) => return exec_verdict(&runner.run_once(*request).await, timeout),
            Self::Http(url) => baton_platform::http_check(&url, timeout).await,
            Self::Tcp(addr) => baton_platform::tcp_check(&addr, timeout).await,
        };
        let health = match asked.passed {
            true => baton_types::member::Health::Ok,
            false => baton_types::member::Health::Critical,
        };
        CheckResult { health, text: asked.text }
    }
}

fn exec_verdict(result: &OnceResult, timeout: Duration) -> CheckResult {
    let output = Text::last_line(&result.output);
    match &result.exit {
        OnceExit::Ended(exit) => verdict::exec(kind(*exit), &output),
        OnceExit::TimedOut => verdict::no_answer(timeout),
        OnceExit::CouldNotStart(reason) => verdict::not_asked(&Text::new(reason)),
    }
}

fn hook_result(result: &OnceResult) -> HookResult {
    let text = Text::last_line(&result.output);
    match &result.exit {
        OnceExit::Ended(exit) => HookResult { end: HookEnd::Exited(kind(*exit)), text },
        OnceExit::TimedOut => HookResult { end: HookEnd::TimedOut, text },
        OnceExit::CouldNotStart(reason) => {
            HookResult { end: HookEnd::NotStarted, text: Text::new(reason) }
        }
    }
}

fn kind(exit: Exit) -> ExitKind {
    match exit {
        Exit::Code(code) => ExitKind::Code(code),
        Exit::Signal(signal) => ExitKind::Signal(signal),
        Exit::Unknown => ExitKind::Unknown,
    }
}

/// The state folder of a service belongs to the user that its program runs as.
fn make_state_dir(dir: &Path, run_as: Option<&str>) -> Result<(), String> {
    let failed = |cause: std::io::Error| format!("state folder {}: {cause}", dir.display());
    let fresh = !dir.is_dir();
    std::fs::create_dir_all(dir).map_err(failed)?;
    if fresh {
        // What a service keeps is its own; the folder is passed through by nobody else.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o750);
        std::fs::set_permissions(dir, mode).map_err(failed)?;
    }
    let Some(name) = run_as else { return Ok(()) };
    let user = baton_platform::user::lookup(name).map_err(|cause| describe(&cause))?;
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(dir).map_err(failed)?);
    if fresh || owner != user.uid {
        std::os::unix::fs::chown(dir, Some(user.uid), Some(user.gid)).map_err(failed)?;
    }
    Ok(())
}

/// The census file of a service.
pub(crate) fn census_path(data_dir: &Path, group: &GroupName) -> PathBuf {
    data_dir.join("census").join(format!("{group}.json"))
}

/// Where a node keeps configuration revisions, and what it writes of them for programs.
pub(crate) fn config_path(data_dir: &Path) -> PathBuf {
    data_dir.join("config")
}

/// The end of a hook's or check's output that is looked at for its last line.
const OUTPUT_MAX_BYTES: usize = 16 * 1024;

/// A launch takes milliseconds.
const STARTING: Duration = Duration::from_millis(20);

/// A process that SIGKILL does not end hangs in the kernel; that may take minutes.
const UNKILLABLE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use baton_platform::RunnerSettings;

    #[tokio::test]
    async fn a_stop_waits_for_a_launch_that_the_runner_does_not_know_yet() {
        let dir = tempfile::tempdir().expect("a folder");
        let (events, _events) = tokio::sync::mpsc::channel(1);
        let settings = RunnerSettings::new(dir.path().join("run"), dir.path().join("log"));
        let runner = Arc::new(Runner::new(settings, events).expect("a runner"));
        let store = Arc::new(ReleaseStore::open(&dir.path().join("releases")).expect("a store"));
        let (done, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let name = NodeName::new("n1").expect("a name");
        let mut programs = Programs::new(runner, store, name, dir.path(), done, BTreeMap::new());
        let group: GroupName = "a.main".parse().expect("a group");
        // Two of them: the first one's end is not the end of both.
        programs.launching.begin(&group);
        programs.launching.begin(&group);
        programs.halt(group.clone(), 1, StopSignal::Term, Duration::ZERO);
        programs.launching.end(&group);
        let early = tokio::time::timeout(STARTING * 5, answers.recv()).await;
        assert!(early.is_err(), "{early:?}");
        programs.launching.end(&group);
        let answer = answers.recv().await.expect("an answer");
        assert!(matches!(answer, Event::Halted { run: 1, .. }), "{answer:?}");
    }

    #[tokio::test]
    async fn one_stop_of_a_launch_is_under_way_at_a_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let (events, _events) = tokio::sync::mpsc::channel(1);
        let settings = RunnerSettings::new(dir.path().join("run"), dir.path().join("log"));
        let runner = Arc::new(Runner::new(settings, events).expect("a runner"));
        let store = Arc::new(ReleaseStore::open(&dir.path().join("releases")).expect("a store"));
        let (done, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let name = NodeName::new("n1").expect("a name");
        let mut programs = Programs::new(runner, store, name, dir.path(), done, BTreeMap::new());
        let group: GroupName = "a.main".parse().expect("a group");
        for round in 0..2 {
            for signal in [StopSignal::Term, StopSignal::Kill] {
                programs.halt(group.clone(), 1, signal, Duration::ZERO);
            }
            let answer = answers.recv().await.expect("an answer");
            assert!(matches!(answer, Event::Halted { run: 1, .. }), "round {round}: {answer:?}");
            assert_eq!(programs.announce(&answer).map(|_| ()), None);
        }
        drop(programs);
        assert!(answers.recv().await.is_none(), "each pair was answered once");
    }
}
