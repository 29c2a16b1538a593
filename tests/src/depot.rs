//! A depot of the test's own, filled by the command line of the real binary.

use std::path::{Path, PathBuf};

use toml::Value;

use crate::cli::{Answer, Cli, baton};

/// A depot in a directory, with its key beside it.
pub struct Depot {
    dir: PathBuf,
}

impl Depot {
    /// Where a depot below `dir` will be; nothing is made yet.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Makes the depot and its key.
    pub fn init(&self) {
        baton(&["depot", "init", &self.url()]);
        baton(&["depot", "keygen", "--out", &self.path("depot")]);
    }

    /// Packs, signs and adds a release.
    pub fn publish(&self, release: &Path) {
        let release = release.display().to_string();
        baton(&["depot", "publish", &release, "--depot", &self.url(), "--key", &self.key()]);
    }

    /// Puts `name/version` at the head of the channel `stable`.
    pub fn promote(&self, release: &str) {
        self.promote_by(release, baton);
    }

    /// The same, typed where a daemon is told of it.
    pub fn promote_at(&self, release: &str, cli: &Cli) -> Answer {
        self.promote_by(release, |words| cli.run(words))
    }

    fn promote_by(&self, release: &str, run: impl Fn(&[&str]) -> Answer) -> Answer {
        let (url, key) = (self.url(), self.key());
        let place = ["--channel", "stable", "--depot", &url, "--key", &key];
        run(&[&["depot", "promote", release], &place[..]].concat())
    }

    /// Its URL, as a service file names it.
    pub fn url(&self) -> String {
        format!("file://{}", self.path("depot.d"))
    }

    /// `trusted_keys` of a service file.
    pub fn trusted_keys(&self) -> Value {
        Value::Array(vec![Value::String(self.path("depot.pub"))])
    }

    fn key(&self) -> String {
        self.path("depot.key")
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}
