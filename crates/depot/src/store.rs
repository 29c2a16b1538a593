//! A node's own copies of releases.
//!
//! Invariant: `archives/DIGEST.tar.zst` is there only after signature, size, digest and content were
//! verified, beside the signed entry that says so; `unpacked/NAME-VERSION-DIGEST8` is there only
//! complete and durable. A crash at any point leaves drafts, which the next `open` removes. What is
//! there needs no depot, so a rollback works without one.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use baton_types::manifest::Manifest;
use baton_types::{Digest, Release};

use crate::archive::{Nowhere, read_archive, read_manifest};
use crate::depot::{ARCHIVE_SUFFIX, Depot, ENTRY_SUFFIX};
use crate::digest::{Hashing, digest_of_file};
use crate::durable::{self, DRAFT_PREFIX, Draft};
use crate::entry::ReleaseEntry;
use crate::error::DepotError;
use crate::keys::TrustedKeys;
use crate::limits::{ARCHIVE_LIMITS, COPY_BUFFER_BYTES, ENTRY_MAX_BYTES};
use crate::unpack::Unpacker;

/// The releases that one node holds.
#[derive(Debug)]
pub struct ReleaseStore {
    archives: PathBuf,
    unpacked: PathBuf,
    /// Shared by all stores of this folder; whoever gets it alone may remove drafts.
    _lock: File,
}

impl ReleaseStore {
    /// Opens, or makes, the store in `folder` and removes what a crash left.
    pub fn open(folder: &Path) -> Result<Self, DepotError> {
        let (archives, unpacked) = (folder.join("archives"), folder.join("unpacked"));
        durable::create_folder(&archives)?;
        durable::create_folder(&unpacked)?;
        let lock_path = folder.join("lock");
        let failed = |e| DepotError::io("lock", &lock_path)(e);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                remove_drafts(&archives)?;
                remove_drafts(&unpacked)?;
            }
            // Somebody else works here: their drafts are alive.
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        lock.lock_shared().map_err(failed)?;
        Ok(Self { archives, unpacked, _lock: lock })
    }

    /// Makes sure that a verified copy of `release` is here and returns its manifest. Nothing is
    /// asked of the depot when the copy is here already and verifies.
    ///
    /// # Errors
    ///
    /// The depot cannot be reached, the disk is full, or something does not verify; nothing is kept.
    pub fn fetch(
        &self,
        depot: &Depot,
        trusted: &TrustedKeys,
        release: &Release,
    ) -> Result<Manifest, DepotError> {
        if let Some(manifest) = self.verified(trusted, release)? {
            return Ok(manifest);
        }
        let sealed = depot.entry_sealed(&release.id)?;
        let entry = ReleaseEntry::open(&sealed, trusted, &release.id)?;
        if entry.sha256 != release.digest {
            return Err(digest_error(release, entry.sha256));
        }
        let mut draft = Draft::new(&self.archives)?;
        self.download(depot, &entry, draft.file())?;
        let path = draft.path().to_owned();
        draft.file().seek(SeekFrom::Start(0)).map_err(DepotError::io("read", &path))?;
        // Read to its last byte now, while the old release still serves undisturbed.
        let id = Some(&release.id);
        let (manifest, _) =
            read_archive(draft.file(), entry.size, ARCHIVE_LIMITS, id, &mut Nowhere)
                .map_err(|e| e.of(&release.to_string(), &path))?;
        durable::write(&self.entry_path(&release.digest), &sealed)?;
        draft.keep(&self.archive_path(&release.digest))?;
        Ok(manifest)
    }

    /// Unpacks a fetched release and returns its folder; does nothing when it is there.
    ///
    /// # Errors
    ///
    /// It was not fetched, its archive was changed since, or the disk is full; nothing is left.
    pub fn unpack(&self, digest: &Digest) -> Result<PathBuf, DepotError> {
        if let Some(path) = self.path(digest) {
            return Ok(path);
        }
        let archive = self.archive_path(digest);
        let reading = |e| DepotError::io("read", &archive)(e);
        let mut file = self.open_archive(digest)?;
        let size = file.metadata().map_err(reading)?.len();
        let shown = digest.to_string();
        // The same open file is digested and then unpacked, so nobody can swap it in between.
        let found = digest_of_file(&mut file).map_err(reading)?;
        if found != *digest {
            return Err(DepotError::Digest { release: shown, found, expected: *digest });
        }
        file.seek(SeekFrom::Start(0)).map_err(reading)?;
        let draft = tempfile::Builder::new()
            .prefix(DRAFT_PREFIX)
            .tempdir_in(&self.unpacked)
            .map_err(DepotError::io("create a folder in", &self.unpacked))?;
        let writing = |e| DepotError::io("unpack into", draft.path())(e);
        let mut unpacker = Unpacker::new(draft.path()).map_err(writing)?;
        let (manifest, tree) = read_archive(&file, size, ARCHIVE_LIMITS, None, &mut unpacker)
            .map_err(|e| e.of(&shown, &archive))?;
        unpacker.sync(&tree).map_err(writing)?;
        let target = self.unpacked.join(folder_name(&manifest, digest));
        match fs::rename(draft.path(), &target) {
            Ok(()) => durable::sync_parent(&target)?,
            // Another thread was faster with the same content.
            Err(_) if target.is_dir() => {}
            Err(e) => return Err(DepotError::io("rename to", &target)(e)),
        }
        Ok(target)
    }

    /// What a fetched release says of itself.
    ///
    /// # Errors
    ///
    /// It was not fetched, or its archive is damaged.
    pub fn manifest(&self, digest: &Digest) -> Result<Manifest, DepotError> {
        let path = self.archive_path(digest);
        let file = self.open_archive(digest)?;
        let size = file.metadata().map_err(DepotError::io("read", &path))?.len();
        read_manifest(file, size, ARCHIVE_LIMITS).map_err(|e| e.of(&digest.to_string(), &path))
    }

    /// The folder of an unpacked release.
    pub fn path(&self, digest: &Digest) -> Option<PathBuf> {
        let suffix = folder_suffix(digest);
        let entries = fs::read_dir(&self.unpacked).ok()?;
        entries
            .filter_map(Result::ok)
            .find(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.ends_with(&suffix) && !name.starts_with(DRAFT_PREFIX)
            })
            .map(|entry| entry.path())
    }

    /// Removes every release that is not kept and returns the names of what was removed. The
    /// caller keeps what runs, the baseline, the last target and what is being fetched: `is_kept`
    /// is asked right before each removal, by the first hexadecimal digits of the digest (eight or
    /// all of them).
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the rest is tried again next time.
    pub fn collect(&self, is_kept: &dyn Fn(&str) -> bool) -> Result<Vec<String>, DepotError> {
        let mut removed = Vec::new();
        for (path, name) in children(&self.unpacked)? {
            if name.starts_with(DRAFT_PREFIX) || name.rsplit('-').next().is_some_and(is_kept) {
                continue;
            }
            // Out of sight first: a folder that is half removed must not look complete.
            let draft = self.unpacked.join(format!("{DRAFT_PREFIX}{name}"));
            fs::rename(&path, &draft).map_err(DepotError::io("remove", &path))?;
            fs::remove_dir_all(&draft).map_err(DepotError::io("remove", &draft))?;
            removed.push(name);
        }
        for (path, name) in children(&self.archives)? {
            if name.starts_with(DRAFT_PREFIX) || name.split('.').next().is_some_and(is_kept) {
                continue;
            }
            fs::remove_file(&path).map_err(DepotError::io("remove", &path))?;
            if name.ends_with(ARCHIVE_SUFFIX) {
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// The manifest of the copy that is here, if it is one that `trusted` vouches for. A damaged copy
    /// counts as none: the depot may have a good one.
    fn verified(
        &self,
        trusted: &TrustedKeys,
        release: &Release,
    ) -> Result<Option<Manifest>, DepotError> {
        let path = self.archive_path(&release.digest);
        let Some(sealed) = durable::read(&self.entry_path(&release.digest), ENTRY_MAX_BYTES)?
        else {
            return Ok(None);
        };
        let entry = ReleaseEntry::open(&sealed, trusted, &release.id);
        if !entry.is_ok_and(|entry| entry.sha256 == release.digest) || !path.is_file() {
            return Ok(None);
        }
        let mut file = self.open_archive(&release.digest)?;
        let digest = digest_of_file(&mut file).map_err(DepotError::io("read", &path))?;
        if digest != release.digest {
            return Ok(None);
        }
        self.manifest(&release.digest).map(Some)
    }

    fn download(
        &self,
        depot: &Depot,
        entry: &ReleaseEntry,
        file: &mut File,
    ) -> Result<(), DepotError> {
        let release = entry.release();
        // One byte more than signed tells a longer archive from one of the right size.
        let mut source = depot.open_archive(&release)?.take(entry.size + 1);
        let mut output = Hashing::new(file);
        let mut buffer = vec![0; COPY_BUFFER_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => output
                    .write_all(&buffer[..count])
                    .map_err(DepotError::io("write a release into", &self.archives))?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(depot.broken_archive(&release.digest, e)),
            }
        }
        let (digest, size) = output.finish();
        if size != entry.size {
            let found = match size > entry.size {
                true => "more".to_owned(),
                false => format!("{size} bytes"),
            };
            let release = release.to_string();
            return Err(DepotError::Size { release, found, expected: entry.size });
        }
        if digest != entry.sha256 {
            return Err(digest_error(&release, digest));
        }
        Ok(())
    }

    fn open_archive(&self, digest: &Digest) -> Result<File, DepotError> {
        let path = self.archive_path(digest);
        match File::open(&path) {
            Ok(file) => Ok(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(DepotError::NotFetched { digest: *digest })
            }
            Err(e) => Err(DepotError::io("read", &path)(e)),
        }
    }

    fn archive_path(&self, digest: &Digest) -> PathBuf {
        self.archives.join(format!("{digest}{ARCHIVE_SUFFIX}"))
    }

    fn entry_path(&self, digest: &Digest) -> PathBuf {
        self.archives.join(format!("{digest}{ENTRY_SUFFIX}"))
    }
}

fn digest_error(release: &Release, found: Digest) -> DepotError {
    DepotError::Digest { release: release.to_string(), found, expected: release.digest }
}

fn folder_name(manifest: &Manifest, digest: &Digest) -> String {
    format!("{}-{}{}", manifest.id.name, manifest.id.version, folder_suffix(digest))
}

fn folder_suffix(digest: &Digest) -> String {
    let digits = digest.to_string();
    format!("-{}", &digits[..8])
}

fn children(folder: &Path) -> Result<Vec<(PathBuf, String)>, DepotError> {
    let reading = |e| DepotError::io("read", folder)(e);
    fs::read_dir(folder)
        .map_err(reading)?
        .map(|entry| {
            let entry = entry.map_err(reading)?;
            Ok((entry.path(), entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

fn remove_drafts(folder: &Path) -> Result<(), DepotError> {
    for (path, name) in children(folder)? {
        if !name.starts_with(DRAFT_PREFIX) {
            continue;
        }
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(DepotError::io("remove", &path))?;
    }
    Ok(())
}
