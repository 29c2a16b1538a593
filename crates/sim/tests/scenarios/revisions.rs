//! Configuration revisions in the whole world, with faults on their way.

use baton_rollout::TurnState;
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, World};
use baton_types::{CommandAction, CommandResult, Digest};

use crate::{five, seconds};

fn apply(name: u8) -> CommandAction {
    CommandAction::ApplyConfig { digest: Digest([name; 32]) }
}

/// Every member runs this release, the baseline has the revision of this number, and nothing is under
/// way.
fn everybody_on(world: &World, version: &str, config: u32) -> bool {
    let state = world.state();
    let baseline = state.and_then(|state| state.baseline()).map(|target| target.config.number);
    world.rollout_ended() && baseline == Some(config) && world.run(version) == 5
}

/// The same, by what the members say of themselves.
fn everybody_says(world: &mut World, asked: usize, version: &str, config: u32) {
    let members = world.status(asked).members;
    let release = format!("app/{version}");
    assert_eq!(members.len(), 5);
    for member in members {
        assert_eq!((member.release.as_str(), member.config), (release.as_str(), config));
    }
}

#[test]
fn a_revision_survives_its_leader_meets_a_release_and_goes_back_with_it() {
    let mut world = five();
    let follower = world.follower();
    world.must(follower, apply(0x70));
    world.run_until("a rollout", MINUTE, |world| !world.rollout_ended());
    world.pass(seconds(5));
    let leader = world.leader().expect("a leader");
    world.kill_daemon(leader);
    world.pass(seconds(10));
    world.start(leader);
    let asked = world.all().find(|host| *host != leader).expect("another");
    world.run_until("everybody has revision 1", MINUTE * 15, |world| everybody_on(world, "1", 1));
    everybody_says(&mut world, asked, "1", 1);

    // A second one, and a release that is promoted while it is under way.
    world.must(asked, apply(0x71));
    world.run_until("a rollout", MINUTE, |world| !world.rollout_ended());
    world.pass(seconds(5));
    world.promote("2", Behaviour::healthy());
    world.run_until("everybody has both", MINUTE * 20, |world| everybody_on(world, "2", 2));
    everybody_says(&mut world, asked, "2", 2);

    // Back to what completed before, with everybody's depot away.
    let all: Vec<usize> = world.all().collect();
    world.lose_depot(&all);
    world.must(asked, CommandAction::Rollback { to: None });
    world.run_until("everybody is back", MINUTE * 20, |world| everybody_on(world, "1", 1));
    everybody_says(&mut world, asked, "1", 1);
}

#[test]
fn a_revision_that_is_handed_in_passes_from_member_to_member() {
    let mut world = five();
    let all: Vec<usize> = world.all().collect();
    world.lose_depot(&all);
    let asked = world.follower();
    // Nobody has it: that is said, and nothing starts.
    let none = world.order(asked, apply(0x70));
    assert_eq!(none.result, CommandResult::Refused, "{}", none.message);
    assert!(none.message.as_str().contains("the depot does not answer"), "{}", none.message);
    world.hand_in(asked, Digest([0x70; 32]));
    world.must(asked, apply(0x70));
    world.run_until("a turn", MINUTE, |world| world.in_turn(TurnState::Taken).is_some());
    let leader = world.leader().expect("a leader");
    world.kill_daemon(leader);
    world.pass(seconds(10));
    world.start(leader);
    world.run_until("everybody has revision 1", MINUTE * 15, |world| everybody_on(world, "1", 1));
    everybody_says(&mut world, asked, "1", 1);
}
