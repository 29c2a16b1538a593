//! Reading an archive: strict, streaming, refusing rather than skipping.
//!
//! Invariant: a sink sees an entry only after its path, kind, size and place were checked, and
//! `read_archive` returns `Ok` only for an archive that was read to its very last byte. Only what
//! `baton depot publish` writes is accepted: one zstd frame around a tar of files, folders and links
//! (ustar or GNU headers, GNU long names), `release.toml` first, two empty blocks at the end.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use baton_types::ReleaseId;
use baton_types::manifest::Manifest;
use tar::{EntryType, Header};

use crate::archive_fault::ArchiveFault;
use crate::error::DepotError;
use crate::limits::{ArchiveLimits, COPY_BUFFER_BYTES, MANIFEST_MAX_BYTES, ZSTD_WINDOW_LOG_MAX};
use crate::manifest;
use crate::tree::{Node, Tree, shorten};

/// Takes the entries of an archive. An error of its own is a fault of the surroundings.
pub(crate) trait Sink {
    /// A folder; the one it lies in came before.
    fn folder(&mut self, path: &str) -> io::Result<()>;
    /// A file begins; its content follows by `write` until `end_file`.
    fn begin_file(&mut self, path: &str, executable: bool) -> io::Result<()>;
    /// More of the file.
    fn write(&mut self, content: &[u8]) -> io::Result<()>;
    /// The file is complete.
    fn end_file(&mut self) -> io::Result<()>;
    /// A symbolic link.
    fn symlink(&mut self, path: &str, target: &str) -> io::Result<()>;
    /// A second name of a file that came before.
    fn hard_link(&mut self, path: &str, existing: &str) -> io::Result<()>;
}

/// Takes nothing: for a look at an archive.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn folder(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn begin_file(&mut self, _: &str, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn end_file(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn symlink(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn hard_link(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// Why reading ended early.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The archive is to blame.
    Fault(ArchiveFault),
    /// The file could not be read.
    Source(io::Error),
    /// The sink could not take this entry.
    Sink {
        /// Which entry.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl From<ArchiveFault> for ReadError {
    fn from(fault: ArchiveFault) -> Self {
        Self::Fault(fault)
    }
}

impl ReadError {
    /// The error for the archive of `release` at `path`.
    pub(crate) fn of(self, release: &str, path: &Path) -> DepotError {
        match self {
            Self::Fault(fault) => DepotError::Archive { release: release.to_owned(), fault },
            Self::Source(e) => DepotError::io("read", path)(e),
            Self::Sink { path, source } => DepotError::io("write", Path::new(&path))(source),
        }
    }
}

/// Reads the whole archive of `packed_bytes` into `sink`. Its `release.toml` must name `expected`,
/// if that is given.
pub(crate) fn read_archive(
    source: impl Read,
    packed_bytes: u64,
    limits: ArchiveLimits,
    expected: Option<&ReleaseId>,
    sink: &mut dyn Sink,
) -> Result<(Manifest, Tree), ReadError> {
    let mut reader = ArchiveReader::new(source, packed_bytes, limits)?;
    let manifest = reader.manifest(expected, sink)?;
    while reader.entry(sink)? {}
    reader.finish()?;
    reader.tree.check_links()?;
    Ok((manifest, reader.tree))
}

/// Reads no further than `release.toml`, which comes first. Only for archives that were read whole
/// before.
pub(crate) fn read_manifest(
    source: impl Read,
    packed_bytes: u64,
    limits: ArchiveLimits,
) -> Result<Manifest, ReadError> {
    ArchiveReader::new(source, packed_bytes, limits)?.manifest(None, &mut Nowhere)
}

struct ArchiveReader<R: Read> {
    stream: Unpacked<R>,
    tree: Tree,
    entries: usize,
}

/// One header with the long names before it.
struct Entry {
    path: String,
    target: String,
    kind: EntryType,
    mode: u32,
    size: u64,
}

impl<R: Read> ArchiveReader<R> {
    fn new(source: R, packed_bytes: u64, limits: ArchiveLimits) -> Result<Self, ReadError> {
        let stream = Unpacked::new(source, packed_bytes, limits)?;
        Ok(Self { stream, tree: Tree::new(limits), entries: 0 })
    }

    /// The first entry, which must be `release.toml`.
    fn manifest(
        &mut self,
        expected: Option<&ReleaseId>,
        sink: &mut dyn Sink,
    ) -> Result<Manifest, ReadError> {
        let none = |found: &str| ArchiveFault::NoManifest { found: shorten(found) };
        let entry = self.header()?.ok_or_else(|| none(""))?;
        if entry.path != MANIFEST_NAME || entry.kind != EntryType::Regular {
            return Err(none(&entry.path).into());
        }
        if entry.size > MANIFEST_MAX_BYTES {
            let allowed = MANIFEST_MAX_BYTES;
            return Err(ArchiveFault::TooMuch { what: "bytes in release.toml", allowed }.into());
        }
        let mut text = Vec::new();
        self.file(&entry, sink, |chunk| text.extend_from_slice(chunk))?;
        let text = String::from_utf8(text)
            .map_err(|_| ArchiveFault::Manifest("release.toml is not UTF-8 text".to_owned()))?;
        let manifest = manifest::parse(MANIFEST_NAME, &text)
            .map_err(|faults| ArchiveFault::Manifest(faults.to_string()))?;
        match expected {
            Some(expected) if *expected != manifest.id => Err(ArchiveFault::OtherRelease {
                found: manifest.id.to_string(),
                expected: expected.to_string(),
            }
            .into()),
            _ => Ok(manifest),
        }
    }

    /// Passes one entry on; false at the end mark.
    fn entry(&mut self, sink: &mut dyn Sink) -> Result<bool, ReadError> {
        let Some(entry) = self.header()? else { return Ok(false) };
        let failed = |source| ReadError::Sink { path: entry.path.clone(), source };
        if entry.kind != EntryType::Regular && entry.size > 0 {
            return Err(self.damaged("a folder or link has content").into());
        }
        match entry.kind {
            EntryType::Regular => self.file(&entry, sink, |_| {})?,
            EntryType::Directory => {
                self.tree.add(&entry.path, Node::Folder)?;
                sink.folder(&entry.path).map_err(failed)?;
            }
            EntryType::Symlink => {
                self.tree.add(&entry.path, Node::Link(entry.target.clone()))?;
                sink.symlink(&entry.path, &entry.target).map_err(failed)?;
            }
            EntryType::Link => {
                self.tree.add_hard_link(&entry.path, &entry.target)?;
                sink.hard_link(&entry.path, &entry.target).map_err(failed)?;
            }
            other => {
                let found = kind_name(other);
                return Err(ArchiveFault::Kind { path: shorten(&entry.path), found }.into());
            }
        }
        Ok(true)
    }

    fn file(
        &mut self,
        entry: &Entry,
        sink: &mut dyn Sink,
        mut also: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let failed = |source| ReadError::Sink { path: entry.path.clone(), source };
        // Refused by what it says of itself, before it fills a disk.
        self.stream.announce(entry.size)?;
        self.tree.add(&entry.path, Node::File)?;
        sink.begin_file(&entry.path, entry.mode & 0o111 != 0).map_err(failed)?;
        let mut rest = entry.size;
        let length = usize::try_from(rest).unwrap_or(usize::MAX).min(COPY_BUFFER_BYTES);
        let mut buffer = vec![0; length];
        while rest > 0 {
            let length = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
            let chunk = &mut buffer[..length];
            self.stream.fill(chunk, "inside a file")?;
            also(chunk);
            sink.write(chunk).map_err(failed)?;
            rest -= length as u64;
        }
        self.padding(entry.size)?;
        sink.end_file().map_err(failed)
    }

    /// The next header with the long names before it; `None` at the end mark.
    fn header(&mut self) -> Result<Option<Entry>, ReadError> {
        let (mut long_path, mut long_target) = (None, None);
        loop {
            let mut block = [0; BLOCK_BYTES];
            self.stream.fill(&mut block, "before its end mark")?;
            if block.iter().all(|byte| *byte == 0) {
                return match (long_path, long_target) {
                    (None, None) => Ok(None),
                    _ => Err(self.damaged("a long name without its entry").into()),
                };
            }
            self.entries += 1;
            let header = Header::from_byte_slice(&block);
            let size = self.check_header(header)?;
            let long = match header.entry_type() {
                EntryType::GNULongName => &mut long_path,
                EntryType::GNULongLink => &mut long_target,
                _ => return self.complete(header, size, long_path, long_target).map(Some),
            };
            if long.is_some() {
                return Err(self.damaged("two long names for one entry").into());
            }
            *long = Some(self.long_name(size)?);
        }
    }

    fn check_header(&self, header: &Header) -> Result<u64, ArchiveFault> {
        let bytes = header.as_bytes();
        let sum = bytes[..148]
            .iter()
            .chain(&bytes[156..])
            .fold(8 * 32, |sum, byte| sum + u32::from(*byte));
        if header.cksum().ok() != Some(sum) {
            return Err(self.damaged("its checksum does not fit"));
        }
        if header.as_ustar().is_none() && header.as_gnu().is_none() {
            return Err(self.damaged("it is neither a ustar nor a GNU header"));
        }
        header.entry_size().map_err(|_| self.damaged("its size is no number"))
    }

    fn complete(
        &self,
        header: &Header,
        size: u64,
        long_path: Option<Vec<u8>>,
        long_target: Option<Vec<u8>>,
    ) -> Result<Entry, ReadError> {
        let kind = match header.entry_type() {
            // Contiguous files are files, and the type byte of the oldest writers is NUL.
            EntryType::Continuous => EntryType::Regular,
            kind => kind,
        };
        let path = long_path.unwrap_or_else(|| header.path_bytes().into_owned());
        let mut path = text(path, "path")?;
        if kind == EntryType::Directory && path.ends_with('/') {
            path.pop();
        }
        let target = long_target
            .or_else(|| header.link_name_bytes().map(|name| name.into_owned()))
            .unwrap_or_default();
        let target = text(target, "link target")?;
        let mode = header.mode().map_err(|_| self.damaged("its mode is no number"))?;
        if mode & 0o7000 != 0 {
            return Err(ArchiveFault::Mode { path: shorten(&path), mode: mode & 0o7777 }.into());
        }
        Ok(Entry { path, target, kind, mode, size })
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ReadError> {
        let allowed = self.stream.limits.path_max_bytes as u64 + 1;
        if size > allowed {
            let reason = format!("a name of {size} bytes: at most {} are allowed", allowed - 1);
            return Err(self.damaged(&reason).into());
        }
        // At most a kilobyte, checked above.
        let mut name = vec![0; usize::try_from(size).unwrap_or(0)];
        self.stream.fill(&mut name, "inside a name")?;
        self.padding(size)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn padding(&mut self, size: u64) -> Result<(), ReadError> {
        let used = usize::try_from(size % BLOCK_BYTES as u64).unwrap_or(0);
        let mut rest = [0; BLOCK_BYTES];
        let rest = &mut rest[..(BLOCK_BYTES - used) % BLOCK_BYTES];
        self.stream.fill(rest, "after a file")?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(self.damaged("the filling behind its content is not empty").into());
        }
        Ok(())
    }

    /// After the first empty block: the second one, and then nothing.
    fn finish(&mut self) -> Result<(), ReadError> {
        let mut block = [0; BLOCK_BYTES];
        self.stream.fill(&mut block, "in its end mark")?;
        if block.iter().any(|byte| *byte != 0) {
            return Err(ArchiveFault::Trailing("an entry after one empty block").into());
        }
        self.stream.finish()
    }

    fn damaged(&self, reason: &str) -> ArchiveFault {
        ArchiveFault::Header { number: self.entries, reason: reason.to_owned() }
    }
}

/// The unpacked stream, counted against bytes and ratio.
struct Unpacked<R: Read> {
    decoder: zstd::Decoder<'static, BufReader<R>>,
    limits: ArchiveLimits,
    packed_bytes: u64,
    unpacked_bytes: u64,
}

impl<R: Read> Unpacked<R> {
    fn new(source: R, packed_bytes: u64, limits: ArchiveLimits) -> Result<Self, ReadError> {
        let mut decoder =
            zstd::Decoder::with_buffer(BufReader::new(source)).map_err(read_error)?.single_frame();
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(read_error)?;
        Ok(Self { decoder, limits, packed_bytes, unpacked_bytes: 0 })
    }

    /// Whether `bytes` more would be too many.
    fn announce(&self, bytes: u64) -> Result<(), ArchiveFault> {
        let total = self.unpacked_bytes.saturating_add(bytes);
        let allowed = self.limits.unpacked_max_bytes;
        if total > allowed {
            return Err(ArchiveFault::TooMuch { what: "unpacked bytes", allowed });
        }
        let (ratio, packed) = (self.limits.ratio_max, self.packed_bytes);
        if total > packed.saturating_mul(ratio).saturating_add(self.limits.ratio_free_bytes) {
            return Err(ArchiveFault::Ratio { ratio, packed });
        }
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8], place: &'static str) -> Result<(), ReadError> {
        self.announce(buffer.len() as u64)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.decoder.read(&mut buffer[filled..]) {
                Ok(0) => return Err(ArchiveFault::CutShort(place).into()),
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(read_error(e)),
            }
        }
        self.unpacked_bytes += buffer.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ReadError> {
        // The read that meets the frame's end is the one that checks its checksum.
        if self.decoder.read(&mut [0; 1]).map_err(read_error)? > 0 {
            return Err(ArchiveFault::Trailing("more bytes after the end mark").into());
        }
        if !self.decoder.get_mut().fill_buf().map_err(read_error)?.is_empty() {
            return Err(ArchiveFault::Trailing("more bytes after the zstd frame").into());
        }
        Ok(())
    }
}

/// The system's own errors have a number, those of the decompressor have none.
fn read_error(e: io::Error) -> ReadError {
    match e.raw_os_error() {
        Some(_) => ReadError::Source(e),
        None => ReadError::Fault(ArchiveFault::Compression(e.to_string())),
    }
}

fn text(bytes: Vec<u8>, what: &str) -> Result<String, ArchiveFault> {
    String::from_utf8(bytes).map_err(|e| ArchiveFault::Path {
        path: shorten(&String::from_utf8_lossy(e.as_bytes())),
        reason: format!("is a {what} that is not UTF-8, which is not allowed"),
    })
}

fn kind_name(kind: EntryType) -> String {
    match kind {
        EntryType::Char => "a character device".to_owned(),
        EntryType::Block => "a block device".to_owned(),
        EntryType::Fifo => "a fifo".to_owned(),
        EntryType::GNUSparse => "a sparse file".to_owned(),
        EntryType::XHeader | EntryType::XGlobalHeader => "a pax extension".to_owned(),
        other => format!("an entry of the type {:?}", char::from(other.as_byte())),
    }
}

/// The release's description, the first entry of every archive.
pub(crate) const MANIFEST_NAME: &str = "release.toml";

/// The unit of a tar, POSIX.1-2017 pax, section "ustar Interchange Format".
pub(crate) const BLOCK_BYTES: usize = 512;
