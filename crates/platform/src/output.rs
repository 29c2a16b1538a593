//! What programs print: one log file for each service, and its lines for the journal.
//!
//! A program writes straight to a file, never to a pipe of the daemon, so that it does not notice
//! when the daemon dies. The daemon reads along behind it. Invariant: neither the file, nor the
//! daemon's memory, nor its work for one look grows with what the program prints; what is not
//! relayed is counted and said.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_types::GroupName;
use tokio::sync::Notify;

use crate::limits::{LOOK_MAX_BYTES, LOOK_TOTAL_BYTES, TAIL_BYTES};
use crate::tail::{Tail, clean, end_of};

/// Takes a line; `false` if there is no room for it now.
pub type Emit<'a> = &'a mut dyn FnMut(&GroupName, String) -> bool;

/// The log files of all services.
#[derive(Debug)]
pub struct Output {
    log_dir: PathBuf,
    /// Where the offsets are kept.
    state_dir: PathBuf,
    cap: u64,
    tails: Mutex<BTreeMap<GroupName, Arc<Mutex<Tail>>>>,
    /// Told when there is one log more: what was written to it before is no news to the kernel.
    more: Notify,
}

impl Output {
    /// Log files in `log_dir`, offsets in `state_dir`, each file emptied above `cap` bytes.
    pub fn new(log_dir: &Path, state_dir: &Path, cap: u64) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o750).create(log_dir)?;
        Ok(Self {
            log_dir: log_dir.to_owned(),
            state_dir: state_dir.to_owned(),
            cap,
            tails: Mutex::new(BTreeMap::new()),
            more: Notify::new(),
        })
    }

    /// The folder of the log files.
    pub fn dir(&self) -> &Path {
        &self.log_dir
    }

    /// Completes when another log is to be looked at since the last time.
    pub async fn more(&self) {
        self.more.notified().await;
    }

    /// The log file of `group`.
    pub fn path(&self, group: &GroupName) -> PathBuf {
        self.log_dir.join(format!("{group}.log"))
    }

    /// Opens the log of `group` for its program, and begins to read along.
    pub fn open(&self, group: &GroupName, owner: Option<(u32, u32)>) -> io::Result<File> {
        let log = File::options()
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.path(group))?;
        if let Some((uid, gid)) = owner {
            // A program may open /dev/stdout anew, which needs the right to do so.
            std::os::unix::fs::fchown(&log, Some(uid), Some(gid))?;
        }
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(group)
            && !tail.lock().unwrap_or_else(PoisonError::into_inner).is_of(&log)?
        {
            // Somebody removed or moved the file that the last program wrote to.
            tails.remove(group);
        }
        drop(tails);
        self.follow(group)?;
        Ok(log)
    }

    /// Reads along the log of `group`, from where the last daemon stopped.
    pub fn follow(&self, group: &GroupName) -> io::Result<()> {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if !tails.contains_key(group) {
            let offset_path = self.state_dir.join(format!("{group}.offset"));
            let tail = Tail::open(&self.path(group), &offset_path, self.cap)?;
            tails.insert(group.clone(), Arc::new(Mutex::new(tail)));
            self.more.notify_one();
        }
        Ok(())
    }

    /// One look at every log; whether anything was found.
    pub fn look(&self, emit: Emit<'_>) -> bool {
        let tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let share = (LOOK_TOTAL_BYTES / tails.len().max(1)).min(LOOK_MAX_BYTES);
        let mut busy = false;
        for (group, tail) in tails {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            busy |= tail.look(share, Instant::now(), &mut |line| emit(&group, line));
        }
        busy
    }

    /// Reads what is left of a program that ended, its last unfinished line included.
    pub fn drain(&self, group: &GroupName, emit: Emit<'_>) {
        let tail = self.tails.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned();
        let Some(tail) = tail else { return };
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        // Everything that wrote is dead, so the file has an end; a receiver that takes nothing
        // keeps its lines for the next look.
        while tail.look(LOOK_MAX_BYTES, Instant::now(), &mut |line| emit(group, line)) {
            if started.elapsed() > DRAIN_PATIENCE {
                return;
            }
            if tail.is_waiting() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        tail.finish(&mut |line| emit(group, line));
    }

    /// The last `count` lines of `group`, oldest first.
    pub fn last_lines(&self, group: &GroupName, count: usize) -> io::Result<Vec<String>> {
        let tail = self.tails.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned();
        let mut bytes = tail.map_or_else(Vec::new, |tail| {
            tail.lock().unwrap_or_else(PoisonError::into_inner).before().to_vec()
        });
        match File::open(self.path(group)) {
            Ok(log) => bytes.extend(end_of(&log, 4 * TAIL_BYTES as u64)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let lines = lines.iter().filter(|line| !line.is_empty()).map(|line| clean(line));
        let lines: Vec<String> = lines.collect();
        Ok(lines[lines.len().saturating_sub(count)..].to_vec())
    }
}

/// How long the last lines of a program wait for somebody to take them.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::limits::{LINE_BURST, LINE_MAX_BYTES};

    struct World {
        _dir: tempfile::TempDir,
        output: Output,
        group: GroupName,
        log: File,
        lines: Vec<String>,
    }

    impl World {
        fn new(cap: u64) -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let output = Output::new(&dir.path().join("log"), dir.path(), cap).expect("made");
            let group: GroupName = "a.b".parse().expect("a group");
            let log = output.open(&group, None).expect("opened");
            Self { _dir: dir, output, group, log, lines: Vec::new() }
        }

        fn look(&mut self) -> bool {
            self.output.look(&mut |_, line| {
                self.lines.push(line);
                true
            })
        }

        fn write(&mut self, text: &[u8]) {
            self.log.write_all(text).expect("written");
        }

        fn size(&self) -> u64 {
            self.log.metadata().expect("a file").len()
        }
    }

    #[test]
    fn whole_lines_are_relayed_once_and_the_rest_at_the_end() {
        let mut world = World::new(1_000_000);
        world.write(b"one\n\ntwo \x1b[31m\xff\nthr");
        assert!(world.look());
        assert!(!world.look());
        assert_eq!(world.lines, ["one", "two [31m\u{fffd}"]);
        world.write(b"ee\nlast");
        assert!(world.look());
        let World { output, group, lines, .. } = &mut world;
        output.drain(group, &mut |_, line| {
            lines.push(line);
            true
        });
        assert_eq!(world.lines[2..], ["three", "last"]);
        assert_eq!(world.output.last_lines(&world.group, 2).expect("read"), ["three", "last"]);
    }

    #[test]
    fn a_long_line_is_cut_and_its_rest_skipped() {
        let mut world = World::new(10_000_000);
        world.write(&[b'x'; 3 * LOOK_MAX_BYTES]);
        world.write(b"yyy\nnext\n");
        while world.look() {}
        assert_eq!(world.lines.len(), 2);
        assert_eq!(world.lines[0].len(), LINE_MAX_BYTES + '…'.len_utf8());
        assert_eq!(world.lines[1], "next");
    }

    #[test]
    fn a_flood_is_counted_and_the_file_is_emptied() {
        let mut world = World::new(10_000);
        for number in 0..20_000 {
            world.write(format!("line {number}\n").as_bytes());
        }
        while world.look() {}
        assert_eq!(world.size(), 0);
        world.write(b"after\n");
        std::thread::sleep(Duration::from_millis(10));
        while world.look() {}
        let relayed = world.lines.iter().filter(|line| line.starts_with("line")).count();
        assert!(relayed <= LINE_BURST as usize);
        assert!(world.lines[0].ends_with("bytes of output left out"), "{:?}", world.lines[0]);
        assert_eq!(world.lines.last().map(String::as_str), Some("after"));
        let last = world.output.last_lines(&world.group, 2).expect("read");
        assert_eq!(last, ["line 19999", "after"]);
    }

    #[test]
    fn lines_over_the_allowance_are_left_out_with_their_number() {
        let mut world = World::new(1_000_000);
        for number in 0..3 * LINE_BURST {
            world.write(format!("{number}\n").as_bytes());
        }
        // It is said without another line: the looks go on until it was.
        while world.look() {}
        std::thread::sleep(Duration::from_millis(10));
        world.write(b"end\n");
        while world.look() {}
        let note = &world.lines[world.lines.len() - 2];
        let left_out: u32 = note
            .strip_prefix("… ")
            .and_then(|rest| rest.strip_suffix(" lines left out"))
            .and_then(|count| count.parse().ok())
            .expect(note);
        let relayed = u32::try_from(world.lines.len()).expect("few") - 2;
        assert_eq!(relayed + left_out, 3 * LINE_BURST);
    }

    #[test]
    fn what_nobody_takes_stays_for_later() {
        let mut world = World::new(1_000_000);
        world.write(b"one\ntwo\n");
        let mut room = 1;
        world.output.look(&mut |_, line| {
            room -= 1;
            if room >= 0 {
                world.lines.push(line);
            }
            room >= 0
        });
        assert_eq!(world.lines, ["one"]);
        world.look();
        assert_eq!(world.lines, ["one", "two"]);
    }

    #[test]
    fn a_log_that_was_moved_away_does_not_hide_the_next_program() {
        let mut world = World::new(1_000_000);
        world.write(b"one\n");
        world.look();
        let path = world.output.path(&world.group);
        std::fs::rename(&path, path.with_extension("old")).expect("moved");
        world.log = world.output.open(&world.group, None).expect("opened");
        world.write(b"two, longer\n");
        world.look();
        assert_eq!(world.lines, ["one", "two, longer"]);
    }

    #[test]
    fn the_next_daemon_goes_on_where_the_last_one_stopped() {
        let mut world = World::new(1_000_000);
        world.write(b"one\n");
        world.look();
        world.write(b"two\n");
        let next = Output::new(&world.output.log_dir, &world.output.state_dir, 1_000_000);
        let next = next.expect("made");
        next.follow(&world.group).expect("opened");
        let mut lines = Vec::new();
        next.look(&mut |_, line| {
            lines.push(line);
            true
        });
        assert_eq!(lines, ["two"]);
    }
}
