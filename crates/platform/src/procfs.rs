//! Processes as /proc shows them.
//!
//! Invariant: a process is (pid, start time). A pid alone is never acted on, because it may have
//! been given to somebody else since it was read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::limits::PROC_FILE_MAX_BYTES;

/// The part of /proc/PID/stat that tells who a process is and whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its pid.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its session.
    pub session: u32,
    /// Ticks from boot to its start, field 22.
    pub start_time: u64,
    /// Dead and waiting for its parent to notice.
    pub is_zombie: bool,
}

impl Stat {
    /// Reads the line of /proc/PID/stat. The program's name in it may hold spaces, brackets and
    /// newlines, so fields are counted from the last bracket.
    pub fn parse(line: &str) -> Option<Self> {
        let pid = line.split(' ').next()?.parse().ok()?;
        let after = line.rsplit_once(')')?.1;
        let mut fields = after.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let start_time = fields.nth(15)?.parse().ok()?;
        Some(Self { pid, parent, session, start_time, is_zombie: matches!(state, "Z" | "X" | "x") })
    }

    /// The process `pid`, if there is one.
    pub fn read(pid: u32) -> Option<Self> {
        let bytes = read_capped(&format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }
}

/// A handle on the very process (`pid`, `start_time`); `None` when it is gone. The start time is
/// looked at after the handle was opened, so a reused pid is never taken.
pub fn open_exact(pid: u32, start_time: u64) -> io::Result<Option<OwnedFd>> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let handle = match pidfd_open(raw, PidfdFlags::NONBLOCK) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Stat::read(pid).filter(|stat| stat.start_time == start_time).map(|_| handle))
}

/// Sends SIGKILL to the very process that `stat` tells of; `true` if it was alive.
pub fn kill_exact(stat: &Stat) -> bool {
    match open_exact(stat.pid, stat.start_time) {
        Ok(Some(handle)) => pidfd_send_signal(handle, Signal::KILL).is_ok(),
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, pid = stat.pid, "cannot open a process to kill it");
            false
        }
    }
}

/// Every process of this machine (as far as this pid namespace goes), by pid.
pub fn all() -> io::Result<BTreeMap<u32, Stat>> {
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(stat) = Stat::read(pid) {
            processes.insert(pid, stat);
        }
    }
    Ok(processes)
}

/// The children of this process and their children, by pid. As child subreaper this holds every
/// descendant, orphans included. Falls back to [`all`] on kernels without `children` files.
pub fn descendants() -> io::Result<BTreeMap<u32, Stat>> {
    let mut found = BTreeMap::new();
    let mut queue = vec![std::process::id()];
    let mut first = true;
    while let Some(parent) = queue.pop() {
        let children = match children_of(parent) {
            Ok(children) => children,
            Err(_) if first => return all(),
            Err(_) => continue,
        };
        first = false;
        for child in children {
            if let Some(stat) = Stat::read(child)
                && found.insert(child, stat).is_none()
            {
                queue.push(child);
            }
        }
    }
    Ok(found)
}

/// The direct children of `parent`, of all its threads.
pub fn children_of(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{parent}/task"))? {
        let task = task?.path();
        match read_capped(&task.join("children").to_string_lossy()) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                children
                    .extend(text.split_ascii_whitespace().filter_map(|p| p.parse::<u32>().ok()));
            }
            // Without CONFIG_PROC_CHILDREN the file is missing although the thread is there.
            Err(error) if task.exists() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(children)
}

/// The first entry of `pid`'s environment that `wanted` takes.
pub fn environ_entry(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> Option<String> {
    let bytes = read_capped(&format!("/proc/{pid}/environ")).ok()?;
    let entry = bytes.split(|byte| *byte == 0).find(|entry| wanted(entry))?;
    Some(String::from_utf8_lossy(entry).into_owned())
}

/// The command line of `pid`, as it shows it now.
pub fn argv(pid: u32) -> Vec<String> {
    let bytes = read_capped(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let words = bytes.split(|byte| *byte == 0).take(baton_types::limits::ARGV_MAX);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn read_capped(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PROC_FILE_MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_with_evil_names() {
        let tail = "S 7 100 99 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2";
        for name in ["sh", "a b", ") R 1 1 1 (", "x)\n"] {
            let stat = Stat::parse(&format!("42 ({name}) {tail}")).expect(name);
            let want = Stat { pid: 42, parent: 7, session: 99, start_time: 4711, is_zombie: false };
            assert_eq!(stat, want, "{name}");
        }
        assert!(Stat::parse(&format!("1 (x) Z{}", &tail[1..])).expect("a line").is_zombie);
        for bad in ["", "1", "1 (x)", "1 (x) S 1", "x (x) S 1 1 1"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn own_process_is_found_and_a_wrong_start_time_is_refused() {
        let me = Stat::read(std::process::id()).expect("me");
        assert_eq!(all().expect("a list").get(&me.pid), Some(&me));
        assert!(open_exact(me.pid, me.start_time).expect("a handle").is_some());
        assert!(open_exact(me.pid, me.start_time + 1).expect("no failure").is_none());
        assert!(open_exact(0, 0).expect("no failure").is_none());
        assert!(open_exact(u32::MAX, 0).expect("no failure").is_none());
    }

    #[test]
    fn children_are_descendants() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let found = descendants().expect("a list");
        let listed = found.contains_key(&child.id());
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(listed);
        assert!(!descendants().expect("a list").contains_key(&child.id()));
    }
}
