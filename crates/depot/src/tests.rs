//! Depot and store together, as operators and nodes use them.

mod bad_archives;
mod bad_depots;
mod concurrent;
mod revisions;
mod round_trip;
mod web;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_types::{Digest, Name, Release, ReleaseId};
use tempfile::TempDir;

use crate::depot::{archive_path, entry_path};
use crate::digest::digest_of;
use crate::entry::ReleaseEntry;
use crate::{Depot, DepotUrl, ReleaseStore, SigningKey, TrustedKeys, keygen};

/// A depot, an operator's key and a node's store, in a folder of their own.
struct World {
    folder: TempDir,
    depot: Depot,
    key: SigningKey,
    trusted: TrustedKeys,
    store: ReleaseStore,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, public) = keygen(&folder.path().join("operator")).expect("keys");
        let depot = Depot::open(&DepotUrl::File(folder.path().join("depot")));
        depot.init().expect("a depot");
        let store = ReleaseStore::open(&folder.path().join("node/releases")).expect("a store");
        Self {
            depot,
            key: SigningKey::load(&secret).expect("a key"),
            trusted: TrustedKeys::load(&[public]).expect("a key"),
            store,
            folder,
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// A release directory with a program.
    fn directory(&self, version: &str, content: &str) -> PathBuf {
        let dir = self.path(&format!("src-{version}"));
        fs::create_dir_all(dir.join("bin")).expect("folders");
        fs::write(dir.join("release.toml"), manifest(version)).expect("written");
        fs::write(dir.join("bin/server"), content).expect("written");
        set_mode(&dir.join("bin/server"), 0o755);
        dir
    }

    fn publish(&self, version: &str) -> Release {
        let dir = self.directory(version, &format!("#!/bin/sh\necho {version}\n"));
        self.depot.publish(&dir, &self.key).expect("published").release
    }

    /// Puts any bytes into the depot as a correctly signed release.
    fn plant(&self, version: &str, archive: &[u8]) -> Release {
        let root = self.path("depot");
        let draft = root.join("planted");
        fs::write(&draft, archive).expect("written");
        let digest = digest_of(&draft).expect("a digest");
        fs::rename(&draft, root.join(archive_path(&digest))).expect("renamed");
        self.plant_entry(&id(version), digest, archive.len() as u64)
    }

    fn plant_entry(&self, id: &ReleaseId, digest: Digest, size: u64) -> Release {
        let path = self.path("depot").join(entry_path(id));
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        let sealed = ReleaseEntry::new(id, digest, size).seal(&self.key).expect("sealed");
        fs::write(path, sealed).expect("written");
        Release { id: id.clone(), digest }
    }

    /// Everything that the node's store holds.
    fn held(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in ["archives", "unpacked"] {
            for entry in fs::read_dir(self.path("node/releases").join(folder)).expect("a folder") {
                let name = entry.expect("an entry").file_name();
                found.push(format!("{folder}/{}", name.to_string_lossy()));
            }
        }
        found.sort();
        found
    }
}

fn manifest(version: &str) -> String {
    format!("name = \"app\"\nversion = \"{version}\"\n[run]\ncommand = [\"bin/server\"]\n")
}

fn id(version: &str) -> ReleaseId {
    format!("app/{version}").parse().expect("a release")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}
