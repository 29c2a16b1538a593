//! What can go wrong with a depot, and whose fault it is.
//!
//! Invariant: `is_environment` tells faults that pass by themselves (a depot that cannot be reached,
//! a full disk) from refusals, which the same bytes will meet again. No variant leaves anything half
//! done.

use std::io;
use std::path::{Path, PathBuf};

use baton_types::{Digest, ReleaseId};

use crate::archive_fault::ArchiveFault;
use crate::faults::Faults;
use crate::limits::LOCK_WAIT;

/// A fault of a depot or of a node's copy of its releases.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// A file or folder of this machine could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, …
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No answer, or none that helps, from an `https://` depot.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// Why there is no answer.
        reason: String,
    },
    /// The depot's folder or its `depot.json` is not there: not yet made, or not mounted.
    #[error(
        "there is no depot at {url}: is it mounted? A new one is made by `baton depot init {url}`"
    )]
    NoDepot {
        /// Where it was looked for.
        url: String,
    },
    /// The depot has no channel index yet.
    #[error("nothing was promoted in the depot {url} yet")]
    NothingPromoted {
        /// Which depot.
        url: String,
    },
    /// Another operator holds the depot's lock for too long.
    #[error(
        "{} is locked by another command for more than {} s", path.display(), LOCK_WAIT.as_secs()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A depot that is there already.
    #[error("{url} is a depot already, with the id {id}")]
    Exists {
        /// Which depot.
        url: String,
        /// Its id.
        id: String,
    },
    /// A folder with something else in it.
    #[error("{} is not empty: a depot is made in a new or an empty folder", path.display())]
    NotEmpty {
        /// Which folder.
        path: PathBuf,
    },
    /// Writing to an `https://` depot.
    #[error(
        "{url} can only be read: publish, promote, demote and gc need the file:// URL of the \
         depot's folder"
    )]
    ReadOnly {
        /// Which depot.
        url: String,
    },
    /// A key file that is not one, or not a safe one.
    #[error("key file {}: {reason}", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// What was found and what is allowed.
        reason: String,
    },
    /// A signature that is missing, damaged, or by nobody who is trusted.
    #[error("{what}: {reason}")]
    Signature {
        /// What is signed.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Signed content that is not what it should be.
    #[error("{what}: {reason}")]
    Format {
        /// Which file.
        what: String,
        /// What was found and what is allowed.
        reason: String,
    },
    /// An index older than one that this node has seen.
    #[error(
        "the channel index of depot {depot} has the sequence {found}, lower than {seen} seen \
         before: somebody put back an old index"
    )]
    SequenceFell {
        /// Id of the depot.
        depot: String,
        /// The sequence that was read.
        found: u64,
        /// The highest one seen.
        seen: u64,
    },
    /// The depot at this URL is not the one that was there before.
    #[error(
        "the depot at {url} has the id {found}, expected {expected}: if it was replaced on \
         purpose, say so with `baton depot trust`"
    )]
    OtherDepot {
        /// Where.
        url: String,
        /// The id in the signed index.
        found: String,
        /// The id seen before.
        expected: String,
    },
    /// An archive that is not the one that was signed.
    #[error("release {release}: the archive has the SHA-256 {found}, expected {expected}")]
    Digest {
        /// Which release.
        release: String,
        /// Of the bytes that are there.
        found: Digest,
        /// As signed or asked for.
        expected: Digest,
    },
    /// An archive that is longer or shorter than signed.
    #[error("release {release}: the archive has {found}, expected {expected} bytes")]
    Size {
        /// Which release.
        release: String,
        /// What was found.
        found: String,
        /// As signed.
        expected: u64,
    },
    /// An archive whose content is refused.
    #[error("release {release}: {fault}")]
    Archive {
        /// Which release.
        release: String,
        /// What is wrong with it.
        fault: ArchiveFault,
    },
    /// A release directory or `release.toml` with faults.
    #[error("{0}")]
    Faults(Faults),
    /// The same name and version with other content.
    #[error(
        "release {id} is published already with the SHA-256 {published}; this content has {found}: \
         a release never changes, choose another version"
    )]
    Conflict {
        /// Which release.
        id: ReleaseId,
        /// As published.
        published: Digest,
        /// Of what should be published now.
        found: Digest,
    },
    /// A release that is not in the depot.
    #[error("release {id} is not in the depot {url}; there are: {present}")]
    UnknownRelease {
        /// Which release.
        id: ReleaseId,
        /// Which depot.
        url: String,
        /// Releases of that name, as far as they can be listed.
        present: String,
    },
    /// A configuration revision that is not in the depot, as far as these keys know it.
    #[error("{what} is not in the depot {url}, or is signed by none of the trusted keys: {keys}")]
    NoRevision {
        /// Which, of which group.
        what: String,
        /// Which depot.
        url: String,
        /// The files of the trusted keys.
        keys: String,
    },
    /// A release whose archive was collected, or lost.
    #[error("release {id}: its archive is no longer in the depot {url}; publish it again")]
    NoArchive {
        /// Which release.
        id: ReleaseId,
        /// Which depot.
        url: String,
    },
    /// Demotion of something that is not in the channel.
    #[error("release {id} is not in the channel {channel}; there are: {present}")]
    NotInChannel {
        /// Which release.
        id: ReleaseId,
        /// Which channel.
        channel: String,
        /// What is there.
        present: String,
    },
    /// More entries than an index may have.
    #[error("the channel index has {found} entries: at most {allowed} are allowed, demote some")]
    IndexFull {
        /// Entries with the new one.
        found: usize,
        /// The limit.
        allowed: usize,
    },
    /// A release that this node has no copy of.
    #[error("there is no copy of the release with the SHA-256 {digest} on this node")]
    NotFetched {
        /// Which release.
        digest: Digest,
    },
}

impl DepotError {
    /// Whether the fault lies with the surroundings and may pass by itself, so that trying again
    /// makes sense: a depot that cannot be reached, no space, an I/O error. Everything else is a
    /// refusal.
    pub fn is_environment(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::Unreachable { .. }
                | Self::NoDepot { .. }
                | Self::NothingPromoted { .. }
                | Self::Locked { .. }
                | Self::NoArchive { .. }
                | Self::NoRevision { .. }
                | Self::NotFetched { .. }
        )
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
