//! Depots: where releases and channels are stored, and a node's own copies of releases.
//!
//! Invariant: nothing is believed because of where it lies. Releases and channel index are signed,
//! a digest and a signature are checked before the first byte is unpacked, the index carries a
//! sequence that never falls, and whatever is refused leaves nothing behind.
//!
//! Blocking: the daemon calls it on threads that may block.

mod archive;
mod archive_fault;
mod depot;
mod digest;
mod durable;
mod entry;
mod error;
mod faults;
mod index;
mod keys;
pub mod limits;
pub mod manifest;
mod pack;
mod publish;
mod revision;
mod revision_store;
mod signed;
mod store;
mod transport;
mod tree;
mod unpack;
mod upkeep;
mod url;

#[cfg(test)]
mod tests;

pub use archive_fault::ArchiveFault;
pub use depot::{ChannelRead, Depot, IndexFloor};
pub use error::DepotError;
pub use faults::{Fault, Faults};
pub use index::ChannelEntry;
pub use keys::{SigningKey, TrustedKeys, keygen};
pub use publish::{PublishOutcome, Published};
pub use revision::seal_revision;
pub use revision_store::{RevisionStore, written_name};
pub use store::ReleaseStore;
pub use upkeep::{ListedChannel, ListedRelease, Listing, VerifyReport};
pub use url::{DepotUrl, DepotUrlError};
