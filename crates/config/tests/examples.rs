//! The commented files in `config/` stay true: they are read as they are and with every key
//! uncommented, and the second reading changes nothing but the keys that have no default.

// The functions that the tests share may fail loudly, as the tests themselves may.
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use baton_config::{Host, Settings, SourceFile, parse, parse_revision};

const BATON: &str = include_str!("../../../config/baton.toml");
const SERVICE: &str = include_str!("../../../config/services.d/example.toml");

fn read(baton: &str, service: &str) -> Settings {
    let main = SourceFile::new("/etc/baton/baton.toml", baton);
    let service = SourceFile::new("/etc/baton/services.d/redis.toml", service);
    let outcome = parse(&main, &[service], &Host { name: "n1".to_owned() });
    let shown = |faults: &[baton_config::Fault]| {
        faults.iter().map(|fault| format!("{fault}\n")).collect::<String>()
    };
    assert_eq!(shown(&outcome.faults), "");
    assert_eq!(shown(&outcome.warnings), "");
    outcome.settings.expect("settings without faults")
}

/// Every line `# key = value` without its `# `.
fn uncomment(text: &str) -> String {
    let is_key = |line: &str| {
        line.split_once(" = ").is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        })
    };
    text.lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// `table.key` of every key in an uncommented example.
fn keys(text: &str) -> BTreeSet<String> {
    let mut table = String::new();
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(keys.insert(format!("{table}{key}")), "{table}{key} twice");
        }
    }
    keys
}

#[test]
fn the_examples_are_read_as_they_are() {
    let settings = read(BATON, SERVICE);
    assert_eq!(settings.node.name.as_str(), "n1");
    assert_eq!(settings.services.len(), 1);
    assert_eq!(settings.services[0].name.to_string(), "redis.default");
}

#[test]
fn uncommented_keys_show_the_defaults() {
    let mut want = read(BATON, SERVICE);
    want.ring.advertise = Some("10.0.0.1:7117".parse().expect("an address"));
    want.ring.key_file = Some(PathBuf::from("/etc/baton/ring.key"));
    want.control.http = Some("127.0.0.1:7118".parse().expect("an address"));
    let service = &mut want.services[0];
    service.run_as = Some("redis".to_owned());
    service.health.interval = Some(service.health.interval());
    service.health.timeout = Some(service.health.timeout());
    service.health.healthy_after = Some(service.health.healthy_after());
    service.health.unhealthy_after = Some(service.health.unhealthy_after());
    assert_eq!(read(&uncomment(BATON), &uncomment(SERVICE)), want);
}

#[test]
fn nothing_but_the_defaults_stands_in_an_empty_file() {
    assert_eq!(read("", SERVICE), read(BATON, SERVICE));
}

/// The reader's own list of keys, which it tells beside a key that is like none of them.
#[test]
fn the_examples_leave_no_known_key_out() {
    let main =
        "zzzzzzzzz = 1\n[node]\nzzzzzzzzz = 1\n[ring]\nzzzzzzzzz = 1\n[control]\nzzzzzzzzz = 1\n";
    let service = "zzzzzzzzz = 1\n[health]\nzzzzzzzzz = 1\n[update]\nzzzzzzzzz = 1\n[rollback]\nzzzzzzzzz = 1\n";
    let check = |faults: Vec<baton_config::Fault>, text: &str, tables: &[&str]| {
        let mut known = BTreeSet::new();
        for fault in faults {
            let Some((_, list)) = fault.message.split_once("allowed here: ") else { continue };
            let table = fault.key.trim_end_matches("zzzzzzzzz");
            known.extend(list.split(", ").map(|key| format!("{table}{key}")));
        }
        for table in tables {
            assert!(known.remove(*table), "{table}");
        }
        assert_eq!(known, keys(&uncomment(text)));
    };
    let host = Host { name: "n1".to_owned() };
    let faults = parse(&SourceFile::new("b", main), &[], &host).faults;
    check(faults, BATON, &["node", "ring", "control", "service"]);
    let service = [SourceFile::new("s", service)];
    let faults = parse(&SourceFile::new("b", ""), &service, &host).faults;
    check(faults, SERVICE, &["health", "update", "rollback"]);
}

#[test]
fn every_key_is_in_the_examples() {
    let policy = "max_unavailable start_timeout monitor prepare_timeout ready_timeout turn_timeout \
                  delay max_failures on_failure on_demote on_not_ready progress_timeout waves \
                  wave_soak approve zone_label";
    let check = |text: &str, tables: &[(&str, &str)]| {
        let want = tables.iter().flat_map(|(table, keys)| {
            keys.split_whitespace().map(move |key| format!("{table}{key}"))
        });
        assert_eq!(keys(&uncomment(text)), want.collect());
    };
    check(
        BATON,
        &[
            ("node.", "name data_dir on_stop labels"),
            (
                "ring.",
                "bind advertise join profile key_file insecure probe_period probe_timeout \
                 indirect_probes gossip_interval gossip_fanout suspicion_multiplier \
                 suspicion_floor reap_after reconnect_interval restart_grace max_packet \
                 replace_dead_after heartbeat election_timeout claim_window",
            ),
            ("control.", "socket http"),
        ],
    );
    check(
        SERVICE,
        &[
            (
                "",
                "name group depot release channel poll trusted_keys strategy runner expect run_as \
                 keep_releases env order",
            ),
            ("health.", "interval timeout healthy_after unhealthy_after"),
            ("update.", policy),
            ("rollback.", policy),
        ],
    );
}

#[test]
fn the_example_of_a_revision_is_read_as_it_is() {
    let text = include_str!("../../../config/examples/revision.toml");
    let read = |path: &str| Err(format!("{path} is not read here"));
    let revision = parse_revision(&SourceFile::new("revision.toml", text), &read);
    let revision = revision.expect("a revision without faults");
    assert_eq!((revision.env.len(), revision.files.len()), (1, 2));
}
