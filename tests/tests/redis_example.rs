//! The scripts of the Redis example with real servers and without Baton: what a careful person
//! would type, host by host, while a client writes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use baton_tests::loopback::free_addrs;
use baton_tests::observer::Observer;
use baton_tests::redis_client::parameter;
use baton_tests::redis_releases::{MEMORY_1, MEMORY_2, RedisReleases, example};
use baton_tests::redis_writer::{Cluster, RedisWriter};
use baton_tests::requirements::programs_exist;
use baton_tests::{leftovers, shell, wait};
use rustix::process::Signal;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const R1: &str = "release-1";
const R2: &str = "release-2";
const BROKEN: &str = "release-broken";

/// Six servers on loopback, started as `release.toml` says.
struct Servers {
    addrs: Vec<SocketAddr>,
    children: Vec<Option<Child>>,
    releases: RedisReleases,
    dir: TempDir,
}

impl Servers {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let releases = RedisReleases::assemble(dir.path());
        // The cluster bus listens 10,000 above the port.
        let fits = |addr: &SocketAddr| {
            let bus = addr.port().checked_add(10_000);
            bus.is_some_and(|bus| TcpListener::bind((addr.ip(), bus)).is_ok())
        };
        let addrs: Vec<_> = free_addrs(64).into_iter().filter(fits).take(6).collect();
        assert_eq!(addrs.len(), 6, "not enough free ports");
        let mut servers = Self { addrs, children: Vec::new(), releases, dir };
        for index in 0..6 {
            servers.children.push(None);
            servers.run(index, R1);
        }
        servers
    }

    fn run(&mut self, index: usize, release: &str) {
        let home = self.releases.release_dir(release);
        let addr = self.addrs[index];
        let (ip, port) = (addr.ip().to_string(), addr.port().to_string());
        let mut command = if release == BROKEN {
            self.command(index, home.join("bin/run"), release)
        } else {
            let mut server = self.command(index, "redis-server".into(), release);
            server.arg(home.join("redis.conf")).args(["--bind", &ip, "--port", &port, "--dir"]);
            server.arg(self.state(index));
            server
        };
        let log = File::create(self.state(index).join("log")).unwrap();
        self.children[index] = Some(command.stdout(log).spawn().unwrap());
    }

    /// Runs one of the release's scripts for a server: its exit code and last line.
    fn script(&self, index: usize, name: &str) -> (i32, String) {
        let path = self.releases.release_dir(R1).join("bin").join(name);
        let output = self.command(index, path, R1).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text.lines().last().unwrap_or_default().to_owned())
    }

    /// Asks a script until it answers with one of `codes`.
    fn until(&self, index: usize, name: &str, codes: &[i32]) {
        wait::until(&format!("{name} of server {index}"), LIMIT, || {
            let (code, line) = self.script(index, name);
            if codes.contains(&code) { Ok(()) } else { Err(format!("{code}: {line}")) }
        });
    }

    /// One member's turn as a person would do it.
    fn turn(&mut self, index: usize, release: &str) {
        self.until(index, "ready", &[0]);
        if self.children[index].is_some() {
            self.stop(index, Signal::TERM);
        }
        self.run(index, release);
        self.until(index, "health", &[0, 1]);
        assert_eq!(self.script(index, "verify").0, 0, "{:?}", self.script(index, "verify"));
    }

    fn stop(&mut self, index: usize, signal: Signal) {
        leftovers::signal(self.children[index].as_ref().unwrap().id() as i32, signal);
        self.ended(index);
    }

    fn ended(&mut self, index: usize) -> ExitStatus {
        self.children[index].take().unwrap().wait().unwrap()
    }

    fn command(&self, index: usize, program: PathBuf, release: &str) -> Command {
        let state = self.state(index);
        std::fs::create_dir_all(&state).unwrap();
        let mut command = Command::new(program);
        command
            .env("ADDR", self.addrs[index].ip().to_string())
            .env("PORT", self.addrs[index].port().to_string())
            .env("BATON_STATE_DIR", state)
            .env("BATON_RELEASE_DIR", self.releases.release_dir(release))
            .stdin(Stdio::null());
        command
    }

    fn state(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("state-{index}"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            child.kill().ok();
            child.wait().ok();
        }
        let dir = self.dir.path().to_owned();
        leftovers::kill_all(|| leftovers::processes_of(&dir));
    }
}

#[test]
fn the_scripts_roll_a_cluster_without_losing_an_acknowledged_write() {
    let test = "the_scripts_roll_a_cluster_without_losing_an_acknowledged_write";
    if !programs_exist(test, &["redis-server", "redis-cli"]) {
        return;
    }
    let mut servers = Servers::start();
    before_the_cluster_is_formed(&servers);
    let script = example("form-cluster").display().to_string();
    let addrs: Vec<String> = servers.addrs.iter().map(SocketAddr::to_string).collect();
    let words: Vec<&str> =
        [script.as_str()].into_iter().chain(addrs.iter().map(String::as_str)).collect();
    shell::run(&words);
    assert!(shell::run(&words).contains("already"), "form-cluster typed again only waits");

    let observer = Observer::start(&servers.addrs, None);
    let writer = RedisWriter::start(&servers.addrs, None);
    let begin = observer.mark();
    for index in 0..6 {
        assert_eq!(parameter(servers.addrs[index], "maxmemory").unwrap(), MEMORY_1);
        servers.turn(index, R2);
        assert_eq!(parameter(servers.addrs[index], "maxmemory").unwrap(), MEMORY_2);
    }
    assert_eq!(observer.restarts_since(begin, 6), [1; 6], "each server restarts once");
    assert!(observer.most_down_at_once().len() <= 1, "never two at once");

    a_broken_release_and_back(&mut servers);
    assert!(observer.most_down_at_once().len() <= 1, "never two at once");
    one_server_down(&mut servers);

    let written = writer.finish();
    println!(
        "{} acknowledged, {} unconfirmed, longest gap {:?}",
        written.acknowledged.len(),
        written.unconfirmed,
        written.longest_gap
    );
    assert!(written.acknowledged.len() > 100);
    let lost = written.lost(&servers.addrs, None);
    assert!(lost.is_empty(), "{lost:#?}");

    // And the question itself can be answered otherwise.
    let key = written.acknowledged.keys().next().unwrap();
    Cluster::new(&servers.addrs).delete(key).unwrap();
    let lost = written.lost(&servers.addrs, None);
    assert!(lost.len() == 1 && lost[0].starts_with(key.as_str()), "{lost:#?}");
}

fn before_the_cluster_is_formed(servers: &Servers) {
    for index in 0..6 {
        servers.until(index, "health", &[1]);
        assert_eq!(servers.script(index, "ready").0, 0, "there is no role to hand over");
        assert_eq!(servers.script(index, "verify").0, 0, "there is nothing to verify yet");
    }
}

/// The broken release is well at first and dies; its member then is not in the way of the way back.
fn a_broken_release_and_back(servers: &mut Servers) {
    servers.until(0, "ready", &[0]);
    servers.stop(0, Signal::TERM);
    servers.run(0, BROKEN);
    servers.until(0, "health", &[0, 1]);
    assert_eq!(servers.ended(0).code(), Some(1));
    let (code, line) = servers.script(0, "health");
    assert!(code == 2 && line.contains("refused"), "{code}: {line}");
    servers.turn(0, R2);
}

/// While one server is down the others are well, and its primary may not be stopped.
fn one_server_down(servers: &mut Servers) {
    // Whatever the roles were: this one is a replica now.
    servers.until(2, "ready", &[0]);
    let (_, line) = servers.script(2, "ready");
    let primary = servers.addrs.iter().position(|addr| line.contains(&addr.to_string())).unwrap();
    servers.stop(2, Signal::KILL);
    for index in [0, 1, 3, 4, 5] {
        assert_eq!(servers.script(index, "health").0, 0, "{:?}", servers.script(index, "health"));
    }
    assert_eq!(servers.script(2, "health").0, 2);
    assert_eq!(servers.script(2, "ready").0, 0, "what does not run may be started anew");
    let (code, line) = servers.script(primary, "ready");
    assert!(code == 75 && line.contains("no replica in sync"), "{code}: {line}");
    servers.run(2, R2);
    servers.until(2, "health", &[0]);
    servers.until(primary, "ready", &[0]);
}
