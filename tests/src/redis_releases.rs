//! The Redis example's releases in a depot of the test's own.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::cli::baton;
use crate::shell;

/// A depot with the releases of `config/examples/redis`.
pub struct RedisReleases {
    dir: PathBuf,
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
        let dir = dir.to_owned();
        let build = example("build").display().to_string();
        shell::run(&[&build, &dir.join("releases").display().to_string()]);
        Self { dir }
    }

    /// Makes a depot with a key and publishes the three releases.
    pub fn publish_all(&self) {
        baton(&["depot", "init", &self.depot()]);
        baton(&["depot", "keygen", "--out", &self.path("depot")]);
        for release in ["release-1", "release-2", "release-broken"] {
            self.publish(release);
        }
    }

    /// Publishes release 1 again under another version.
    pub fn publish_first_as(&self, version: &str) {
        let copy = self.path(&format!("releases/{version}"));
        shell::run(&["cp", "-R", &self.path("releases/release-1"), &copy]);
        let manifest = format!("{copy}/release.toml");
        let text = fs::read_to_string(&manifest).expect("release.toml");
        let renamed = text.replace(&format!("{RELEASE_1:?}"), &format!("{version:?}"));
        assert_ne!(renamed, text, "release.toml of release 1 names {RELEASE_1}");
        fs::write(&manifest, renamed).expect("writing release.toml");
        self.publish(version);
    }

    /// Puts a version at the head of the channel.
    pub fn promote(&self, version: &str) {
        let (release, depot, key) =
            (format!("redis/{version}"), self.depot(), self.path("depot.key"));
        #[rustfmt::skip]
        baton(&["depot", "promote", &release, "--channel", "stable", "--depot", &depot, "--key", &key]);
    }

    /// The example's service file as a host at this address needs it: its own address, the test's
    /// depot and short times.
    pub fn service(&self, addr: &str, hosts: usize) -> Table {
        let file = example("redis.toml");
        let text = fs::read_to_string(&file).expect("the example's redis.toml");
        let mut service: Table = text.parse().expect("the example's redis.toml is TOML");
        let text = |value: &str| Value::String(value.to_owned());
        service["depot"] = text(&self.depot());
        service["trusted_keys"] = Value::Array(vec![text(&self.path("depot.pub"))]);
        service["expect"] = Value::Integer(hosts as i64);
        service.insert("poll".to_owned(), text("500ms"));
        service["env"]["ADDR"] = text(addr);
        service["health"]["interval"] = text("500ms");
        service["update"]["start_timeout"] = text("60s");
        // The broken release dies two seconds after its first answer.
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

    fn publish(&self, release: &str) {
        let dir = self.release_dir(release).display().to_string();
        baton(&[
            "depot",
            "publish",
            &dir,
            "--depot",
            &self.depot(),
            "--key",
            &self.path("depot.key"),
        ]);
    }

    fn depot(&self) -> String {
        format!("file://{}", self.path("the-depot"))
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
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
