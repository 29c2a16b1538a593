//! Finding the processes that belong to a test, and ending exactly those.
//!
//! Services outlive their daemon, so killing the daemons of a test is not enough. Every service
//! sees `BATON_STATE_DIR`, which lies in the test's own directory, and works there: that marks it
//! as ours. Either is enough, as some servers (Redis is one) write their title over the environment.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Processes that work below `dir`, or whose environment names a path below it.
pub fn processes_of(dir: &Path) -> Vec<i32> {
    let mark = format!("={}/", dir.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Gone meanwhile, or another user's: not ours.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let works_there =
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        if works_there || environment.windows(mark.len()).any(|window| window == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Kills what `list` names until it names nothing more (a supervisor that dies may have started
/// one last child). Never panics, so that it may run in a drop after a panic.
pub fn kill_all(list: impl Fn() -> Vec<i32>) {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let alive: Vec<i32> = list().into_iter().filter(|pid| !is_zombie(*pid)).collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            signal(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("leftovers: still alive after {LIMIT:?}: {:?}", list());
}

/// Sends `signal` to one process; one that is gone already is no fault.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

/// Whether a process of this id exists.
pub fn exists(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Ended, but nobody has asked for its exit status.
fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

const LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_processes_of_the_directory_are_killed() {
        let ours = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let start = |dir: &Path| {
            let state = dir.join("state");
            Command::new("sleep").arg("60").env("BATON_STATE_DIR", state).spawn().unwrap()
        };
        let (mut mine, mut theirs) = (start(ours.path()), start(other.path()));
        let mut there = Command::new("sleep").arg("60").current_dir(ours.path()).spawn().unwrap();
        // The environment is that of the test runner until the child has become `sleep`.
        crate::wait::until("the child's environment", LIMIT, || {
            let found = processes_of(ours.path());
            let both = [mine.id(), there.id()].iter().all(|pid| found.contains(&(*pid as i32)));
            if both && found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
        });

        kill_all(|| processes_of(ours.path()));

        assert!(!mine.wait().unwrap().success());
        assert!(!there.wait().unwrap().success());
        assert!(theirs.try_wait().unwrap().is_none(), "a process of another test was killed");
        theirs.kill().unwrap();
        theirs.wait().unwrap();
    }
}
