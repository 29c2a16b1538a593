//! Each text and the exact list of what is said about it, position included.

// The functions that the tests share may fail loudly, as the tests themselves may.
#![allow(clippy::expect_used, clippy::panic)]

use baton_config::limits::{FAULTS_MAX, FILE_MAX_BYTES};
use baton_config::{Fault, Host, Outcome, SourceFile, parse, parse_service};

const CASES: &str = include_str!("faults.txt");

const REQUIRED: &str =
    "name = \"redis\"\ndepot = \"file:///srv/depot\"\ntrusted_keys = [\"/etc/baton/depot.pub\"]\n";

fn host() -> Host {
    Host { name: "n1".to_owned() }
}

fn read(main: &str, services: &[(&str, &str)]) -> Outcome {
    let services: Vec<SourceFile> =
        services.iter().map(|(path, text)| SourceFile::new(*path, *text)).collect();
    parse(&SourceFile::new("b", main), &services, &host())
}

fn shown(kind: &str, faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("{kind} {fault}\n")).collect()
}

#[track_caller]
fn check(main: &str, services: &[(&str, &str)], want: &str) {
    let outcome = read(main, services);
    let said = shown("fault", &outcome.faults) + &shown("warning", &outcome.warnings);
    assert_eq!(said, want, "about {main:?} {services:?}");
    assert_eq!(outcome.settings.is_some(), outcome.faults.is_empty());
}

#[test]
fn every_case_is_told_exactly() {
    let mut count = 0;
    for block in CASES.split("=== ").skip(1) {
        let (kind, rest) = block.split_once('\n').expect("a kind");
        let (text, want) = rest.split_once("---\n").expect("what is said");
        let want = want.strip_suffix('\n').filter(|cut| cut.ends_with('\n')).unwrap_or(want);
        let want = if want == "\n" { "" } else { want };
        match kind {
            "main" => check(text, &[], want),
            "service" => check("", &[("s", &format!("{REQUIRED}{text}"))], want),
            other => panic!("no such kind: {other}"),
        }
        count += 1;
    }
    assert!(count > 60, "only {count} cases were read");
}

#[test]
fn faults_of_all_files_are_told_in_their_order() {
    check(
        "[ring\n",
        &[("s0", "x = 'y\n"), ("s1", "")],
        "fault b:1:6: syntax: unclosed table, expected `]`\n\
         fault s0:1:7: syntax: invalid literal string, expected `'`\n\
         fault s1:1:1: name: found nothing; the name of the service is required\n\
         fault s1:1:1: depot: found nothing; a URL such as \"file:///srv/depot\" is required\n\
         fault s1:1:1: trusted_keys: found nothing; at least one public key file is required, such \
         as [\"/etc/baton/depot.pub\"]\n",
    );
}

#[test]
fn a_group_may_be_defined_once() {
    let main = "[[service]]\nname = \"redis\"\ndepot = \"file:///d\"\ntrusted_keys = [\"/k\"]\n";
    check(
        main,
        &[("s", REQUIRED)],
        "fault s:1:8: name: found redis.default a second time; the first is at b:2:8, one is \
         allowed\n",
    );
    check(main, &[("s", &format!("{REQUIRED}group = \"other\"\n"))], "");
}

#[test]
fn a_node_that_joins_says_how_many_members_a_group_starts_with() {
    let main = "[ring]\njoin = [\"n2:7117\"]\n";
    let want = "fault s:1:1: expect: found nothing; the number of members the group starts with, 1 \
                to 1024, is required when ring.join is set\n";
    check(main, &[("s", REQUIRED)], want);
    check(main, &[("s", &format!("{REQUIRED}expect = 3\n"))], "");
    check("", &[("s", REQUIRED)], "");
}

#[test]
fn a_service_file_is_read_against_the_running_settings() {
    let settings = read("[ring]\njoin = [\"n2:7117\"]\n[node]\nlabels = { order = 7 }\n", &[])
        .settings
        .expect("settings");
    let missing = parse_service(&SourceFile::new("s", REQUIRED), &settings);
    assert_eq!(missing.service, None);
    assert_eq!(missing.faults.len(), 1, "{:?}", missing.faults);
    let text = format!("{REQUIRED}expect = 3\n[update]\nmonitor = \"40s\"\nwaves = [1, \"50%\"]\n");
    let service = parse_service(&SourceFile::new("s", text), &settings).service.expect("a service");
    assert_eq!((service.expect, service.order), (3, 7));
    assert_eq!(service.rollback, service.update, "rollback defaults to update");
    assert_eq!(service.update.waves.len(), 2);
}

#[test]
fn rollback_takes_all_from_update_but_on_failure() {
    let text = format!(
        "{REQUIRED}[update]\non_failure = \"rollback\"\nmonitor = \"45s\"\n[rollback]\ndelay = \"1s\"\n"
    );
    let settings = read("", &[("s", &text)]).settings.expect("settings");
    let (update, rollback) = (&settings.services[0].update, &settings.services[0].rollback);
    assert_eq!(update.on_failure.word(), "rollback");
    assert_eq!(rollback.on_failure.word(), "pause");
    assert_eq!(rollback.monitor, update.monitor);
    assert_ne!(rollback.delay, update.delay);
}

#[test]
fn a_host_name_that_is_no_name_must_be_replaced() {
    let host = Host { name: "my host".to_owned() };
    let outcome = parse(&SourceFile::new("b", ""), &[], &host);
    assert_eq!(
        shown("fault", &outcome.faults),
        "fault b:1:1: node.name: found nothing, and of the host name: the name \"my host\" has ' ' \
         at position 3: a letter or digit first, then a-z, A-Z, 0-9, '-', '_', '.' are allowed; \
         set a name\n"
    );
    let named = parse(&SourceFile::new("b", "node.name = 'n1'"), &[], &host);
    assert_eq!(shown("fault", &named.faults), "");
}

#[test]
fn large_files_are_not_read_and_long_lists_of_faults_are_cut() {
    let large = "#".repeat(FILE_MAX_BYTES + 1);
    check(&large, &[], "fault b:1:1: file: found 1048577 bytes; at most 1048576 are allowed\n");
    let unknown: String = (0..20_000).map(|at| format!("k{at} = 1\n")).collect();
    let faults = read(&unknown, &[]).faults;
    assert_eq!(faults.len(), FAULTS_MAX);
    assert!(faults[FAULTS_MAX - 1].message.ends_with("(and 19900 more in this file)"));
}

#[test]
fn a_node_runs_at_most_64_services() {
    let main: String = (0..70)
        .map(|at| {
            format!("[[service]]\nname = 's{at}'\ndepot = 'file:///d'\ntrusted_keys = ['/k']\n")
        })
        .collect();
    let want = "fault b:258:8: service.name: found one service more; at most 64 are allowed on one \
                node\n";
    check(&main, &[], want);
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    let outcome =
        read("\"\\u001b[31m\\n\" = 1\n[node]\nname = \"\\u001b[2J\"\ndata_dir = \"\\n\"", &[]);
    assert_eq!(outcome.faults.len(), 3);
    for fault in &outcome.faults {
        assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    }
}
