//! Three daemons on loopback and a program of three lines: the shortest way through the whole
//! house, for a machine without root.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use baton_tests::depot::Depot;
use baton_tests::{Loopback, wait};
use serde_json::Value;
use toml::Table;

const HOSTS: usize = 3;
const GROUP: &str = "hello.default";
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_good_release_reaches_all_and_a_bad_one_only_the_first() {
    let mut ring = Loopback::new(HOSTS);
    let depot = Depot::at(ring.dir());
    depot.init();
    // Name, and what its health check answers.
    for (version, health) in [("1", 0), ("2", 1), ("3-bad", 2)] {
        publish(&depot, ring.dir(), version, health);
    }
    ring.start(|_| service(&depot));

    roll(&ring, &depot, "1", 0);
    expect_on(&ring, "hello/1", HOSTS);
    roll(&ring, &depot, "2", 0);
    expect_on(&ring, "hello/2", HOSTS);
    roll(&ring, &depot, "3-bad", 11);
    expect_on(&ring, "hello/2", HOSTS - 1);

    let cli = ring.hosts()[1].cli();
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    expect_on(&ring, "hello/2", HOSTS);
}

/// Promotes a version, watches it at the last host, and insists on the exit code of its end.
fn roll(ring: &Loopback, depot: &Depot, version: &str, code: i32) {
    depot.promote(&format!("hello/{version}"));
    let cli = ring.hosts()[HOSTS - 1].cli();
    wait::until(&format!("a rollout to {version}"), LIMIT, || {
        let status = cli.json(&["rollout", "status", GROUP])?;
        let begun = status["rollout"]["to"]["release"] == format!("hello/{version}");
        if begun { Ok(()) } else { Err(status.to_string()) }
    });
    cli.run_for(LIMIT, &["rollout", "status", GROUP, "--watch"]).expect_code(code);
}

/// Insists that so many members run this release.
fn expect_on(ring: &Loopback, release: &str, expected: usize) {
    wait::until(&format!("{expected} members on {release}"), LIMIT, || {
        let list = ring.hosts()[0].cli().json(&["service", "list"])?;
        let on = |entry: &&Value| entry["release"] == release && entry["process"] == "running";
        let found = list.as_array().map_or(0, |list| list.iter().filter(on).count());
        if found == expected { Ok(()) } else { Err(list.to_string()) }
    });
}

fn service(depot: &Depot) -> Table {
    let mut service: Table = r#"
        name = "hello"
        poll = "200ms"
        runner = "process"
        expect = 3
        [health]
        interval = "200ms"
        timeout = "1s"
        unhealthy_after = 1
        [update]
        start_timeout = "3s"
        monitor = "1500ms"
    "#
    .parse()
    .unwrap();
    service.insert("depot".to_owned(), toml::Value::String(depot.url()));
    service.insert("trusted_keys".to_owned(), depot.trusted_keys());
    service
}

fn publish(depot: &Depot, dir: &Path, version: &str, health: i32) {
    let release = dir.join("releases").join(version);
    fs::create_dir_all(release.join("bin")).unwrap();
    let manifest = format!(
        "name = \"hello\"\nversion = \"{version}\"\n\
         [run]\ncommand = [\"bin/run\"]\n[health]\nexec = [\"bin/health\"]\n"
    );
    fs::write(release.join("release.toml"), manifest).unwrap();
    let health = format!("echo health of {version}; exit {health}");
    for (name, body) in [("run", "exec sleep 3600"), ("health", health.as_str())] {
        let path = release.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    depot.publish(&release);
}
