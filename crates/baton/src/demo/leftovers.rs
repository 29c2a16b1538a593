//! Which processes belong to a demo, and ending exactly those.
//!
//! Invariant: only a process that runs this very program, and works below the demo's own directory or
//! keeps its state there, is ever signalled. The directory is new and has a random name, so it is
//! nobody else's; a person's shell in it is not ours either.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A process of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    /// Its id.
    pub(crate) pid: i32,
    /// What it runs.
    pub(crate) command: String,
}

/// Every living process that runs `program` and works below `dir` or keeps its state there.
pub(crate) fn processes_of(dir: &Path, program: &Path) -> Vec<Ours> {
    let mark = format!("BATON_STATE_DIR={}/", dir.display()).into_bytes();
    // Compared as files: the path may have been built anew meanwhile.
    let file = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let Some(program) = file(program) else { return Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = pid.filter(|pid| *pid != own) else { continue };
        let path = entry.path();
        if file(&path.join("exe")) != Some(program) {
            continue;
        }
        // Gone meanwhile, or another user's: not ours. A dead one has neither any more.
        let works_there =
            std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        let told = || {
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|window| window == mark)
        };
        if works_there || told() {
            let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let words: Vec<_> =
                command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            found.push(Ours { pid, command: words.join(" ").trim_end().to_owned() });
        }
    }
    found
}

/// Sends a signal to one process; one that has gone already is no fault.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

/// Kills them until there are none; what is left after a while is returned.
pub(crate) fn kill_all(dir: &Path, program: &Path) -> Vec<Ours> {
    let end = Instant::now() + KILL_LIMIT;
    loop {
        let left = processes_of(dir, program);
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        for process in &left {
            signal(process.pid, Signal::KILL);
        }
        std::thread::sleep(POLL);
    }
}

const POLL: Duration = Duration::from_millis(20);

/// A killed process is gone within milliseconds, unless the disk hangs.
const KILL_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_what_works_below_the_directory_is_killed() {
        let (ours, other) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let sleep = |dir: &Path| {
            let mut command = Command::new("sleep");
            command.arg("60").current_dir(dir).stdout(Stdio::null()).spawn().expect("sleep")
        };
        let (mut mine, mut theirs) = (sleep(ours.path()), sleep(other.path()));
        let program = std::fs::read_link(format!("/proc/{}/exe", mine.id())).expect("a program");
        assert_eq!(processes_of(ours.path(), Path::new("/proc/self/exe")), []);
        let found = processes_of(ours.path(), &program);
        assert_eq!(found.iter().map(|p| p.pid.unsigned_abs()).collect::<Vec<_>>(), [mine.id()]);

        let end = std::thread::spawn(move || mine.wait().expect("waited"));
        assert_eq!(kill_all(ours.path(), &program), []);
        assert!(!end.join().expect("ended").success());
        assert!(theirs.try_wait().expect("asked").is_none());
        theirs.kill().expect("killed");
        theirs.wait().expect("waited");
    }
}
