//! Scenarios of `rollout restart`: everybody stops and starts what it runs, and nothing else
//! changes.

use baton_types::policy::OnFailure;
use baton_types::{CommandAction, Text};
use baton_wire::TurnMessage;

use super::World;
use super::scenarios_commands::{ROLLBACK, done, refused};
use crate::rollout::RolloutState::{
    Cancelled, Completed, CompletedWithExceptions, Paused, RolledBack, Superseded,
};
use crate::rollout::TurnState::{Absent, Failed, Monitoring, Offered, Passed, Taken, Waiting};
use crate::rollout::{RolloutKind, RolloutState};
use crate::view::tests::{node, target};

const RESTART: CommandAction = CommandAction::Restart;

/// A group on r2, with r1 completed before, that has just been told to restart.
fn restarting(count: usize) -> World {
    let mut world = on_two(count);
    done(&mut world, RESTART);
    world
}

fn on_two(count: usize) -> World {
    let mut world = World::new(count);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    for host in world.hosts.values_mut() {
        (host.starts, host.stops) = (0, 0);
    }
    world.checks.most_disrupted = 0;
    world.checks.touched.clear();
    world.checks.narrated.clear();
    world.sent.clear();
    world
}

fn starts(world: &World) -> Vec<u32> {
    world.hosts.values().map(|host| host.starts).collect()
}

fn ended(world: &World) -> (RolloutKind, RolloutState) {
    let line = world.state.history.last().expect("a rollout that ended");
    (line.kind, line.state)
}

#[test]
fn everybody_restarts_what_it_runs_one_at_a_time() {
    let mut world = on_two(3);
    let before = world.state.clone();
    let said = done(&mut world, RESTART);
    assert!(said.contains("restart of every member starts") && said.contains("redis/2"), "{said}");
    assert_eq!(world.settle(), Completed);
    assert_eq!(ended(&world), (RolloutKind::Restart, Completed));
    assert_eq!(starts(&world), [1, 1, 1]);
    assert_eq!(world.checks.most_disrupted, 1);
    assert_eq!(world.checks.touched, [node("n2"), node("n3"), node("n1")], "the leader last");
    assert_eq!(world.state.baselines, before.baselines);
    assert_eq!(world.state.acted, before.acted);
    assert!(world.state.member_targets.is_empty() && world.state.rejected.is_empty());
    let fetched =
        |(_, message): &(_, TurnMessage)| matches!(message, TurnMessage::PrepareReport { .. });
    assert!(!world.sent.iter().any(fetched), "nothing is fetched");
    let told: Vec<_> = world.checks.narrated.iter().map(|line| line.text.as_str()).collect();
    let want = [
        "restart on redis/2 begins for 3 members: n2, n3, n1",
        "n2 is offered its turn to restart",
        "n2 goes: stops what it runs and starts it again",
        "n2 is healthy again, being monitored",
        "n2 passed its restart (1 of 3)",
    ];
    assert_eq!(told[..want.len()], want);
    let end = "the restart on redis/2 ended completed, 3 of 3 passed";
    assert_eq!(told.last(), Some(&end));
}

#[test]
fn a_restart_needs_no_depot_and_runs_no_install() {
    let mut world = on_two(3);
    world.depot_up = false;
    for host in world.hosts.values_mut() {
        host.behave(2, |behavior| behavior.reboots = 1);
    }
    done(&mut world, RESTART);
    assert_eq!(world.settle(), Completed);
    assert_eq!(starts(&world), [1, 1, 1], "nobody rebooted for its install hook");
}

#[test]
fn a_member_that_fails_pauses_and_nothing_is_rejected_or_rolled_back() {
    for (policy, way_back) in [(OnFailure::Pause, false), (OnFailure::Rollback, true)] {
        let mut world = on_two(3);
        world.view.settings.update.on_failure = policy;
        world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
        done(&mut world, RESTART);
        assert_eq!(world.settle(), Paused, "{policy}");
        let reason = world.rollout().reason.to_string();
        assert!(reason.starts_with("n2 failed: not healthy within 5s"), "{reason}");
        assert_eq!(reason.contains("a restart has no way back"), way_back, "{reason}");
        world.run(60_000);
        assert_eq!((world.turn("n2"), world.turn("n3")), (Failed, Waiting));
        assert_eq!((world.baseline(), world.state.rejected.len()), (Some(2), 0));
        assert_eq!((world.on(2), world.rollout().phase), (3, 1));
        let hint = world.waits_for();
        assert!(hint.contains("`retry`") && !hint.contains("rollback"), "{hint}");
        world.host("n2").behave(2, |behavior| behavior.healthy_after = Some(100));
        done(&mut world, CommandAction::Retry);
        assert_eq!(world.settle(), Completed, "{policy}");
    }
}

#[test]
fn on_failure_continue_counts_and_goes_on() {
    let mut world = on_two(4);
    world.view.settings.update.on_failure = OnFailure::Continue;
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    done(&mut world, RESTART);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!(world.state.history.last().map(|line| (line.passed, line.failures)), Some((3, 1)));
    assert_eq!((world.baseline(), world.state.rejected.len()), (Some(2), 0));
    assert!(world.state.gave_up.is_empty(), "it has what it should have");
    let why = refused(&mut world, CommandAction::Retry);
    assert!(why.contains("`baton rollout restart redis.default`"), "{why}");
}

#[test]
fn a_promotion_supersedes_a_restart() {
    let mut world = restarting(5);
    world.run_until(|world| world.turn("n2") == Monitoring);
    world.promote(3);
    assert_eq!(world.settle(), Completed);
    let kinds: Vec<_> =
        world.state.history.iter().map(|line| (line.kind, line.state)).skip(1).collect();
    assert_eq!(kinds, [(RolloutKind::Restart, Superseded), (RolloutKind::Update, Completed)]);
    let reason = world.state.history[1].reason.to_string();
    assert_eq!(reason, "superseded by update to redis/3");
    assert_eq!((world.baseline(), world.on(3)), (Some(3), 5));
    assert!(world.state.rejected.is_empty());
}

#[test]
fn daemons_leaders_and_machines_may_go_at_any_step() {
    for step in [Offered, Taken, Monitoring, Passed] {
        for name in ["n2", "n4"] {
            let mut world = restarting(5);
            world.run_until(|world| world.turn(name) == step);
            let now = world.now();
            world.host(name).restart_daemon(now);
            world.failover("n5");
            assert_eq!(world.settle(), Completed, "{name} {step}");
            assert_eq!(starts(&world), [1; 5], "{name} {step}");
            let mut world = restarting(5);
            world.run_until(|world| world.turn(name) == step);
            world.kill(name);
            world.run(1_000);
            world.boot(name);
            assert_eq!(world.settle(), Completed, "{name} {step} after a power loss");
            assert_eq!((world.on(2), world.baseline()), (5, Some(2)));
        }
    }
    let mut world = on_two(5);
    (world.loss, world.repeats) = (300, 300);
    done(&mut world, RESTART);
    assert_eq!(world.settle(), Completed, "loss");
    assert_eq!(starts(&world), [1; 5], "once each");
}

#[test]
fn it_is_paused_resumed_and_cancelled_like_any_other() {
    let mut world = restarting(4);
    world.run_until(|world| world.turn("n2") == Taken);
    done(&mut world, CommandAction::Pause);
    world.run(60_000);
    assert_eq!((world.rollout_state(), world.turn("n2")), (Paused, Passed));
    let said = done(&mut world, CommandAction::Resume);
    assert_eq!(said, "resumed: the restart on redis/2 goes on");
    world.run_until(|world| world.turn("n3") == Taken);
    done(&mut world, CommandAction::Cancel);
    assert_eq!(world.settle(), Cancelled);
    world.run(60_000);
    assert_eq!((world.on(2), world.state.history.len()), (4, 2), "nothing follows");
    assert_eq!(starts(&world).iter().sum::<u32>(), 2);
    // One that is typed while a pause holds waits for its end.
    done(&mut world, CommandAction::Pause);
    let said = done(&mut world, RESTART);
    assert!(said.contains("the group is paused by n3"), "{said}");
    world.run(30_000);
    assert_eq!(world.rollout_state(), Paused);
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), Completed);
}

#[test]
fn a_rollback_afterwards_or_meanwhile_does_not_count_it_as_a_step() {
    let mut world = restarting(4);
    assert_eq!(world.settle(), Completed);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.baseline(), world.on(1)), (Some(1), 4), "one step, to r1");
    assert!(world.state.rejection(&target(2)).is_some());
    done(&mut world, RESTART);
    assert_eq!(world.settle(), Completed);
    assert!(refused(&mut world, ROLLBACK).contains("nothing completed before"));

    let mut world = restarting(4);
    world.run_until(|world| world.turn("n2") == Monitoring);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.baseline(), world.on(1)), (Some(1), 4));
    let kinds: Vec<_> = world.state.history.iter().map(|line| line.kind).skip(1).collect();
    assert_eq!(kinds, [RolloutKind::Restart, RolloutKind::Rollback]);
}

#[test]
fn members_of_a_mix_restart_what_they_have_and_keep_it() {
    let mut world = on_two(5);
    world.promote(3);
    world.run_until(|world| world.turn("n2") == Monitoring);
    done(&mut world, CommandAction::Cancel);
    assert_eq!(world.settle(), Cancelled);
    let before = world.state.member_targets.clone();
    world.hosts.values_mut().for_each(|host| host.starts = 0);
    let said = done(&mut world, RESTART);
    assert!(said.contains("not all have the baseline redis/2"), "{said}");
    world.run_until(|world| world.turn("n2") == Taken);
    assert_eq!(world.state.target_of(node("n2")), Some(&target(3)), "also while it is in turn");
    assert_eq!(world.settle(), Completed);
    assert_eq!(starts(&world), [1; 5]);
    assert_eq!((world.on(3), world.on(2), world.baseline()), (1, 4, Some(2)));
    assert_eq!(world.state.member_targets, before);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)), "from the mix to the baseline");
}

#[test]
fn what_is_under_way_or_not_there_refuses_it() {
    let mut world = World::empty(3);
    assert!(refused(&mut world, RESTART).contains("no baseline to restart on"));
    let mut world = on_two(3);
    world.promote(3);
    world.run_until(|world| world.turn("n2") == Monitoring);
    let why = refused(&mut world, RESTART);
    assert!(why.contains("the update to redis/3 is running"), "{why}");
    assert_eq!(world.settle(), Completed);
    done(&mut world, RESTART);
    world.run_until(|world| world.turn("n2") == Monitoring);
    let why = refused(&mut world, RESTART);
    assert!(why.contains("the restart on redis/3 is running"), "{why}");
    let version = baton_types::Version::new("3").ok();
    let why = refused(&mut world, CommandAction::Start { version });
    assert!(why.contains("is the baseline already"), "{why}");
    done(&mut world, CommandAction::Cancel);
    assert!(refused(&mut world, RESTART).contains("is ending"));
    assert_eq!(world.settle(), Cancelled);
}

#[test]
fn who_is_away_is_absent_and_needs_no_turn_later() {
    let mut world = on_two(5);
    world.view.settings.update.max_unavailable = "2".parse().expect("a limit");
    world.kill("n4");
    world.run(1_000);
    done(&mut world, RESTART);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!((world.turn("n4"), world.baseline()), (Absent, Some(2)));
    world.boot("n4");
    world.run(60_000);
    assert_eq!(world.state.history.len(), 2, "it started with its machine: nothing to catch up");
}

#[test]
fn a_member_that_runs_nothing_yet_is_left_out_and_catches_up_afterwards() {
    let mut world = on_two(4);
    let host = world.host("n4");
    host.disk = crate::MemberFile::default();
    host.running = None;
    host.health_text = Text::default();
    world.boot("n4");
    world.refresh_view();
    done(&mut world, RESTART);
    world.run(200);
    assert_eq!(world.rollout().kind, RolloutKind::Restart);
    assert!(world.rollout().turn(node("n4")).is_none());
    world.run_until(|world| world.on(2) == 4);
    world.come_to_rest();
    let kinds: Vec<_> = world.state.history.iter().map(|line| line.kind).skip(1).collect();
    assert_eq!(kinds, [RolloutKind::Restart, RolloutKind::CatchUp]);
}
