//! Durable files on a disk without room.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_platform::DurableFiles;

/// A file system of a few pages, unmounted when dropped.
struct TinyDisk(PathBuf);

impl TinyDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays", self.0.display());
    }
}

#[test]
fn a_full_disk_keeps_the_old_file_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = TinyDisk::mount(dir.path()) else {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    };
    {
        let files = DurableFiles::open(disk.0.join("data")).unwrap();
        files.write("state", 1, b"old").unwrap();
        let error = files.write("state", 1, &[7; 100_000]).expect_err("no room");
        assert!(error.is_full(), "{error}");
        assert_eq!(error.operation(), "write");
        assert!(error.to_string().contains("state.new~"), "{error}");
        assert_eq!(files.read("state", 1, 100).unwrap(), Some(b"old".to_vec()));
        // The half-written file gave its room back.
        files.write("state", 1, &[8; 20_000]).unwrap();
        assert!(files.names(".new~").unwrap().is_empty());
    }
}
