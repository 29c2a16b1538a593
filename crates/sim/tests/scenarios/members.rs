//! Members that are not there, depots out of reach, small groups: 27, 35, 39, 48.

use baton_rollout::{RolloutState as State, TurnState as Turn};
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Setup, World};
use baton_types::policy::Limit;
use baton_types::{CommandAction, CommandResult};

use crate::{five, five_with, seconds};

fn bystander(world: &World) -> usize {
    world.all().rfind(|host| Some(*host) != world.leader()).unwrap_or_default()
}

#[test]
fn s27_a_dead_member_blocks_until_it_is_cordoned_and_catches_up_later() {
    let mut world = five();
    let dead = bystander(&world);
    world.power_off(dead);
    world.pass(seconds(30));
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(60));
    assert_eq!(world.touched("2").len(), 0);
    let asked = world.follower();
    let waiting = world.status(asked).rollout.expect("a rollout").waiting_for;
    assert!(waiting.contains(&format!("n{}", dead + 1)), "{waiting}");
    world.run_until_is("2", State::Paused);
    assert_eq!(world.touched("2").len(), 0);
    world.cordon(asked, dead, true);
    world.must(asked, CommandAction::Resume);
    world.run_until_is("2", State::CompletedWithExceptions);
    assert_eq!((world.baseline().as_str(), world.run("2")), ("2", 4));
    world.start(dead);
    world.pass(seconds(60));
    assert_eq!(world.running(dead), "1", "it runs what it has");
    world.cordon(asked, dead, false);
    world.run_until("its turn", MINUTE * 5, |world| {
        world.running(dead) == "2" && world.rollout_ended()
    });
}

#[test]
fn s27_a_dead_member_within_the_budget_does_not_block() {
    let two = |setup: &mut Setup| setup.update.max_unavailable = Limit::Count(2);
    let mut world = five_with(two, Behaviour::healthy());
    let dead = bystander(&world);
    world.power_off(dead);
    world.pass(seconds(30));
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::CompletedWithExceptions);
    assert_eq!((world.baseline().as_str(), world.run("2")), ("2", 4));
    world.start(dead);
    world.run_until("its turn", MINUTE * 5, |world| {
        world.running(dead) == "2" && world.rollout_ended()
    });
}

#[test]
fn s35_a_depot_out_of_reach_disrupts_nothing_and_is_waited_for() {
    let mut world = five();
    let member = bystander(&world);
    world.lose_depot(&[member]);
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(30));
    assert!(world.is("2", State::Preparing));
    assert_eq!((world.down(), world.run("1")), (0, 5));
    let asked = world.follower();
    let rollout = world.status(asked).rollout.expect("a rollout");
    let said = format!("{} {}", rollout.waiting_for, rollout.reason);
    assert!(said.contains(&format!("n{}", member + 1)), "{said}");
    world.heal();
    world.run_until_is("2", State::Completed);
}

#[test]
fn s39_a_group_of_one_works_alone() {
    let mut world = World::on_release_1(Setup::of(1, 1), Behaviour::healthy());
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    assert_eq!((world.run("2"), world.turns(Turn::Passed)), (1, 1));
}

#[test]
fn s39_a_group_of_two_with_one_dead_says_no_quorum() {
    let mut world = World::on_release_1(Setup::of(1, 2), Behaviour::healthy());
    let dead = world.leader().expect("a leader");
    let alive = 1 - dead;
    world.power_off(dead);
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(60));
    let status = world.status(alive);
    assert!(!status.quorum && !status.quorum_reason.is_empty(), "{status:?}");
    let answer = world.order(alive, CommandAction::Start { version: None });
    assert_eq!(answer.result, CommandResult::NoQuorum, "{}", answer.message);
    assert_eq!((world.running(alive).as_str(), world.touched("2").len()), ("1", 0));
    world.start(dead);
    world.run_until_is("2", State::Completed);
}

#[test]
fn s48_one_of_three_back_after_a_power_loss_runs_its_release_and_no_more() {
    let mut world = World::on_release_1(Setup::of(1, 3), Behaviour::healthy());
    world.promote("2", Behaviour::healthy());
    world.run_until("a turn", MINUTE * 2, |world| world.in_turn(Turn::Taken).is_some());
    let in_turn = world.in_turn(Turn::Taken).expect("a turn");
    for host in world.all() {
        world.power_off(host);
    }
    let back = world.all().find(|host| *host != in_turn).expect("another one");
    world.start(back);
    world.pass(MINUTE * 2);
    assert!(world.serves(back));
    assert_eq!(world.running(back), "1");
    let status = world.status(back);
    assert!(!status.quorum && !status.quorum_reason.is_empty(), "{status:?}");
    for host in world.all() {
        world.start(host);
    }
    world.run_until("an end", MINUTE * 10, |world| {
        world.rollout_ended() || world.is("2", State::Paused)
    });
}
