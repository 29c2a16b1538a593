//! The disks of machines: a Debian root is made once for the target directory, and every machine gets
//! a copy.
//!
//! Invariant: a copy carries the process id of the test that owns it. Copies of a test that was
//! itself killed are removed by the next one, once that process is gone.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::cli::target_dir;
use crate::{leftovers, shell};

/// What a root holds besides the smallest Debian.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// Its folder; the number rises when the packages change.
    name: &'static str,
    packages: &'static str,
    /// Units that must not start by themselves.
    masked: &'static [&'static str],
}

/// systemd and nothing more.
pub const PLAIN: Base =
    Base { name: "bookworm-1", packages: "systemd,systemd-sysv,dbus", masked: &[] };
/// With a Redis that starts only as somebody's service.
pub const REDIS: Base = Base {
    name: "bookworm-redis-1",
    packages: "systemd,systemd-sysv,dbus,redis-server,redis-tools",
    masked: &["redis-server.service"],
};

/// A fresh root for the machine with this name.
pub fn copy_for(name: &str, base: &Base) -> PathBuf {
    let folder = folder();
    let base = made(base, &folder);
    let root = folder.join(name);
    shell::run(&["cp", "-a", "--reflink=auto", &shown(&base), &shown(&root)]);
    fs::write(root.join("etc/hostname"), format!("{name}\n")).expect("a host name");
    root
}

/// Removes a copy and what lies beside it.
pub fn remove(root: &Path) {
    // What a machine of its own left on its disk is no reason to fail.
    if let Err(fault) = shell::try_run(&["rm", "-rf", "--one-file-system", &shown(root)]) {
        println!("{fault}");
    }
    fs::remove_file(root.with_extension("console")).ok();
}

/// The root that others are copies of; made at the first use.
fn made(base: &Base, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder for machines");
    // Two tests that start at once make it once.
    let lock = fs::File::create(folder.join("lock")).expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    remove_leftovers(folder);
    let root = folder.join(base.name);
    if !root.is_dir() {
        let draft = folder.join("draft");
        remove(&draft);
        let include = format!("--include={}", base.packages);
        let words = ["debootstrap", "--variant=minbase", &include, SUITE, &shown(&draft)];
        shell::run(&words);
        shell::run(&["rm", "-rf", &shown(&draft.join("var/cache/apt/archives"))]);
        // Each copy is a machine of its own.
        fs::write(draft.join("etc/machine-id"), "").expect("no machine id");
        for unit in base.masked {
            let link = draft.join("etc/systemd/system").join(unit);
            std::os::unix::fs::symlink("/dev/null", link).expect("a masked unit");
        }
        fs::rename(&draft, &root).expect("the root in its place");
    }
    root
}

fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner =
            name.strip_prefix("baton-").and_then(|rest| rest.split('-').next()?.parse().ok());
        if entry.path().is_dir() && owner.is_some_and(|owner: i32| !leftovers::exists(owner)) {
            remove(&entry.path());
        }
    }
}

/// Beside the tests' own programs, so that `cargo clean` takes it.
fn folder() -> PathBuf {
    target_dir().join("machines")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

const SUITE: &str = "bookworm";
