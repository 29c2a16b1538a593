//! What programs print: one log file for each service, and its lines for the journal.
//!
//! A program writes straight to a file, never to a pipe of the daemon, so that it does not notice
//! when the daemon dies. The daemon reads along behind it. Invariant: neither the file, nor the
//! daemon's memory, nor its work for one look grows with what the program prints; what is not
//! relayed is counted and said.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_types::GroupName;

use crate::limits::{
    LINE_BURST, LINE_MAX_BYTES, LINES_PER_SECOND, LOOK_MAX_BYTES, LOOK_TOTAL_BYTES, TAIL_BYTES,
};

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
        })
    }

    /// The folder of the log files.
    pub fn dir(&self) -> &Path {
        &self.log_dir
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
            if tail.is_blocked {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        tail.finish(&mut |line| emit(group, line));
    }

    /// The last `count` lines of `group`, oldest first.
    pub fn last_lines(&self, group: &GroupName, count: usize) -> io::Result<Vec<String>> {
        let tail = self.tails.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned();
        let mut bytes = tail.map_or_else(Vec::new, |tail| {
            tail.lock().unwrap_or_else(PoisonError::into_inner).before.clone()
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

/// One log file and how far it was relayed.
#[derive(Debug)]
struct Tail {
    log: File,
    offset_file: File,
    cap: u64,
    /// Everything before it was relayed or left out.
    offset: u64,
    saved_offset: u64,
    allowance: Allowance,
    left_out_lines: u64,
    left_out_bytes: u64,
    /// Whether the rest of a line that was cut is still to be skipped.
    in_cut_line: bool,
    /// The end of what was in the file before it was emptied.
    before: Vec<u8>,
    /// Whether the last look ended because nobody took the lines.
    is_blocked: bool,
}

impl Tail {
    fn open(path: &Path, offset_path: &Path, cap: u64) -> io::Result<Self> {
        let log = File::options()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let offset_file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(offset_path)?;
        let mut digits = [0; OFFSET_DIGITS];
        let read = offset_file.read_at(&mut digits, 0)?;
        // A torn or missing offset means that lines are relayed twice rather than never.
        let offset = std::str::from_utf8(&digits[..read]).ok().and_then(|d| d.trim().parse().ok());
        let offset = offset.unwrap_or(0);
        Ok(Self {
            log,
            offset_file,
            cap,
            offset,
            saved_offset: offset,
            allowance: Allowance::new(Instant::now()),
            left_out_lines: 0,
            left_out_bytes: 0,
            in_cut_line: false,
            before: Vec::new(),
            is_blocked: false,
        })
    }

    /// Reads at most `share` bytes on; whether there was anything.
    fn look(&mut self, share: usize, now: Instant, emit: &mut dyn FnMut(String) -> bool) -> bool {
        match self.try_look(share, now, emit) {
            Ok(busy) => busy,
            Err(error) => {
                tracing::warn!(%error, "cannot read a program's log");
                false
            }
        }
    }

    fn try_look(
        &mut self,
        share: usize,
        now: Instant,
        emit: &mut dyn FnMut(String) -> bool,
    ) -> io::Result<bool> {
        self.is_blocked = false;
        let size = self.log.metadata()?.len();
        if size < self.offset {
            // Somebody else emptied it.
            self.offset = 0;
            self.in_cut_line = false;
        }
        if size - self.offset > self.cap {
            // Too far behind, by a flood or by a daemon that was away: the newest part counts.
            let skip = size - self.offset - self.cap;
            self.left_out_bytes += skip;
            self.offset += skip;
            self.in_cut_line = true;
        }
        let mut bytes = vec![0; share.min(usize::try_from(size - self.offset).unwrap_or(share))];
        let read = self.log.read_at(&mut bytes, self.offset)?;
        bytes.truncate(read);
        let used = self.relay(&bytes, now, emit);
        self.offset += used as u64;
        self.empty_if_long(size)?;
        self.save_offset()?;
        Ok(used > 0 || self.is_blocked)
    }

    /// Hands on the whole lines of `bytes`; how many bytes are done with.
    fn relay(&mut self, bytes: &[u8], now: Instant, emit: &mut dyn FnMut(String) -> bool) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let (line, length) = match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&rest[..end], end + 1),
                None if self.in_cut_line => return bytes.len(),
                None if rest.len() > LINE_MAX_BYTES => (rest, rest.len()),
                None => return done,
            };
            let ends = rest[..length].ends_with(b"\n");
            if self.in_cut_line || line.is_empty() {
                self.in_cut_line &= !ends;
            } else if self.allowance.take(now) {
                if !self.tell_left_out(emit) || !emit(clean(line)) {
                    self.allowance.give_back();
                    self.is_blocked = true;
                    return done;
                }
                self.in_cut_line = !ends;
            } else {
                self.left_out_lines += 1;
                self.in_cut_line = !ends;
            }
            done += length;
        }
        done
    }

    /// Says what was left out before the next line is relayed.
    fn tell_left_out(&mut self, emit: &mut dyn FnMut(String) -> bool) -> bool {
        if self.left_out_bytes > 0 {
            if !emit(format!("… {} bytes of output left out", self.left_out_bytes)) {
                return false;
            }
            self.left_out_bytes = 0;
        }
        if self.left_out_lines > 0 {
            if !emit(format!("… {} lines left out", self.left_out_lines)) {
                return false;
            }
            self.left_out_lines = 0;
        }
        true
    }

    /// The program ended: what it left without a newline is its last line.
    fn finish(&mut self, emit: &mut dyn FnMut(String) -> bool) {
        let mut rest = vec![0; LINE_MAX_BYTES];
        let read = self.log.read_at(&mut rest, self.offset).unwrap_or(0);
        let told = self.tell_left_out(emit);
        if read > 0 && told && (self.in_cut_line || emit(clean(&rest[..read]))) {
            self.offset += read as u64;
            // The next program's first line must not be glued to this one.
            if let Err(error) = io::Write::write_all(&mut self.log, b"\n") {
                tracing::debug!(%error, "cannot end the last line of a log");
            }
        }
        self.in_cut_line = false;
        if let Err(error) = self.save_offset() {
            tracing::debug!(%error, "cannot save the offset of a log");
        }
    }

    /// Empties the file when it is long and everything was read, or when it is far too long.
    fn empty_if_long(&mut self, size: u64) -> io::Result<()> {
        let current = self.log.metadata()?.len();
        let is_read = self.offset == current;
        if size <= self.cap || (!is_read && current <= self.cap.saturating_mul(2)) {
            return Ok(());
        }
        self.before = end_of(&self.log, TAIL_BYTES as u64)?;
        // Programs write with O_APPEND, so they go on at the new end. Lines that arrive between
        // these two calls are lost: microseconds, once in every cap's worth of output.
        let lost = self.log.metadata()?.len().saturating_sub(self.offset);
        self.log.set_len(0)?;
        self.left_out_bytes += lost;
        self.offset = 0;
        self.in_cut_line = lost > 0;
        Ok(())
    }

    fn save_offset(&mut self) -> io::Result<()> {
        if self.offset != self.saved_offset {
            let digits = format!("{:0width$}\n", self.offset, width = OFFSET_DIGITS - 1);
            self.offset_file.write_all_at(digits.as_bytes(), 0)?;
            self.saved_offset = self.offset;
        }
        Ok(())
    }
}

/// How many lines may be relayed now.
#[derive(Debug)]
struct Allowance {
    lines: u32,
    since: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { lines: LINE_BURST, since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let earned =
            now.saturating_duration_since(self.since).as_secs_f64() * f64::from(LINES_PER_SECOND);
        if earned >= 1.0 {
            // Float to int saturates, and the burst bounds the sum.
            self.lines = self.lines.saturating_add(earned as u32).min(LINE_BURST);
            self.since = now;
        }
        match self.lines.checked_sub(1) {
            Some(left) => {
                self.lines = left;
                true
            }
            None => false,
        }
    }

    fn give_back(&mut self) {
        self.lines += 1;
    }
}

/// A line without control characters and of bounded length.
pub fn clean(line: &[u8]) -> String {
    let cut = &line[..line.len().min(LINE_MAX_BYTES)];
    let mut text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c == '\t' { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect();
    if cut.len() < line.len() {
        text.push('…');
    }
    text
}

fn end_of(log: &File, most: u64) -> io::Result<Vec<u8>> {
    let size = log.metadata()?.len();
    let start = size.saturating_sub(most);
    let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
    let read = log.read_at(&mut bytes, start)?;
    bytes.truncate(read);
    if start > 0 {
        // The first line is not whole.
        let whole = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.drain(..whole);
    }
    Ok(bytes)
}

/// Twenty digits hold every u64, and a newline for people.
const OFFSET_DIGITS: usize = 21;

/// How long the last lines of a program wait for somebody to take them.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
