//! A machine whose boot is not complete begins no turn and passes none.

use std::time::Duration;

use baton_types::status::GroupStatus;

use super::bench::{Bench, boot, group, release};
use crate::{Event, Notice, Reply, Request};

#[test]
fn no_turn_begins_before_the_boot_is_complete() {
    let a = group("a.main");
    let mut bench = Bench::while_booting(boot(&[(&a, Some(&release(1)))]), release(2));
    bench.pass(LONG);
    assert_eq!(bench.launched(&a), [release(1).digest], "what it has runs, and nothing else");
    assert_eq!(told_of_waiting(&bench), 1);
    let status = status(&mut bench);
    assert!(status.ends_with("the boot of this machine is not complete"), "{status}");

    bench.handle(Event::BootComplete);
    bench.pass(LONG);
    assert_eq!(bench.launched(&a), [release(1).digest, release(2).digest]);
    assert_eq!(status_of_rollout(&mut bench), "completed");
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
