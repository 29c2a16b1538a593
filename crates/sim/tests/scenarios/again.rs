//! Rolling restarts and reboots in the whole world: everybody stops and starts what it runs, one at a
//! time.

use baton_rollout::{RolloutKind, RolloutState as State, TurnState as Turn};
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Play, Setup, World};
use baton_types::CommandAction;

use crate::{five, five_with, seconds};

/// How often release 1 was started on each host.
fn starts(world: &World) -> Vec<usize> {
    world.all().map(|host| world.starts("1", host)).collect()
}

/// Runs until the rollout shown is of `kind` and has come to `state`; gives back how many members
/// were down at most.
fn follow(world: &mut World, kind: RolloutKind, state: State) -> usize {
    let (mut most_down, end) = (0, world.now() + MINUTE * 20);
    while !world.rollout().is_some_and(|shown| shown.kind == kind && shown.state == state) {
        world.pass(std::time::Duration::from_millis(10));
        most_down = most_down.max(world.down());
        assert!(world.now() < end, "{}", world.story());
    }
    most_down
}

#[test]
fn a_restart_reaches_all_one_by_one_without_a_depot() {
    let mut world = five_with(|_| (), Behaviour::healthy().install(Play::Reboots(1)));
    let all: Vec<usize> = world.all().collect();
    world.lose_depot(&all);
    let (before, asked) = (starts(&world), world.follower());
    world.must(asked, CommandAction::Restart);
    assert_eq!(follow(&mut world, RolloutKind::Restart, State::Completed), 1);
    let wanted: Vec<usize> = before.iter().map(|count| count + 1).collect();
    assert_eq!(starts(&world), wanted, "once each");
    assert_eq!((world.baseline().as_str(), world.turns(Turn::Passed)), ("1", 5));
}

#[test]
fn a_restart_survives_the_loss_of_its_leader_and_of_the_daemon_in_its_turn() {
    let mut world = five();
    let before = starts(&world);
    let (leader, asked) = (world.leader().expect("a leader"), world.follower());
    world.must(asked, CommandAction::Restart);
    world.run_until("a turn is taken", MINUTE, |world| world.in_turn(Turn::Taken).is_some());
    let member = world.in_turn(Turn::Taken).expect("one in its turn");
    world.kill_daemon(leader);
    world.bounce_daemon(member, seconds(2));
    world.pass(seconds(15));
    world.start(leader);
    follow(&mut world, RolloutKind::Restart, State::Completed);
    let wanted: Vec<usize> = before.iter().map(|count| count + 1).collect();
    assert_eq!(starts(&world), wanted, "once each");
}

#[test]
fn a_member_that_does_not_come_up_again_pauses_the_restart_and_its_release_stays_good() {
    let mut world = five();
    let sick = world.all().find(|host| Some(*host) != world.leader()).expect("a follower");
    world.depot().publish_on("1", sick, Behaviour::never_healthy());
    let asked = world.leader().expect("a leader");
    world.must(asked, CommandAction::Restart);
    follow(&mut world, RolloutKind::Restart, State::Paused);
    world.pass(seconds(60));
    let state = world.state().expect("a record");
    assert!(state.rejected.is_empty());
    assert_eq!((world.baseline().as_str(), world.turn(sick)), ("1", Some(Turn::Failed)));
    // The next promotion leaves the restart behind, heals the member and goes everywhere.
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
    world.must(asked, CommandAction::Restart);
    follow(&mut world, RolloutKind::Restart, State::Completed);
    world.depot().publish_on("1", sick, Behaviour::healthy());
    world.must(asked, CommandAction::Rollback { to: None });
    world.run_until("everybody is back on 1", MINUTE * 20, |world| {
        world.rollout_ended() && world.baseline() == "1" && world.run("1") == 5
    });
}

#[test]
fn a_reboot_takes_one_machine_after_the_other() {
    let mut world = five();
    let (before, asked) = (starts(&world), world.follower());
    let boots: Vec<u64> = world.all().map(|host| world.boots(host)).collect();
    world.must(asked, CommandAction::Reboot);
    assert_eq!(follow(&mut world, RolloutKind::Reboot, State::Completed), 1);
    let after: Vec<u64> = world.all().map(|host| world.boots(host) - 1).collect();
    assert_eq!(after, boots, "once each");
    let wanted: Vec<usize> = before.iter().map(|count| count + 1).collect();
    assert_eq!(starts(&world), wanted, "once each");
    assert_eq!((world.baseline().as_str(), world.turns(Turn::Passed)), ("1", 5));
}

#[test]
fn a_reboot_goes_on_over_a_daemon_and_a_power_line_that_fail_in_its_turn() {
    let mut world = five();
    let (leader, asked) = (world.leader().expect("a leader"), world.follower());
    world.must(asked, CommandAction::Reboot);
    world.run_until("a turn is taken", MINUTE, |world| world.in_turn(Turn::Taken).is_some());
    let member = world.in_turn(Turn::Taken).expect("one in its turn");
    let boots = world.boots(member);
    world.bounce_daemon(member, seconds(1));
    world.pass(seconds(2));
    world.kill_daemon(leader);
    world.pass(seconds(3));
    world.power_cycle(member, seconds(20));
    world.pass(seconds(30));
    world.start(leader);
    follow(&mut world, RolloutKind::Reboot, State::Completed);
    assert!((1..=3).contains(&(world.boots(member) - boots)));
    assert_eq!((world.baseline().as_str(), world.run("1")), ("1", 5));
}

#[test]
fn groups_of_one_and_two_reboot_although_their_quorum_goes_with_the_machine() {
    for count in [1, 2] {
        let mut world = World::on_release_1(Setup::of(1, count), Behaviour::healthy());
        let boots: Vec<u64> = world.all().map(|host| world.boots(host)).collect();
        world.must(0, CommandAction::Reboot);
        follow(&mut world, RolloutKind::Reboot, State::Completed);
        let after: Vec<u64> = world.all().map(|host| world.boots(host) - 1).collect();
        assert_eq!(after, boots, "{count} members, once each");
    }
}
