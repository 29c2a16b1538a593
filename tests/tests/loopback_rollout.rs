//! Daemons on loopback and a program of three lines: the whole house, for a machine without root.
//! The tests are named by what they show; numbers are those of
//! `docs/scenarios.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::time::Duration;

use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts, in_turn};
use baton_tests::wait;

const SHORT: &str = "start_timeout = \"3s\"\nmonitor = \"1500ms\"\nready_timeout = \"3s\"\n\
                     turn_timeout = \"20s\"";

/// Scenarios 1, 2 and 15 in short: all the way, and back.
#[test]
fn a_good_release_reaches_all_and_a_bad_one_only_the_first() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts { health: "echo so so; exit 1", ..Scripts::default() });
    let sick = "echo no connection; exit 2";
    hello.publish("3-bad", Scripts { health: sick, ..Scripts::default() });
    hello.start(SHORT);

    hello.roll("1", &["completed"]);
    hello.expect_running("1", 3);
    // Who looks right after a promotion finds what it led to, at whatever node.
    let cli = hello.ring.hosts()[1].cli();
    let begins = ["told 1 group to read", "hello.default: rollout ", " to hello/2 is preparing"];
    hello.promote_at(2, "2").expect(0, &begins);
    let watch = ["rollout", "status", GROUP, "--watch"];
    cli.run_for(LIMIT, &watch).expect(0, &["completed: update hello/1 → hello/2, 3 of 3 passed"]);
    assert_eq!(in_turn(&hello.status(0).unwrap(), "passed"), 3);
    hello.expect_running("2", 3);
    hello.promote("3-bad");
    hello.wait_for("3-bad", &["preparing", "running", "paused"]);
    cli.run_for(LIMIT, &watch).expect_code(11);
    let status = hello.wait_for("3-bad", &["paused"]);
    assert_eq!((in_turn(&status, "failed"), in_turn(&status, "waiting")), (1, 2));
    let reasons = status["rollout"]["members"].to_string();
    assert!(reasons.contains("no connection"), "the check's own words: {reasons}");
    hello.expect_running("2", 2);

    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    hello.expect_running("2", 3);
    // One step further back there is 1; beyond it nothing.
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    hello.expect_running("1", 3);
    cli.run(&watch).expect(10, &["no rollout under way", "rollback hello/2 → hello/1"]);
    hello.promote_at(1, "2").expect(0, &["hello/2 waits: ", "was rejected", "retry"]);
    let refused = cli.run(&["rollout", "rollback", GROUP]).expect_code(1);
    assert!(refused.stderr.contains("nothing completed before"), "{refused}");
    what_ended_is_told_everywhere(&mut hello);
}

/// Also by a node that was away when a rollout ended: it asks those that were not.
fn what_ended_is_told_everywhere(hello: &mut Hello) {
    hello.ring.host(2).stop();
    fs::remove_file(hello.ring.hosts()[2].home().join("data/outcomes.hello.default")).unwrap();
    hello.ring.host(2).start();
    for host in 0..3 {
        let cli = hello.ring.hosts()[host].cli();
        let ended = cli.json(&["rollout", "history", GROUP]).unwrap();
        let failed =
            ended.as_array().unwrap().iter().find(|one| one["to"]["release"] == "hello/3-bad");
        let id = failed.expect("the failed one")["id"].as_str().unwrap().to_owned();
        let told = cli.json(&["rollout", "history", GROUP, &id]).unwrap();
        let members = told["members"].as_array().unwrap();
        assert_eq!((members.len(), &told["id"]), (3, &serde_json::Value::from(id.as_str())));
        let back = members.iter().filter(|one| one["turn"] == "passed" && one["phase"] == 2);
        assert_eq!(back.count(), 1, "{told}");
        let short = ["rollout", "history", GROUP, &id[..8]];
        cli.run(&short).expect(0, &[&id, "rolled_back", "n1", "passed (back)"]);
        cli.run(&["rollout", "history", GROUP, "xyz"])
            .expect(1, &["no rollout that ended is called \"xyz\"; there are: ", &id[..8]]);
    }
}

/// Scenario 34: hooks that hang or print without end, with children of their own.
#[test]
fn a_hook_that_hangs_or_floods_is_killed_with_its_children_and_the_old_release_serves() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    let pids = hello.ring.dir().join("pids");
    let hangs = format!("sleep 7777 & echo $! >>{0}; echo $$ >>{0}; sleep 7777", pids.display());
    let hooks = [("install", hangs.as_str())];
    hello.publish("2", Scripts { hooks: &hooks, hook_timeout: "1s", ..Scripts::default() });
    let floods = format!("echo $$ >>{}; yes the same line again and again", pids.display());
    let hooks = [("install", floods.as_str())];
    hello.publish("3", Scripts { hooks: &hooks, hook_timeout: "1s", ..Scripts::default() });
    hello.start(SHORT);
    hello.roll("1", &["completed"]);

    for version in ["2", "3"] {
        let status = hello.roll(version, &["paused"]);
        assert_eq!(in_turn(&status, "failed"), 1, "{status}");
        let reasons = status["rollout"]["members"].to_string();
        assert!(reasons.contains("install did not end within 1s"), "{reasons}");
        hello.expect_running("1", 3);
        let started: Vec<u32> = fs::read_to_string(&pids)
            .unwrap()
            .lines()
            .map(|line| line.parse().expect("a pid"))
            .collect();
        assert!(!started.is_empty());
        for pid in started {
            assert!(!is_alive(pid), "{pid} outlived its hook");
        }
    }
}

/// Scenario 35: the depot is away when the rollout is to start.
#[test]
fn a_depot_that_is_away_disrupts_nothing_and_the_rollout_goes_on_when_it_is_back() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);

    // The leader hears of the promotion, but nobody can fetch the archive.
    let (depot, away) = (hello.ring.dir().join("depot.d"), hello.ring.dir().join("depot.away"));
    let archives = depot.join("archives");
    let hidden = hello.ring.dir().join("archives.away");
    assert!(archives.is_dir(), "{}", archives.display());
    let cli = hello.ring.hosts()[0].cli();
    cli.run(&["rollout", "pause", GROUP]).expect_code(0);
    hello.promote("2");
    fs::rename(&archives, &hidden).unwrap();
    cli.run(&["rollout", "resume", GROUP]).expect_code(0);
    let status = hello.wait_for("2", &["preparing"]);
    assert_eq!(in_turn(&status, "waiting"), 3);
    wait::until("the cause by name", LIMIT, || {
        let said = cli.run(&["rollout", "explain", GROUP]).stdout;
        if said.contains("archive") { Ok(()) } else { Err(said) }
    });
    // And then the whole depot is gone for a while.
    fs::rename(&depot, &away).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    hello.expect_running("1", 3);
    fs::rename(&away, &depot).unwrap();
    fs::rename(&hidden, &archives).unwrap();
    hello.wait_for("2", &["completed"]);
    hello.expect_running("2", 3);
}

/// Scenarios 17 and 46: a typed pause, its failover and its end.
#[test]
fn a_pause_holds_without_a_rollout_and_over_a_change_of_leader() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);

    hello.ring.hosts()[2].cli().run(&["rollout", "pause", GROUP]).expect_code(0);
    hello.promote("2");
    let leader = hello.leader(0).expect("a leader");
    hello.ring.host(leader).kill();
    let other = (leader + 1) % 3;
    wait::until("2 waits under the next leader", LIMIT, || {
        let status = hello.status(other)?;
        let pending = status["pending"]["release"] == "hello/2";
        if pending && status["quorum"] == true { Ok(()) } else { Err(status.to_string()) }
    });
    hello.expect_running_at(other, "1", 3);
    hello.ring.host(leader).start();
    hello.ring.hosts()[other].cli().run(&["rollout", "resume", GROUP]).expect_code(0);
    hello.wait_for("2", &["completed"]);
    hello.expect_running("2", 3);
}

/// Scenarios 39 and 48, and the exit codes of a group that cannot decide.
#[test]
fn without_a_majority_services_run_and_nothing_is_decided() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    hello.ring.host(1).kill();
    hello.ring.host(2).kill();

    let cli = hello.ring.hosts()[0].cli();
    wait::until("no quorum is shown", LIMIT, || {
        let status = hello.status(0)?;
        if status["quorum"] == false { Ok(()) } else { Err(status.to_string()) }
    });
    hello.promote("2");
    let refused = cli.run(&["rollout", "start", GROUP]).expect_code(4);
    assert!(refused.stderr.contains("quorum"), "{refused}");
    // A restart of the one that is left: it runs its release by itself.
    hello.ring.host(0).stop();
    hello.ring.host(0).start();
    wait::until("it still runs 1", LIMIT, || {
        let list = cli.json(&["service", "list"])?;
        let mine =
            list.as_array().and_then(|list| list.iter().find(|e| e["name"] == "n1").cloned());
        let runs = mine.as_ref().is_some_and(|e| e["release"] == "hello/1" && e["health"] == "ok");
        if runs { Ok(()) } else { Err(list.to_string()) }
    });
    hello.ring.host(1).start();
    hello.wait_for("2", &["completed", "completed_with_exceptions", "running", "preparing"]);
    hello.ring.host(2).start();
    hello.expect_running("2", 3);
}

/// Scenario 50: two of three voters are gone for good.
#[test]
fn a_group_that_lost_its_majority_is_formed_anew_when_its_name_is_typed() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    let cli = hello.ring.hosts()[0].cli();
    let before = hello.status(0).unwrap()["lineage"].clone();
    let reform = ["rollout", "reform", GROUP, "--yes", GROUP];
    cli.run(&reform).expect(1, &["has a leader", "nothing was done"]);
    hello.ring.host(1).kill();
    hello.ring.host(2).kill();
    wait::until("no quorum is shown", LIMIT, || {
        let status = hello.status(0)?;
        if status["quorum"] == false { Ok(()) } else { Err(status.to_string()) }
    });
    cli.run(&["rollout", "explain", GROUP]).expect(0, &["rollout reform"]);
    cli.run(&["rollout", "reform", GROUP, "--yes", "hello"])
        .expect(1, &["expected the group's name", "nothing was done"]);
    wait::until("it is formed anew", LIMIT, || {
        // Refused until the ring has the others for dead.
        let answer = cli.run(&reform);
        if answer.stdout.contains("is formed anew") { Ok(()) } else { Err(answer.to_string()) }
    });
    let status = hello.status(0).unwrap();
    assert_eq!(status["quorum"], true, "{status}");
    assert_ne!(status["lineage"], before);
    assert!(status["paused_by"].to_string().contains("reform"), "{status}");
    hello.promote("2");
    hello.ring.host(1).start();
    hello.ring.host(2).start();
    wait::until("the old voters are voters of the new lineage", LIMIT, || {
        let status = hello.status(2)?;
        let all = status["voters"].as_array().is_some_and(|voters| voters.len() == 3);
        if all && status["quorum"] == true { Ok(()) } else { Err(status.to_string()) }
    });
    hello.expect_running_at(2, "1", 3);
    hello.ring.hosts()[2].cli().run(&["rollout", "resume", GROUP]).expect_code(0);
    hello.wait_for("2", &["completed"]);
    hello.expect_running("2", 3);
    assert!(hello.ring.hosts()[1].log().contains("was replaced by lineage"));
}

/// A daemon that is stopped, killed or restarted touches no running service.
#[test]
fn services_outlive_every_kind_of_end_of_their_daemon() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    let before = pids(&hello);
    assert_eq!(before.len(), 3);
    hello.ring.host(0).kill();
    hello.ring.host(0).start();
    hello.ring.host(1).stop();
    hello.ring.host(1).start();
    hello.expect_running("1", 3);
    assert_eq!(pids(&hello), before);
    // A program that dies is started again, by the daemon that had adopted it.
    let pid = before[0].1;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    wait::until("another process", LIMIT, || {
        let now = pids(&hello);
        if now.len() == 3 && now[0].1 != pid { Ok(()) } else { Err(format!("{now:?}")) }
    });
}

/// Everybody stops and starts what it runs, one at a time, with the service file of today.
#[test]
fn a_rolling_restart_gives_everybody_a_new_process_of_the_same_release() {
    let mut hello = Hello::new(3);
    let diary = hello.ring.dir().join("diary");
    let write = |what: &str| format!("echo $BATON_NODE {what} >>{}", diary.display());
    // One that is told to stop says so at the end: nobody may come up before it has.
    let run = format!(
        "trap '{}; exit 0' TERM\n{}\nsleep 3600 & wait",
        write("down"),
        write("up with ${GREETING:-nothing}")
    );
    let (install, ready) = (write("install"), write("ready"));
    let hooks = [("install", install.as_str()), ("ready", ready.as_str())];
    hello.publish("1", Scripts { run: &run, hooks: &hooks, ..Scripts::default() });
    hello.start(SHORT);
    let cli = hello.ring.hosts()[1].cli();
    cli.run(&["rollout", "restart", GROUP]).expect(1, &["no baseline to restart on"]);
    hello.roll("1", &["completed"]);
    hello.expect_running("1", 3);

    // A local edit is taken over by the next turn.
    let mut service = hello.service(SHORT);
    service.insert("env".to_owned(), toml::Table::from_iter([greeting("hi")]).into());
    hello.ring.configure(|_, settings| settings.services.push(service.clone()));
    for host in hello.ring.hosts() {
        host.signal(rustix::process::Signal::HUP);
    }
    wait::until("the edits are seen", LIMIT, || {
        let list = hello.ring.hosts()[0].cli().json(&["service", "list"])?;
        let pending = |one: &serde_json::Value| one["pending_edit"] == true;
        let all =
            list.as_array().is_some_and(|list| list.iter().filter(|o| pending(o)).count() == 3);
        if all { Ok(()) } else { Err(list.to_string()) }
    });
    let (before, index) = (pids(&hello), fs::read_to_string(&diary).unwrap().lines().count());
    // Nothing is fetched.
    let archives = hello.ring.dir().join("depot.d/archives");
    fs::rename(&archives, hello.ring.dir().join("archives.away")).unwrap();
    let told = cli.run_for(LIMIT, &["rollout", "restart", GROUP, "--wait"]);
    told.expect(0, &["restart of every member starts", "completed: restart on hello/1, 3 of 3"]);

    let after = pids(&hello);
    assert_eq!(after.len(), 3, "{after:?}");
    for (old, new) in before.iter().zip(&after) {
        assert!(old.0 == new.0 && old.1 != new.1, "{before:?} {after:?}");
    }
    hello.expect_running("1", 3);
    let diary = fs::read_to_string(&diary).unwrap();
    let lines: Vec<&str> = diary.lines().skip(index).collect();
    let mut seen = Vec::new();
    for turn in lines.chunks(3) {
        let name = turn[0].split(' ').next().unwrap();
        let wanted = ["ready", "down", "up with hi"].map(|what| format!("{name} {what}"));
        assert_eq!(turn, wanted, "one after the other, and no install: {lines:#?}");
        seen.push(name);
    }
    seen.sort_unstable();
    assert_eq!(seen, ["n1", "n2", "n3"]);
    let history = cli.json(&["rollout", "history", GROUP]).unwrap();
    assert_eq!(
        (&history[0]["kind"], &history[0]["state"]),
        (&"restart".into(), &"completed".into())
    );
    let status = hello.status(2).unwrap();
    assert_eq!(status["baseline"]["release"], "hello/1");
    assert_eq!(status["rollout"]["to"]["config"], 0);
    cli.run(&["rollout", "rollback", GROUP]).expect(1, &["nothing completed before"]);
}

/// The machine of each member reboots between stop and start, and everybody else waits.
#[test]
fn a_rolling_reboot_takes_one_machine_after_the_other() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.start("start_timeout = \"20s\"\nmonitor = \"1s\"\nturn_timeout = \"80s\"");
    hello.roll("1", &["completed"]);
    hello.expect_running("1", 3);
    let before = pids(&hello);
    let told = hello.ring.hosts()[1].cli().run(&["rollout", "reboot", GROUP]);
    told.expect(0, &["reboot of every member's machine starts"]);
    let mut rebooted = Vec::new();
    while rebooted.len() < 3 {
        let mut wanting = Vec::new();
        wait::until("a machine that is to reboot", LIMIT, || {
            let hosts = hello.ring.hosts().iter().enumerate();
            wanting = hosts.filter(|(_, host)| host.wants_reboot()).map(|(at, _)| at).collect();
            if wanting.is_empty() { Err(hello.status(0)?.to_string()) } else { Ok(()) }
        });
        assert_eq!(wanting.len(), 1, "one at a time");
        let host = wanting[0];
        assert!(!rebooted.contains(&host), "once each");
        let mut others = before.iter().enumerate().filter(|(at, _)| *at != host);
        assert!(others.all(|(_, (_, pid))| !rebooted.is_empty() || alive(*pid)));
        assert!(!alive(before[host].1), "it was stopped before its machine went");
        if rebooted.is_empty() {
            // A daemon that comes back in the same boot starts nothing.
            hello.ring.host(host).kill();
            hello.ring.host(host).start();
            let name = hello.ring.hosts()[host].name().to_owned();
            wait::until("the turn goes on", LIMIT, || {
                let status = hello.status(host)?.to_string();
                if status.contains("rebooting this machine") { Ok(()) } else { Err(status) }
            });
            assert!(pids(&hello).iter().all(|(other, _)| *other != name));
        }
        hello.ring.host(host).cut_power();
        hello.ring.host(host).start();
        rebooted.push(host);
    }
    wait::until("the end of the reboot", LIMIT, || {
        let status = hello.status(0)?;
        let rollout = &status["rollout"];
        let ended = rollout["kind"] == "reboot" && rollout["state"] == "completed";
        if ended { Ok(()) } else { Err(status.to_string()) }
    });
    hello.expect_running("1", 3);
    assert_eq!(hello.status(0).unwrap()["baseline"]["release"], "hello/1");
}

fn alive(pid: u64) -> bool {
    is_alive(pid.try_into().expect("a pid"))
}

fn greeting(text: &str) -> (String, toml::Value) {
    ("GREETING".to_owned(), toml::Value::String(text.to_owned()))
}

/// Name and process of every member that runs.
fn pids(hello: &Hello) -> Vec<(String, u64)> {
    let list = hello.ring.hosts()[2].cli().json(&["service", "list"]).unwrap();
    let mut pids: Vec<(String, u64)> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), entry["pid"].as_u64()?)))
        .collect();
    pids.sort();
    pids
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie that its parent has not reaped yet is dead.
    !stat.is_empty() && !stat.contains(") Z ")
}
