//! Which target is next, and what is gone back to: 13–16, 19, 41–44.

use baton_rollout::{RolloutKind, RolloutState as State, TurnState as Turn};
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Setup, World};
use baton_types::policy::{OnDemote, OnFailure};
use baton_types::{CommandAction, CommandResult, Version};

use crate::{five, five_with, seconds};

fn version(text: &str) -> Option<Version> {
    Version::new(text).ok()
}

#[test]
fn s13_a_promoted_release_that_runs_already_starts_nothing() {
    let mut world = five();
    let before = world.rollout().expect("the first").id;
    world.promote("1", Behaviour::healthy());
    world.pass(seconds(60));
    assert_eq!(world.rollout().expect("the first").id, before);
}

#[test]
fn s14_a_newer_target_supersedes_and_a_rollback_goes_to_the_baseline() {
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until("half of it", MINUTE * 5, |world| {
        world.turns(Turn::Passed) == 2 && world.in_turn(Turn::Taken).is_some()
    });
    let in_turn = world.in_turn(Turn::Taken).expect("a turn");
    world.promote("3", Behaviour::healthy());
    world.run_until("3 runs somewhere", MINUTE * 5, |world| world.run("3") > 0);
    assert_eq!(world.touched("2").len(), 3, "no further turn of 2");
    assert!(world.starts("2", in_turn) == 1, "its turn ended first");
    let history = &world.state().expect("a state").history;
    assert_eq!(history.last().map(|ended| ended.state), Some(State::Superseded));
    let follower = world.follower();
    world.must(follower, CommandAction::Rollback { to: None });
    world.run_until_is("3", State::RolledBack);
    assert_eq!((world.run("1"), world.baseline().as_str()), (5, "1"));

    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until("half of it", MINUTE * 5, |world| world.turns(Turn::Passed) == 2);
    world.promote("3", Behaviour::healthy());
    world.run_until_is("3", State::Completed);
    assert_eq!((world.run("3"), world.baseline().as_str()), (5, "3"));
}

#[test]
fn s15_rollback_twice_never_swings() {
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    let follower = world.follower();
    world.must(follower, CommandAction::Rollback { to: None });
    world.run_until("back on 1", MINUTE * 10, |world| world.rollout_ended() && world.run("1") == 5);
    assert_eq!(world.baseline(), "1");
    let answer = world.order(follower, CommandAction::Rollback { to: None });
    assert_eq!(answer.result, CommandResult::Refused, "{}", answer.message);
    world.pass(seconds(60));
    assert_eq!((world.run("1"), world.rollout_ended()), (5, true));
}

#[test]
fn s16_rollback_to_a_version_that_completed_before() {
    let mut world = five();
    for next in ["2", "3"] {
        world.promote(next, Behaviour::healthy());
        world.run_until_is(next, State::Completed);
    }
    let follower = world.follower();
    world.must(follower, CommandAction::Rollback { to: version("1") });
    world.run_until("back on 1", MINUTE * 10, |world| world.rollout_ended() && world.run("1") == 5);
    assert_eq!(world.baseline(), "1");
}

#[test]
fn s19_demotion_mid_way_does_what_the_policy_says() {
    for (choice, state) in [
        (OnDemote::Cancel, State::Cancelled),
        (OnDemote::Rollback, State::RolledBack),
        (OnDemote::Ignore, State::Completed),
    ] {
        let mut world = five_with(|setup| setup.update.on_demote = choice, Behaviour::healthy());
        world.promote("2", Behaviour::healthy());
        world.run_until("two passed", MINUTE * 5, |world| world.turns(Turn::Passed) == 2);
        world.demote("2");
        world.run_until_is("2", state);
        let baseline = if choice == OnDemote::Ignore { "2" } else { "1" };
        assert_eq!(world.baseline(), baseline, "{choice}");
        if choice == OnDemote::Rollback {
            assert_eq!(world.run("1"), 5);
        }
    }
}

#[test]
fn s41_two_starts_at_once_never_run_both() {
    let mut world = five();
    world.depot().publish("2", Behaviour::healthy());
    world.depot().publish("3", Behaviour::healthy());
    let hosts: Vec<usize> = world.all().filter(|host| Some(*host) != world.leader()).collect();
    let two = world.type_at(hosts[0], CommandAction::Start { version: version("2") });
    let three = world.type_at(hosts[1], CommandAction::Start { version: version("3") });
    let answers = [world.answer_to(two), world.answer_to(three)];
    assert!(answers.iter().any(|answer| answer.result == CommandResult::Done), "{answers:?}");
    world
        .run_until("an end", MINUTE * 10, |world| world.rollout_ended() && world.baseline() != "1");
    let winner = world.baseline();
    assert_eq!(world.run(&winner), 5);
    let other = if winner == "2" { "3" } else { "2" };
    assert!(world.touched(other).len() <= 1, "{:?}", world.touched(other));
}

#[test]
fn s42_the_first_rollout_takes_all_at_once_and_has_no_way_back() {
    let mut world = World::group(5);
    world.promote("1", Behaviour::healthy().needs(5));
    world.run_until_is("1", State::Completed);
    assert_eq!((world.baseline().as_str(), world.turns(Turn::Passed)), ("1", 5));
    let follower = world.follower();
    let answer = world.order(follower, CommandAction::Rollback { to: None });
    assert_eq!(answer.result, CommandResult::Refused, "{}", answer.message);
}

#[test]
fn s43_a_completed_release_that_is_demoted_stays_and_rollback_leaves_it() {
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    let before = world.rollout().expect("a rollout").id;
    world.demote("2");
    world.pass(seconds(60));
    assert_eq!(world.rollout().expect("a rollout").id, before);
    let follower = world.follower();
    world.must(follower, CommandAction::Rollback { to: None });
    world.run_until("back on 1", MINUTE * 10, |world| world.rollout_ended() && world.run("1") == 5);
    assert_eq!(world.rollout().map(|rollout| rollout.kind), Some(RolloutKind::Rollback));
}

#[test]
fn s44_a_head_revealed_by_demotion_starts_nothing() {
    let mut setup = Setup::of(1, 5);
    setup.update.on_failure = OnFailure::Rollback;
    let mut world = World::on_release_1(setup, Behaviour::healthy());
    world.promote("2", Behaviour::never_healthy());
    world.run_until_is("2", State::RolledBack);
    world.promote("3", Behaviour::healthy());
    world.demote("3");
    world.pass(seconds(60));
    assert!(world.rollout_ended());
    assert_eq!((world.run("1"), world.touched("3").len()), (5, 0));
    assert!(world.is("2", State::RolledBack), "still the last");
}
