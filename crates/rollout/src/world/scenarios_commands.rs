//! Scenarios with operators and with a channel that changes.

use baton_types::policy::OnDemote;
use baton_types::{ClaimId, CommandAction, CommandId, CommandResult, Version};
use baton_wire::TurnMessage;

use super::World;
use crate::rollout::RolloutState::{
    Cancelled, Completed, CompletedWithExceptions, Paused, RollbackPaused, RolledBack,
};
use crate::rollout::TurnState::{Absent, Failed, Monitoring, Offered, Passed, Waiting};
use crate::rollout::{RolloutKind, RolloutState};
use crate::view::tests::{node, target};

fn rollback_to(version: &str) -> CommandAction {
    CommandAction::Rollback { to: Some(Version::new(version).expect("a version")) }
}

pub(super) const ROLLBACK: CommandAction = CommandAction::Rollback { to: None };

fn start(version: &str) -> CommandAction {
    CommandAction::Start { version: Some(Version::new(version).expect("a version")) }
}

pub(super) fn done(world: &mut World, action: CommandAction) -> String {
    let answer = world.command(action);
    assert_eq!(answer.result, CommandResult::Done, "{}", answer.message);
    answer.message.to_string()
}

pub(super) fn refused(world: &mut World, action: CommandAction) -> String {
    let answer = world.command(action);
    assert_eq!(answer.result, CommandResult::Refused, "{}", answer.message);
    answer.message.to_string()
}

fn completed(world: &mut World, version: u8) {
    world.promote(version);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.baseline(), Some(version));
}

#[test]
fn s10_rejected_until_retried() {
    let mut world = World::new(5);
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    world.promote(2);
    world.settle();
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    world.run(120_000);
    assert_eq!((world.on(1), world.state.history.len()), (5, 1), "nothing starts");
    assert!(world.waits_for().contains("redis/2 was rejected"), "{}", world.waits_for());
    assert!(refused(&mut world, CommandAction::Start { version: None }).contains("retry"));
    world.promote(2);
    world.run(20_000);
    assert_eq!(world.on(1), 5, "promoted once more is not enough");
    world.host("n2").behave(2, |behavior| behavior.healthy_after = Some(100));
    done(&mut world, CommandAction::Retry);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.baseline(), Some(2));
    completed(&mut world, 3);
}

#[test]
fn s10_again_and_named_starts() {
    for named in [true, false] {
        let mut world = World::new(3);
        world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
        world.promote(2);
        world.settle();
        done(&mut world, ROLLBACK);
        world.settle();
        world.host("n2").behave(2, |behavior| behavior.healthy_after = Some(100));
        if named {
            done(&mut world, start("2"));
        } else {
            world.promote_with(2, true);
        }
        assert_eq!(world.settle(), Completed);
        assert_eq!(world.on(2), 3);
    }
}

#[test]
fn s15_rollbacks_never_swing() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(1), world.baseline()), (5, Some(1)));
    assert_eq!(world.rollout().kind, RolloutKind::Rollback);
    let why = refused(&mut world, ROLLBACK);
    assert!(why.contains("nothing completed before the baseline redis/1"), "{why}");
    world.run(60_000);
    assert_eq!(world.on(1), 5);
    // What was left is what `retry` allows again.
    assert!(world.waits_for().contains("redis/2 was rejected"), "{}", world.waits_for());
    done(&mut world, CommandAction::Retry);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)));
}

#[test]
fn what_was_cancelled_and_rolled_back_is_what_retry_tries_again() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    world.promote(3);
    world.run_until(|world| world.on(3) == 2);
    done(&mut world, CommandAction::Cancel);
    assert_eq!(world.settle(), RolloutState::Cancelled);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)));
    done(&mut world, CommandAction::Retry);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(3), world.baseline()), (5, Some(3)));
}

#[test]
fn s16_rollback_to_a_version() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    completed(&mut world, 3);
    assert!(refused(&mut world, rollback_to("9")).contains("9 never completed here"));
    done(&mut world, rollback_to("1"));
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(1), world.baseline()), (5, Some(1)));
    world.run(60_000);
    assert_eq!(world.on(1), 5, "the channel's head is rejected");
}

#[test]
fn s17_pause_and_resume() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Monitoring);
    let message = done(&mut world, CommandAction::Pause);
    assert!(message.contains("n3 ends its turn"), "{message}");
    world.run(900_000);
    assert_eq!((world.on(2), world.turn("n3")), (2, Passed));
    assert_eq!(world.rollout_state(), Paused);
    assert!(refused(&mut world, CommandAction::Pause).contains("paused already by n3"));
    done(&mut world, CommandAction::Resume);
    world.run(1_000);
    assert_eq!(world.rollout_state(), RolloutState::Running, "no deadline ran while paused");
    assert_eq!(world.settle(), Completed);
    assert!(refused(&mut world, CommandAction::Resume).contains("nothing is paused"));
}

#[test]
fn s17_pause_while_offered() {
    let mut world = World::new(5);
    let from = world.at + 20_000;
    world.host("n2").ready_from = from;
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Offered);
    let message = done(&mut world, CommandAction::Pause);
    assert!(message.contains("n2 may finish its install hook and then waits"), "{message}");
    world.run(900_000);
    assert_eq!((world.turn("n2"), world.on(2)), (Offered, 0));
    assert!(world.rollout().turns.iter().filter(|turn| turn.state != Waiting).count() == 1);
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), Completed, "{}", world.waits_for());
}

/// Nobody is stopped for a release that the very record which takes the turn gives up.
#[test]
fn a_claim_that_comes_together_with_a_halt_is_not_taken() {
    for action in [ROLLBACK, CommandAction::Pause, CommandAction::Cancel] {
        let mut world = World::new(5);
        world.promote(2);
        world.run_until(|world| world.turn("n3") == Offered && world.turn("n2") == Passed);
        world.checks.touched.clear();
        let rollout = world.rollout();
        let turn = rollout.turn_id(rollout.turn(node("n3")).expect("a turn"));
        let claim = TurnMessage::Claim { turn, claim: ClaimId::from_random(7) };
        world.deliver_late(node("n3"), claim);
        let message = done(&mut world, action.clone());
        assert!(!message.contains("n3 ends its turn"), "{message}");
        world.run(60_000);
        assert!(!world.checks.touched.contains(&node("n3")), "{action:?}: {message}");
    }
}

#[test]
fn s18_cancel_then_rollback() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Monitoring);
    done(&mut world, CommandAction::Cancel);
    assert_eq!(world.settle(), Cancelled);
    assert_eq!((world.on(2), world.on(1), world.baseline()), (2, 3, Some(1)));
    world.run(120_000);
    assert_eq!((world.on(2), world.on(1)), (2, 3), "nothing starts by itself");
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(1), world.rollout().turns.len()), (5, 2));
    assert!(refused(&mut world, CommandAction::Cancel).contains("nothing to cancel"));
}

#[test]
fn s19_demoted_midway() {
    for (policy, state, on_r2) in [
        (OnDemote::Cancel, Cancelled, 2),
        (OnDemote::Rollback, RolledBack, 0),
        (OnDemote::Ignore, Completed, 5),
    ] {
        let mut world = World::new(5);
        world.view.settings.update.on_demote = policy;
        world.promote(2);
        world.run_until(|world| world.turn("n3") == Monitoring);
        world.demote(2);
        assert_eq!(world.settle(), state, "{policy}");
        assert_eq!(world.on(2), on_r2, "{policy}");
        world.run(60_000);
        assert_eq!(world.on(2), on_r2, "{policy}: the head that it revealed starts nothing");
    }
}

#[test]
fn s27_a_dead_member() {
    let mut world = World::new(5);
    world.kill("n4");
    world.promote(2);
    world.run(30_000);
    assert_eq!((world.on(2), world.turn("n4")), (0, Absent));
    assert!(world.waits_for().contains("n4 is dead"), "{}", world.waits_for());
    assert_eq!(world.settle(), Paused, "after progress_timeout");
    assert!(world.rollout().reason.as_str().contains("n4 is dead"), "{}", world.rollout().reason);
    done(&mut world, CommandAction::Cordon { node: node("n4") });
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!((world.on(2), world.baseline()), (4, Some(2)));
    world.boot("n4");
    world.run(60_000);
    assert_eq!(world.on(2), 4, "still cordoned");
    done(&mut world, CommandAction::Uncordon { node: node("n4") });
    world.run(4_000);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(2), world.rollout().kind), (5, RolloutKind::CatchUp));
    assert_eq!(world.host("n4").stops, 1, "by a turn");
}

#[test]
fn s27_a_larger_budget_goes_on() {
    let mut world = World::new(5);
    world.view.settings.update.max_unavailable = "2".parse().expect("a limit");
    world.kill("n4");
    world.promote(2);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!((world.on(2), world.baseline()), (4, Some(2)));
    world.boot("n4");
    world.run(4_000);
    world.settle();
    assert_eq!(world.on(2), 5);
}

#[test]
fn s28_absent_members_come_back_during_a_pause() {
    let mut world = World::new(5);
    world.view.settings.update.max_unavailable = "3".parse().expect("a limit");
    world.kill("n4");
    world.kill("n5");
    world.promote(2);
    assert_eq!(world.settle(), CompletedWithExceptions);
    done(&mut world, CommandAction::Pause);
    world.boot("n4");
    world.boot("n5");
    world.run(120_000);
    assert_eq!((world.on(2), world.on(1)), (3, 2));
    done(&mut world, CommandAction::Resume);
    world.run(4_000);
    world.settle();
    assert_eq!(world.on(2), 5);
}

#[test]
fn s43_completed_then_demoted() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    world.demote(2);
    world.run(60_000);
    assert_eq!(world.on(2), 5);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!(world.on(1), 5);
}

#[test]
fn s44_rejected_stays_so() {
    let mut world = World::new(5);
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    world.promote(2);
    world.settle();
    done(&mut world, ROLLBACK);
    world.settle();
    world.promote(3);
    world.run_until(|world| world.turn("n2") == Monitoring);
    world.demote(3);
    assert_eq!(world.settle(), Cancelled);
    let history = world.state.history.len();
    world.run(120_000);
    assert_eq!((world.on(2), world.state.history.len()), (0, history));
}

#[test]
fn s45_a_mix_stays_as_it_is() {
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Passed);
    done(&mut world, CommandAction::Cancel);
    world.settle();
    let on = (world.on(2), world.on(1));
    let now = world.now();
    for name in ["n2", "n5"] {
        let had = world.host(name).running.clone();
        world.host(name).restart_daemon(now);
        world.run(20_000);
        assert_eq!(world.host(name).running, had);
    }
    world.kill("n3");
    world.run(1_000);
    world.boot("n3");
    world.run(60_000);
    assert_eq!((world.on(2), world.on(1)), on);
}

#[test]
fn s46_a_pause_without_a_rollout() {
    let mut world = World::new(5);
    done(&mut world, CommandAction::Pause);
    world.promote(2);
    world.run(30_000);
    assert_eq!(world.on(2), 0);
    let lead = &world.leads[&world.leader];
    let (release, why) = lead.pending(&world.state, &world.view).expect("it is shown");
    assert_eq!((release.as_str(), why.starts_with("paused by n3")), ("redis/2", true));
    world.failover("n2");
    world.run(30_000);
    assert_eq!(world.on(2), 0);
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.on(2), 5);
}

#[test]
fn s41_two_start_at_once() {
    let mut world = World::new(5);
    done(&mut world, start("2"));
    let message = done(&mut world, start("3"));
    assert!(message.contains("redis/3 supersedes redis/2"), "{message}");
    assert!(refused(&mut world, start("3")).contains("under way"));
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.on(3), 5);
    assert!(refused(&mut world, start("3")).contains("baseline already"));
}

#[test]
fn s47_a_repeated_command_takes_effect_once() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    completed(&mut world, 3);
    let id = CommandId::from_random(99);
    let first = world.command_as(id, ROLLBACK);
    world.failover("n2");
    assert_eq!(world.command_as(id, ROLLBACK), first);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!(world.command_as(id, ROLLBACK), first);
    world.run(60_000);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)));
}

#[test]
fn s54_resume_accepts_and_the_threshold_counts_from_there() {
    let mut world = World::new(5);
    for name in ["n2", "n4"] {
        world.host(name).behave(2, |behavior| behavior.healthy_after = None);
    }
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), Paused, "the second failure pauses again");
    assert_eq!((world.rollout().failures(), world.on(2)), (2, 3));
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), CompletedWithExceptions);
    assert_eq!((world.on(2), world.baseline()), (5, Some(1)), "more failures than allowed");
}

#[test]
fn s54_retry_gives_a_new_attempt() {
    let mut world = World::new(5);
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    world.promote(2);
    assert_eq!(world.settle(), Paused);
    world.host("n2").behave(2, |behavior| behavior.healthy_after = Some(100));
    done(&mut world, CommandAction::Retry);
    assert_eq!(world.rollout().failures(), 0);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.rollout().turn(node("n2")).expect("a turn").attempts, 2);
    assert_eq!(world.baseline(), Some(2));
}

#[test]
fn s54_in_rollback_paused() {
    for (action, ends) in [(CommandAction::Resume, RolledBack), (CommandAction::Retry, RolledBack)]
    {
        let mut world = World::new(5);
        world.promote(2);
        world.run_until(|world| world.turn("n4") == Passed);
        world.host("n2").behave(1, |behavior| behavior.verifies = false);
        done(&mut world, ROLLBACK);
        assert_eq!(world.settle(), RollbackPaused);
        assert_eq!(world.turn("n2"), Failed);
        world.host("n2").behave(1, |behavior| behavior.verifies = true);
        assert!(refused(&mut world, ROLLBACK).contains("is under way"));
        done(&mut world, action);
        assert_eq!(world.settle(), ends);
        assert_eq!(world.on(1), 5);
    }
    let mut world = World::new(5);
    world.promote(2);
    world.run_until(|world| world.turn("n4") == Passed);
    world.host("n2").behave(1, |behavior| behavior.verifies = false);
    done(&mut world, ROLLBACK);
    world.settle();
    done(&mut world, start("3"));
    assert_eq!(world.settle(), Completed, "start supersedes");
    assert_eq!(world.on(3), 5);
}

#[test]
fn a_rollback_right_after_a_cancel_goes_to_the_baseline() {
    let mut world = World::new(5);
    completed(&mut world, 2);
    world.promote(3);
    world.run_until(|world| world.turn("n2") == Monitoring);
    done(&mut world, CommandAction::Cancel);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!((world.on(2), world.baseline()), (5, Some(2)), "not one step further back");
    assert_eq!(world.host("n2").member.file().baseline, Some(target(2)));
}

#[test]
fn commands_without_anything_to_do_say_so() {
    let mut world = World::new(3);
    assert!(refused(&mut world, CommandAction::Retry).contains("nothing to retry"));
    assert!(refused(&mut world, CommandAction::Approve).contains("no wave waits"));
}

#[test]
fn s15_a_rollback_with_an_accepted_failure_does_not_swing_either() {
    let mut world = World::new(3);
    completed(&mut world, 2);
    completed(&mut world, 3);
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RollbackPaused);
    done(&mut world, CommandAction::Resume);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!(world.baseline(), Some(2), "its failure was accepted");
    world.run(20_000);
    assert_eq!(world.on(3), 0, "nobody gets the release that was left");
    let said = done(&mut world, ROLLBACK);
    assert!(said.contains("redis/1"), "{said}");
    assert_eq!(world.settle(), RolledBack);
    assert_eq!(world.baseline(), Some(1));
}

#[test]
fn s19_what_waits_for_its_predecessor_is_demoted() {
    let mut world = World::new(3);
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Monitoring);
    world.promote(3);
    world.run(1);
    assert!(world.state.next.is_some(), "it waits for the turn under way");
    world.demote(3);
    world.run(1);
    assert!(world.state.next.is_none(), "what was demoted does not start");
}

#[test]
fn s46_a_resume_names_what_it_lets_start() {
    let mut world = World::new(3);
    completed(&mut world, 2);
    let ended = world.rollout().id;
    done(&mut world, CommandAction::Pause);
    assert_eq!(world.command(CommandAction::Resume).rollout, None, "nothing starts");
    done(&mut world, CommandAction::Pause);
    world.promote(3);
    world.run(5_000);
    let answer = world.command(CommandAction::Resume);
    assert_eq!(answer.result, CommandResult::Done);
    assert_ne!(answer.rollout, Some(ended), "its end is not the end of what starts");
    assert_eq!(world.settle(), Completed);
    assert_eq!(answer.rollout, Some(world.rollout().id));
    assert_eq!(world.baseline(), Some(3));
}
