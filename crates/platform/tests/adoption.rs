//! A daemon that ends, and the next one that takes over.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_platform::record::{ProcessId, RECORD_FORMAT, RunRecord};
use baton_platform::{
    DurableFiles, Exit, LaunchRequest, Runner, RunnerError, RunnerEvent, RunnerSettings,
};
use baton_types::manifest::StopSignal;
use support::{World, end_all, eventually, group, lives};
use tokio::sync::mpsc;

const LONG: Duration = Duration::from_secs(20);
const RECORD: &str = "test.default.run";

fn read_record(run_dir: &Path) -> RunRecord {
    let files = DurableFiles::open(run_dir).unwrap();
    let bytes = files.read(RECORD, RECORD_FORMAT, 1 << 20).unwrap().unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn write_record(run_dir: &Path, record: &RunRecord) {
    let files = DurableFiles::open(run_dir).unwrap();
    files.write(RECORD, RECORD_FORMAT, &serde_json::to_vec(record).unwrap()).unwrap();
}

#[tokio::test]
async fn the_next_runner_takes_the_service_over() {
    let mut world = World::new();
    let launched = world
        .launch("echo one; while [ ! -e $DIR/go ]; do sleep 0.01; done; echo two; exec sleep 300")
        .await;
    world.line("one").await;
    world.close().await;
    std::fs::write(world.path("go"), "").unwrap();
    assert!(lives(launched.pid));
    world.reopen();
    let adoption = world.runner().adopt().await.unwrap();
    assert_eq!(adoption.running.len(), 1);
    assert!(adoption.gone.is_empty() && adoption.damaged.is_empty(), "{adoption:?}");
    assert_eq!(adoption.strays_killed, 0);
    let adopted = &adoption.running[0];
    assert_eq!((adopted.pid, adopted.release.as_str()), (launched.pid, "a/1"));
    assert!(lives(launched.pid));
    // Printed while nobody was there, and relayed once.
    world.line("two").await;
    assert_eq!(world.lines(), ["two"]);
    let report = world.runner().stop(&group(), StopSignal::Term, LONG).await.unwrap();
    assert!(!report.forced);
    world.exit().await;
    assert!(!lives(launched.pid));
}

#[tokio::test]
async fn two_runners_cannot_share_a_folder() {
    let world = World::new();
    let (tx, _rx) = mpsc::channel(1);
    let error = Runner::new(world.settings.clone(), tx).expect_err("in use");
    assert!(matches!(error, RunnerError::Files(_)), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
}

/// Changes the record of a running service while no daemon is there; what the next one finds.
async fn with_record(
    change: impl FnOnce(&mut RunRecord),
) -> (World, u32, baton_platform::Adoption) {
    let mut world = World::new();
    let launched = world.launch("exec sleep 300").await;
    world.close().await;
    let mut record = read_record(&world.settings.run_dir);
    change(&mut record);
    write_record(&world.settings.run_dir, &record);
    world.reopen();
    let adoption = world.runner().adopt().await.unwrap();
    (world, launched.pid, adoption)
}

#[tokio::test]
async fn a_reused_pid_is_never_taken() {
    let mut stranger = Command::new("sleep").arg("300").spawn().unwrap();
    let pid = stranger.id();
    let (world, _, adoption) = with_record(|record| {
        record.process = ProcessId { pid, start_time: 1 };
    })
    .await;
    let lived = lives(pid);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(lived, "a stranger was killed");
    assert!(adoption.running.is_empty());
    assert_eq!(adoption.gone.len(), 1);
    assert!(!adoption.gone[0].rebooted);
    // What carries the marker of that launch is cleared away, so that it cannot run twice.
    assert!(world.marked().is_empty());
    assert!(!world.path("run").join(RECORD).exists());
}

#[tokio::test]
async fn after_a_reboot_no_pid_means_anything() {
    let mut world = World::new();
    world.launch("exec sleep 300").await;
    world.close().await;
    let id = world.path("boot-id");
    std::fs::write(&id, "another boot\n").unwrap();
    world.settings.boot_id_path = id;
    world.reopen();
    let adoption = world.runner().adopt().await.unwrap();
    assert!(adoption.running.is_empty());
    assert!(adoption.gone[0].rebooted);
    // The reboot is played: what a real one would have ended is ended.
    assert_eq!(adoption.strays_killed, 1);
    assert_eq!(adoption.gone[0].group, group());
}

#[tokio::test]
async fn a_lost_record_costs_no_service() {
    enum Lost {
        Damaged,
        Missing,
        Newer,
    }
    for lost in [Lost::Damaged, Lost::Missing, Lost::Newer] {
        let mut world = World::new();
        let mut request = world.request("exec sleep 300");
        request.env.insert("BATON_RELEASE".into(), "a/1".into());
        let launched = world.runner().launch(request).await.unwrap();
        world.close().await;
        let path = world.path("run").join(RECORD);
        match lost {
            Lost::Damaged => std::fs::write(&path, "garbage").unwrap(),
            Lost::Missing => std::fs::remove_file(&path).unwrap(),
            Lost::Newer => {
                let files = DurableFiles::open(world.path("run")).unwrap();
                files.write(RECORD, RECORD_FORMAT + 1, b"what the future brings").unwrap();
            }
        }
        world.reopen();
        let adoption = world.runner().adopt().await.unwrap();
        assert_eq!(adoption.running.len(), 1, "{adoption:?}");
        let adopted = &adoption.running[0];
        assert_eq!((adopted.pid, adopted.release.as_str()), (launched.pid, "a/1"));
        assert_eq!(adopted.record.argv, ["sleep", "300"]);
        assert_eq!(adoption.strays_killed, 0);
        assert!(lives(launched.pid));
        if matches!(lost, Lost::Damaged) {
            assert!(adoption.damaged[0].contains("test.default.run.damaged-1"), "{adoption:?}");
        }
        world.runner().stop(&group(), StopSignal::Term, LONG).await.unwrap();
        assert!(world.marked().is_empty());
    }
}

/// Not a test by itself: the two daemons of the test below, each in a process of its own.
#[test]
fn daemon_of_the_test_below() {
    let Some(role) = std::env::var_os("BATON_TEST_ROLE") else { return };
    let dir = PathBuf::from(std::env::var_os("BATON_TEST_DIR").unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match role.to_str().unwrap() {
        "launch and die" => runtime.block_on(launch_and_die(dir)),
        "hang in the record" => runtime.block_on(hang_in_the_record(dir)),
        _ => runtime.block_on(take_over(dir)),
    }
}

fn daemon(role: &str, dir: &Path) -> Command {
    let mut daemon = Command::new(std::env::current_exe().unwrap());
    daemon
        .args(["--exact", "daemon_of_the_test_below", "--nocapture"])
        .env("BATON_TEST_ROLE", role)
        .env("BATON_TEST_DIR", dir);
    daemon
}

#[test]
fn a_daemon_killed_hard_leaves_its_service_to_the_next_one() {
    use std::os::unix::process::ExitStatusExt;

    let dir = tempfile::tempdir().unwrap();
    let died = daemon("launch and die", dir.path()).status().unwrap();
    let took_over = daemon("take over", dir.path()).status().unwrap();
    end_all(&dir.path().join("run"));
    assert_eq!(died.signal(), Some(9), "{died}");
    assert!(took_over.success(), "{took_over}");
}

/// A program that is not known by pid could lose its marker, as Redis does, which writes its title over
/// its environment: the next daemon would start a second one beside it, or end it.
#[test]
fn a_daemon_killed_before_the_record_is_written_began_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut hanging = daemon("hang in the record", dir.path()).spawn().unwrap();
    // It writes to a pipe that nobody reads: the process is made by then, and held.
    let pid = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(10));
        held_child_of(hanging.id())
    })
    .take(2_000)
    .flatten()
    .next();
    hanging.kill().unwrap();
    hanging.wait().unwrap();
    let pid = pid.expect("a held process");
    let ended = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !lives(pid)
    });
    assert!(ended, "process {pid} outlives the daemon that held it");
    assert!(!dir.path().join("ran").exists(), "the program began before its record was written");

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (tx, _events) = mpsc::channel(1);
        let settings = RunnerSettings::new(dir.path().join("run"), dir.path().join("log"));
        let runner = Runner::new(settings, tx).unwrap();
        let adoption = runner.adopt().await.unwrap();
        assert_eq!(adoption, baton_platform::Adoption::default(), "nothing began");
        runner.close().await;
    });
    let left: Vec<_> = std::fs::read_dir(dir.path().join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("notify-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A child in a session of its own.
fn held_child_of(daemon: u32) -> Option<u32> {
    let table = baton_platform::procfs::all().ok()?.processes;
    table.values().find(|stat| stat.parent == daemon && stat.session == stat.pid).map(|s| s.pid)
}

async fn hang_in_the_record(dir: PathBuf) {
    let settings = RunnerSettings::new(dir.join("run"), dir.join("log"));
    let (tx, _rx) = mpsc::channel(16);
    let runner = Runner::new(settings, tx).unwrap();
    let pipe = dir.join("run").join(format!("{RECORD}.new~"));
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let ran = format!("echo > {}; exec sleep 300", dir.join("ran").display());
    let request = LaunchRequest {
        group: group(),
        release: "a/1".into(),
        argv: ["sh", "-c", &ran].map(String::from).to_vec(),
        env: std::collections::BTreeMap::new(),
        cwd: dir.clone(),
        run_as: None,
        notify: true,
    };
    runner.launch(request).await.unwrap();
}

async fn launch_and_die(dir: PathBuf) {
    let settings = RunnerSettings::new(dir.join("run"), dir.join("log"));
    let (tx, _rx) = mpsc::channel(16);
    let runner = Runner::new(settings, tx).unwrap();
    let script = "setsid sleep 300 & echo $! > $DIR/child; echo before; \
                  while [ ! -e $DIR/go ]; do sleep 0.01; done; echo after; \
                  while [ ! -e $DIR/end ]; do sleep 0.01; done; exit 5";
    let env = [("DIR".to_owned(), dir.display().to_string())];
    let request = LaunchRequest {
        group: group(),
        release: "a/1".into(),
        argv: ["sh", "-c", script].map(String::from).to_vec(),
        env: env.into_iter().collect(),
        cwd: dir.clone(),
        run_as: None,
        notify: true,
    };
    runner.launch(request).await.unwrap();
    // As hard as kill -9: nothing is dropped, flushed or told.
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
    std::future::pending::<()>().await;
}

async fn take_over(dir: PathBuf) {
    let (tx, mut events) = mpsc::channel(64);
    let settings = RunnerSettings::new(dir.join("run"), dir.join("log"));
    let runner = Runner::new(settings, tx).unwrap();
    let adoption = runner.adopt().await.unwrap();
    assert_eq!(adoption.running.len(), 1, "{adoption:?}");
    let pid = adoption.running[0].pid;
    assert!(lives(pid));
    std::fs::write(dir.join("go"), "").unwrap();
    let child = eventually("the child is noted", || {
        std::fs::read_to_string(dir.join("child")).ok()?.trim().parse::<u32>().ok()
    })
    .await;
    let mut lines = Vec::new();
    while !lines.contains(&"after".to_owned()) {
        match tokio::time::timeout(LONG, events.recv()).await.unwrap().unwrap() {
            RunnerEvent::Output { line, .. } => lines.push(line),
            other => panic!("{other:?}"),
        }
    }
    assert!(lives(child));
    std::fs::write(dir.join("end"), "").unwrap();
    let event = tokio::time::timeout(LONG, events.recv()).await.unwrap().unwrap();
    // Somebody else became its parent: nobody tells this daemon the code.
    assert_eq!(event, RunnerEvent::Exited { group: group(), pid, exit: Exit::Unknown });
    assert!(!lives(child), "a leftover of an adopted service survived");
}
