//! A full disk on one member, a reboot while an operator pauses, clocks that step.

use baton_rollout::{RolloutState as State, TurnState as Turn};
use baton_sim::{Behaviour, Play};
use baton_types::CommandAction;

use super::{five, seconds};

/// The one that cannot fetch and verify is named, nothing is disrupted, and one word goes on.
#[test]
fn s36_one_that_cannot_verify_the_release_holds_it_up_before_anything_is_disrupted() {
    let mut world = five();
    let (ill, asked) = (world.follower(), world.leader().expect("a leader"));
    let name = format!("n{}", ill + 1);
    world.lose_depot(&[ill]);
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Preparing);
    world.pass(seconds(30));
    let waiting = world.status(asked).rollout.expect("a rollout").waiting_for;
    assert!(waiting.contains(&name), "{waiting}");
    world.run_until_is("2", State::Paused);
    let status = world.status(asked).rollout.expect("a rollout");
    assert!(status.reason.contains(&name) && status.reason.contains("prepare"), "{status:?}");
    assert_eq!((world.touched("2").len(), world.run("1"), world.down()), (0, 5, 0));
    world.heal();
    world.must(asked, CommandAction::Resume);
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
}

/// `install` ends, its reboot included; then the member waits, and nobody else is offered a turn.
#[test]
fn s52_a_pause_while_install_reboots_lets_it_end_and_nothing_more() {
    let mut world = five();
    world.promote("2", Behaviour::healthy().install(Play::Reboots(1)));
    world.run_until("an offer", seconds(60), |world| world.in_turn(Turn::Offered).is_some());
    let member = world.in_turn(Turn::Offered).expect("offered");
    world.run_until("the machine goes down", seconds(60), |world| !world.is_up(member));
    let asked = world.all().find(|host| *host != member).expect("another");
    let said = world.must(asked, CommandAction::Pause);
    assert!(said.message.as_str().contains("install"), "{}", said.message);
    world.run_until("the machine is back", seconds(120), |world| world.is_up(member));
    world.pass(seconds(300));
    assert_eq!(world.turn(member), Some(Turn::Offered), "{}", world.story());
    assert_eq!((world.turns(Turn::Waiting), world.touched("2").len()), (4, 0));
    assert_eq!((world.run("1"), world.down()), (5, 0), "what runs is what ran before");
    world.must(asked, CommandAction::Resume);
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
}

/// People's clocks are for people: not one decision is taken by them.
#[test]
fn s55_clocks_that_step_by_a_year_have_no_effect() {
    let year = 365 * 86_400_000;
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    for (round, by) in [year, -year, -year, year, year].into_iter().enumerate() {
        world.run_until("the next turn", seconds(120), |world| {
            world.turns(Turn::Passed) >= round || world.rollout_ended()
        });
        for host in world.all() {
            world.step_clock(host, if host % 2 == 0 { by } else { -by });
        }
    }
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
    for host in world.all() {
        assert_eq!(world.starts("2", host), 1, "n{} started it more than once", host + 1);
    }
}

/// What a member knew of its program when its machine stood still says nothing of how it is now: the
/// others wait for the first check after that.
#[test]
fn a_program_that_fell_ill_while_its_machine_stood_still_counts_as_ill_from_its_first_word_on() {
    let mut world = five();
    let ill = world.all().rfind(|host| Some(*host) != world.leader()).expect("another");
    world.suspend(ill, seconds(60));
    let falls_ill = Behaviour::falls_ill(world.now());
    world.depot().publish_on("1", ill, falls_ill);
    world.pass(seconds(20));
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(60));
    assert_eq!(world.touched("2").first(), Some(&ill), "{}", world.story());
}
