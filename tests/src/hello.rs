//! A program of three lines as a service, for tests on loopback: everything about it is a script.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use toml::Table;

use crate::cli::{Answer, baton};
use crate::depot::Depot;
use crate::fleet::Fleet;
use crate::host::{Host, HostSettings};
use crate::{Loopback, wait};

/// Where hosts stand: on loopback, or in network namespaces.
pub trait Ground {
    /// All hosts.
    fn hosts(&self) -> &[Host];
    /// The host with this index (from 0).
    fn host(&mut self, index: usize) -> &mut Host;
    /// The directory that holds everything of this test.
    fn dir(&self) -> &Path;
    /// Configures every host with this service, to join all others, and starts them.
    fn start(&mut self, service: &Table);
}

impl Ground for Loopback {
    fn hosts(&self) -> &[Host] {
        Self::hosts(self)
    }

    fn host(&mut self, index: usize) -> &mut Host {
        Self::host(self, index)
    }

    fn dir(&self) -> &Path {
        Self::dir(self)
    }

    fn start(&mut self, service: &Table) {
        Self::start(self, |_| service.clone());
    }
}

impl Ground for Fleet {
    fn hosts(&self) -> &[Host] {
        Self::hosts(self)
    }

    fn host(&mut self, index: usize) -> &mut Host {
        Self::host(self, index)
    }

    fn dir(&self) -> &Path {
        Self::dir(self)
    }

    fn start(&mut self, service: &Table) {
        let key_file = Self::dir(self).join("ring.key");
        baton(&["ring", "keygen", "--out", &key_file.display().to_string()]);
        let all: Vec<SocketAddr> = Self::hosts(self).iter().map(Host::ring).collect();
        for index in 0..all.len() {
            let host = Self::host(self, index);
            host.configure(&HostSettings {
                join: all.iter().copied().filter(|addr| *addr != all[index]).collect(),
                profile: "local",
                key_file: Some(key_file.clone()),
                services: vec![service.clone()],
                ..HostSettings::default()
            });
            host.start();
        }
    }
}

/// A ring whose every host runs the service `hello.default`.
pub struct Hello<G: Ground = Loopback> {
    /// The hosts.
    pub ring: G,
    /// Where its releases are.
    pub depot: Depot,
    count: usize,
}

/// The scripts of one release; an empty one is left out.
#[derive(Clone, Copy, Debug)]
pub struct Scripts<'a> {
    /// The program.
    pub run: &'a str,
    /// Further words of its command.
    pub words: &'a [&'a str],
    /// Its health check.
    pub health: &'a str,
    /// Hooks by name.
    pub hooks: &'a [(&'a str, &'a str)],
    /// Timeout of the hooks.
    pub hook_timeout: &'a str,
}

impl Default for Scripts<'_> {
    fn default() -> Self {
        Self {
            run: "exec sleep 3600",
            words: &[],
            health: "exit 0",
            hooks: &[],
            hook_timeout: "10s",
        }
    }
}

/// The group.
pub const GROUP: &str = "hello.default";

/// Longer than anything here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(90);

impl Hello {
    /// `count` hosts on loopback and an empty depot; no daemon runs yet.
    pub fn new(count: usize) -> Self {
        Self::on(Loopback::new(count))
    }

    /// The same, with everything below `dir`.
    pub fn new_in(dir: &Path, count: usize) -> Self {
        Self::on(Loopback::new_in(dir, count))
    }
}

impl<G: Ground> Hello<G> {
    /// The hosts of `ring` and an empty depot; no daemon runs yet.
    pub fn on(ring: G) -> Self {
        let count = ring.hosts().len();
        let depot = Depot::at(ring.dir());
        depot.init();
        Self { ring, depot, count }
    }

    /// Starts all daemons. `update` are further lines of `[update]`.
    pub fn start(&mut self, update: &str) {
        let service = self.service(update);
        self.ring.start(&service);
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
        let command = [&["bin/run"], scripts.words].concat();
        let mut manifest = format!(
            "name = \"hello\"\nversion = \"{version}\"\n[run]\ncommand = {command:?}\n\
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

    /// Promotes a version where a daemon is told of it at once.
    pub fn promote_at(&self, host: usize, version: &str) -> Answer {
        self.depot.promote_at(&format!("hello/{version}"), &self.ring.hosts()[host].cli())
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

    /// The index of the host that leads, asked at the host with this index.
    pub fn leader(&self, host: usize) -> Option<usize> {
        let status = self.status(host).ok()?;
        let name = status["leader"].as_str()?.to_owned();
        self.ring.hosts().iter().position(|host| host.name() == name)
    }

    /// The index of the member that is in its turn (taken or monitoring), asked at this host.
    pub fn member_in_turn(&self, host: usize) -> Option<usize> {
        let status = self.status(host).ok()?;
        let members = status["rollout"]["members"].as_array()?;
        let busy = members
            .iter()
            .find(|member| member["turn"] == "taken" || member["turn"] == "monitoring")?;
        let name = busy["name"].as_str()?.to_owned();
        self.ring.hosts().iter().position(|host| host.name() == name)
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
