//! A node's own copies of configuration revisions: `SERVICE.GROUP/DIGEST.signed`.
//!
//! Invariant: a copy is there only after signature and content were verified, it is readable by its
//! owner alone, and it is looked at again before it is used. What is there needs no depot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_types::{Digest, GroupName, Revision};

use crate::depot::{Depot, ENTRY_SUFFIX};
use crate::durable::{self, DRAFT_PREFIX};
use crate::error::DepotError;
use crate::keys::TrustedKeys;
use crate::limits::REVISION_FILE_MAX_BYTES;
use crate::revision;

/// The revisions that one node holds.
#[derive(Clone, Debug)]
pub struct RevisionStore {
    folder: PathBuf,
}

impl RevisionStore {
    /// The store in `folder`, which is made with its first revision.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder of one group: its copies, and beside them what is written for its program.
    pub fn group_folder(&self, group: &GroupName) -> PathBuf {
        self.folder.join(group.to_string())
    }

    /// Makes sure that a verified copy of the revision is here and returns it. Nothing is asked of
    /// the depot when the copy is here already and verifies.
    ///
    /// # Errors
    ///
    /// The depot cannot be reached, the disk is full, or something does not verify; nothing is kept.
    pub fn fetch(
        &self,
        depot: &Depot,
        trusted: &TrustedKeys,
        group: &GroupName,
        digest: &Digest,
    ) -> Result<Revision, DepotError> {
        let path = self.path(group, digest);
        if let Ok(Some(sealed)) = durable::read(&path, REVISION_FILE_MAX_BYTES)
            && let Ok(revision) = revision::open(&sealed, trusted, group, digest)
        {
            return Ok(revision);
        }
        let (revision, sealed) = depot.revision(trusted, group, digest)?;
        durable::create_folder(&self.group_folder(group))?;
        durable::write_private(&path, &sealed)?;
        Ok(revision)
    }

    /// Keeps a revision that somebody hands over, as it was signed. `wanted` is asked, before anything is
    /// kept, about the digest that follows from its content.
    ///
    /// # Errors
    ///
    /// No trusted key signed it, it is of another group or not wanted, or the disk refuses it; nothing
    /// is kept.
    pub fn take(
        &self,
        trusted: &TrustedKeys,
        group: &GroupName,
        sealed: &[u8],
        wanted: impl FnOnce(&Digest) -> bool,
    ) -> Result<(Digest, Revision), DepotError> {
        let fault = |reason: String| {
            let what = format!("configuration revision of {group}");
            DepotError::Format { what, reason }
        };
        if sealed.len() as u64 > REVISION_FILE_MAX_BYTES {
            let found = sealed.len();
            return Err(fault(format!(
                "has {found} bytes, at most {REVISION_FILE_MAX_BYTES} are allowed"
            )));
        }
        let (digest, revision) = revision::open_any(sealed, trusted, group)?;
        if !wanted(&digest) {
            return Err(fault(format!("is {digest}, which nobody asked for")));
        }
        durable::create_folder(&self.group_folder(group))?;
        durable::write_private(&self.path(group, &digest), sealed)?;
        Ok((digest, revision))
    }

    /// A copy as it was signed, if it is here and whole.
    pub fn sealed(&self, group: &GroupName, digest: &Digest) -> Option<Vec<u8>> {
        let sealed = durable::read(&self.path(group, digest), REVISION_FILE_MAX_BYTES).ok()??;
        revision::peek(&sealed, group, digest).ok().map(|_| sealed)
    }

    /// Every copy that is here and whole, and a sentence for each that is not.
    pub fn read_all(&self) -> (Vec<(Digest, Revision)>, Vec<String>) {
        let (mut found, mut faults) = (Vec::new(), Vec::new());
        let mut each = |group: &GroupName, digest: Digest, path: &Path| {
            let read = durable::read(path, REVISION_FILE_MAX_BYTES)
                .and_then(|sealed| revision::peek(&sealed.unwrap_or_default(), group, &digest));
            match read {
                Ok(revision) => found.push((digest, revision)),
                Err(fault) => faults.push(fault.to_string()),
            }
            Ok(())
        };
        if let Err(fault) = self.walk(&mut each, &mut |_, _| Ok(())) {
            faults.push(fault.to_string());
        }
        (found, faults)
    }

    /// Removes the copies that are not kept, and the folders that were written of them; `is_kept` is
    /// asked by the first hexadecimal digits of the digest (eight or all of them).
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is tried again next time.
    pub fn collect(&self, is_kept: &dyn Fn(&str) -> bool) -> Result<Vec<String>, DepotError> {
        let mut removed = Vec::new();
        let mut copies = |group: &GroupName, digest: Digest, path: &Path| {
            if !is_kept(&digest.to_string()) {
                fs::remove_file(path).map_err(DepotError::io("remove", path))?;
                removed.push(format!("{group} {digest}"));
            }
            Ok(())
        };
        let mut folders = |name: &str, path: &Path| {
            // REVISION8-RELEASE8: written anew at a start should one be needed after all.
            if !name.split('-').all(is_kept) {
                fs::remove_dir_all(path).map_err(DepotError::io("remove", path))?;
            }
            Ok(())
        };
        self.walk(&mut copies, &mut folders)?;
        Ok(removed)
    }

    fn walk(
        &self,
        copies: &mut dyn FnMut(&GroupName, Digest, &Path) -> Result<(), DepotError>,
        folders: &mut dyn FnMut(&str, &Path) -> Result<(), DepotError>,
    ) -> Result<(), DepotError> {
        for (folder, name) in children(&self.folder)? {
            let Ok(group) = name.parse::<GroupName>() else { continue };
            for (path, name) in children(&folder)? {
                let copy = name.strip_suffix(ENTRY_SUFFIX).and_then(Digest::from_hex);
                match copy {
                    Some(digest) => copies(&group, digest, &path)?,
                    None if is_written(&name) && path.is_dir() => folders(&name, &path)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn path(&self, group: &GroupName, digest: &Digest) -> PathBuf {
        self.group_folder(group).join(format!("{digest}{ENTRY_SUFFIX}"))
    }
}

/// The name of the folder with the files of a revision as they are written for a release. Names in
/// them may stand for places in that release, so each pair has its own.
pub fn written_name(revision: &Digest, release: &Digest) -> String {
    let short = |digest: &Digest| digest.to_string().chars().take(SHORT_CHARS).collect::<String>();
    format!("{}-{}", short(revision), short(release))
}

fn is_written(name: &str) -> bool {
    let short =
        |part: &str| part.len() == SHORT_CHARS && part.bytes().all(|b| b.is_ascii_hexdigit());
    !name.starts_with(DRAFT_PREFIX)
        && name.split_once('-').is_some_and(|(a, b)| short(a) && short(b))
}

fn children(folder: &Path) -> Result<Vec<(PathBuf, String)>, DepotError> {
    let reading = |e| DepotError::io("read", folder)(e);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(reading(e)),
    };
    entries
        .map(|entry| {
            let entry = entry.map_err(reading)?;
            Ok((entry.path(), entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

const SHORT_CHARS: usize = 8;
