//! Programs, hooks and health checks that do not behave: what cannot serve fails its member's turn
//! with the cause in plain words and the others keep the old release; what does not end, or leaves
//! others behind, is gone after its stop; what prints without end costs neither disk nor memory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts, in_turn};
use baton_tests::{cli, wait};

const SHORT: &str = "start_timeout = \"3s\"\nmonitor = \"500ms\"\nready_timeout = \"3s\"\n\
                     turn_timeout = \"20s\"";

#[test]
fn what_cannot_serve_fails_its_turn_with_its_cause_and_the_old_release_serves() {
    let mut hello = Hello::new(3);
    let dir = hello.ring.dir().to_owned();
    let plain = file(&dir, "plain", "#!/bin/sh\n", 0o644);
    let binary = file(&dir, "binary", "\u{7f}ELF, or so it says", 0o755);
    let script = file(&dir, "script", "#!/nowhere/sh\n", 0o755);
    hello.publish("1", Scripts::default());
    let quick = Scripts::default();
    let cases = [
        (None, "/nowhere/server", "there is no program /nowhere/server".to_owned()),
        (None, plain.as_str(), format!("{plain} is not executable")),
        (None, binary.as_str(), format!("{binary} is no program for this machine")),
        (None, script.as_str(), format!("the interpreter or loader of {script} is missing")),
        (
            Some(Scripts { run: "echo no port is free; exit 7", ..quick }),
            "",
            "exited with code 7: no port is free".to_owned(),
        ),
        (
            Some(Scripts { run: "kill -KILL $$", ..quick }),
            "",
            "was killed by signal 9 (SIGKILL)".to_owned(),
        ),
        (
            Some(Scripts { health: "echo wait; sleep 7777", ..quick }),
            "",
            "did not answer within 1s".to_owned(),
        ),
        (
            Some(Scripts { health: "exit 9", ..quick }),
            "",
            "not healthy within 3s: critical: exec exited 9".to_owned(),
        ),
    ];
    for (number, (scripts, command, _)) in cases.iter().enumerate() {
        let version = format!("bad-{number}");
        match scripts {
            Some(scripts) => hello.publish(&version, *scripts),
            None => publish_command(&hello, &version, command),
        }
    }
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    let mut hit = None;
    for (number, (_, _, wanted)) in cases.iter().enumerate() {
        let status = hello.roll(&format!("bad-{number}"), &["paused"]);
        assert_eq!((in_turn(&status, "failed"), in_turn(&status, "waiting")), (1, 2), "{status}");
        let members = status["rollout"]["members"].as_array().unwrap();
        let failed = members.iter().position(|member| member["turn"] == "failed").unwrap();
        let reason = members[failed]["reason"].as_str().unwrap();
        assert!(reason.contains(wanted), "{wanted:?} is not in {reason:?}");
        // Whoever is ill already loses nothing: the same member is tried each time.
        let name = members[failed]["name"].as_str().unwrap().to_owned();
        assert_eq!(*hit.get_or_insert(name.clone()), name);
        let cli = hello.ring.hosts()[1].cli();
        cli.run(&["rollout", "explain", GROUP]).expect(0, &[&name, wanted]);
        hello.expect_running("1", 2);
        let host = hello.ring.hosts().iter().find(|host| host.name() == name).unwrap();
        assert!(host.log().contains(wanted), "{wanted:?} is not in the log of {name}");
    }
    let cli = hello.ring.hosts()[0].cli();
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    hello.expect_running("1", 3);
}

#[test]
fn what_ignores_its_stop_or_leaves_others_behind_is_gone_with_all_of_them() {
    let mut hello = Hello::new(3);
    let (own, checks) = (hello.ring.dir().join("own"), hello.ring.dir().join("checks"));
    // Deaf to SIGTERM, with a daemon that has left its session and a child of that one.
    let run = format!(
        "trap '' TERM; echo $$ >>{0}\n\
         (setsid sh -c 'trap \"\" TERM; echo $$ >>{0}; sleep 7777 & echo $! >>{0}; wait' &)\n\
         while :; do sleep 1; done",
        own.display()
    );
    // A check that is well but leaves a child, which keeps its output open.
    let health = format!("setsid sleep 7777 & echo $! >>{}; exit 0", checks.display());
    hello.publish("1", Scripts { run: &run, health: &health, ..Scripts::default() });
    hello.publish("2", Scripts::default());
    // The time to start counts from the stop of the old one, which takes its whole stop_timeout.
    hello.start(&SHORT.replace("start_timeout = \"3s\"", "start_timeout = \"6s\""));
    hello.roll("1", &["completed"]);
    wait::until("all nine of them run", LIMIT, || {
        let alive = pids(&own).into_iter().filter(|pid| is_alive(*pid)).count();
        if alive == 9 { Ok(()) } else { Err(format!("{alive} run")) }
    });
    wait::until("checks on all members", LIMIT, || match pids(&checks).len() {
        30.. => Ok(()),
        few => Err(format!("{few} checks")),
    });
    // One check may be under way on each member.
    let left = pids(&checks).into_iter().filter(|pid| is_alive(*pid)).count();
    assert!(left <= 3, "{left} children of checks live");

    let host = &hello.ring.hosts()[0];
    let before = Instant::now();
    host.cli().run_for(LIMIT, &["service", "stop", GROUP]).expect_code(0);
    wait::until("three of them are gone", LIMIT, || {
        let alive = pids(&own).into_iter().filter(|pid| is_alive(*pid)).count();
        if alive == 6 { Ok(()) } else { Err(format!("{alive} run")) }
    });
    let took = before.elapsed();
    assert!(took > Duration::from_millis(1_900), "its stop_timeout is 2s, not {took:?}");
    host.cli().run(&["service", "start", GROUP]).expect_code(0);
    hello.expect_running("1", 3);

    let status = hello.roll("2", &["completed"]);
    assert_eq!(in_turn(&status, "passed"), 3, "{status}");
    hello.expect_running("2", 3);
    for pid in pids(&own).into_iter().chain(pids(&checks)) {
        assert!(!is_alive(pid), "{pid} outlived its program or check");
    }
}

#[test]
fn output_without_end_or_line_costs_neither_disk_nor_memory() {
    let mut hello = Hello::new(1);
    let flood = "head -c 50000000 /dev/zero | tr '\\0' y; echo; echo the very end; exit 1";
    let hooks = [("verify", flood)];
    hello.publish("1", Scripts { run: "tr '\\0' x </dev/zero", ..Scripts::default() });
    hello.publish("2", Scripts { hooks: &hooks, ..Scripts::default() });
    hello.start(SHORT);
    let host = &hello.ring.hosts()[0];
    let before = memory(host.pid());
    hello.roll("1", &["completed"]);
    let (mut most, end) = (0, Instant::now() + Duration::from_secs(4));
    while Instant::now() < end {
        most = most.max(size(&host.home().join("data/log")));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most > 0 && most < DISK_MAX_BYTES, "{most} bytes of output on disk");
    let said = host.cli().run(&["service", "logs", GROUP]).expect_code(0);
    assert!(said.stdout.len() < 100_000, "{} bytes of one line", said.stdout.len());
    hello.expect_running("1", 1);

    let status = hello.roll("2", &["paused"]);
    let reason = status["rollout"]["members"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("verify exited with code 1"), "{reason}");
    assert!(reason.contains("the very end") && reason.len() < 1_000, "{reason}");
    let log = host.log();
    let longest = log.lines().map(str::len).max().unwrap_or(0);
    assert!(log.len() < 200_000 && longest < 5_000, "{} bytes, a line of {longest}", log.len());
    let grown = memory(host.pid()).saturating_sub(before);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more than the {before} KiB before");
}

/// A file with this mode; its path as text.
fn file(dir: &Path, name: &str, content: &str, mode: u32) -> String {
    let path = dir.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

/// A release that runs what is no part of it; what is a part of it is looked at when it is published.
fn publish_command(hello: &Hello, version: &str, command: &str) {
    let release = hello.ring.dir().join("releases").join(version);
    fs::create_dir_all(&release).unwrap();
    let manifest = |command: &str| {
        format!("name = \"hello\"\nversion = \"{version}\"\n[run]\ncommand = [\"{command}\"]\n")
    };
    for (inside, why) in [("bin/none", "is not in the release"), ("text", "is not executable")] {
        fs::write(release.join("text"), "#!/bin/sh\n").unwrap();
        fs::write(release.join("release.toml"), manifest(inside)).unwrap();
        let (dir, url) = (release.display().to_string(), hello.depot.url());
        let key = hello.ring.dir().join("depot.key").display().to_string();
        let publish = ["depot", "publish", &dir, "--depot", &url, "--key", &key];
        cli::alone(&publish).expect(1, &[inside, why]);
    }
    fs::write(release.join("release.toml"), manifest(command)).unwrap();
    hello.depot.publish(&release);
}

fn pids(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie that its parent has not reaped yet is dead.
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Bytes that the files of a folder take.
fn size(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The most memory that a process has ever used, in KiB.
fn memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a daemon");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("VmHWM")
}

/// The cap is 4 MiB; between two looks a flood may write a good deal more.
const DISK_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A look's worth of output, a hook's, and some.
const MEMORY_MAX_KIB: u64 = 48 * 1024;
