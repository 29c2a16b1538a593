//! Five hosts in network namespaces, and what a network and a frozen process do to a rollout. The
//! numbers are those of `docs/scenarios.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::thread::sleep;
use std::time::Duration;

use baton_tests::fleet::Fleet;
use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts, in_turn};
use baton_tests::{requirements, wait};

const HOSTS: usize = 5;

/// Long enough to be cut or frozen in, short enough to end.
const TURNS: &str = "start_timeout = \"5s\"\nmonitor = \"3s\"\nturn_timeout = \"60s\"";

fn fleet(update: &str) -> Option<Hello<Fleet>> {
    if !requirements::fleet_can_run("fleet_faults", &["ip", "nft"]) {
        return None;
    }
    let mut hello = Hello::on(Fleet::new(HOSTS));
    for version in ["1", "2", "3"] {
        hello.publish(version, Scripts::default());
    }
    hello.start(update);
    hello.roll("1", &["completed"]);
    hello.expect_running("1", HOSTS);
    Some(hello)
}

/// Waits until some member other than the leader is in its turn; returns (leader, member).
fn others_turn(hello: &Hello<Fleet>) -> (usize, usize) {
    let mut found = None;
    wait::until("a turn of another than the leader", LIMIT, || {
        let (leader, member) = (hello.leader(0), hello.member_in_turn(0));
        match (leader, member) {
            (Some(leader), Some(member)) if leader != member => {
                found = Some((leader, member));
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    });
    found.unwrap()
}

/// Waits until some member other than the leader is at this step of its turn; returns the leader.
fn leader_at(hello: &Hello<Fleet>, step: &str) -> usize {
    let mut found = None;
    wait::until(&format!("a turn that is {step}"), LIMIT, || {
        let status = hello.status(0)?;
        let leader = status["leader"].as_str().unwrap_or("").to_owned();
        let members = status["rollout"]["members"].as_array().cloned().unwrap_or_default();
        let there = |member: &serde_json::Value| {
            member["turn"] == step && member["name"] != leader.as_str()
        };
        found = hello.leader(0).filter(|_| members.iter().any(there));
        if found.is_some() { Ok(()) } else { Err(status.to_string()) }
    });
    found.unwrap()
}

/// Every member's turn was given once, and everybody runs `version`.
fn expect_each_once(hello: &Hello<Fleet>, version: &str) {
    let status = hello.wait_for(version, &["completed", "completed_with_exceptions"]);
    assert_eq!(in_turn(&status, "passed"), HOSTS, "{status}");
    for member in status["rollout"]["members"].as_array().unwrap() {
        assert_eq!(member["attempts"], 1, "{member}");
    }
    hello.expect_running(version, HOSTS);
}

#[test]
fn s03_a_release_that_exits_while_it_is_watched_stops_at_the_first() {
    let Some(hello) = fleet("start_timeout = \"5s\"\nmonitor = \"5s\"") else { return };
    hello.publish("2-exits", Scripts { run: "sleep 3; exit 9", ..Scripts::default() });
    let status = hello.roll("2-exits", &["paused"]);
    assert_eq!(
        (in_turn(&status, "failed"), in_turn(&status, "waiting")),
        (1, HOSTS - 1),
        "{status}"
    );
    let members = status["rollout"]["members"].to_string();
    assert!(members.contains("exited with code 9"), "{members}");
    hello.expect_running("1", HOSTS - 1);
}

/// The third one in turn fails, wherever it is: two may pass first.
#[test]
fn s08_a_failure_brings_all_that_were_touched_back_one_at_a_time() {
    let update = format!("{TURNS}\nmax_failures = 0\non_failure = \"rollback\"");
    let Some(hello) = fleet(&update) else { return };
    let tickets = hello.ring.dir().join("tickets");
    let run = format!(
        "echo x >>{0}; [ $(wc -l <{0}) -lt 3 ] || exit 9; exec sleep 3600",
        tickets.display()
    );
    hello.publish("2-third", Scripts { run: &run, ..Scripts::default() });
    hello.promote("2-third");
    hello.wait_for("2-third", &["running", "rolling_back"]);
    let watch = ["rollout", "status", GROUP, "--watch"];
    let cli = hello.ring.hosts()[HOSTS - 1].cli();
    cli.run_for(LIMIT, &watch).expect(10, &["rolled_back"]);
    let status = hello.wait_for("2-third", &["rolled_back"]);
    let members = status["rollout"]["members"].as_array().unwrap();
    let back = members.iter().filter(|one| one["phase"] == 2 && one["turn"] == "passed");
    assert_eq!(back.count(), 3, "{status}");
    assert_eq!(status["baseline"]["release"], "hello/1");
    hello.expect_running("1", HOSTS);
    // The channel still has it first; it is rejected.
    sleep(Duration::from_secs(2));
    let after = hello.status(0).unwrap();
    assert_eq!(after["rollout"]["id"], status["rollout"]["id"], "{after}");
}

#[test]
fn s25_install_reboots_the_machine_and_the_turn_goes_on_after_it() {
    let Some(mut hello) = fleet(TURNS) else { return };
    let install = "[ -e $BATON_STATE_DIR/rebooted ] && exit 0\n\
                   touch $BATON_STATE_DIR/rebooted; exit 76";
    let hooks = [("install", install)];
    hello.publish("2-reboots", Scripts { hooks: &hooks, ..Scripts::default() });
    hello.promote("2-reboots");
    for round in 0..HOSTS {
        let mut rebooting = None;
        wait::until(&format!("reboot {round}"), LIMIT, || {
            let wanting: Vec<_> =
                (0..HOSTS).filter(|h| hello.ring.hosts()[*h].wants_reboot()).collect();
            rebooting = wanting.first().copied();
            if wanting.is_empty() { Err("nobody wants it".to_owned()) } else { Ok(()) }
        });
        let host = rebooting.unwrap();
        hello.ring.host(host).cut_power();
        let others: Vec<usize> = (0..HOSTS).filter(|other| *other != host).collect();
        sleep(Duration::from_secs(2));
        let wanting = others.iter().filter(|other| hello.ring.hosts()[**other].wants_reboot());
        assert_eq!(wanting.count(), 0, "the others wait");
        hello.ring.host(host).start();
    }
    expect_each_once(&hello, "2-reboots");
}

#[test]
fn s20_the_next_leader_goes_on_at_whatever_step_the_last_one_was_killed() {
    let short = "start_timeout = \"5s\"\nmonitor = \"1200ms\"\nturn_timeout = \"60s\"";
    let Some(mut hello) = fleet(short) else { return };
    // Every step lasts long enough to be seen and killed in.
    let up = "$BATON_STATE_DIR/up";
    let run = format!("rm -f {up}; sleep 1; touch {up}; exec sleep 3600");
    let health = format!("[ -e {up} ] || exit 2");
    let hooks = [("install", "sleep 1")];
    for (version, step) in [("20", "offered"), ("21", "taken"), ("22", "monitoring")] {
        let scripts = Scripts { run: &run, health: &health, hooks: &hooks, ..Scripts::default() };
        hello.publish(version, scripts);
        hello.promote(version);
        let leader = leader_at(&hello, step);
        hello.ring.host(leader).kill();
        let asked = (leader + 1) % HOSTS;
        wait::until("another leader", LIMIT, || match hello.leader(asked) {
            Some(next) if next != leader => Ok(()),
            other => Err(format!("{other:?}")),
        });
        hello.ring.host(leader).start();
        expect_each_once(&hello, version);
    }
}

#[test]
fn s22_a_frozen_leader_is_replaced_and_steps_down_in_silence_when_it_thaws() {
    let Some(mut hello) = fleet(TURNS) else { return };
    hello.promote("2");
    let (leader, _) = others_turn(&hello);
    hello.ring.host(leader).freeze();
    let asked = (leader + 1) % HOSTS;
    wait::until("another leader", LIMIT, || match hello.leader(asked) {
        Some(next) if next != leader => Ok(()),
        other => Err(format!("{other:?}")),
    });
    // Its program serves all the while, and the rollout waits for it in the budget.
    sleep(Duration::from_secs(12));
    hello.ring.host(leader).thaw();
    let status = hello.wait_for("2", &["completed", "completed_with_exceptions"]);
    assert_eq!(in_turn(&status, "passed"), HOSTS, "{status}");
    hello.expect_running("2", HOSTS);
    assert_ne!(status["quorum"], false);
}

#[test]
fn s23_the_smaller_part_of_a_cut_group_does_nothing_and_the_turn_counts_once() {
    let Some(mut hello) = fleet(TURNS) else { return };
    hello.promote("2");
    let (leader, member) = others_turn(&hello);
    // The leader and the member in its turn on the side of two.
    let small = [leader, member];
    let large: Vec<usize> = (0..HOSTS).filter(|host| !small.contains(host)).collect();
    hello.ring.partition(&small, &large);

    wait::until("a leader of the majority, and none of the minority", LIMIT, || {
        let (here, there) = (hello.status(large[0])?, hello.status(small[0])?);
        let ok = here["quorum"] == true
            && there["quorum"] == false
            && hello.leader(large[0]).is_some_and(|leader| large.contains(&leader));
        if ok { Ok(()) } else { Err(format!("{here}\n{there}")) }
    });
    let refused = hello.ring.hosts()[small[1]].cli().run(&["rollout", "pause", GROUP]);
    refused.expect_code(4);
    let before = hello.status(large[0]).unwrap();
    sleep(Duration::from_secs(6));
    let after = hello.status(large[0]).unwrap();
    assert_eq!(in_turn(&before, "passed"), in_turn(&after, "passed"), "{after}");
    let waits = after["rollout"]["waiting_for"].as_str().unwrap_or("").to_owned();
    let named = small.iter().any(|host| waits.contains(hello.ring.hosts()[*host].name()));
    assert!(named, "the two are named: {waits:?}");

    hello.ring.mend_all();
    expect_each_once(&hello, "2");
}

#[test]
fn s24_a_leader_that_hears_nobody_stops_deciding() {
    let Some(mut hello) = fleet(TURNS) else { return };
    let leader = hello.leader(0).unwrap();
    for other in (0..HOSTS).filter(|other| *other != leader) {
        hello.ring.cut_one_way(other, leader);
    }
    let asked = (leader + 1) % HOSTS;
    wait::until("another leader takes over", LIMIT, || match hello.leader(asked) {
        Some(next) if next != leader => Ok(()),
        other => Err(format!("{other:?}")),
    });
    wait::until("the deaf one says no quorum", LIMIT, || {
        let status = hello.status(leader)?;
        if status["quorum"] == false { Ok(()) } else { Err(status.to_string()) }
    });
    hello.ring.mend_all();
    hello.roll("2", &["completed", "completed_with_exceptions"]);
    hello.expect_running_at(asked, "2", HOSTS);
}

#[test]
fn a_link_that_is_broken_between_just_two_stops_nobody() {
    let Some(mut hello) = fleet(TURNS) else { return };
    let leader = hello.leader(0).unwrap();
    let member = (leader + 1) % HOSTS;
    for (version, one_way) in [("2", true), ("3", false)] {
        hello.ring.cut_one_way(leader, member);
        if !one_way {
            hello.ring.cut_one_way(member, leader);
        }
        let asked = hello.ring.hosts()[member].cli();
        asked.run(&["rollout", "pause", GROUP]).expect(0, &["paused"]);
        asked.run(&["rollout", "resume", GROUP]).expect(0, &["resumed"]);
        hello.promote(version);
        expect_each_once(&hello, version);
        assert_eq!(hello.leader(member), Some(leader), "a broken link overthrows nobody");
    }
}

#[test]
fn a_lossy_network_slows_a_rollout_and_breaks_nothing() {
    let Some(mut hello) = fleet(TURNS) else { return };
    for host in 0..HOSTS {
        hello.ring.drop_rate(host, 15);
    }
    hello.roll("2", &["completed", "completed_with_exceptions"]);
    hello.ring.mend_all();
    hello.expect_running("2", HOSTS);
}
