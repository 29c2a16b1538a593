//! The Redis example's releases in a depot of the test's own.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::depot::Depot;
use crate::shell;

/// A depot with the releases of `config/examples/redis`.
pub struct RedisReleases {
    dir: PathBuf,
    depot: Depot,
}

/// What a server of a release can be told apart by: its `maxmemory`, in bytes.
pub const MEMORY_1: &str = "268435456";
/// See [`MEMORY_1`].
pub const MEMORY_2: &str = "536870912";
/// The first release.
pub const RELEASE_1: &str = "7.0.15-1";
/// The second one.
pub const RELEASE_2: &str = "7.0.15-2";
/// The one whose server dies two seconds after it began to answer.
pub const RELEASE_BROKEN: &str = "7.0.15-broken";

impl RedisReleases {
    /// Assembles the releases below `dir`; no depot yet.
    pub fn assemble(dir: &Path) -> Self {
        let build = example("build").display().to_string();
        shell::run(&[&build, &dir.join("releases").display().to_string()]);
        Self { dir: dir.to_owned(), depot: Depot::at(dir) }
    }

    /// Makes a depot with a key and publishes the three releases.
    pub fn publish_all(&self) {
        self.depot.init();
        for release in ["release-1", "release-2", "release-broken"] {
            self.depot.publish(&self.release_dir(release));
        }
    }

    /// Publishes release 1 again under another version.
    pub fn publish_first_as(&self, version: &str) {
        let (first, copy) = (self.release_dir("release-1"), self.release_dir(version));
        shell::run(&["cp", "-R", &first.display().to_string(), &copy.display().to_string()]);
        let manifest = copy.join("release.toml");
        let text = fs::read_to_string(&manifest).expect("release.toml");
        let renamed = text.replace(&format!("{RELEASE_1:?}"), &format!("{version:?}"));
        assert_ne!(renamed, text, "release.toml of release 1 names {RELEASE_1}");
        fs::write(&manifest, renamed).expect("writing release.toml");
        self.depot.publish(&copy);
    }

    /// Puts a version at the head of the channel.
    pub fn promote(&self, version: &str) {
        self.depot.promote(&format!("redis/{version}"));
    }

    /// The example's service file as a host at this address needs it: its own address, the test's
    /// depot and short times.
    pub fn service(&self, addr: &str, hosts: usize) -> Table {
        let file = example("redis.toml");
        let text = fs::read_to_string(&file).expect("the example's redis.toml");
        let mut service: Table = text.parse().expect("the example's redis.toml is TOML");
        let text = |value: &str| Value::String(value.to_owned());
        service["depot"] = text(&self.depot.url());
        service["trusted_keys"] = self.depot.trusted_keys();
        service["expect"] = Value::Integer(hosts as i64);
        service.insert("poll".to_owned(), text("500ms"));
        service["env"]["ADDR"] = text(addr);
        service.insert("runner".to_owned(), text("process"));
        service["health"]["interval"] = text("500ms");
        service["health"]["timeout"] = text("1s");
        service["health"]["unhealthy_after"] = Value::Integer(2);
        service["update"]["start_timeout"] = text("60s");
        // Longer than the broken release lives after its first answer, and than two failed checks.
        service["update"]["monitor"] = text("4s");
        if !user_exists("redis") {
            service.remove("run_as");
        }
        service
    }

    /// One of the assembled releases.
    pub fn release_dir(&self, release: &str) -> PathBuf {
        self.dir.join("releases").join(release)
    }
}

/// A file of the Redis example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples/redis").join(name)
}

fn user_exists(name: &str) -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_assembles_and_says_what_the_tests_count_on() {
        let dir = tempfile::tempdir().unwrap();
        let releases = RedisReleases::assemble(dir.path());
        for (release, version) in
            [("release-1", RELEASE_1), ("release-2", RELEASE_2), ("release-broken", RELEASE_BROKEN)]
        {
            let home = releases.release_dir(release);
            let manifest: Table =
                fs::read_to_string(home.join("release.toml")).unwrap().parse().unwrap();
            assert_eq!(manifest["version"].as_str(), Some(version));
            for script in ["health", "ready", "verify", "redis.sh"] {
                assert!(home.join("bin").join(script).is_file(), "{release}: no bin/{script}");
            }
        }
        let service = releases.service("10.77.0.3", 6);
        assert_eq!(service["env"]["ADDR"].as_str(), Some("10.77.0.3"));
        assert_eq!(service["expect"].as_integer(), Some(6));
    }
}
