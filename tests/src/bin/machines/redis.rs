//! The main job on machines: a Redis Cluster under write load, and a release whose `install` hook wants
//! each machine rebooted once.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use baton_tests::machine_root::REDIS;
use baton_tests::observer::Observer;
use baton_tests::redis_client::parameter;
use baton_tests::redis_releases::{
    MEMORY_1, MEMORY_2, RELEASE_1, RELEASE_2, RedisReleases, example,
};
use baton_tests::redis_writer::RedisWriter;
use baton_tests::{Fleet, MachineFleet, packages, shell};

const COUNT: usize = 6;

pub(crate) fn play() {
    let deb = packages::deb("0.1.0-1");
    let fleet = Fleet::new(COUNT);
    let releases = RedisReleases::assemble(fleet.dir());
    let second = releases.release_dir("release-2");
    let hook = second.join("bin/install");
    fs::write(&hook, INSTALL).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let manifest = second.join("release.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let with_hook =
        text.replace("[hooks]\n", "[hooks]\ninstall = { command = [\"bin/install\"] }\n");
    assert_ne!(with_hook, text);
    fs::write(&manifest, with_hook).unwrap();
    releases.publish_all();

    let mut fleet = MachineFleet::install(fleet, &REDIS, &deb, |index| {
        let mut service = releases.service(&Fleet::addr(index).to_string(), COUNT);
        service.insert("run_as".to_owned(), "redis".into());
        service
    });
    releases.promote(RELEASE_1);
    fleet.completed(&format!("redis/{RELEASE_1}"));
    let servers: Vec<SocketAddr> =
        (0..COUNT).map(|index| (Fleet::addr(index), PORT).into()).collect();
    let outside = fleet.fleet().outside().name().to_owned();
    let memory = |fleet: &MachineFleet| -> Vec<String> {
        let ask = |server: &SocketAddr| parameter(*server, "maxmemory");
        fleet.fleet().outside().run(|| {
            servers.iter().map(|s| ask(s).unwrap_or_else(|fault| fault.to_string())).collect()
        })
    };
    let script = example("form-cluster").display().to_string();
    let all: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
    let words: Vec<&str> =
        std::iter::once(script.as_str()).chain(all.iter().map(String::as_str)).collect();
    fleet.fleet().outside().run(|| shell::run(&words));
    assert_eq!(memory(&fleet), [MEMORY_1; COUNT]);

    let observer = Observer::start(&servers, Some(&outside));
    let writer = RedisWriter::start(&servers, Some(&outside));
    let mark = observer.mark();
    releases.promote(RELEASE_2);
    let reboots = fleet.completed(&format!("redis/{RELEASE_2}"));
    assert_eq!(memory(&fleet), [MEMORY_2; COUNT]);
    assert_eq!(reboots, COUNT, "each machine is rebooted once");
    let down = observer.most_down_at_once();
    assert!(down.len() <= 1, "{down:?} were down at once:\n{}", observer.told_since(mark));
    // A primary that came back may still copy what was written meanwhile.
    std::thread::sleep(Duration::from_secs(2));
    let written = writer.finish();
    println!(
        "{reboots} reboots; {} writes acknowledged, {} unconfirmed, longest gap {:?}",
        written.acknowledged.len(),
        written.unconfirmed,
        written.longest_gap
    );
    let lost = written.lost(&servers, Some(&outside));
    assert!(lost.is_empty(), "{} acknowledged writes are lost: {lost:#?}", lost.len());
    println!("none of them lost, never two servers down. n1 tells it so:");
    let words = ["journalctl", "-u", "baton", "-o", "short-iso", "--no-pager", "-n", "70"];
    println!("{}", fleet.machines()[0].ok(&words));
}

/// The machine is to be rebooted before this release runs on it, once.
const INSTALL: &str = r#"#!/bin/sh
mark=$BATON_STATE_DIR/boot-before-install
boot=$(cat /proc/sys/kernel/random/boot_id)
[ -e "$mark" ] || echo "$boot" >"$mark"
if [ "$(cat "$mark")" = "$boot" ]; then
    echo "the new kernel needs a reboot"
    exit 76
fi
"#;

const PORT: u16 = 6379;
