//! A depot as its readers see it.
//!
//! Invariant: a release or channel comes out only after its signature was verified with the caller's
//! own keys, an index never goes back behind what the caller has seen, and nothing is read without a
//! limit.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use baton_types::{Digest, Name, Release, ReleaseId, Text};
use serde::{Deserialize, Serialize};

use crate::entry::ReleaseEntry;
use crate::error::DepotError;
use crate::index::{ChannelEntry, ChannelIndex};
use crate::keys::TrustedKeys;
use crate::limits::{ENTRY_MAX_BYTES, IDENTITY_MAX_BYTES, INDEX_MAX_BYTES};
use crate::transport::{FolderTransport, HttpTransport, Transport};
use crate::url::DepotUrl;

/// Where releases and channels are stored. Opening one asks nothing of it: each reading does.
pub struct Depot {
    url: DepotUrl,
    transport: Box<dyn Transport>,
}

/// The highest index that a node has seen of a depot; kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFloor {
    /// The depot's id.
    pub depot_id: String,
    /// The index sequence.
    pub sequence: u64,
}

/// What a channel holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRead {
    /// The depot's id, as signed.
    pub depot_id: String,
    /// The index sequence, as signed; with the id the caller's next floor.
    pub sequence: u64,
    /// In the order of promotion; the head is last. Empty: nothing is in this channel.
    pub entries: Vec<ChannelEntry>,
}

/// `depot.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) id: String,
}

impl Depot {
    /// The depot at `url`, whether or not it can be reached now.
    pub fn open(url: &DepotUrl) -> Self {
        let transport: Box<dyn Transport> = match url {
            DepotUrl::File(root) => Box::new(FolderTransport { root: root.clone() }),
            DepotUrl::Https(base) => Box::new(HttpTransport::new(base, true)),
        };
        Self { url: url.clone(), transport }
    }

    /// A depot on a plain HTTP server, for tests of the transport.
    #[cfg(test)]
    pub(crate) fn open_plain_http(base: &str) -> Self {
        let transport = Box::new(HttpTransport::new(base, false));
        Self { url: DepotUrl::Https(base.to_owned()), transport }
    }

    /// Where it is.
    pub fn url(&self) -> &DepotUrl {
        &self.url
    }

    /// What `channel` holds of the releases called `name`.
    ///
    /// # Errors
    ///
    /// Nothing promoted yet, a signature by nobody in `trusted`, an index older than `floor`, or that
    /// of another depot.
    pub fn read_channel(
        &self,
        trusted: &TrustedKeys,
        floor: Option<&IndexFloor>,
        name: &Name,
        channel: &Name,
    ) -> Result<ChannelRead, DepotError> {
        let index = match self.index_sealed()? {
            Some(sealed) => ChannelIndex::open(&sealed, trusted)?,
            None => return Err(self.missing_index(floor)),
        };
        if let Some(floor) = floor {
            if floor.depot_id != index.depot {
                return Err(DepotError::OtherDepot {
                    url: self.url.to_string(),
                    found: index.depot,
                    expected: floor.depot_id.clone(),
                });
            }
            if index.sequence < floor.sequence {
                return Err(sequence_fell(floor, index.sequence));
            }
        }
        let entries = index.channel(name, channel);
        Ok(ChannelRead { depot_id: index.depot, sequence: index.sequence, entries })
    }

    /// The release called `id`, in a channel or not.
    ///
    /// # Errors
    ///
    /// It was never published, or nobody in `trusted` signed it.
    pub fn find(&self, trusted: &TrustedKeys, id: &ReleaseId) -> Result<Release, DepotError> {
        let sealed = self.entry_sealed(id)?;
        ReleaseEntry::open(&sealed, trusted, id).map(|entry| entry.release())
    }

    pub(crate) fn entry_sealed(&self, id: &ReleaseId) -> Result<Vec<u8>, DepotError> {
        match self.transport.read(&entry_path(id), ENTRY_MAX_BYTES)? {
            Some(sealed) => Ok(sealed),
            None => {
                // A depot that is not mounted has no release either, but that passes.
                self.identity()?;
                let (url, present) = (self.url.to_string(), self.present(&id.name));
                Err(DepotError::UnknownRelease { id: id.clone(), url, present })
            }
        }
    }

    /// A small file of the depot; `None` when it is not there.
    pub(crate) fn read(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DepotError> {
        self.transport.read(path, max_bytes)
    }

    pub(crate) fn index_sealed(&self) -> Result<Option<Vec<u8>>, DepotError> {
        self.transport.read(INDEX_PATH, INDEX_MAX_BYTES)
    }

    pub(crate) fn open_archive(&self, release: &Release) -> Result<Box<dyn Read>, DepotError> {
        self.transport.open(&archive_path(&release.digest))?.ok_or_else(|| DepotError::NoArchive {
            id: release.id.clone(),
            url: self.url.to_string(),
        })
    }

    /// The error for an archive that breaks off while it is read.
    pub(crate) fn broken_archive(&self, digest: &Digest, source: std::io::Error) -> DepotError {
        self.transport.broken(&archive_path(digest), source)
    }

    pub(crate) fn identity(&self) -> Result<Identity, DepotError> {
        let url = self.url.to_string();
        let Some(text) = self.transport.read(IDENTITY_PATH, IDENTITY_MAX_BYTES)? else {
            return Err(DepotError::NoDepot { url });
        };
        let fault =
            |reason: String| DepotError::Format { what: format!("{url}/{IDENTITY_PATH}"), reason };
        let identity: Identity = serde_json::from_slice(&text).map_err(|e| {
            let e = Text::new(&e.to_string());
            fault(format!("is not readable: {e}"))
        })?;
        if identity.format != DEPOT_FORMAT {
            let found = identity.format;
            return Err(fault(format!(
                "has the format {found}: this version reads {DEPOT_FORMAT}"
            )));
        }
        Ok(identity)
    }

    /// The folder, for those who write.
    pub(crate) fn folder(&self) -> Result<PathBuf, DepotError> {
        match self.url.folder() {
            Some(folder) => Ok(folder.to_owned()),
            None => Err(DepotError::ReadOnly { url: self.url.to_string() }),
        }
    }

    fn missing_index(&self, floor: Option<&IndexFloor>) -> DepotError {
        match (self.identity(), floor) {
            (Err(e), _) => e,
            (Ok(_), Some(floor)) if floor.sequence > 0 => sequence_fell(floor, 0),
            (Ok(_), _) => DepotError::NothingPromoted { url: self.url.to_string() },
        }
    }
}

impl fmt::Debug for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Depot({})", self.url)
    }
}

fn sequence_fell(floor: &IndexFloor, found: u64) -> DepotError {
    DepotError::SequenceFell { depot: floor.depot_id.clone(), found, seen: floor.sequence }
}

pub(crate) fn entry_path(id: &ReleaseId) -> String {
    format!("{RELEASES_PATH}/{}/{}{ENTRY_SUFFIX}", id.name, id.version)
}

pub(crate) fn archive_path(digest: &Digest) -> String {
    format!("{ARCHIVES_PATH}/{digest}{ARCHIVE_SUFFIX}")
}

pub(crate) const IDENTITY_PATH: &str = "depot.json";
pub(crate) const INDEX_PATH: &str = "index.signed";
pub(crate) const RELEASES_PATH: &str = "releases";
pub(crate) const ARCHIVES_PATH: &str = "archives";
pub(crate) const CONFIGS_PATH: &str = "configs";
pub(crate) const DRAFTS_PATH: &str = "drafts";
pub(crate) const ENTRY_SUFFIX: &str = ".signed";
pub(crate) const ARCHIVE_SUFFIX: &str = ".tar.zst";

/// Of the folder layout.
pub(crate) const DEPOT_FORMAT: u32 = 1;
