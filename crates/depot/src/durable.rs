//! Files that are whole or not there.
//!
//! Invariant: when a function here returns `Ok`, its content survives a power cut; when it returns an
//! error or never returns, the file of that name is what it was.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::DepotError;

/// A file being written beside its final place, gone unless it is kept.
pub(crate) struct Draft {
    file: NamedTempFile,
}

impl Draft {
    /// An empty draft in `folder`, which must be on the file system of its final place.
    pub(crate) fn new(folder: &Path) -> Result<Self, DepotError> {
        tempfile::Builder::new()
            .prefix(DRAFT_PREFIX)
            .tempfile_in(folder)
            .map(|file| Self { file })
            .map_err(DepotError::io("create a file in", folder))
    }

    /// For writing and, from its start, reading.
    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Where it is now, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Syncs and moves it to `path`, in place of what is there; readable by all.
    pub(crate) fn keep(self, path: &Path) -> Result<(), DepotError> {
        // The daemon and a web server read what the operator wrote.
        self.keep_as(path, 0o644)
    }

    fn keep_as(self, path: &Path, mode: u32) -> Result<(), DepotError> {
        let doing = "write";
        let file = self.file.as_file();
        file.set_permissions(Permissions::from_mode(mode)).map_err(DepotError::io(doing, path))?;
        file.sync_all().map_err(DepotError::io(doing, path))?;
        self.file.persist(path).map_err(|e| DepotError::io(doing, path)(e.error))?;
        sync_parent(path)
    }
}

/// Writes `content` to `path`, in place of what is there.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), DepotError> {
    let mut draft = Draft::new(parent(path))?;
    draft.file().write_all(content).map_err(DepotError::io("write", path))?;
    draft.keep(path)
}

/// As [`write`], readable by its owner alone.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), DepotError> {
    let mut draft = Draft::new(parent(path))?;
    draft.file().write_all(content).map_err(DepotError::io("write", path))?;
    draft.keep_as(path, 0o600)
}

/// Makes the folder `path` and those above it, each entry durable in its parent.
pub(crate) fn create_folder(path: &Path) -> Result<(), DepotError> {
    if path.is_dir() {
        return Ok(());
    }
    let missing: Vec<PathBuf> =
        path.ancestors().take_while(|folder| !folder.is_dir()).map(Path::to_owned).collect();
    for folder in missing.iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => sync_parent(folder)?,
            // Somebody else was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(DepotError::io("create the folder", folder)(e)),
        }
    }
    Ok(())
}

/// Makes a rename, creation or removal of `path` durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), DepotError> {
    let folder = parent(path);
    File::open(folder).and_then(|f| f.sync_all()).map_err(DepotError::io("sync the folder", folder))
}

/// Reads a whole file of at most `max_bytes`; `None` when there is none.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, DepotError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(DepotError::io("read", path)(e)),
    };
    let mut content = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut content).map_err(DepotError::io("read", path))?;
    if content.len() as u64 > max_bytes {
        return Err(too_large(&path.display().to_string(), max_bytes));
    }
    Ok(Some(content))
}

/// The error for a file that is larger than `max_bytes`.
pub(crate) fn too_large(what: &str, max_bytes: u64) -> DepotError {
    let reason = format!("larger than {max_bytes} bytes, which is the most allowed");
    DepotError::Format { what: what.to_owned(), reason }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Drafts of a crashed process are known by it.
pub(crate) const DRAFT_PREFIX: &str = ".draft-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_replaced_whole_and_drafts_vanish() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/file");
        create_folder(parent(&path)).expect("folders");
        write(&path, b"one").expect("written");
        write(&path, b"two").expect("written");
        assert_eq!(read(&path, 3).expect("read"), Some(b"two".to_vec()));
        assert!(matches!(read(&path, 2), Err(DepotError::Format { .. })));
        assert_eq!(read(&folder.path().join("none"), 2).expect("read"), None);
        drop(Draft::new(parent(&path)).expect("a draft"));
        assert_eq!(fs::read_dir(parent(&path)).expect("a folder").count(), 1);
    }
}
