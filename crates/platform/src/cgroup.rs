//! A cgroup v2 of its own for everything that one launch starts.
//!
//! Invariant: only the subtree that was delegated to this daemon is touched: the one that the
//! settings name, the root when nobody manages it and we live in it, or our own cgroup when the
//! service manager marked it as delegated. Everything else falls back to /proc.

use std::io;
use std::path::{Path, PathBuf};

/// Where launches get their cgroups.
#[derive(Clone, Debug)]
pub struct CgroupRoot(PathBuf);

/// One cgroup, made for one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup(PathBuf);

impl CgroupRoot {
    /// The delegated subtree of this process, if there is one that can be written to.
    pub fn find() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let (path, is_root) = own_cgroup(&mounts, &own)?;
        if is_root || is_delegated(&path) { Self::at(path) } else { None }
    }

    /// `path`, if processes can be put into cgroups there.
    pub fn at(path: PathBuf) -> Option<Self> {
        let access = rustix::fs::Access::WRITE_OK;
        let writable = rustix::fs::access(path.join(PROCS), access).is_ok()
            && rustix::fs::access(&path, access).is_ok();
        writable.then_some(Self(path))
    }

    /// Makes the cgroup `baton-NAME`.
    pub fn make(&self, name: &str) -> io::Result<Cgroup> {
        let path = self.0.join(format!("{PREFIX}{name}"));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Cgroup(path)),
        }
    }

    /// The cgroups whose names begin with `baton-NAME`.
    pub fn begin_with(&self, name: &str) -> Vec<Cgroup> {
        let prefix = format!("{PREFIX}{name}");
        let Ok(entries) = std::fs::read_dir(&self.0) else { return Vec::new() };
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .map(|entry| Cgroup(entry.path()))
            .collect()
    }
}

impl Cgroup {
    /// The cgroup at `path`, as a run record remembers it; `None` if it is no cgroup of ours any
    /// more.
    pub fn from_record(path: &Path) -> Option<Self> {
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        (ours && path.join(PROCS).exists()).then(|| Self(path.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file that takes the pids of new members.
    pub fn procs_path(&self) -> PathBuf {
        self.0.join(PROCS)
    }

    /// Every process in it and below.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        let mut queue = vec![(self.0.clone(), 0)];
        while let Some((dir, depth)) = queue.pop() {
            let text = std::fs::read_to_string(dir.join(PROCS)).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    queue.push((entry.path(), depth + 1));
                }
            }
        }
        pids
    }

    /// Kills everything in it at once; `false` on kernels before 5.14, which cannot.
    pub fn kill(&self) -> bool {
        std::fs::write(self.0.join("cgroup.kill"), "1").is_ok()
    }

    /// Removes it with what the program made below; a cgroup that is still populated stays.
    pub fn remove(&self) {
        remove_below(&self.0, 0);
    }
}

fn remove_below(dir: &Path, depth: usize) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path(), depth + 1);
        }
    }
    if let Err(error) = std::fs::remove_dir(dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, cgroup = %dir.display(), "cannot remove a cgroup yet");
    }
}

/// The folder of our own cgroup v2 and whether it is the root of the hierarchy.
fn own_cgroup(mounts: &str, own: &str) -> Option<(PathBuf, bool)> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = before.split(' ');
        let (root, mount) = (fields.nth(3)?, fields.next()?);
        let below = if root == "/" { path } else { path.strip_prefix(root)? };
        let is_root = below.is_empty() || below == "/";
        Some((Path::new(mount).join(below.trim_start_matches('/')), is_root))
    })
}

/// systemd marks what it delegates, see "Control Group APIs and Delegation".
fn is_delegated(path: &Path) -> bool {
    ["trusted.delegate", "user.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(path, *name, &mut value).is_ok_and(|length| &value[..length] == b"1")
    })
}

const PREFIX: &str = "baton-";
const PROCS: &str = "cgroup.procs";
/// A program that nests its cgroups deeper than this is looked for in /proc.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cgroup_is_found_in_both_layouts() {
        let check = |mounts: &str, own: &str, want: Option<(&str, bool)>| {
            let want = want.map(|(path, is_root)| (PathBuf::from(path), is_root));
            assert_eq!(own_cgroup(mounts, own), want, "{mounts} {own}");
        };
        let unified = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let hybrid = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let inner = "35 24 0:30 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let unit = "0::/system.slice/baton.service\n";
        check(unified, unit, Some(("/sys/fs/cgroup/system.slice/baton.service", false)));
        check(hybrid, "9:cpu:/x\n0::/\n", Some(("/sys/fs/cgroup/unified/", true)));
        check(inner, "0::/a/b\n", Some(("/sys/fs/cgroup/b", false)));
        check(inner, "0::/c\n", None);
        check(unified, "0::/../x\n", None);
        check(unified, "9:cpu:/x\n", None);
        check("", unit, None);
    }
}
