//! One rollout and its turns: 1, 2, 3, 8, 10, 31–34.

use baton_rollout::{RolloutState as State, TurnState as Turn};
use baton_sim::{Behaviour, Play};
use baton_types::CommandAction;
use baton_types::policy::{OnFailure, OnNotReady};

use crate::{five, five_with, seconds};

#[test]
fn s01_a_good_release_reaches_all_one_by_one_the_leader_last() {
    let mut world = five();
    let leader = world.leader().expect("a leader");
    world.promote("2", Behaviour::healthy());
    let mut most_down = 0;
    while !world.is("2", State::Completed) {
        world.pass(std::time::Duration::from_millis(10));
        most_down = most_down.max(world.down());
        assert!(world.now() < seconds(600), "{}", world.story());
    }
    assert_eq!(most_down, 1);
    assert_eq!(world.baseline(), "2");
    assert_eq!(world.turns(Turn::Passed), 5);
    let mut order: Vec<usize> = world.all().filter(|host| *host != leader).collect();
    order.push(leader);
    assert_eq!(world.touched("2"), order);
}

#[test]
fn s02_a_release_that_never_becomes_healthy_stops_at_the_first_member() {
    let mut world = five();
    world.promote("2", Behaviour::never_healthy());
    world.run_until_is("2", State::Paused);
    world.pass(seconds(60));
    assert_eq!(world.touched("2").len(), 1);
    assert_eq!(world.run("1"), 4);
    let failed = world.in_turn(Turn::Failed).expect("a failed turn");
    assert_eq!(world.touched("2"), [failed]);
    let asked = world.follower();
    let status = world.status(asked).rollout.expect("a rollout");
    let member = status.members.iter().find(|member| member.turn == "failed").expect("failed");
    assert!(member.reason.contains("does not serve"), "its last health output: {}", member.reason);
    assert_eq!((status.failures, status.state.as_str()), (1, "paused"));
}

#[test]
fn s03_a_release_that_dies_while_it_is_watched_stops_at_the_first_member() {
    let mut world = five();
    world.promote("2", Behaviour::exits(seconds(3)));
    world.run_until_is("2", State::Paused);
    world.pass(seconds(60));
    assert_eq!(world.touched("2").len(), 1);
    assert_eq!((world.run("1"), world.turns(Turn::Failed)), (4, 1));
}

#[test]
fn s08_and_s10_a_failed_update_goes_back_and_its_release_stays_rejected() {
    let mut world =
        five_with(|setup| setup.update.on_failure = OnFailure::Rollback, Behaviour::healthy());
    let order: Vec<usize> = world.all().filter(|host| Some(*host) != world.leader()).collect();
    world.depot().publish("2", Behaviour::healthy());
    world.depot().publish_on("2", order[2], Behaviour::never_healthy());
    world.depot().promote("2", false);
    let mut most_down = 0;
    while !world.is("2", State::RolledBack) {
        world.pass(std::time::Duration::from_millis(20));
        most_down = most_down.max(world.down());
        assert!(world.now() < seconds(900), "{}", world.story());
    }
    assert_eq!(most_down, 1);
    assert_eq!(world.touched("2"), order[..3]);
    assert_eq!((world.run("1"), world.baseline().as_str()), (5, "1"));
    // 10: the channel still offers it.
    let ended = world.rollout().expect("a rollout").id;
    world.pass(seconds(60));
    assert_eq!(world.rollout().expect("a rollout").id, ended);
    let follower = world.follower();
    let pending = world.status(follower).pending.expect("a pending target");
    assert_eq!(pending.release, "app/2");
    assert!(
        pending.reason.contains("retry") || pending.reason.contains("start"),
        "{}",
        pending.reason
    );
    world.depot().publish("2", Behaviour::healthy());
    world.must(follower, CommandAction::Retry);
    world.run_until_is("2", State::Completed);
    world.promote("3", Behaviour::healthy());
    world.run_until_is("3", State::Completed);
    assert_eq!(world.run("3"), 5);
}

#[test]
fn s31_an_ill_member_goes_first_and_is_healed_by_the_update() {
    let mut world = five();
    let ill = world.all().rfind(|host| Some(*host) != world.leader()).expect("a member");
    world.depot().publish_on("1", ill, Behaviour::never_healthy());
    world.pass(seconds(10));
    assert!(!world.serves(ill));
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    assert_eq!(world.touched("2")[0], ill);
    assert_eq!(world.down(), 0);
}

#[test]
fn s32_not_yet_is_waited_for_while_the_old_release_serves() {
    let mut world = five_with(|_| (), Behaviour::healthy().ready(Play::NotYetFor(seconds(20))));
    world.promote("2", Behaviour::healthy());
    world.run_until("an offer", seconds(60), |world| world.in_turn(Turn::Offered).is_some());
    for _ in 0..18 {
        world.pass(seconds(1));
        assert_eq!((world.down(), world.run("1")), (0, 5), "{}", world.story());
    }
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
}

#[test]
fn s33_never_ready_fails_skips_or_is_forced() {
    for (choice, state, touched) in [
        (OnNotReady::Fail, State::Paused, 0),
        (OnNotReady::Skip, State::CompletedWithExceptions, 0),
        (OnNotReady::Force, State::Completed, 5),
    ] {
        let first = Behaviour::healthy().ready(Play::NotYetFor(seconds(1_000_000)));
        let mut world = five_with(
            |setup| {
                setup.update.on_not_ready = choice;
                // Skipped turns are no progress.
                setup.update.progress_timeout = seconds(600);
            },
            first,
        );
        world.promote("2", Behaviour::healthy());
        world.run_until_is("2", state);
        assert_eq!(world.touched("2").len(), touched, "{choice}");
        assert_eq!(world.down(), 0, "{choice}");
        let (failed, skipped) = (world.turns(Turn::Failed), world.turns(Turn::Skipped));
        match choice {
            OnNotReady::Fail => assert_eq!((failed, skipped), (1, 0)),
            OnNotReady::Skip => assert_eq!((failed, skipped), (0, 5)),
            OnNotReady::Force => assert_eq!(world.turns(Turn::Passed), 5),
        }
    }
}

#[test]
fn s34_a_hook_that_hangs_is_killed_and_the_old_release_serves() {
    let mut world = five();
    world.promote("2", Behaviour::healthy().install(Play::Hangs));
    world.run_until_is("2", State::Paused);
    assert!(world.touched("2").is_empty());
    assert_eq!((world.down(), world.run("1")), (0, 5));
    let failed = world.in_turn(Turn::Failed).expect("a failed turn");
    let asked = world.follower();
    let status = world.status(asked).rollout.expect("a rollout");
    let member = status.members.iter().find(|member| member.turn == "failed").expect("one");
    assert_eq!(member.name, format!("n{}", failed + 1));
    let reason = &member.reason;
    assert!(reason.contains("install") && reason.contains("within"), "{reason}");

    let mut world = five_with(|_| (), Behaviour::healthy().ready(Play::Hangs));
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Paused);
    assert_eq!((world.down(), world.run("1"), world.touched("2").len()), (0, 5, 0));
}

#[test]
fn a_claim_after_a_restart_asks_the_budget_again() {
    let tolerant = |setup: &mut baton_sim::Setup| {
        setup.update.max_failures = baton_types::policy::Limit::Count(2);
    };
    let mut world = five_with(tolerant, Behaviour::healthy());
    let order: Vec<usize> = world.all().filter(|host| Some(*host) != world.leader()).collect();
    world.depot().publish("2", Behaviour::healthy());
    world.depot().publish_on("2", order[0], Behaviour::never_healthy());
    world.depot().promote("2", false);
    world.run_until("a failure that is let pass", seconds(120), |world| {
        world.turn(order[0]) == Some(Turn::Failed)
    });
    while world.turn(order[1]) != Some(Turn::Taken) {
        world.pass(std::time::Duration::from_micros(50));
        assert!(world.now() < seconds(300), "{}", world.story());
    }
    // It has its turn and has not yet heard of it.
    world.kill_daemon(order[1]);
    assert_eq!((world.running(order[1]).as_str(), world.serves(order[0])), ("1", false));
    let follower =
        world.all().find(|host| Some(*host) != world.leader() && !order[..2].contains(host));
    // From here on the member that failed counts again.
    world.must(follower.expect("one"), CommandAction::Retry);
    world.start(order[1]);
    for _ in 0..30 {
        world.pass(seconds(1));
        assert!(world.serves(order[1]) || world.serves(order[0]), "{}", world.story());
    }
}
