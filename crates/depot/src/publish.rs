//! A depot as its operators see it: init, publish, promote, demote.
//!
//! Invariant: what readers can see changes by one rename at a time, under the depot's lock, so two
//! operators at once lose nothing; and an operator's key continues only an index that it, or a peer it
//! was told of, signed.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Instant;

use baton_types::{Name, NodeId, Release, ReleaseId};
use rand::TryRng;
use rand::rngs::SysRng;
use serde::Serialize;

use crate::archive::{MANIFEST_NAME, Nowhere, read_archive};
use crate::depot::{
    ARCHIVES_PATH, DEPOT_FORMAT, DRAFTS_PATH, Depot, IDENTITY_PATH, INDEX_PATH, Identity,
    RELEASES_PATH, archive_path, entry_path,
};
use crate::digest::{Hashing, digest_of};
use crate::durable::{self, Draft};
use crate::entry::ReleaseEntry;
use crate::error::DepotError;
use crate::faults::{Fault, Faults};
use crate::index::ChannelIndex;
use crate::keys::SigningKey;
use crate::limits::{
    ARCHIVE_LIMITS, ARCHIVE_MAX_BYTES, INDEX_MAX_BYTES, LOCK_RETRY, LOCK_WAIT, MANIFEST_MAX_BYTES,
};
use crate::manifest::{self, Program};
use crate::pack::Contents;

/// What came of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The release.
    pub release: Release,
    /// Size of its archive.
    pub size: u64,
    /// Whether anything was written.
    pub outcome: PublishOutcome,
}

/// Whether a publication wrote anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishOutcome {
    /// The release is new in the depot.
    New,
    /// The same content was there already; nothing was written.
    Unchanged,
    /// The same release was there, but its archive was not: it is again.
    Restored,
}

impl Depot {
    /// Makes an empty depot and returns its id.
    ///
    /// # Errors
    ///
    /// An `https://` depot, one that is there already, or a folder with something else in it.
    pub fn init(&self) -> Result<String, DepotError> {
        let root = self.folder()?;
        self.check_absent()?;
        durable::create_folder(&root)?;
        let mut entries = fs::read_dir(&root).map_err(DepotError::io("read", &root))?;
        // These are there when an earlier init was cut off before its last step.
        let ours = [RELEASES_PATH, ARCHIVES_PATH, DRAFTS_PATH, LOCK_NAME, "lost+found"];
        if entries.any(|e| e.is_ok_and(|e| !ours.iter().any(|ours| e.file_name() == *ours))) {
            return Err(DepotError::NotEmpty { path: root });
        }
        let _lock = WriteLock::take(&root)?;
        self.check_absent()?;
        for folder in [RELEASES_PATH, ARCHIVES_PATH, DRAFTS_PATH] {
            durable::create_folder(&root.join(folder))?;
        }
        let id = NodeId::from_random(random_bits(&root)?).to_string();
        let identity = Identity { format: DEPOT_FORMAT, id: id.clone() };
        write_json(&root.join(IDENTITY_PATH), &identity)?;
        Ok(id)
    }

    /// Packs `dir`, signs it and adds it to the depot; no channel changes.
    ///
    /// # Errors
    ///
    /// Every fault of `dir` and its `release.toml` at once, or the same version with other content.
    pub fn publish(&self, dir: &Path, key: &SigningKey) -> Result<Published, DepotError> {
        let root = self.folder()?;
        self.identity()?;
        let (id, contents) = examine(dir)?;
        let mut draft = Draft::new(&root.join(DRAFTS_PATH))?;
        let mut output = Hashing::new(draft.file());
        contents.pack(dir, &mut output)?;
        let (sha256, size) = output.finish();
        check_archive(&mut draft, &id, size)?;
        let entry = ReleaseEntry::new(&id, sha256, size);
        let release = entry.release();

        let _lock = WriteLock::take(&root)?;
        let archive = root.join(archive_path(&sha256));
        let outcome = match self.published(&id, key)? {
            Some(there) if there.sha256 != sha256 => {
                let published = there.sha256;
                return Err(DepotError::Conflict { id, published, found: sha256 });
            }
            Some(_) if archive.is_file() && digest_of(&archive)? == sha256 => {
                PublishOutcome::Unchanged
            }
            Some(_) => PublishOutcome::Restored,
            None => PublishOutcome::New,
        };
        if outcome != PublishOutcome::Unchanged {
            draft.keep(&archive)?;
        }
        if outcome == PublishOutcome::New {
            let path = root.join(entry_path(&id));
            durable::create_folder(path.parent().unwrap_or(&root))?;
            // The entry comes last: whoever sees it finds the archive.
            durable::write(&path, &entry.seal(key)?)?;
        }
        Ok(Published { release, size, outcome })
    }

    /// Puts a published release at the head of `channel` and returns its promotion number. With
    /// `again` a group that rejected it may start it again.
    ///
    /// # Errors
    ///
    /// It was never published, its archive is missing or damaged, or the index is signed by somebody
    /// whom `key` does not accept.
    pub fn promote(
        &self,
        id: &ReleaseId,
        channel: &Name,
        key: &SigningKey,
        again: bool,
    ) -> Result<u64, DepotError> {
        let root = self.folder()?;
        self.identity()?;
        let release = self.find(key.accepts(), id)?;
        let archive = root.join(archive_path(&release.digest));
        let url = self.url().to_string();
        let present = || match archive.is_file() {
            true => Ok(()),
            false => Err(DepotError::NoArchive { id: id.clone(), url: url.clone() }),
        };
        present()?;
        let found = digest_of(&archive)?;
        if found != release.digest {
            let expected = release.digest;
            return Err(DepotError::Digest { release: id.to_string(), found, expected });
        }
        self.change_index(&root, key, |index| {
            // Again under the lock: it may have been collected while it was digested.
            present()?;
            index.promote(&release, channel, again)
        })
    }

    /// Takes a release out of `channel` and returns the new index sequence.
    ///
    /// # Errors
    ///
    /// It is not in the channel, or the index is signed by somebody whom `key` does not accept.
    pub fn demote(
        &self,
        id: &ReleaseId,
        channel: &Name,
        key: &SigningKey,
    ) -> Result<u64, DepotError> {
        let root = self.folder()?;
        self.change_index(&root, key, |index| index.demote(id, channel))
    }

    fn check_absent(&self) -> Result<(), DepotError> {
        match self.identity() {
            Err(DepotError::NoDepot { .. }) => Ok(()),
            Ok(Identity { id, .. }) => Err(DepotError::Exists { url: self.url().to_string(), id }),
            Err(e) => Err(e),
        }
    }

    fn change_index(
        &self,
        root: &Path,
        key: &SigningKey,
        change: impl FnOnce(&mut ChannelIndex) -> Result<u64, DepotError>,
    ) -> Result<u64, DepotError> {
        let identity = self.identity()?;
        let _lock = WriteLock::take(root)?;
        let mut index = self.index_of_operator(&identity, key)?;
        let number = change(&mut index)?;
        let sealed = index.seal(key)?;
        if sealed.len() as u64 > INDEX_MAX_BYTES {
            return Err(durable::too_large("the channel index", INDEX_MAX_BYTES));
        }
        durable::write(&root.join(INDEX_PATH), &sealed)?;
        Ok(number)
    }

    /// The index that `key` may continue.
    pub(crate) fn index_of_operator(
        &self,
        identity: &Identity,
        key: &SigningKey,
    ) -> Result<ChannelIndex, DepotError> {
        let index = match self.index_sealed()? {
            Some(sealed) => ChannelIndex::open(&sealed, key.accepts())?,
            None => ChannelIndex::new(&identity.id),
        };
        if index.depot != identity.id {
            return Err(DepotError::OtherDepot {
                url: self.url().to_string(),
                found: index.depot,
                expected: identity.id.clone(),
            });
        }
        Ok(index)
    }

    fn published(
        &self,
        id: &ReleaseId,
        key: &SigningKey,
    ) -> Result<Option<ReleaseEntry>, DepotError> {
        match self.entry_sealed(id) {
            Ok(sealed) => ReleaseEntry::open(&sealed, key.accepts(), id).map(Some),
            Err(DepotError::UnknownRelease { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// The depot's lock, held until it is dropped. The kernel frees it when its holder dies.
pub(crate) struct WriteLock {
    _file: File,
}

impl WriteLock {
    pub(crate) fn take(root: &Path) -> Result<Self, DepotError> {
        let path = root.join(LOCK_NAME);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(DepotError::io("open the lock", &path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if start.elapsed() > LOCK_WAIT => {
                    return Err(DepotError::Locked { path });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY),
                Err(TryLockError::Error(e)) => return Err(DepotError::io("lock", &path)(e)),
            }
        }
    }
}

/// Everything that can be said about `dir` before it is packed.
fn examine(dir: &Path) -> Result<(ReleaseId, Contents), DepotError> {
    let path = dir.join(MANIFEST_NAME);
    let shown = path.display().to_string();
    let whole = |message: &str| {
        DepotError::Faults(Faults::one(Fault {
            file: shown.clone(),
            at: None,
            message: message.to_owned(),
        }))
    };
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let text = match durable::read(&path, MANIFEST_MAX_BYTES)? {
        Some(text) if is_file => text,
        Some(_) => return Err(whole("is a link: expected the file itself")),
        None => return Err(whole("is missing: a release directory needs it")),
    };
    let text = String::from_utf8(text).map_err(|_| whole("is not UTF-8 text"))?;
    let (id, programs, mut faults) = match manifest::parse_with_programs(&shown, &text) {
        Ok((manifest, programs)) => (Some(manifest.id), programs, Vec::new()),
        Err(faults) => (None, Vec::new(), faults.as_slice().to_vec()),
    };
    let contents = Contents::read(dir, ARCHIVE_LIMITS, &mut faults)?;
    if faults.is_empty() {
        faults.extend(programs.iter().filter_map(|p| missing_program(p, &contents, &shown)));
    }
    match (Faults::of(faults), id) {
        (Some(faults), _) => Err(DepotError::Faults(faults)),
        (None, Some(id)) => Ok((id, contents)),
        (None, None) => Err(whole("is not a release manifest")),
    }
}

fn missing_program(program: &Program, contents: &Contents, file: &str) -> Option<Fault> {
    let word = &program.word;
    // Absolute programs are the machine's, and a word with a variable is known only there.
    if word.starts_with('/') || word.contains("${") {
        return None;
    }
    let reason = contents.is_executable(word).err()?;
    let message =
        format!("the program {word:?} {reason}: expected an executable file of the release");
    Some(Fault { file: file.to_owned(), at: Some(program.at), message })
}

/// Reads the new archive as every node will, so that nothing is published that nobody can unpack.
fn check_archive(draft: &mut Draft, id: &ReleaseId, size: u64) -> Result<(), DepotError> {
    let release = id.to_string();
    if size > ARCHIVE_MAX_BYTES {
        let found = format!("{size} bytes");
        return Err(DepotError::Size { release, found, expected: ARCHIVE_MAX_BYTES });
    }
    let path = draft.path().to_owned();
    draft.file().seek(SeekFrom::Start(0)).map_err(DepotError::io("read", &path))?;
    read_archive(draft.file(), size, ARCHIVE_LIMITS, Some(id), &mut Nowhere)
        .map_err(|e| e.of(&release, &path))
        .map(|_| ())
}

fn random_bits(root: &Path) -> Result<u128, DepotError> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).map_err(|e| {
        DepotError::io("make an id for", root)(std::io::Error::other(e.to_string()))
    })?;
    Ok(u128::from_be_bytes(bytes))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), DepotError> {
    let text = serde_json::to_string_pretty(value).map_err(|e| DepotError::Format {
        what: path.display().to_string(),
        reason: e.to_string(),
    })?;
    durable::write(path, format!("{text}\n").as_bytes())
}

const LOCK_NAME: &str = "lock";
