//! A program of three lines as a service, for tests on loopback: everything about it is a script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use toml::Table;

use crate::depot::Depot;
use crate::{Loopback, wait};

/// A ring on loopback whose every host runs the service `hello.default`.
pub struct Hello {
    /// The hosts.
    pub ring: Loopback,
    /// Where its releases are.
    pub depot: Depot,
    count: usize,
}

/// The scripts of one release; an empty one is left out.
#[derive(Clone, Copy, Debug)]
pub struct Scripts<'a> {
    /// The program.
    pub run: &'a str,
    /// Its health check.
    pub health: &'a str,
    /// Hooks by name.
    pub hooks: &'a [(&'a str, &'a str)],
    /// Timeout of the hooks.
    pub hook_timeout: &'a str,
}

impl Default for Scripts<'_> {
    fn default() -> Self {
        Self { run: "exec sleep 3600", health: "exit 0", hooks: &[], hook_timeout: "10s" }
    }
}

/// The group.
pub const GROUP: &str = "hello.default";

/// Longer than anything here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(90);

impl Hello {
    /// `count` hosts and an empty depot; no daemon runs yet.
    pub fn new(count: usize) -> Self {
        Self::of(Loopback::new(count), count)
    }

    /// The same, with everything below `dir`.
    pub fn new_in(dir: &Path, count: usize) -> Self {
        Self::of(Loopback::new_in(dir, count), count)
    }

    fn of(ring: Loopback, count: usize) -> Self {
        let depot = Depot::at(ring.dir());
        depot.init();
        Self { ring, depot, count }
    }

    /// Starts all daemons. `update` are further lines of `[update]`.
    pub fn start(&mut self, update: &str) {
        let service = self.service(update);
        self.ring.start(|_| service.clone());
    }

    /// The service file.
    pub fn service(&self, update: &str) -> Table {
        let text = format!(
            "name = \"hello\"\npoll = \"200ms\"\nrunner = \"process\"\nexpect = {}\n\
             [health]\ninterval = \"200ms\"\ntimeout = \"1s\"\nunhealthy_after = 1\n\
             [update]\n{update}\n",
            self.count
        );
        let mut service: Table = text.parse().unwrap_or_else(|fault| panic!("{fault}: {text}"));
        service.insert("depot".to_owned(), toml::Value::String(self.depot.url()));
        service.insert("trusted_keys".to_owned(), self.depot.trusted_keys());
        service
    }

    /// Publishes `hello/VERSION`.
    pub fn publish(&self, version: &str, scripts: Scripts<'_>) {
        let release = self.ring.dir().join("releases").join(version);
        let mut manifest = format!(
            "name = \"hello\"\nversion = \"{version}\"\n[run]\ncommand = [\"bin/run\"]\n\
             stop_timeout = \"2s\"\n[health]\nexec = [\"bin/health\"]\n[hooks]\n"
        );
        script(&release, "run", scripts.run);
        script(&release, "health", scripts.health);
        for (name, body) in scripts.hooks {
            manifest += &format!(
                "{name} = {{ command = [\"bin/{name}\"], timeout = \"{}\" }}\n",
                scripts.hook_timeout
            );
            script(&release, name, body);
        }
        fs::write(release.join("release.toml"), manifest).expect("writing release.toml");
        self.depot.publish(&release);
    }

    /// Promotes a version.
    pub fn promote(&self, version: &str) {
        self.depot.promote(&format!("hello/{version}"));
    }

    /// Promotes a version and waits until its rollout is in one of `states`.
    pub fn roll(&self, version: &str, states: &[&str]) -> Value {
        self.promote(version);
        self.wait_for(version, states)
    }

    /// Waits until the rollout shown is to `version` and in one of `states`.
    pub fn wait_for(&self, version: &str, states: &[&str]) -> Value {
        let wanted = format!("hello/{version}");
        let mut found = Value::Null;
        wait::until(&format!("a rollout to {version} in {states:?}"), LIMIT, || {
            let status = self.status(0)?;
            let rollout = &status["rollout"];
            let state = rollout["state"].as_str().unwrap_or("");
            if rollout["to"]["release"] == wanted && states.contains(&state) {
                found = status;
                return Ok(());
            }
            Err(status.to_string())
        });
        found
    }

    /// The group's status, asked at the host with this index.
    pub fn status(&self, host: usize) -> Result<Value, String> {
        self.ring.hosts()[host].cli().json(&["rollout", "status", GROUP])
    }

    /// How many members run this version now, asked at the host with this index.
    pub fn running(&self, host: usize, version: &str) -> usize {
        let wanted = format!("hello/{version}");
        let Ok(list) = self.ring.hosts()[host].cli().json(&["service", "list"]) else { return 0 };
        let on = |entry: &&Value| entry["release"] == wanted && entry["process"] == "running";
        list.as_array().map_or(0, |list| list.iter().filter(on).count())
    }

    /// Waits until so many members run this version.
    pub fn expect_running(&self, version: &str, count: usize) {
        self.expect_running_at(0, version, count);
    }

    /// The same, asked at the host with this index.
    pub fn expect_running_at(&self, host: usize, version: &str, count: usize) {
        wait::until(&format!("{count} members on {version}"), LIMIT, || {
            match self.running(host, version) {
                found if found == count => Ok(()),
                found => Err(format!("{found} run it")),
            }
        });
    }
}

/// How many members of a status are in this turn.
pub fn in_turn(status: &Value, turn: &str) -> usize {
    let members = status["rollout"]["members"].as_array();
    members.map_or(0, |members| members.iter().filter(|member| member["turn"] == turn).count())
}

fn script(release: &Path, name: &str, body: &str) {
    let path = release.join("bin").join(name);
    fs::create_dir_all(release.join("bin")).expect("making bin");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("writing a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("making it executable");
}
