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
    /// It has no environment, and is not merely between two programs, in the middle of `execve`.
    pub is_bare: bool,
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
        let flags: u32 = fields.nth(2)?.parse().ok()?;
        let start_time = fields.nth(12)?.parse().ok()?;
        let is_zombie = matches!(state, "Z" | "X" | "x");
        // Field 27 is where the code ends, and the last thing that `execve` fills in; 50 and 51 are
        // where the environment begins and ends.
        let code_end: u64 = fields.nth(4).and_then(|at| at.parse().ok()).unwrap_or(0);
        let (begin, end) = (fields.nth(22), fields.next());
        let is_complete = code_end > 1 && end.is_some();
        let is_bare = flags & KERNEL_THREAD != 0 || (is_complete && begin == end);
        Some(Self { pid, parent, session, start_time, is_zombie, is_bare })
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

/// Processes at about one moment.
#[derive(Debug, Default)]
pub struct Table {
    /// By pid.
    pub processes: BTreeMap<u32, Stat>,
    /// One was gone before it could be looked at: whatever it had started meanwhile is not here.
    pub has_gaps: bool,
}

/// Every process of this machine (as far as this pid namespace goes).
pub fn all() -> io::Result<Table> {
    let mut table = Table::default();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match Stat::read(pid) {
            Some(stat) => drop(table.processes.insert(pid, stat)),
            None => table.has_gaps = true,
        }
    }
    Ok(table)
}

/// The children of this process and their children. As child subreaper this holds every
/// descendant, orphans included. Falls back to [`all`] on kernels without `children` files.
pub fn descendants() -> io::Result<Table> {
    let mut found = Table::default();
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
            match Stat::read(child) {
                Some(stat) if found.processes.insert(child, stat).is_none() => queue.push(child),
                Some(_) => {}
                None => found.has_gaps = true,
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

/// What is known of an entry of a process's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is there.
    Found(String),
    /// It is not, or the environment is none of ours.
    Absent,
    /// The process is gone, or between two programs.
    Unknown,
}

/// The first entry of `pid`'s environment that `wanted` takes.
pub fn environ_entry(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> Entry {
    let bytes = match read_at_once(&format!("/proc/{pid}/environ")) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Entry::Absent,
        Err(_) => return Entry::Unknown,
    };
    if bytes.is_empty() && !Stat::read(pid).is_some_and(|stat| stat.is_bare && !stat.is_zombie) {
        return Entry::Unknown;
    }
    match bytes.split(|byte| *byte == 0).find(|entry| wanted(entry)) {
        Some(entry) => Entry::Found(String::from_utf8_lossy(entry).into_owned()),
        None => Entry::Absent,
    }
}

/// The command line of `pid`, as it shows it now.
pub fn argv(pid: u32) -> Vec<String> {
    let bytes = read_capped(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let words = bytes.split(|byte| *byte == 0).take(baton_types::limits::ARGV_MAX);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// `PF_KTHREAD`: a thread of the kernel has no environment at all.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// As `read_capped`, but what fits is read by a single call: an environment that goes away with its
/// program's memory between two calls would look as if it ended there.
fn read_at_once(path: &str) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; AT_ONCE_BYTES];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    if read == AT_ONCE_BYTES {
        file.take(PROC_FILE_MAX_BYTES - read as u64).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Far above any environment but those that are built to be large.
const AT_ONCE_BYTES: usize = 128 * 1024;

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
            let want = Stat {
                pid: 42,
                parent: 7,
                session: 99,
                start_time: 4711,
                is_zombie: false,
                is_bare: false,
            };
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
        assert_eq!(all().expect("a list").processes.get(&me.pid), Some(&me));
        assert!(open_exact(me.pid, me.start_time).expect("a handle").is_some());
        assert!(open_exact(me.pid, me.start_time + 1).expect("no failure").is_none());
        assert!(open_exact(0, 0).expect("no failure").is_none());
        assert!(open_exact(u32::MAX, 0).expect("no failure").is_none());
    }

    #[test]
    fn a_program_that_changes_all_the_time_never_lacks_its_environment() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("again");
        std::fs::write(&script, "exec /bin/sh $0\n").expect("written");
        let mut child = std::process::Command::new("/bin/sh")
            .arg(&script)
            .env("BATON_TEST_ENTRY", "here")
            .spawn()
            .expect("started");
        let looks =
            (0..20_000).map(|_| environ_entry(child.id(), |e| e == b"BATON_TEST_ENTRY=here"));
        let (mut found, mut unknown, mut absent) = (0, 0, 0);
        for look in looks {
            match look {
                Entry::Found(_) => found += 1,
                Entry::Unknown => unknown += 1,
                Entry::Absent => absent += 1,
            }
        }
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert_eq!(absent, 0, "{found} found, {unknown} unknown");
        assert!(found > 0);
        assert_eq!(environ_entry(child.id(), |_| true), Entry::Unknown, "it is gone");
    }

    #[test]
    fn children_are_descendants() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let found = descendants().expect("a list");
        let listed = found.processes.contains_key(&child.id());
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(listed);
        assert!(!descendants().expect("a list").processes.contains_key(&child.id()));
    }
}
