//! Several groups on the same nodes.

use baton_sim::{Behaviour, GroupSetup, Occurrence, Setup, World};
use baton_types::policy::Limit;

use crate::seconds;

/// Four hosts that carry the group `app`; the group `web` is on these.
fn two_groups(web: &[usize]) -> World {
    let mut setup = Setup::of(1, 4);
    setup.trace_lines = 200;
    let mut group = GroupSetup::of("web", web.iter().copied());
    group.update.max_unavailable = Limit::Count(2);
    setup.others.push(group);
    let mut world = World::on_release_1(setup, Behaviour::healthy());
    world.promote_in(WEB, "1", Behaviour::healthy());
    world.run_until("web/1", seconds(120), |world| runs_web(world, "web/1") == web.len());
    world.pass(seconds(10));
    world
}

fn runs_web(world: &World, version: &str) -> usize {
    world.all().filter(|host| world.running_in(WEB, *host) == version).count()
}

/// The checkers see to it that no node is in two turns.
#[test]
fn two_groups_that_roll_at_once_pass_over_members_that_are_in_a_turn_of_the_other() {
    let mut world = two_groups(&[0, 1, 2, 3]);
    world.promote("2", Behaviour::healthy());
    world.promote_in(WEB, "2", Behaviour::healthy());
    world.run_until("both", seconds(300), |world| {
        world.run("2") == 4 && runs_web(world, "web/2") == 4 && world.rollout_ended()
    });
    for what in [Occurrence::RollAtOnce, Occurrence::TurnElsewhere] {
        assert!(world.tally.of(what) > 0, "{what}");
    }
}

/// A release that is bad in one group stops nothing in the other one.
#[test]
fn a_group_that_is_paused_does_not_hold_another_one_on_its_nodes() {
    let mut world = two_groups(&[1, 2]);
    world.promote("2", Behaviour::never_healthy());
    world.run_until_is("2", baton_rollout::RolloutState::Paused);
    world.promote_in(WEB, "2", Behaviour::healthy());
    world.run_until("web/2", seconds(120), |world| runs_web(world, "web/2") == 2);
    assert_eq!(world.run("2"), 1);
}

const WEB: usize = 1;
