//! A runner over temporary folders whose processes all end with the test, also when it fails.

#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_platform::cgroup::CgroupRoot;
use baton_platform::family::{Family, marked};
use baton_platform::{
    Exit, LaunchError, LaunchRequest, Launched, OnceRequest, OnceResult, Runner, RunnerEvent,
    RunnerSettings,
};
use baton_types::GroupName;
use tokio::sync::mpsc;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) settings: RunnerSettings,
    runner: Option<Runner>,
    events: mpsc::Receiver<RunnerEvent>,
    pub(crate) seen: Vec<RunnerEvent>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut RunnerSettings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = RunnerSettings::new(dir.path().join("run"), dir.path().join("log"));
        change(&mut settings);
        let (tx, events) = mpsc::channel(256);
        let runner = Some(Runner::new(settings.clone(), tx).unwrap());
        Self { dir, settings, runner, events, seen: Vec::new() }
    }

    pub(crate) fn runner(&self) -> &Runner {
        self.runner.as_ref().unwrap()
    }

    /// Ends the daemon's part and leaves the services alone.
    pub(crate) async fn close(&mut self) {
        self.runner.take().unwrap().close().await;
    }

    pub(crate) fn reopen(&mut self) {
        let (tx, events) = mpsc::channel(256);
        self.events = events;
        self.seen.clear();
        self.runner = Some(Runner::new(self.settings.clone(), tx).unwrap());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn request(&self, script: &str) -> LaunchRequest {
        LaunchRequest {
            group: group(),
            release: "a/1".into(),
            argv: ["sh", "-c", script].map(String::from).to_vec(),
            env: BTreeMap::from([("DIR".into(), self.dir.path().display().to_string())]),
            cwd: self.dir.path().to_owned(),
            run_as: None,
            notify: false,
        }
    }

    pub(crate) async fn launch(&self, script: &str) -> Launched {
        self.runner().launch(self.request(script)).await.unwrap()
    }

    pub(crate) async fn refused(&self, request: LaunchRequest) -> (LaunchError, String) {
        let error = self.runner().launch(request).await.expect_err("not started");
        let message = error.to_string();
        (error, message)
    }

    pub(crate) fn once_request(&self, script: &str) -> OnceRequest {
        OnceRequest {
            label: "test".into(),
            argv: ["sh", "-c", script].map(String::from).to_vec(),
            env: BTreeMap::from([("DIR".into(), self.dir.path().display().to_string())]),
            cwd: self.dir.path().to_owned(),
            run_as: None,
            timeout: DEADLINE,
            output_max_bytes: 1_000,
        }
    }

    pub(crate) async fn once(&self, script: &str) -> OnceResult {
        self.runner().run_once(self.once_request(script)).await
    }

    /// The next event that `wanted` takes; all others are kept in `seen`.
    pub(crate) async fn event<T>(
        &mut self,
        mut wanted: impl FnMut(&RunnerEvent) -> Option<T>,
    ) -> T {
        let next = async {
            loop {
                let event = self.events.recv().await.expect("a runner");
                let found = wanted(&event);
                self.seen.push(event);
                if let Some(found) = found {
                    return found;
                }
            }
        };
        tokio::time::timeout(DEADLINE, next).await.expect("an event")
    }

    pub(crate) async fn exit(&mut self) -> Exit {
        self.event(|event| match event {
            RunnerEvent::Exited { exit, .. } => Some(*exit),
            _ => None,
        })
        .await
    }

    pub(crate) async fn line(&mut self, wanted: &str) {
        self.event(|event| match event {
            RunnerEvent::Output { line, .. } => (line == wanted).then_some(()),
            _ => None,
        })
        .await;
    }

    pub(crate) fn lines(&self) -> Vec<&str> {
        self.seen
            .iter()
            .filter_map(|event| match event {
                RunnerEvent::Output { line, .. } => Some(line.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Takes an event if one waits.
    pub(crate) fn has_event(&mut self) -> bool {
        let event = self.events.try_recv();
        let has = event.is_ok();
        self.seen.extend(event);
        has
    }

    pub(crate) fn write_script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;

        // Renamed into place by a child process: a file that was open for writing here could be
        // held by a fork of another test and be "busy" at exec.
        let path = self.path(name);
        let made = std::process::Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$2\"", "sh", text, &path.display().to_string()])
            .status()
            .unwrap();
        assert!(made.success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Waits until the script wrote `count` words into `name`, and returns them.
    pub(crate) async fn words(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.path(name);
        eventually(&format!("{count} words in {name}"), || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let words: Vec<String> = text.split_whitespace().map(String::from).collect();
            (words.len() >= count && text.ends_with('\n')).then_some(words)
        })
        .await
    }

    /// The processes that carry a marker of this run directory.
    pub(crate) fn marked(&self) -> Vec<u32> {
        let Some(id) = run_id(&self.settings.run_dir) else { return Vec::new() };
        marked(&id).iter().map(|(stat, _)| stat.pid).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end_all(&self.settings.run_dir);
    }
}

/// Kills everything that was started from this run directory.
pub(crate) fn end_all(run_dir: &Path) {
    let Some(id) = run_id(run_dir) else { return };
    for (_, instance) in marked(&id) {
        let family = Family { instance, cgroup: None, main: None, is_ours: false };
        if let Err(survivors) = family.kill() {
            eprintln!("{survivors}");
        }
    }
    for cgroup in CgroupRoot::find().iter().flat_map(|root| root.begin_with(&id)) {
        cgroup.remove();
    }
}

fn run_id(run_dir: &Path) -> Option<String> {
    let bytes = std::fs::read(run_dir.join("run-id")).ok()?;
    Some(String::from_utf8_lossy(bytes.get(16..)?).into_owned())
}

pub(crate) fn group() -> GroupName {
    "test.default".parse().unwrap()
}

/// Whether the process lives (a zombie does not).
pub(crate) fn lives(pid: u32) -> bool {
    baton_platform::procfs::Stat::read(pid).is_some_and(|stat| !stat.is_zombie)
}

pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
