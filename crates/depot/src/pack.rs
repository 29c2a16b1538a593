//! Packing a directory.
//!
//! Invariant: the same files give the same bytes, whoever packs them, when and where: entries sorted,
//! no times, no owners, modes 0644 and 0755 only. So a digest says what a release is, and publishing
//! it twice is seen to be the same.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use tar::{EntryType, Header};

use crate::archive::{BLOCK_BYTES, MANIFEST_NAME};
use crate::error::DepotError;
use crate::faults::Fault;
use crate::limits::{ArchiveLimits, COPY_BUFFER_BYTES, ZSTD_LEVEL};
use crate::tree::{Node, Tree};

/// What a directory holds, as far as it can be packed.
pub(crate) struct Contents {
    /// Every path, checked as at unpacking.
    pub(crate) tree: Tree,
    /// In the order of the archive.
    entries: Vec<(String, Kind)>,
}

#[derive(Debug)]
enum Kind {
    Folder,
    File { executable: bool, size: u64 },
    Link(String),
}

impl Contents {
    /// Looks at everything below `dir`. What cannot be packed goes to `faults`.
    pub(crate) fn read(
        dir: &Path,
        limits: ArchiveLimits,
        faults: &mut Vec<Fault>,
    ) -> Result<Self, DepotError> {
        let mut contents = Self { tree: Tree::new(limits), entries: Vec::new() };
        // The manifest leads, so that nobody has to unpack a release to learn what it is.
        contents.add(dir, MANIFEST_NAME, faults)?;
        contents.walk(dir, "", limits, faults)?;
        if faults.is_empty()
            && let Err(fault) = contents.tree.check_links()
        {
            faults.push(whole(dir, fault.to_string()));
        }
        Ok(contents)
    }

    /// Whether `path` is a file that can be executed, through links within the release.
    pub(crate) fn is_executable(&self, path: &str) -> Result<(), &'static str> {
        let (path, node) = self.tree.resolve(path).map_err(|_| "is not in the release")?;
        if *node != Node::File {
            return Err("is a folder");
        }
        let executable = self
            .entries
            .iter()
            .any(|(p, kind)| *p == path && matches!(kind, Kind::File { executable: true, .. }));
        if executable { Ok(()) } else { Err("is not executable") }
    }

    /// Writes the archive.
    pub(crate) fn pack(&self, dir: &Path, output: impl Write) -> Result<(), DepotError> {
        let failed = |source| DepotError::Io { doing: "pack", path: dir.to_owned(), source };
        let mut encoder = zstd::Encoder::new(output, ZSTD_LEVEL).map_err(failed)?;
        encoder.include_checksum(true).map_err(failed)?;
        for (path, kind) in &self.entries {
            let full = dir.join(path);
            write_entry(&mut encoder, path, kind, &full).map_err(DepotError::io("pack", &full))?;
        }
        encoder.write_all(&[0; 2 * BLOCK_BYTES]).map_err(failed)?;
        encoder.finish().and_then(|mut output| output.flush()).map_err(failed)
    }

    fn walk(
        &mut self,
        dir: &Path,
        below: &str,
        limits: ArchiveLimits,
        faults: &mut Vec<Fault>,
    ) -> Result<(), DepotError> {
        let folder = dir.join(below);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(DepotError::io("read", &folder))? {
            let name = entry.map_err(DepotError::io("read", &folder))?.file_name();
            match name.into_string() {
                Ok(name) => names.push(name),
                Err(name) => {
                    let message = format!("the name {name:?} is not UTF-8, which is not allowed");
                    faults.push(whole(&folder, message));
                }
            }
            if names.len() + self.entries.len() > limits.entries_max {
                let message =
                    format!("has more than {} entries, the most allowed", limits.entries_max);
                faults.push(whole(dir, message));
                return Ok(());
            }
        }
        names.sort_unstable();
        for name in names {
            if below.is_empty() && name == MANIFEST_NAME {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            if self.add(dir, &path, faults)? {
                self.walk(dir, &path, limits, faults)?;
            }
        }
        Ok(())
    }

    /// Adds one path; true when it is a folder to walk into.
    fn add(&mut self, dir: &Path, path: &str, faults: &mut Vec<Fault>) -> Result<bool, DepotError> {
        let full = dir.join(path);
        let reading = |e| DepotError::io("read", &full)(e);
        let metadata = full.symlink_metadata().map_err(reading)?;
        let kind = metadata.file_type();
        let mut refuse = |message: String| {
            faults.push(whole(&full, message));
            Ok(false)
        };
        let (node, kind) = if kind.is_dir() {
            (Node::Folder, Kind::Folder)
        } else if kind.is_file() {
            if metadata.mode() & 0o6000 != 0 {
                return refuse("is setuid or setgid, which is not allowed".to_owned());
            }
            let executable = metadata.mode() & 0o111 != 0;
            (Node::File, Kind::File { executable, size: metadata.len() })
        } else if kind.is_symlink() {
            match fs::read_link(&full).map_err(reading)?.into_os_string().into_string() {
                Ok(target) => (Node::Link(target.clone()), Kind::Link(target)),
                Err(_) => return refuse("is a link whose target is not UTF-8".to_owned()),
            }
        } else {
            let found = if kind.is_socket() {
                "a socket"
            } else if kind.is_fifo() {
                "a fifo"
            } else {
                "a device"
            };
            return refuse(format!("is {found}: only files, folders and links are allowed"));
        };
        if let Err(fault) = self.tree.add(path, node) {
            return refuse(fault.to_string());
        }
        let is_folder = matches!(kind, Kind::Folder);
        self.entries.push((path.to_owned(), kind));
        Ok(is_folder)
    }
}

fn whole(path: &Path, message: String) -> Fault {
    Fault { file: path.display().to_string(), at: None, message }
}

fn write_entry(output: &mut impl Write, path: &str, kind: &Kind, full: &Path) -> io::Result<()> {
    match kind {
        Kind::Folder => {
            write_header(output, &format!("{path}/"), "", EntryType::Directory, 0o755, 0)
        }
        Kind::Link(target) => write_header(output, path, target, EntryType::Symlink, 0o755, 0),
        Kind::File { executable, size } => {
            let mode = if *executable { 0o755 } else { 0o644 };
            write_header(output, path, "", EntryType::Regular, mode, *size)?;
            write_content(output, &mut File::open(full)?, *size)
        }
    }
}

fn write_content(output: &mut impl Write, file: &mut File, size: u64) -> io::Result<()> {
    let changed = || io::Error::other("the file changed while it was packed");
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    let mut rest = size;
    while rest > 0 {
        let length = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..length])?;
        if count == 0 {
            return Err(changed());
        }
        output.write_all(&buffer[..count])?;
        rest -= count as u64;
    }
    if file.read(&mut buffer[..1])? > 0 {
        return Err(changed());
    }
    write_padding(output, size)
}

fn write_header(
    output: &mut impl Write,
    path: &str,
    target: &str,
    kind: EntryType,
    mode: u32,
    size: u64,
) -> io::Result<()> {
    if path.len() > SHORT_NAME_BYTES {
        write_long_name(output, EntryType::GNULongName, path)?;
    }
    if target.len() > SHORT_NAME_BYTES {
        write_long_name(output, EntryType::GNULongLink, target)?;
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let old = header.as_old_mut();
    copy_name(&mut old.name, path);
    copy_name(&mut old.linkname, target);
    header.set_cksum();
    output.write_all(header.as_bytes())
}

fn write_long_name(output: &mut impl Write, kind: EntryType, name: &str) -> io::Result<()> {
    let size = name.len() as u64 + 1;
    write_header(output, "././@LongLink", "", kind, 0o644, size)?;
    output.write_all(name.as_bytes())?;
    output.write_all(&[0])?;
    write_padding(output, size)
}

fn write_padding(output: &mut impl Write, size: u64) -> io::Result<()> {
    let used = usize::try_from(size % BLOCK_BYTES as u64).unwrap_or(0);
    output.write_all(&[0; BLOCK_BYTES][..(BLOCK_BYTES - used) % BLOCK_BYTES])
}

fn copy_name(field: &mut [u8; SHORT_NAME_BYTES], name: &str) {
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
}

/// Of the name fields in a tar header.
const SHORT_NAME_BYTES: usize = 100;
