//! Small files that survive a power cut whole: either the old content or the new one.
//!
//! Invariant: a name in the folder only ever points to a complete file whose bytes were synced
//! before the name was given to them. A write that fails leaves the old file and is an error; a
//! file that does not pass its checksum is moved aside, never used and never deleted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::limits::{DAMAGED_MAX, LOCK_PATIENCE};

/// One folder of durable files, held by one process.
#[derive(Debug)]
pub struct DurableFiles {
    dir: PathBuf,
    handle: File,
    /// One write at a time: two writers of one name share its temporary file.
    writing: Mutex<()>,
    _lock: OwnedFd,
}

/// What went wrong with which file.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// Another process holds the folder. Nothing was touched.
    #[error("{} is in use by {}: two daemons cannot share one data directory", dir.display(), holder(*pid))]
    InUse {
        /// The folder.
        dir: PathBuf,
        /// Who holds it, if the lock file says so.
        pid: Option<u32>,
    },
    /// The operating system said no. The old file, if any, is still there.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file's content is not what was written. It has been moved aside.
    #[error("{} is damaged ({what}); moved to {}", path.display(), moved_to.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where it is now.
        moved_to: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// Written by a newer Baton. It was left in place.
    #[error("{} has format {found}: up to {known} is known here", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u16,
        /// The newest format that this program knows.
        known: u16,
    },
    /// A name that is no plain file name, or content above the limit.
    #[error("{name:?} cannot be a durable file: {what}")]
    Refused {
        /// The name.
        name: String,
        /// Why.
        what: &'static str,
    },
}

impl DurableError {
    /// Whether the disk (or the quota) is full: everything else of the node goes on.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// What was being done, for a journal field.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "lock",
            Self::Io { operation, .. } => operation,
            Self::Damaged { .. } | Self::Newer { .. } => "read",
            Self::Refused { .. } => "name",
        }
    }
}

impl DurableFiles {
    /// Opens (or makes) the folder `dir`, takes its lock and removes temporary files that a crash
    /// left behind.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, DurableError> {
        let dir = dir.into();
        if !dir.is_dir() {
            make_dir(&dir)?;
        }
        let handle = File::open(&dir).map_err(|source| failed("open", &dir, source))?;
        let lock = take_lock(&dir)?;
        let files = Self { dir, handle, writing: Mutex::new(()), _lock: lock };
        files.remove_stale()?;
        // A write whose last step failed can be read now: what is read must be there for good.
        files.sync_dir()?;
        Ok(files)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes `bytes` the content of `name`; when this returns `Ok` they survive a power cut.
    ///
    /// After an error the old content is there, with one exception: when the last step failed
    /// (`sync the folder`), the new content is readable now, and a power cut may bring the old
    /// one back. In no case is it a mixture.
    pub fn write(&self, name: &str, format: u16, bytes: &[u8]) -> Result<(), DurableError> {
        check_name(name)?;
        let length = u32::try_from(bytes.len()).map_err(|_| DurableError::Refused {
            name: name.to_owned(),
            what: "more than 4 GiB of content",
        })?;
        // A poisoned lock only means that another writer panicked; its file is temporary.
        let _writing = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (path, temp) = (self.dir.join(name), self.dir.join(format!("{name}{TEMP_SUFFIX}")));
        let written = write_synced(&temp, &header(format, length, bytes), bytes).and_then(|()| {
            std::fs::rename(&temp, &path).map_err(|source| failed("rename", &temp, source))
        });
        if let Err(error) = written {
            // The temporary file holds space that a full disk needs; at the latest the next open
            // removes it, so a failure here changes nothing.
            std::fs::remove_file(&temp).ok();
            return Err(error);
        }
        self.sync_dir()
    }

    /// The content of `name`, at most `length_max` bytes of it; `known` is the newest format that
    /// the caller can read. `Ok(None)`: there is no such file.
    pub fn read(
        &self,
        name: &str,
        known: u16,
        length_max: usize,
    ) -> Result<Option<Vec<u8>>, DurableError> {
        check_name(name)?;
        let path = self.dir.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", &path, source)),
        };
        let mut all = Vec::new();
        let most = (HEADER_BYTES + length_max).saturating_add(1);
        file.take(most as u64)
            .read_to_end(&mut all)
            .map_err(|source| failed("read", &path, source))?;
        match parse(&all, known, length_max) {
            Ok(()) => Ok(Some(all.split_off(HEADER_BYTES))),
            Err(Unfit::Newer(found)) => Err(DurableError::Newer { path, found, known }),
            Err(Unfit::Damaged(what)) => {
                let moved_to = self.move_aside(name)?;
                Err(DurableError::Damaged { path, moved_to, what })
            }
        }
    }

    /// Removes `name`; a name that is not there is fine.
    pub fn remove(&self, name: &str) -> Result<(), DurableError> {
        check_name(name)?;
        let path = self.dir.join(name);
        match std::fs::remove_file(&path) {
            Ok(()) => self.sync_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed("remove", &path, source)),
        }
    }

    /// The names in the folder that end in `suffix`, in order.
    pub fn names(&self, suffix: &str) -> Result<Vec<String>, DurableError> {
        let mut names = Vec::new();
        let entries =
            std::fs::read_dir(&self.dir).map_err(|source| failed("list", &self.dir, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| failed("list", &self.dir, source))?;
            if let Some(name) = entry.file_name().to_str().filter(|name| name.ends_with(suffix)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Moves `name` aside as damaged: also for callers whose own decoding fails after the
    /// checksum passed.
    pub fn move_aside(&self, name: &str) -> Result<PathBuf, DurableError> {
        check_name(name)?;
        let path = self.dir.join(name);
        let free = (1..DAMAGED_MAX)
            .map(|number| self.dir.join(format!("{name}.damaged-{number}")))
            .find(|aside| !aside.exists())
            .unwrap_or_else(|| self.dir.join(format!("{name}.damaged-{DAMAGED_MAX}")));
        std::fs::rename(&path, &free).map_err(|source| failed("move aside", &path, source))?;
        self.sync_dir()?;
        Ok(free)
    }

    fn sync_dir(&self) -> Result<(), DurableError> {
        self.handle.sync_all().map_err(|source| failed("sync the folder", &self.dir, source))
    }

    fn remove_stale(&self) -> Result<(), DurableError> {
        for name in self.names(TEMP_SUFFIX)? {
            let path = self.dir.join(name);
            std::fs::remove_file(&path).map_err(|source| failed("remove", &path, source))?;
        }
        Ok(())
    }
}

/// Makes the folder and syncs its parent: a folder whose name is lost in a power cut loses every
/// file in it.
fn make_dir(dir: &Path) -> Result<(), DurableError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(dir)
        .map_err(|source| failed("make", dir, source))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|source| failed("sync the folder", parent, source))
}

enum Unfit {
    Newer(u16),
    Damaged(String),
}

fn header(format: u16, length: u32, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(MAGIC);
    header[6..8].copy_from_slice(&format.to_le_bytes());
    header[8..12].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&header[..12], bytes);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn parse(all: &[u8], known: u16, length_max: usize) -> Result<(), Unfit> {
    let damaged = |what: String| Err(Unfit::Damaged(what));
    let Some((head, body)) = all.split_first_chunk::<HEADER_BYTES>() else {
        return damaged(format!("{} bytes, shorter than its header", all.len()));
    };
    if !head.starts_with(MAGIC) {
        return damaged("it does not begin like a durable file".to_owned());
    }
    let format = u16::from_le_bytes([head[6], head[7]]);
    if format > known {
        // Nothing else of a newer format may be judged here, its checksum included.
        return Err(Unfit::Newer(format));
    }
    let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    if length > length_max {
        return damaged(format!("it claims {length} bytes, at most {length_max} are allowed"));
    }
    if length != body.len() {
        return damaged(format!("it claims {length} bytes and has {}", body.len()));
    }
    let sum = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    if sum != checksum(&head[..12], body) {
        return damaged("its checksum does not fit".to_owned());
    }
    Ok(())
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

fn write_synced(path: &Path, head: &[u8], body: &[u8]) -> Result<(), DurableError> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| failed("create", path, source))?;
    file.write_all(head)
        .and_then(|()| file.write_all(body))
        .map_err(|source| failed("write", path, source))?;
    file.sync_all().map_err(|source| failed("sync", path, source))
}

fn take_lock(dir: &Path) -> Result<OwnedFd, DurableError> {
    use rustix::fs::{FlockOperation, flock};

    let path = dir.join(LOCK_NAME);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(&path)
        .map_err(|source| failed("open", &path, source))?;
    let started = std::time::Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // The pid is a courtesy; without it the message is still true.
                (&mut file).take(16).read_to_string(&mut text).ok();
                return Err(DurableError::InUse {
                    dir: dir.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(error) => return Err(failed("lock", &path, error.into())),
        }
    }
    // On a full disk the pid may not fit; the lock itself does not depend on it.
    let noted = file
        .set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    if let Err(error) = noted {
        tracing::debug!(%error, path = %path.display(), "cannot note the pid in the lock file");
    }
    Ok(file.into())
}

fn check_name(name: &str) -> Result<(), DurableError> {
    let refused = |what| Err(DurableError::Refused { name: name.to_owned(), what });
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return refused("a plain file name without a leading dot is required");
    }
    if name.len() > NAME_MAX_BYTES {
        return refused("at most 200 bytes are allowed");
    }
    if name == LOCK_NAME || name.ends_with(TEMP_SUFFIX) {
        return refused("that name has a use of its own");
    }
    Ok(())
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> DurableError {
    DurableError::Io { operation, path: path.to_owned(), source }
}

const MAGIC: &[u8; 6] = b"BATON\n";
const HEADER_BYTES: usize = 16;
/// No name of a service or group has a `~`, so none ends like this: a group may be called `new`.
const TEMP_SUFFIX: &str = ".new~";
const LOCK_NAME: &str = "lock";
/// File systems take 255; the suffixes for damaged and temporary files need their share.
const NAME_MAX_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, DurableFiles) {
        let dir = tempfile::tempdir().expect("a folder");
        let files = DurableFiles::open(dir.path().join("data")).expect("opened");
        (dir, files)
    }

    #[test]
    fn reads_back_what_was_written_last() {
        let (_dir, files) = folder();
        assert_eq!(files.read("a", 1, 10).expect("readable"), None);
        files.write("a", 1, b"one").expect("written");
        files.write("a", 1, b"").expect("written");
        assert_eq!(files.read("a", 1, 0).expect("readable"), Some(Vec::new()));
        files.write("a", 1, b"three").expect("written");
        assert_eq!(files.read("a", 9, 5).expect("readable"), Some(b"three".to_vec()));
        assert_eq!(files.names("").expect("listed"), ["a", "lock"]);
        files.remove("a").expect("removed");
        files.remove("a").expect("nothing to remove");
        assert_eq!(files.read("a", 1, 10).expect("readable"), None);
    }

    #[test]
    fn every_damage_is_found_and_moved_aside() {
        let (_dir, files) = folder();
        files.write("good", 1, b"content").expect("written");
        let whole = std::fs::read(files.dir().join("good")).expect("read");
        let mut cases = vec![b"".to_vec(), b"BATON".to_vec(), [whole.as_slice(), b"x"].concat()];
        cases.extend((1..whole.len()).map(|length| whole[..length].to_vec()));
        for at in (0..whole.len()).filter(|at| *at != 6 && *at != 7) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            cases.push(flipped);
        }
        for (number, case) in cases.iter().enumerate() {
            std::fs::write(files.dir().join("bad"), case).expect("written");
            let error = files.read("bad", 1, 64).expect_err("damaged");
            let DurableError::Damaged { moved_to, .. } = &error else { panic!("{error}") };
            let kept = u32::try_from(number + 1).expect("few").min(DAMAGED_MAX);
            assert!(moved_to.ends_with(format!("bad.damaged-{kept}")), "{error}");
            assert_eq!(&std::fs::read(moved_to).expect("kept"), case);
            assert_eq!(files.read("bad", 1, 64).expect("gone"), None);
        }
        assert!(files.read("good", 1, 64).expect("still fine").is_some());
    }

    #[test]
    fn larger_than_the_reader_allows_is_damage_not_memory() {
        let (_dir, files) = folder();
        files.write("big", 1, &[7; 1_000]).expect("written");
        let message = files.read("big", 1, 999).expect_err("too long").to_string();
        assert!(message.contains("at most 999"), "{message}");
    }

    #[test]
    fn newer_format_is_left_in_place() {
        let (_dir, files) = folder();
        files.write("state", 3, b"x").expect("written");
        for _ in 0..2 {
            let error = files.read("state", 2, 10).expect_err("newer");
            assert!(matches!(error, DurableError::Newer { found: 3, known: 2, .. }), "{error}");
        }
        assert_eq!(files.read("state", 3, 10).expect("known"), Some(b"x".to_vec()));
    }

    #[test]
    fn second_owner_is_told_who_holds_the_folder() {
        let (_dir, files) = folder();
        let message = DurableFiles::open(files.dir()).expect_err("held").to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        let dir = files.dir().to_owned();
        drop(files);
        DurableFiles::open(dir).expect("free again");
    }

    #[test]
    fn temporary_files_of_a_crash_are_removed_at_open() {
        let (_dir, files) = folder();
        let dir = files.dir().to_owned();
        files.write("a", 1, b"old").expect("written");
        drop(files);
        std::fs::write(dir.join("a.new~"), b"half").expect("written");
        let files = DurableFiles::open(&dir).expect("opened");
        assert_eq!(files.names(".new~").expect("listed"), Vec::<String>::new());
        assert_eq!(files.read("a", 1, 10).expect("readable"), Some(b"old".to_vec()));
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let (_dir, files) = folder();
        for bad in ["", ".", "..", "../x", "a/b", "lock", "a.new~", ".hidden", &"x".repeat(201)] {
            assert!(files.write(bad, 1, b"").is_err(), "{bad}");
            assert!(files.read(bad, 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn failed_write_leaves_the_old_file() {
        let (_dir, files) = folder();
        files.write("a", 1, b"old").expect("written");
        // A folder in the temporary file's place makes its creation fail, also for root.
        std::fs::create_dir(files.dir().join("a.new~")).expect("made");
        let error = files.write("a", 1, b"new").expect_err("no room");
        assert!(!error.is_full());
        assert_eq!(error.operation(), "create");
        assert_eq!(files.read("a", 1, 10).expect("readable"), Some(b"old".to_vec()));
    }
}
