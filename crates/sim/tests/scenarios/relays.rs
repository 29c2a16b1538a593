//! Two nodes that cannot reach each other while everybody else reaches both: what one has for the
//! other goes through a third.

use baton_rollout::RolloutState as State;
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, World};
use baton_types::{CommandAction, CommandResult};

use crate::{five, seconds};

/// The link between the leader and a member carries nothing, one way or both ways.
fn cut_off_from_the_leader(to_member: bool, to_leader: bool) -> (World, usize, usize) {
    let mut world = five();
    let leader = world.leader().unwrap_or_default();
    let member = world.follower();
    if to_member {
        world.net.cut(leader, member);
    }
    if to_leader {
        world.net.cut(member, leader);
    }
    world.pass(seconds(30));
    assert_eq!(world.leader(), Some(leader), "a broken link overthrows nobody");
    (world, leader, member)
}

#[test]
fn a_member_that_the_leader_cannot_reach_gets_its_turn_through_others() {
    for (to_member, to_leader) in [(true, true), (true, false), (false, true)] {
        let (mut world, leader, _) = cut_off_from_the_leader(to_member, to_leader);
        world.promote("2", Behaviour::healthy());
        world.run_until_is("2", State::Completed);
        assert_eq!((world.run("2"), world.baseline().as_str()), (5, "2"));
        assert_eq!(world.leader(), Some(leader));
        assert!(world.now() < MINUTE * 5, "{:?}\n{}", world.now(), world.story());
    }
}

#[test]
fn a_command_typed_where_the_leader_is_out_of_reach_gets_there() {
    let (mut world, _, member) = cut_off_from_the_leader(true, true);
    let answer = world.order(member, CommandAction::Pause);
    assert_eq!(answer.result, CommandResult::Done, "{}", answer.message);
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(60));
    assert_eq!(world.touched("2").len(), 0);
    world.must(member, CommandAction::Resume);
    world.run_until_is("2", State::Completed);
}
