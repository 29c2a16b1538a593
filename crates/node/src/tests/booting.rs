//! A machine whose boot is not complete begins no turn and passes none.

use std::time::Duration;

use baton_types::manifest::Hook;
use baton_types::status::GroupStatus;

use super::bench::{Bench, boot, group, release};
use crate::{Effect, Event, Notice, Reply, Request};

#[test]
fn no_turn_begins_before_the_boot_is_complete() {
    let (a, has) = (group("a.main"), release(1));
    // With something to replace, and without.
    for runs in [vec![has], Vec::new()] {
        let before: Vec<_> = runs.iter().map(|release| release.digest).collect();
        let mut bench = Bench::while_booting(boot(&[(&a, runs.first())]), release(2));
        bench.pass(LONG);
        assert_eq!(bench.launched(&a), before, "what it has runs, and nothing else");
        assert_eq!(told_of_waiting(&bench), 1);
        let status = status(&mut bench);
        assert!(status.ends_with("the boot of this machine is not complete"), "{status}");

        bench.handle(Event::BootComplete);
        bench.pass(LONG);
        assert_eq!(bench.launched(&a), [before, vec![release(2).digest]].concat());
        assert_eq!(status_of_rollout(&mut bench), "completed");
    }
}

/// It may take the program out of service.
#[test]
fn ready_is_not_asked_before_the_boot_is_complete() {
    let a = group("a.main");
    let mut found = boot(&[(&a, Some(&release(1)))]);
    let hook = Hook { command: vec!["bin/ready".to_owned()], timeout: Duration::from_secs(5) };
    let runs = found.manifests.get_mut(&release(1).digest).expect("a manifest");
    runs.hooks.ready = Some(hook);
    let mut bench = Bench::while_booting(found, release(2));
    let asks = |effect: &Effect| matches!(effect, Effect::RunHook { .. });
    bench.pass(LONG);
    assert_eq!(bench.position(asks), None);
    assert_eq!(told_of_waiting(&bench), 1);
    let status = status(&mut bench);
    assert!(status.ends_with("the boot of this machine is not complete"), "{status}");
    bench.handle(Event::BootComplete);
    assert!(bench.position(asks).is_some());
}

#[test]
fn no_turn_passes_before_the_boot_is_complete() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.head = Some(release(2));
    let mut seconds = 0;
    while !bench.has_logged("is healthy on app/2, being monitored") {
        bench.pass(Duration::from_secs(1));
        seconds += 1;
        assert!(seconds < 60, "it does not get that far");
    }
    // The release that runs now may have broken the boot.
    let mut found = bench.left(boot(&[(&a, Some(&release(1)))]));
    found.machine_boot = "the next one".to_owned();
    let mut again = Bench::while_booting(found, release(2));
    again.pass(LONG);
    assert_eq!(again.launched(&a).last(), Some(&release(2).digest));
    assert_eq!(told_of_waiting(&again), 1);
    assert_eq!(status_of_rollout(&mut again), "running");

    again.handle(Event::BootComplete);
    again.pass(LONG);
    assert_eq!(status_of_rollout(&mut again), "completed");
}

fn told_of_waiting(bench: &Bench) -> usize {
    bench.lines().filter(|line| line.notice == Notice::OwnTurnAwaitsBoot).count()
}

fn status_of_rollout(bench: &mut Bench) -> String {
    let rollout = asked(bench).rollout.expect("a rollout");
    rollout.state.to_string()
}

/// What it waits for.
fn status(bench: &mut Bench) -> String {
    asked(bench).rollout.expect("a rollout").waiting_for
}

fn asked(bench: &mut Bench) -> GroupStatus {
    let request = Request::Status(group("a.main"));
    let Reply::Json(json) = bench.request(request, Duration::ZERO) else { panic!("no status") };
    serde_json::from_str(&json).expect("a status")
}

/// Above every timeout of a turn but `turn_timeout`.
const LONG: Duration = Duration::from_secs(120);
