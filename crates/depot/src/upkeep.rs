//! Looking after a depot: list, verify, gc.
//!
//! Invariant: `gc` takes archives only, of releases that were demoted from their last channel, and
//! files that belong to nothing. Entries stay for ever, so a version never comes back as another one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_types::{Digest, Name, Release, ReleaseId, Version};
use serde::Serialize;

use crate::archive::{Nowhere, read_archive};
use crate::depot::{
    ARCHIVE_SUFFIX, ARCHIVES_PATH, DRAFTS_PATH, Depot, ENTRY_SUFFIX, RELEASES_PATH, archive_path,
};
use crate::digest::Hashing;
use crate::durable::DRAFT_PREFIX;
use crate::entry::ReleaseEntry;
use crate::error::DepotError;
use crate::index::ChannelIndex;
use crate::keys::{SigningKey, TrustedKeys};
use crate::limits::{ARCHIVE_LIMITS, LISTED_RELEASES_MAX};
use crate::publish::WriteLock;

/// What a depot holds. Signatures are not looked at: `verify` does that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The depot's id.
    pub depot_id: String,
    /// Sequence of its channel index; 0 when nothing was promoted yet.
    pub sequence: u64,
    /// Ordered by name and version. Of an `https://` depot only what is in a channel.
    pub releases: Vec<ListedRelease>,
}

/// One release of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedRelease {
    /// The release.
    pub release: Release,
    /// Size of its archive.
    pub size: u64,
    /// Where it was promoted to.
    pub channels: Vec<ListedChannel>,
}

/// One channel that holds a listed release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedChannel {
    /// The channel's name.
    pub channel: Name,
    /// The index sequence at which the release was promoted.
    pub promotion: u64,
    /// Whether it is what the channel stands for now.
    pub head: bool,
}

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Releases that were looked at.
    pub releases: usize,
    /// Releases whose archive was collected.
    pub collected: usize,
    /// One sentence for each thing that is wrong; empty when all is well.
    pub faults: Vec<String>,
}

impl Depot {
    /// What is here.
    pub fn list(&self) -> Result<Listing, DepotError> {
        let identity = self.identity()?;
        let index = match self.index_sealed()? {
            Some(sealed) => ChannelIndex::peek(&sealed)?,
            None => ChannelIndex::new(&identity.id),
        };
        let mut releases = Vec::new();
        for id in self.release_ids(&index)? {
            let entry = ReleaseEntry::peek(&self.entry_sealed(&id)?, &id)?;
            let channels = channels_of(&index, &id);
            releases.push(ListedRelease { release: entry.release(), size: entry.size, channels });
        }
        Ok(Listing { depot_id: identity.id, sequence: index.sequence, releases })
    }

    /// Reads every signature and every archive as a node would.
    ///
    /// # Errors
    ///
    /// Only when the depot cannot be read at all; what is wrong in it is in the report.
    pub fn verify(&self, trusted: &TrustedKeys) -> Result<VerifyReport, DepotError> {
        let identity = self.identity()?;
        let mut report = VerifyReport::default();
        let mut index = ChannelIndex::new(&identity.id);
        if let Some(sealed) = self.index_sealed()? {
            match ChannelIndex::open(&sealed, trusted) {
                Ok(found) => index = found,
                Err(e) => report.faults.push(e.to_string()),
            }
        }
        if index.depot != identity.id {
            report.faults.push(format!(
                "the channel index is that of depot {}, expected {}",
                index.depot, identity.id
            ));
        }
        let ids = self.release_ids(&index)?;
        for (channel, entry) in index.entries() {
            let id = &entry.release.id;
            if !ids.contains(id) {
                report.faults.push(format!("release {id} is in {channel} but not in the depot"));
            }
        }
        for id in ids {
            report.releases += 1;
            match self.verify_release(trusted, &index, &id) {
                Ok(()) => {}
                Err(DepotError::NoArchive { .. }) if index.is_retired(&id) => report.collected += 1,
                Err(e) => report.faults.push(e.to_string()),
            }
        }
        Ok(report)
    }

    /// Removes the archives of releases that no channel holds any more, and files that belong to
    /// nothing; returns the names of what was removed. `key` tells a genuine index from a forged one,
    /// which would have good archives removed.
    pub fn gc(&self, key: &SigningKey) -> Result<Vec<String>, DepotError> {
        let root = self.folder()?;
        let identity = self.identity()?;
        let _lock = WriteLock::take(&root)?;
        let index = self.index_of_operator(&identity, key)?;
        let mut keep: BTreeSet<Digest> =
            index.entries().map(|(_, entry)| entry.release.digest).collect();
        for id in self.release_ids(&index)? {
            // What cannot be read is kept: somebody has to look at it first.
            let entry = ReleaseEntry::peek(&self.entry_sealed(&id)?, &id)?;
            if !index.is_retired(&id) {
                keep.insert(entry.sha256);
            }
        }
        let keep: BTreeSet<String> =
            keep.iter().map(|digest| format!("{digest}{ARCHIVE_SUFFIX}")).collect();
        let mut removed = Vec::new();
        for (path, name) in names(&root.join(ARCHIVES_PATH))? {
            if !keep.contains(&name) {
                fs::remove_file(&path).map_err(DepotError::io("remove", &path))?;
                removed.push(name);
            }
        }
        let mut folders = vec![root.clone(), root.join(DRAFTS_PATH)];
        folders.extend(names(&root.join(RELEASES_PATH))?.into_iter().map(|(path, _)| path));
        for folder in folders {
            for (path, name) in names(&folder)? {
                if name.starts_with(DRAFT_PREFIX) && is_old(&path) {
                    fs::remove_file(&path).map_err(DepotError::io("remove", &path))?;
                    removed.push(name);
                }
            }
        }
        Ok(removed)
    }

    fn verify_release(
        &self,
        trusted: &TrustedKeys,
        index: &ChannelIndex,
        id: &ReleaseId,
    ) -> Result<(), DepotError> {
        let entry = ReleaseEntry::open(&self.entry_sealed(id)?, trusted, id)?;
        let release = entry.release();
        let promoted = index.entries().find(|(_, e)| e.release.id == *id);
        if let Some((_, promoted)) = promoted
            && promoted.release.digest != release.digest
        {
            let (published, found) = (release.digest, promoted.release.digest);
            return Err(DepotError::Conflict { id: id.clone(), published, found });
        }
        // Read twice, first for the digest, rather than copied: a temporary folder may be memory.
        let open = || self.open_archive(&release).map(|source| source.take(entry.size + 1));
        let mut output = Hashing::new(io::sink());
        io::copy(&mut open()?, &mut output).map_err(|e| self.broken_archive(&release.digest, e))?;
        let (found, size) = output.finish();
        let expected = release.digest;
        if size != entry.size || found != expected {
            return Err(DepotError::Digest { release: id.to_string(), found, expected });
        }
        let path = PathBuf::from(archive_path(&expected));
        read_archive(open()?, size, ARCHIVE_LIMITS, Some(id), &mut Nowhere)
            .map_err(|e| e.of(&id.to_string(), &path))
            .map(|_| ())
    }

    /// The releases called `name`, for people; of an `https://` depot only what a reader can list.
    pub(crate) fn present(&self, name: &Name) -> String {
        let Some(root) = self.url().folder() else {
            return "what `baton depot list` shows".to_owned();
        };
        let files = names(&root.join(RELEASES_PATH).join(name.as_str())).unwrap_or_default();
        let mut found: Vec<String> = files
            .iter()
            .filter_map(|(_, file)| Some(format!("{name}/{}", file.strip_suffix(ENTRY_SUFFIX)?)))
            .collect();
        found.sort();
        found.truncate(PRESENT_SHOWN);
        if found.is_empty() { format!("none called {name}") } else { found.join(", ") }
    }

    /// Every release of a folder; of a web server, which lists nothing, every one in a channel.
    fn release_ids(&self, index: &ChannelIndex) -> Result<BTreeSet<ReleaseId>, DepotError> {
        let Some(root) = self.url().folder() else {
            return Ok(index.entries().map(|(_, entry)| entry.release.id).collect());
        };
        let mut ids = BTreeSet::new();
        for (folder, name) in names(&root.join(RELEASES_PATH))? {
            let Ok(name) = Name::new(name) else { continue };
            for (_, file) in names(&folder)? {
                let version = file.strip_suffix(ENTRY_SUFFIX).map(Version::new);
                let Some(Ok(version)) = version else { continue };
                ids.insert(ReleaseId { name: name.clone(), version });
            }
        }
        Ok(ids)
    }
}

fn channels_of(index: &ChannelIndex, id: &ReleaseId) -> Vec<ListedChannel> {
    let entries = index.entries().filter(|(_, entry)| entry.release.id == *id);
    entries
        .map(|(channel, entry)| {
            let head = index.channel(&id.name, channel).last() == Some(&entry);
            ListedChannel { channel: channel.clone(), promotion: entry.promotion, head }
        })
        .collect()
}

fn names(folder: &Path) -> Result<Vec<(PathBuf, String)>, DepotError> {
    let reading = |e| DepotError::io("read", folder)(e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        names.push((entry.path(), entry.file_name().to_string_lossy().into_owned()));
        // Never a part of them: `gc` would take what the missing ones need.
        if names.len() > LISTED_RELEASES_MAX {
            return Err(DepotError::Format {
                what: folder.display().to_string(),
                reason: format!("more than {LISTED_RELEASES_MAX} entries, the most allowed"),
            });
        }
    }
    Ok(names)
}

fn is_old(path: &Path) -> bool {
    let age = path.metadata().and_then(|m| m.modified()).ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > DRAFT_AGE_MAX)
}

/// More versions than this help nobody to find a typing error.
const PRESENT_SHOWN: usize = 32;

/// A draft that old belongs to a publication that was cut off.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
