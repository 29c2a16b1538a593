//! What a node is given at its start: who it is, and what the shell found on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use baton_types::service::ServiceSettings;
use baton_types::timing::RingTiming;
use baton_types::{BootNonce, Digest, GroupName, NodeId, NodeName, Text};
use baton_wire::Versions;

use crate::event::{Manifests, Revisions};

/// Everything that a node starts from.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Identity, kept in the data directory.
    pub node: NodeId,
    /// Name.
    pub name: NodeName,
    /// The address that others shall use.
    pub addr: SocketAddr,
    /// The program's version.
    pub version: Text,
    /// What it speaks.
    pub versions: Versions,
    /// This start of the daemon, random.
    pub nonce: BootNonce,
    /// This start of the machine, from the kernel.
    pub machine_boot: String,
    /// Ring and ledger timings.
    pub timing: RingTiming,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Whether join addresses are configured: a ring of one is then only found after they were
    /// tried.
    pub has_seeds: bool,
    /// The services of the configuration and those loaded at run time.
    pub services: Vec<ServiceSettings>,
    /// The files that [`crate::Effect::Write`] left, by name.
    pub files: BTreeMap<String, FoundFile>,
    /// Manifests of the releases in the store.
    pub manifests: Manifests,
    /// Configuration revisions that lie on this machine.
    pub revisions: Revisions,
    /// Releases that lie unpacked.
    pub unpacked: BTreeSet<Digest>,
    /// Programs that ran before this start of the daemon and still run.
    pub adopted: BTreeMap<GroupName, Adopted>,
    /// Random, another one at every start.
    pub seed: u64,
}

/// A file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundFile {
    /// Its content, checksum verified.
    Content(Vec<u8>),
    /// It failed its checksum and was moved aside.
    Damaged,
}

/// A program that outlived the daemon that had started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Its process.
    pub pid: u32,
    /// The key of the target that it was started from, or the digest of its release alone.
    pub digest: Digest,
}
