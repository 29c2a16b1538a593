//! Reading along behind one log file: how far it was relayed, and what may be relayed now.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use crate::limits::{LINE_BURST, LINE_MAX_BYTES, LINES_PER_SECOND, TAIL_BYTES};

/// One log file and how far it was relayed.
#[derive(Debug)]
pub(crate) struct Tail {
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
    pub(crate) fn open(path: &Path, offset_path: &Path, cap: u64) -> io::Result<Self> {
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
        // A shorter file is another one: nothing of it was relayed.
        let offset = offset.filter(|offset| log.metadata().is_ok_and(|log| log.len() >= *offset));
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
    pub(crate) fn look(
        &mut self,
        share: usize,
        now: Instant,
        emit: &mut dyn FnMut(String) -> bool,
    ) -> bool {
        match self.try_look(share, now, emit) {
            Ok(busy) => busy,
            Err(error) => {
                tracing::warn!(%error, "cannot read a program's log");
                false
            }
        }
    }

    /// Whether the next look has to wait: for room at the receiver, or for the allowance.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_blocked || self.has_left_out()
    }

    /// The end of what was in the file before it was emptied.
    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Whether this tail follows the very file that `log` is.
    pub(crate) fn is_of(&self, log: &File) -> io::Result<bool> {
        let (own, other) = (self.log.metadata()?, log.metadata()?);
        Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
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
        let is_silent = used == 0 && !self.is_blocked;
        if is_silent && self.has_left_out() && self.allowance.take(now) {
            // The flood is over: what was left out is said now, not before the next line.
            self.is_blocked = !self.tell_left_out(emit);
        }
        self.empty_if_long(size)?;
        self.save_offset()?;
        Ok(used > 0 || self.is_blocked || self.has_left_out())
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

    fn has_left_out(&self) -> bool {
        self.left_out_bytes > 0 || self.left_out_lines > 0
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
    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(String) -> bool) {
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
pub(crate) fn clean(line: &[u8]) -> String {
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

/// The whole lines within the last `most` bytes of `log`.
pub(crate) fn end_of(log: &File, most: u64) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_are_cleaned_and_cut() {
        let check = |line: &[u8], want: &str| assert_eq!(clean(line), want);
        check(b"plain", "plain");
        check(b"a\tb\r", "a b");
        check(b"\x1b]0;title\x07\0", "]0;title");
        check("ä\u{85}".as_bytes(), "ä");
        check(b"\xff\xfe", "\u{fffd}\u{fffd}");
        let long = clean(&[b'x'; LINE_MAX_BYTES + 1]);
        assert_eq!(long.len(), LINE_MAX_BYTES + '…'.len_utf8());
    }

    #[test]
    fn the_allowance_is_earned_again() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut taken = |at: Duration| (0..5_000).filter(|_| allowance.take(start + at)).count();
        assert_eq!(taken(Duration::ZERO), LINE_BURST as usize);
        assert_eq!(taken(Duration::from_millis(1)), 0);
        assert_eq!(taken(Duration::from_secs(1)), LINES_PER_SECOND as usize);
        assert_eq!(taken(Duration::from_secs(1_000_000)), LINE_BURST as usize);
    }
}
