//! The files of a configuration revision as a program finds them, in `BATON_CONFIG_DIR`.
//!
//! Invariant: the folder of a revision and a release is changed file by file, each whole or as it was
//! before; a file that is already what it should be is not touched, so a running program is not
//! disturbed by a hook that looks at the same folder.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_platform::user::User;
use baton_supervise::environment::render;
use baton_types::Revision;

use crate::disk::describe;

/// What is to be written for one launch. Blocking: for a thread that may block.
#[derive(Clone, Debug)]
pub(crate) struct Writing {
    pub(crate) folder: PathBuf,
    /// Each file's name, content with all names expanded, and mode.
    files: BTreeMap<String, (String, u32)>,
    run_as: Option<String>,
}

impl Writing {
    /// The files of `revision` for a program with this environment.
    ///
    /// # Errors
    ///
    /// A sentence that names the file and the line that cannot be completed. Nothing was written.
    pub(crate) fn new(
        folder: PathBuf,
        revision: &Revision,
        env: &BTreeMap<String, String>,
        run_as: Option<&str>,
    ) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        for (name, file) in &revision.files {
            files.insert(name.clone(), (render(name, &file.content, env)?, file.mode));
        }
        Ok(Self { folder, files, run_as: run_as.map(ToOwned::to_owned) })
    }

    /// Makes the folder hold exactly these files.
    ///
    /// # Errors
    ///
    /// A sentence that names the file and what the system said.
    pub(crate) fn write(&self) -> Result<(), String> {
        // A hook and a start may want the same folder at once, and each would take the other's
        // draft for a stranger. A writer that panicked has left drafts at most.
        let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let user = match &self.run_as {
            Some(name) => {
                Some(baton_platform::user::lookup(name).map_err(|cause| describe(&cause))?)
            }
            None => None,
        };
        let owner = user.as_ref();
        if let Some(group) = self.folder.parent() {
            // The daemon's own copies in it are readable by the daemon alone.
            fs::create_dir_all(group).map_err(failed("make", group))?;
        }
        make_folder(&self.folder, owner)?;
        self.remove_others(&self.folder, "")?;
        for (name, (content, mode)) in &self.files {
            let path = self.folder.join(name);
            let mut below = self.folder.clone();
            for part in name.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev() {
                below.push(part);
                make_folder(&below, owner)?;
            }
            if !is_written(&path, content, *mode, owner) {
                write(&path, content, *mode, owner).map_err(failed("write", &path))?;
            }
        }
        Ok(())
    }

    /// Removes what does not belong to the revision: another hand, or a draft of a crash.
    fn remove_others(&self, folder: &Path, prefix: &str) -> Result<(), String> {
        for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
            let path = entry.map_err(failed("read", folder))?.path();
            let part = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = if prefix.is_empty() { part } else { format!("{prefix}/{part}") };
            let below = format!("{name}/");
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let removed = match (is_folder, self.files.contains_key(&name)) {
                (false, true) => Ok(()),
                (true, _) if self.files.keys().any(|file| file.starts_with(&below)) => {
                    self.remove_others(&path, &name)?;
                    Ok(())
                }
                (true, _) => fs::remove_dir_all(&path),
                (false, false) => fs::remove_file(&path),
            };
            removed.map_err(failed("remove", &path))?;
        }
        Ok(())
    }
}

fn make_folder(folder: &Path, owner: Option<&User>) -> Result<(), String> {
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        Err(cause) => return Err(failed("make", folder)(cause)),
    }
    let metadata = fs::symlink_metadata(folder).map_err(failed("look at", folder))?;
    if metadata.mode() & 0o7777 != FOLDER_MODE {
        fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))
            .map_err(failed("set the mode of", folder))?;
    }
    give(folder, &metadata, owner).map_err(failed("give to the program's user", folder))
}

/// Whether the file is there with this content, mode and owner.
fn is_written(path: &Path, content: &str, mode: u32, owner: Option<&User>) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    metadata.is_file()
        && metadata.mode() & 0o7777 == mode
        && owner.is_none_or(|user| (user.uid, user.gid) == (metadata.uid(), metadata.gid()))
        && metadata.len() == content.len() as u64
        && fs::read(path).is_ok_and(|found| found == content.as_bytes())
}

fn write(path: &Path, content: &str, mode: u32, owner: Option<&User>) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut name = std::ffi::OsString::from(DRAFT_PREFIX);
    name.push(path.file_name().unwrap_or_default());
    let draft = parent.join(name);
    // What a crash left is ours to replace; whatever it is, it is not followed.
    match fs::remove_file(&draft) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).open(&draft)?;
    let written = file
        .set_permissions(Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(content.as_bytes()))
        .and_then(|()| give(&draft, &file.metadata()?, owner))
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| File::open(parent)?.sync_all());
    if written.is_err() {
        // The error says more than a draft that could not be removed either.
        fs::remove_file(&draft).ok();
    }
    written
}

fn give(path: &Path, metadata: &fs::Metadata, owner: Option<&User>) -> io::Result<()> {
    match owner {
        Some(user) if (user.uid, user.gid) != (metadata.uid(), metadata.gid()) => {
            std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))
        }
        _ => Ok(()),
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let path = path.display().to_string();
    move |cause| format!("configuration files: cannot {doing} {path}: {cause}")
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Passed through by nobody but the program's user and group.
const FOLDER_MODE: u32 = 0o750;

/// No file of a revision may be called so.
const DRAFT_PREFIX: &str = ".draft-";

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::RevisionFile;

    fn writing(folder: &Path, files: &[(&str, &str, u32)]) -> Result<Writing, String> {
        let mut revision = Revision::default();
        for (name, content, mode) in files {
            let file = RevisionFile { content: (*content).to_owned(), mode: *mode };
            revision.files.insert((*name).to_owned(), file);
        }
        let env = BTreeMap::from([("PORT".to_owned(), "6379".to_owned())]);
        Writing::new(folder.join("g.main/a-b"), &revision, &env, None)
    }

    #[test]
    fn the_folder_holds_exactly_the_files_each_written_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = [("a.conf", "port ${PORT}\n", 0o640), ("d/e/run", "x", 0o750)];
        let first = writing(dir.path(), &files).expect("complete");
        first.write().expect("written");
        let at = |name: &str| first.folder.join(name);
        let inode = |name: &str| fs::metadata(at(name)).expect("a file").ino();
        assert_eq!(fs::read_to_string(at("a.conf")).expect("read"), "port 6379\n");
        assert_eq!(fs::metadata(at("d/e/run")).expect("a file").mode() & 0o7777, 0o750);
        assert_eq!(fs::metadata(&first.folder).expect("a folder").mode() & 0o7777, 0o750);
        let before = [inode("a.conf"), inode("d/e/run")];
        // Strangers and drafts go, what is right stays as it is, what is wrong is replaced.
        fs::write(at(".draft-a.conf"), "half").expect("written");
        fs::create_dir_all(at("old/x")).expect("made");
        fs::write(at("d/stranger"), "x").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", at("link")).expect("linked");
        first.write().expect("written again");
        assert_eq!([inode("a.conf"), inode("d/e/run")], before);
        let names = |path: &Path| {
            let entries = fs::read_dir(path).expect("a folder").filter_map(Result::ok);
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(
            (names(&first.folder), names(&at("d"))),
            (vec!["a.conf".into(), "d".into()], vec!["e".into()])
        );
        fs::set_permissions(at("a.conf"), Permissions::from_mode(0o666)).expect("changed");
        fs::write(at("d/e/run"), "y").expect("written");
        first.write().expect("mended");
        assert_eq!(fs::read_to_string(at("d/e/run")).expect("read"), "x");
        assert_eq!(fs::metadata(at("a.conf")).expect("a file").mode() & 0o7777, 0o640);
        // A file where a folder was.
        let second = writing(dir.path(), &[("d", "now a file", 0o600)]).expect("complete");
        second.write().expect("written");
        assert_eq!(names(&second.folder), ["d"]);
    }

    #[test]
    fn what_cannot_be_completed_or_written_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let fault = writing(dir.path(), &[("a", "${NOPE}", 0o600)]).expect_err("unknown");
        assert!(fault.starts_with("a, line 1, names ${NOPE}"), "{fault}");
        let good = writing(dir.path(), &[("a", "x", 0o600)]).expect("complete");
        fs::write(dir.path().join("g.main"), "in the way").expect("written");
        let fault = good.write().expect_err("in the way");
        assert!(fault.contains("g.main"), "{fault}");
    }
}
