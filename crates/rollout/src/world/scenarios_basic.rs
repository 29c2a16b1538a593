//! Scenarios without operators: good and bad releases, thresholds, rollbacks by policy.

use baton_types::policy::{OnFailure, OnNotReady, Strategy};
use std::time::Duration;

use super::World;
use crate::rollout::RolloutState::{
    Completed, CompletedWithExceptions, Paused, Preparing, RollbackPaused, RolledBack,
};
use crate::rollout::TurnState::{Failed, Passed, Skipped, Waiting};
use crate::view::tests::{node, target};

fn all_break(world: &mut World, version: u8) {
    for host in world.hosts.values_mut() {
        host.behave(version, |behavior| behavior.healthy_after = None);
    }
}

fn reset(world: &mut World) {
    world.checks.most_disrupted = 0;
    world.checks.touched.clear();
}

#[test]
fn s01_all_healthy() {
    let mut world = World::new(5);
    reset(&mut world);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)));
    assert_eq!(world.checks.most_disrupted, 1);
    let order = ["n2", "n3", "n4", "n5", "n1"].map(node);
    assert_eq!(world.checks.touched, order, "by name, the leader last");
    assert!(world.hosts.values().all(|host| host.stops == 1));
}

#[test]
fn s02_never_healthy_stops_at_the_first() {
    let mut world = World::new(5);
    all_break(&mut world, 2);
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    assert_eq!((world.on(2), world.on(1)), (1, 4));
    assert_eq!(world.turn("n2"), Failed);
    let reason = world.rollout().turn(node("n2")).expect("a turn").reason.to_string();
    assert_eq!(reason, "not healthy within 5s: critical: exec exited 2: refused");
    let waits_for = "an operator: `baton rollout resume redis.default`, `retry` or `rollback`";
    assert_eq!(world.waits_for(), waits_for);
    let reason = world.rollout().reason.to_string();
    assert_eq!(reason, "n2 failed: not healthy within 5s: critical: exec exited 2: refused");
    world.run(600_000);
    assert_eq!(world.on(2), 1, "nothing else follows");
}

#[test]
fn s03_exits_while_monitored() {
    let mut world = World::new(5);
    for host in world.hosts.values_mut() {
        host.behave(2, |behavior| behavior.exits_after = Some(3_000));
    }
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    assert_eq!((world.on(2), world.rollout().failures()), (1, 1));
    assert_eq!(world.turn("n3"), Waiting);
}

#[test]
fn s04_without_monitoring_it_may_go_on() {
    let mut world = World::new(5);
    world.view.settings.update.monitor = Duration::ZERO;
    for host in world.hosts.values_mut() {
        host.behave(2, |behavior| behavior.exits_after = Some(3_000));
    }
    world.promote(2);
    world.settle();
    world.run(60_000);
}

#[test]
fn s05_s06_shares_of_failures() {
    for (members, limit, touched) in [(5, "25%", 2), (4, "40%", 2), (5, "0", 1), (5, "2", 3)] {
        let mut world = World::new(members);
        world.view.settings.update.max_failures = limit.parse().expect("a limit");
        all_break(&mut world, 2);
        world.promote(2);
        assert_eq!(world.settle(), Paused, "{limit} of {members}");
        assert_eq!(world.on(2), touched, "{limit} of {members}");
        assert_eq!(world.rollout().failures(), touched);
    }
}

#[test]
fn s07_continue_touches_all_one_at_a_time() {
    let mut world = World::new(5);
    world.view.settings.update.on_failure = OnFailure::Continue;
    all_break(&mut world, 2);
    reset(&mut world);
    world.promote(2);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!((world.rollout().failures(), world.checks.most_disrupted), (5, 1));
    assert_eq!((world.on(2), world.baseline()), (5, Some(1)));
    assert!(world.state.rejection(&world.rollout().to.clone()).is_some());
}

/// The third in order fails, and everything goes back.
fn third_fails(on_r1_again: impl Fn(&mut World)) -> World {
    let mut world = World::new(5);
    world.view.settings.update.on_failure = OnFailure::Rollback;
    world.host("n4").behave(2, |behavior| behavior.healthy_after = None);
    on_r1_again(&mut world);
    world.promote(2);
    world
}

/// The limit counts from the stop; what used it up is said.
#[test]
fn a_slow_stop_is_named_where_it_used_the_time_up() {
    let mut world = World::new(2);
    world.host("n2").stop_takes = 4_900;
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    let reason = world.rollout().turn(node("n2")).expect("a turn").reason.to_string();
    let wanted = "not healthy within 5s, of which stopping what ran before took 4s";
    assert!(reason.starts_with(wanted), "{reason}");
}

#[test]
fn s08_rollback_by_policy() {
    let mut world = third_fails(|_| ());
    reset(&mut world);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(1), world.baseline()), (5, Some(1)));
    assert_eq!(world.checks.most_disrupted, 1);
    let rollout = world.rollout();
    assert_eq!(rollout.turns.iter().filter(|turn| turn.phase == 2).count(), 3);
    assert!(world.state.rejection(&rollout.to.clone()).is_some());
    assert_eq!(world.state.history.last().expect("a line").failures, 1);
}

#[test]
fn s09_a_rollback_is_never_rolled_back() {
    let mut world = third_fails(all_r1_break);
    assert_eq!(world.settle(), RollbackPaused);
    assert_eq!(world.rollout().failures(), 1);
    world.run(600_000);
    assert_eq!(world.rollout_state(), RollbackPaused);
}

fn all_r1_break(world: &mut World) {
    all_break(world, 1);
}

#[test]
fn s13_promoted_again_while_it_runs() {
    let mut world = World::new(5);
    world.promote(2);
    world.run(3_000);
    let id = world.rollout().id;
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.rollout().id, id);
    assert_eq!(world.state.history.len(), 1);
}

#[test]
fn s14_superseded() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.on(2) == 3);
    world.promote(3);
    world.run_until(|world| world.state.history.len() == 1);
    assert_eq!(world.state.history[0].state.word(), "superseded");
    assert_eq!(world.rollout().from.as_ref().map(|t| t.release.digest.0[0]), Some(1));
    world.run_until(|world| world.on(3) == 2);
    let answer = world.command(baton_types::CommandAction::Rollback { to: None });
    assert!(answer.message.as_str().contains("redis/1"), "{}", answer.message);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(1), world.baseline()), (5, Some(1)));
}

#[test]
fn s30_a_waiting_member_crashes() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Passed);
    let now = world.now();
    world.host("n5").behave(1, |behavior| behavior.healthy_after = Some(4_000));
    world.host("n5").crash(now);
    world.run(3_900);
    assert_eq!((world.on(2), world.host("n5").running.clone()), (1, Some(target(1))));
    assert!(world.waits_for().contains("n5 is critical"), "{}", world.waits_for());
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.on(2), 5);
}

#[test]
fn s31_the_ill_one_goes_first() {
    let mut world = World::new(5);
    let now = world.now();
    world.host("n4").behave(1, |behavior| behavior.healthy_after = None);
    world.host("n4").crash(now);
    world.run(6_000);
    reset(&mut world);
    world.promote(2);
    world.run(1_000);
    assert_eq!(world.checks.touched, [node("n4")], "at once: {}", world.waits_for());
    assert_eq!(world.settle(), Completed);
}

#[test]
fn s32_not_yet_then_yes() {
    let mut world = World::new(5);
    let from = world.at + 20_000;
    world.host("n2").ready_from = from;
    world.promote(2);
    world.run_until(|world| world.at > from - 1_000);
    assert_eq!((world.on(2), world.host("n2").healthy), (0, true));
    assert!(world.waits_for().contains("n2: asking ready"), "{}", world.waits_for());
    assert!(world.waits_for().contains("still primary"), "{}", world.waits_for());
    assert_eq!(world.settle(), Completed);
}

#[test]
fn s33_never_ready() {
    for (policy, state, on, turn) in [
        (OnNotReady::Fail, Paused, 0, Failed),
        (OnNotReady::Skip, CompletedWithExceptions, 4, Skipped),
        (OnNotReady::Force, Completed, 5, Passed),
    ] {
        let mut world = World::new(5);
        world.view.settings.update.on_not_ready = policy;
        world.host("n2").ready_from = u64::MAX / 2_000;
        world.promote(2);
        assert_eq!(world.settle(), state, "{policy}");
        assert_eq!((world.on(2), world.turn("n2")), (on, turn), "{policy}");
        world.run(300_000);
        assert_eq!(world.on(2), on, "{policy}: no catch-up by itself");
    }
}

#[test]
fn s35_depot_unreachable() {
    let mut world = World::new(5);
    world.promote(2);
    world.depot_up = false;
    world.run(20_000);
    assert_eq!(world.rollout_state(), Preparing);
    let line = world.waits_for();
    assert!(line.contains("cannot prepare redis/2: connection refused"), "{line}");
    world.depot_up = true;
    assert_eq!(world.settle(), Completed);
}

#[test]
fn s35_depot_away_for_too_long_pauses() {
    let mut world = World::new(5);
    world.promote(2);
    world.host("n4").fetch_works = false;
    assert_eq!(world.settle(), Paused);
    assert_eq!(world.on(2), 0);
    let reason = world.rollout().reason.to_string();
    assert!(reason.contains("n4 cannot prepare redis/2: no space left"), "{reason}");
    world.host("n4").fetch_works = true;
    world.command(baton_types::CommandAction::Resume);
    assert_eq!(world.settle(), Completed);
}

#[test]
fn s40_two_at_a_time() {
    let mut world = World::new(5);
    world.view.settings.update.max_unavailable = "40%".parse().expect("a limit");
    reset(&mut world);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.checks.most_disrupted, 2);
}

#[test]
fn s42_first_rollout() {
    let mut world = World::empty(5);
    reset(&mut world);
    world.promote(1);
    world.run_until(|world| !world.checks.touched.is_empty());
    world.run(100);
    assert_eq!(world.checks.most_disrupted, 5, "all at once");
    let answer = world.command(baton_types::CommandAction::Rollback { to: None });
    assert!(answer.message.as_str().contains("nothing to roll back to"), "{}", answer.message);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(1), world.baseline()), (5, Some(1)));
    let answer = world.command(baton_types::CommandAction::Rollback { to: None });
    assert!(answer.message.as_str().contains("nothing completed before"), "{}", answer.message);
}

#[test]
fn at_once_offers_everybody_together() {
    let mut world = World::new(5);
    world.view.settings.strategy = Strategy::AtOnce;
    reset(&mut world);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.checks.most_disrupted, 5);
}
