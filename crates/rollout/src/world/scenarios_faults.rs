//! Scenarios with lost and repeated messages, crashes, reboots and other leaders.

use baton_types::CommandAction;
use baton_wire::TurnMessage;

use super::World;
use super::scenarios_commands::done;
use crate::rollout::RolloutState::{Completed, Paused};
use crate::rollout::TurnState::{Failed, Monitoring, Offered, Passed, Taken};
use crate::rollout::{RolloutKind, RolloutState, TurnState};
use crate::view::tests::{node, target};

#[test]
fn s11_a_crash_loop_is_one_failure() {
    let mut world = World::new(5);
    world.host("n2").behave(2, |behavior| behavior.exits_after = Some(400));
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    world.run(60_000);
    assert_eq!(world.rollout().failures(), 1);
}

#[test]
fn s12_an_outcome_delivered_many_times() {
    let mut world = World::new(5);
    world.view.settings.update.max_failures = "1".parse().expect("a limit");
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Failed);
    let outcomes: Vec<_> = world
        .sent
        .iter()
        .filter(|(_, message)| matches!(message, TurnMessage::Outcome { .. }))
        .cloned()
        .collect();
    for round in 0..5 {
        for (from, message) in &outcomes {
            world.deliver_late(*from, message.clone());
        }
        if round == 2 {
            world.failover("n3");
        }
        world.run(2_000);
    }
    assert_eq!(world.rollout().failures(), 1);
    world.settle();
    assert_eq!(world.rollout().failures(), 1);
    assert_eq!(world.baseline(), Some(2));
}

#[test]
fn s12_lost_and_repeated_messages() {
    for (loss, repeats) in [(300, 300), (600, 0), (0, 900)] {
        let mut world = World::new(5);
        (world.loss, world.repeats) = (loss, repeats);
        world.promote(2);
        assert_eq!(world.settle(), Completed, "{loss} {repeats}");
        assert!(world.hosts.values().all(|host| host.stops == 1), "once each");
        (world.loss, world.repeats) = (loss, repeats);
        world.host("n3").behave(3, |behavior| behavior.healthy_after = None);
        world.promote(3);
        assert_eq!(world.settle(), Paused, "{loss} {repeats}");
        assert_eq!(world.rollout().failures(), 1);
        world.command(CommandAction::Rollback { to: None });
        assert_eq!(world.settle(), RolloutState::RolledBack);
        assert_eq!(world.on(2), 5);
    }
}

#[test]
fn s20_another_leader_at_each_step() {
    for step in [Offered, Taken, Monitoring, Passed] {
        for name in ["n2", "n4"] {
            let mut world = World::new(5);
            world.promote(2);
            world.run_until(|world| world.turn(name) == step);
            world.failover("n5");
            assert_eq!(world.settle(), Completed, "{name} {step}");
            assert!(world.hosts.values().all(|host| host.stops == 1), "{name} {step}");
        }
    }
}

#[test]
fn s21_failures_are_kept_over_a_failover() {
    let mut world = World::new(5);
    world.view.settings.update.max_failures = "1".parse().expect("a limit");
    for host in world.hosts.values_mut() {
        host.behave(2, |behavior| behavior.healthy_after = None);
    }
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Failed);
    world.failover("n4");
    assert_eq!(world.settle(), Paused);
    assert_eq!((world.rollout().failures(), world.on(2)), (2, 2));
}

#[test]
fn s25_install_reboots_the_machine() {
    for (reboots, state) in [(1, Completed), (3, Completed), (4, Paused)] {
        let mut world = World::new(3);
        world.host("n2").behave(2, |behavior| behavior.reboots = reboots);
        world.promote(2);
        assert_eq!(world.settle(), state, "{reboots} reboots");
        let boots = world.rollout().turn(node("n2")).expect("a turn").reason.to_string();
        if state == Paused {
            assert!(boots.contains("more than 3 reboots"), "{boots}");
            assert_eq!(world.on(1), 3);
        }
    }
}

#[test]
fn s26_it_never_comes_back() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.hosts[&node("n2")].member.is_disrupting());
    world.kill("n2");
    world.run(100_000);
    assert_eq!(world.turn("n2"), Taken, "it holds its place, dead or not");
    assert_eq!(world.settle(), Paused);
    assert_eq!(world.turn("n2"), Failed);
    let reason = world.rollout().reason.to_string();
    assert!(reason.contains("n2"), "{reason}");
    world.boot("n2");
    world.run(30_000);
    assert_eq!(world.on(2), 1, "it ended its turn, which was judged before");
    assert_eq!(world.rollout().failures(), 1);
    world.command(CommandAction::Retry);
    assert_eq!(world.settle(), Completed);
}

#[test]
fn s29_a_member_joins() {
    let mut world = World::new(4);
    let newcomer = World::empty(5).hosts.remove(&node("n5")).expect("a host");
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Passed);
    let mut seen = crate::view::tests::member("n5");
    seen.running = None;
    world.view.members.insert(node("n5"), seen);
    world.hosts.insert(node("n5"), newcomer);
    world.run(1_000);
    assert_eq!(world.host("n5").running, None, "nothing before its turn");
    assert_eq!((world.turn("n5"), world.rollout().total), (TurnState::Waiting, 4));
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.on(2), 5);
}

#[test]
fn a_daemon_or_a_machine_restarts_at_any_point_of_the_turn() {
    for machine in [false, true] {
        for delay in (0..8_000).step_by(45) {
            let mut world = World::new(2);
            world.promote(2);
            world.run(delay);
            let now = world.now();
            if machine {
                world.kill("n2");
                world.run(500);
                world.boot("n2");
            } else {
                world.host("n2").restart_daemon(now);
            }
            assert_eq!(world.settle(), Completed, "after {delay} ms, machine {machine}");
            assert_eq!(world.on(2), 2, "after {delay} ms, machine {machine}");
            let stops = world.host("n2").stops;
            assert!(stops <= 2, "stopped {stops} times after {delay} ms, machine {machine}");
        }
    }
}

#[test]
fn s53_a_go_that_comes_too_late_starts_nothing() {
    let mut world = World::new(2);
    let policy = &mut world.view.settings.update;
    policy.turn_timeout = std::time::Duration::from_secs(7_200);
    policy.progress_timeout = policy.turn_timeout;
    world.promote(2);
    world.run_until(|world| {
        world.sent.iter().any(|(_, message)| matches!(message, TurnMessage::Claim { .. }))
    });
    let claimed = world.sent.iter().rev().find_map(|(_, message)| match message {
        TurnMessage::Claim { turn, claim } => Some((*turn, *claim)),
        _ => None,
    });
    let (turn, claim) = claimed.expect("a claim");
    world.at += 3_600_000;
    let now = world.now();
    world.host("n2").member.receive(now, node("n1"), TurnMessage::Go { turn, claim });
    assert_eq!(world.host("n2").member.take_outputs(), [], "an hour later it means nothing");
    assert!(!world.host("n2").member.is_disrupting());
    assert_eq!(world.settle(), Completed);
}

#[test]
fn a_disk_that_fails_stops_nothing() {
    let mut world = World::new(3);
    world.host("n2").disk_works = false;
    world.promote(2);
    assert_eq!(world.settle_open(), Paused);
    let reason = world.rollout().reason.to_string();
    assert!(reason.contains("n2") && reason.contains("cannot write"), "{reason}");
    assert_eq!((world.host("n2").stops, world.rollout().failures()), (0, 0));
    world.host("n2").disk_works = true;
    world.run(5_000);
    world.command(CommandAction::Resume);
    assert_eq!(world.settle(), Completed);
}

#[test]
fn a_member_already_there_passes_without_a_stop() {
    let mut world = World::new(3);
    world.host("n2").give(&target(2));
    world.run(100);
    world.command(CommandAction::Pause);
    world.promote(2);
    world.command(CommandAction::Resume);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.host("n2").stops, world.on(2)), (0, 3));
}

/// The group was formed anew from a record that is older than a member's turn. It has had that
/// turn, and says how it ended when it is offered it again.
#[test]
fn a_turn_of_which_the_record_was_lost_is_not_waited_for() {
    for attempts in [1, 2] {
        let mut world = World::new(3);
        world.host("n2").behave(2, |behavior| behavior.verifies = attempts == 1);
        world.promote(2);
        world.run_until(|world| world.state.rollout.is_some());
        let mut old = world.state.clone();
        if attempts == 2 {
            world.run_until(|world| world.turn("n2") == Failed);
            world.host("n2").behave(2, |behavior| behavior.verifies = true);
            done(&mut world, CommandAction::Retry);
        }
        world.run_until(|world| world.turn("n2") == Passed);
        world.run(1_000);
        done(&mut world, CommandAction::Pause);
        world.run_until(|world| world.hosts.values().all(|host| !host.member.in_turn()));
        let (starts, by) = (world.hosts[&node("n2")].starts, "n3".parse().expect("a name"));
        old.reformed(&by, Default::default(), baton_types::CommandId::from_random(9), "anew");
        world.state = old;
        world.failover("n3");
        done(&mut world, CommandAction::Resume);
        assert_eq!(world.settle(), Completed, "{attempts}: {:#?}", world.state.last);
        assert_eq!((world.on(2), world.hosts[&node("n2")].starts), (3, starts));
    }
}

#[test]
fn who_died_after_its_go_gets_its_release_when_it_is_back_also_without_a_baseline() {
    let mut world = World::empty(3);
    world.promote(1);
    world.run_until(|world| world.turn("n3") == Taken);
    world.kill("n3");
    world.promote(2);
    world.run_until(|world| world.rollout().to == target(2) && world.on(2) == 2);
    done(&mut world, CommandAction::Cancel);
    world.come_to_rest();
    world.boot("n3");
    world.run(60_000);
    assert_eq!((world.baseline(), world.on(1), world.on(2)), (None, 1, 2));
    let last = world.state.history.last().map(|line| (line.kind, line.state));
    assert_eq!(last, Some((RolloutKind::CatchUp, Completed)));
}
