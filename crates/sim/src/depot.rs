//! The virtual depot: releases with their behaviour, one channel, and who cannot reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_node::{ChannelContent, ChannelEntry, DepotFault};
use baton_types::manifest::Manifest;
use baton_types::{Digest, Name, Release, ReleaseId, Revision, Text, Version};

use crate::program::Behaviour;
use crate::settings::FIRST_RELEASE;

/// What the depot has of one group: the releases of one name, and their channel.
#[derive(Clone, Debug)]
pub struct Depot {
    name: Name,
    releases: BTreeMap<Digest, Stored>,
    channel: Vec<ChannelEntry>,
    sequence: u64,
    /// Hosts that cannot reach it.
    pub(crate) unreachable: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
struct Stored {
    release: Release,
    manifest: Manifest,
    behaviour: Behaviour,
    on: BTreeMap<usize, Behaviour>,
}

impl Depot {
    /// An empty one, for releases of that name.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            releases: BTreeMap::new(),
            channel: Vec::new(),
            sequence: 0,
            unreachable: BTreeSet::new(),
        }
    }

    /// Publishes a release that behaves so everywhere; a second time, only its behaviour changes.
    pub fn publish(&mut self, version: &str, behaviour: Behaviour) -> Release {
        let release = self.release(version);
        if let Some(stored) = self.releases.get_mut(&release.digest) {
            stored.behaviour = behaviour;
            stored.on.clear();
            return release;
        }
        let manifest = behaviour.manifest(release.id.clone());
        let stored = Stored { release: release.clone(), manifest, behaviour, on: BTreeMap::new() };
        self.releases.insert(release.digest, stored);
        release
    }

    /// On this host the program behaves differently.
    pub fn publish_on(&mut self, version: &str, host: usize, behaviour: Behaviour) {
        let release = self.release(version);
        if let Some(stored) = self.releases.get_mut(&release.digest) {
            stored.on.insert(host, behaviour);
        }
    }

    /// Moves a release to the head of the channel.
    pub fn promote(&mut self, version: &str, again: bool) {
        let release = self.release(version);
        self.sequence += 1;
        self.channel.retain(|entry| entry.release.digest != release.digest);
        self.channel.push(ChannelEntry { release, promotion: self.sequence, again });
    }

    /// Takes a release out of the channel.
    pub fn demote(&mut self, version: &str) {
        let release = self.release(version);
        self.sequence += 1;
        self.channel.retain(|entry| entry.release.digest != release.digest);
    }

    /// What the channel holds, as `host` reads it.
    pub(crate) fn read(&self, host: usize) -> Result<ChannelContent, DepotFault> {
        self.reach(host)?;
        Ok(ChannelContent {
            depot_id: "depot".to_owned(),
            sequence: self.sequence,
            entries: self.channel.clone(),
            releases: self.releases.values().map(|stored| stored.release.clone()).collect(),
        })
    }

    /// A release's manifest, as `host` fetches it.
    pub(crate) fn fetch(&self, host: usize, digest: &Digest) -> Result<Manifest, DepotFault> {
        self.reach(host)?;
        match self.releases.get(digest) {
            Some(stored) => Ok(stored.manifest.clone()),
            None => Err(fault(false, "the depot has no such release")),
        }
    }

    /// How a program of that release behaves on `host`.
    pub(crate) fn behaviour(&self, host: usize, digest: &Digest) -> Option<&Behaviour> {
        let stored = self.releases.get(digest)?;
        Some(stored.on.get(&host).unwrap_or(&stored.behaviour))
    }

    /// What people call a release.
    pub(crate) fn version(&self, digest: &Digest) -> String {
        match self.releases.get(digest) {
            // There is one name in most worlds.
            Some(stored) if self.name.as_str() == FIRST_RELEASE => {
                stored.release.id.version.to_string()
            }
            Some(stored) => stored.release.id.to_string(),
            None => format!("{digest:?}"),
        }
    }

    /// The head of the channel.
    pub fn head(&self) -> Option<&Release> {
        self.channel.last().map(|entry| &entry.release)
    }

    /// A configuration revision, as `host` fetches it: any digest stands for one.
    pub(crate) fn fetch_revision(
        &self,
        host: usize,
        digest: Digest,
    ) -> Result<Arc<Revision>, DepotFault> {
        self.reach(host)?;
        Ok(Arc::new(revision(digest)))
    }

    /// The release of that version.
    fn release(&self, version: &str) -> Release {
        named(&self.name, version)
    }

    fn reach(&self, host: usize) -> Result<(), DepotFault> {
        match self.unreachable.contains(&host) {
            true => Err(fault(true, "the depot does not answer")),
            false => Ok(()),
        }
    }
}

/// The configuration revision of that digest.
pub(crate) fn revision(digest: Digest) -> Revision {
    let env = [("REVISION".to_owned(), digest.to_string())].into();
    Revision { env, ..Revision::default() }
}

/// A fault of the depot.
pub(crate) fn fault(environment: bool, text: &str) -> DepotFault {
    DepotFault { environment, text: Text::new(text) }
}

/// The first group's release of that version.
pub fn release(version: &str) -> Release {
    named(&Name::new(FIRST_RELEASE).expect("a name"), version)
}

/// A release: its digest follows from its name and version.
fn named(name: &Name, version: &str) -> Release {
    let version = Version::new(version).expect("a version");
    let mut digest = [0x5a_u8; 32];
    let mixed = match name.as_str() {
        FIRST_RELEASE => version.to_string(),
        name => format!("{name}/{version}"),
    };
    for (at, byte) in mixed.bytes().enumerate() {
        digest[at % 32] = digest[at % 32].rotate_left(3) ^ byte;
    }
    Release { id: ReleaseId { name: name.clone(), version }, digest: Digest(digest) }
}
