//! Unpacking a checked archive into a folder.
//!
//! Invariant: nothing is made outside the folder (every path goes through a cap-std `Dir`, besides
//! the checks of the reader), nothing that is there is opened or replaced, and modes are 0755 and 0644
//! whatever the archive or the umask says.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cap_std::fs::{Dir, File, OpenOptions};

use crate::archive::Sink;
use crate::tree::Tree;

/// A folder being filled.
pub(crate) struct Unpacker {
    root: Dir,
    file: Option<File>,
}

impl Unpacker {
    /// Fills the empty folder at `path`.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))?;
        // Opened for reading, not as a mere path, so that it can be synced.
        Ok(Self { root: Dir::from_std_file(fs::File::open(path)?), file: None })
    }

    /// Makes everything durable, all at once at the end, so that the disk can put it in good order.
    pub(crate) fn sync(self, tree: &Tree) -> io::Result<()> {
        if tree.files().nth(SYNCED_SINGLY_MAX).is_some() {
            return Ok(rustix::fs::syncfs(&self.root)?);
        }
        for path in tree.files().chain(tree.folders_inner_first()) {
            self.root.open(path)?.sync_all()?;
        }
        self.root.into_std_file().sync_all()
    }
}

impl Sink for Unpacker {
    fn folder(&mut self, path: &str) -> io::Result<()> {
        self.root.create_dir(path)?;
        let permissions = Permissions::from_mode(FOLDER_MODE);
        self.root.open(path)?.set_permissions(cap_std::fs::Permissions::from_std(permissions))
    }

    fn begin_file(&mut self, path: &str, executable: bool) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = self.root.open_with(path, &options)?;
        let mode = if executable { FOLDER_MODE } else { FILE_MODE };
        let permissions = Permissions::from_mode(mode);
        file.set_permissions(cap_std::fs::Permissions::from_std(permissions))?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(content),
            None => Err(io::Error::other("content without a file")),
        }
    }

    fn end_file(&mut self) -> io::Result<()> {
        match self.file.take() {
            Some(_) => Ok(()),
            None => Err(io::Error::other("the end of no file")),
        }
    }

    fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.root.symlink(target, path)
    }

    fn hard_link(&mut self, path: &str, existing: &str) -> io::Result<()> {
        self.root.hard_link(existing, &self.root, path)
    }
}

const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Up to so many files are synced one by one, which leaves the rest of the disk alone. For more of
/// them that takes minutes, and one sync of the whole file system is the smaller evil.
const SYNCED_SINGLY_MAX: usize = 1_000;
