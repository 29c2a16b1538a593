//! A daemon that is killed again and again: its service hears nothing of it, and nothing is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts};
use baton_tests::{leftovers, wait};
use serde_json::Value;

/// Notes each start, and whether another copy runs; then writes its title over its environment, as
/// Redis does: nobody finds it by what it was started with.
const PROGRAM: &str = r#"exec perl -e '
use Fcntl ":flock";
open(my $lock, ">>", "$ENV{BATON_STATE_DIR}/lock") or die;
open(my $log, ">>", "$ENV{BATON_STATE_DIR}/starts") or die;
print $log (flock($lock, LOCK_EX | LOCK_NB) ? "alone" : "beside another"), "\n";
close($log);
$0 = "hello: serves";
sleep 1 while 1;
'"#;
const UPDATE: &str = "start_timeout = \"5s\"\nmonitor = \"300ms\"";

#[test]
fn a_service_hears_nothing_of_a_hundred_killed_daemons() {
    let mut hello = started();
    let program = healthy(&hello);
    assert_eq!(environment(&program), "", "it hides what it was started with");
    let before = belongings(&hello, &program);
    for round in 0..100 {
        // At another moment each time: a check runs every 200 ms.
        std::thread::sleep(Duration::from_millis(round * 13 % 50));
        hello.ring.host(0).kill();
        hello.ring.host(0).start();
    }
    assert_eq!(healthy(&hello), program);
    assert_eq!(starts(&hello), ["alone"]);
    wait::until("what was there before", LIMIT, || {
        let now = belongings(&hello, &program);
        if now == before { Ok(()) } else { Err(format!("{now:?}, before {before:?}")) }
    });
}

#[test]
fn a_daemon_killed_in_a_restart_costs_no_further_one() {
    let mut hello = started();
    for round in 0..40 {
        let before = starts(&hello).len();
        let typed = hello.ring.hosts()[0].cli().start(&["service", "restart", GROUP]);
        // The restart takes some 30 ms; the daemon dies before, in, and after it.
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        hello.ring.host(0).kill();
        // Whether it was told in time is not the point.
        typed.finish(LIMIT);
        hello.ring.host(0).start();
        let program = healthy(&hello);
        let now = starts(&hello);
        assert!(now.len() <= before + 1, "round {round}: {} starts after {before}", now.len());
        assert!(now.iter().all(|start| start == "alone"), "round {round}: {now:?}");
        assert_eq!(belongings(&hello, &program).records, 1, "round {round}");
    }
    assert!(starts(&hello).len() > 10, "few of the kills met a restart: {}", starts(&hello).len());
}

fn started() -> Hello {
    let mut hello = Hello::new(1);
    hello.publish("1", Scripts { run: PROGRAM, ..Scripts::default() });
    hello.start(UPDATE);
    hello.roll("1", &["completed"]);
    hello
}

/// The program's pid, once it is healthy.
fn healthy(hello: &Hello) -> String {
    let mut pid = Value::Null;
    wait::until("a healthy program", LIMIT, || {
        let list = hello.ring.hosts()[0].cli().json(&["service", "list"])?;
        let one = &list[0];
        pid = one["pid"].clone();
        let is_well = one["process"] == "running" && one["health"] == "ok";
        if is_well && pid.is_u64() { Ok(()) } else { Err(list.to_string()) }
    });
    pid.to_string()
}

/// What the program noted of its starts.
fn starts(hello: &Hello) -> Vec<String> {
    let file = data(hello).join("state").join(GROUP).join("starts");
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn environment(pid: &str) -> String {
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    environ.trim_matches(['\0', ' ']).to_owned()
}

/// What could leak, counted.
#[derive(Debug, PartialEq, Eq)]
struct Belongings {
    processes: usize,
    descriptors_of_the_program: usize,
    descriptors_of_the_daemon: usize,
    records: usize,
    notify_sockets: usize,
    cgroups: usize,
}

fn belongings(hello: &Hello, program: &str) -> Belongings {
    let host = &hello.ring.hosts()[0];
    let descriptors = |pid: &str| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let names: Vec<String> = fs::read_dir(data(hello).join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let count = |fits: &dyn Fn(&str) -> bool| names.iter().filter(|name| fits(name)).count();
    Belongings {
        processes: leftovers::processes_of(hello.ring.dir()).len(),
        descriptors_of_the_program: descriptors(program),
        descriptors_of_the_daemon: descriptors(&host.pid().to_string()),
        records: count(&|name| name.ends_with(".run")),
        notify_sockets: count(&|name| name.starts_with("notify-")),
        cgroups: cgroups_like_that_of(program),
    }
}

/// The cgroups of the program's run directory, its own among them; none if it has none of its own.
fn cgroups_like_that_of(program: &str) -> usize {
    let own = fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap();
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return 0 };
    // baton-RUN-RANDOM-GROUP
    let name = own.rsplit('/').next().unwrap_or_default();
    let Some(run) = name.strip_prefix("baton-").and_then(|rest| rest.split('-').next()) else {
        return 0;
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let mount = mount.and_then(|line| line.split(' ').nth(1)).unwrap();
    let folder = PathBuf::from(format!("{mount}{own}")).parent().unwrap().to_owned();
    fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("baton-{run}-")))
        .count()
}

fn data(hello: &Hello) -> PathBuf {
    hello.ring.hosts()[0].home().join("data")
}
