//! Voters that do not come back: forgotten ones, and dead ones with a spare member for their place.

use baton_node::{NodeRef, Reply, Request};
use baton_rollout::{RolloutState as State, TurnState as Turn};
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Setup, World};
use baton_types::CommandAction;
use baton_types::policy::Limit;

use crate::{five, seconds};

fn name(host: usize) -> String {
    format!("n{}", host + 1)
}

fn follower(world: &World) -> usize {
    world.all().rfind(|host| Some(*host) != world.leader()).unwrap_or_default()
}

#[test]
fn a_forgotten_voter_is_removed_and_comes_back_as_a_new_member() {
    let mut world = five();
    let gone = follower(&world);
    let asked = world.leader().expect("a leader");
    world.power_off(gone);
    world.pass(seconds(60));
    assert_eq!(world.status(asked).voters.len(), 5, "a dead voter stays");
    let forget = Request::RingForget(NodeRef::Name(name(gone)));
    let request = world.ask(asked, forget);
    world.run_until("the answer", MINUTE, |world| world.reply(request).is_some());
    assert!(matches!(world.reply(request), Some(Reply::Done(_))), "{:?}", world.reply(request));
    world.pass(seconds(30));
    assert_eq!(world.status(asked).voters.len(), 4, "{}", world.story());
    world.start(gone);
    world.pass(seconds(120));
    let voters = world.status(asked).voters;
    assert!(voters.len() == 5 && voters.contains(&name(gone)), "{voters:?}");
}

#[test]
fn the_eighth_member_takes_the_place_of_a_voter_that_stays_dead() {
    let mut setup = Setup::of(1, 8);
    setup.timing.replace_dead_after = seconds(120);
    let mut world = World::on_release_1(setup, Behaviour::healthy());
    let asked = world.leader().expect("a leader");
    let before = world.status(asked).voters;
    assert_eq!(before.len(), 7);
    let spare = world.all().map(name).find(|name| !before.contains(name)).expect("a spare member");
    let dead = world
        .all()
        .find(|host| *host != asked && before.contains(&name(*host)))
        .expect("a voter that does not lead");
    world.power_off(dead);
    world.pass(seconds(100));
    assert!(world.status(asked).voters.contains(&name(dead)), "not before its time");
    world.pass(seconds(60));
    let after = world.status(asked).voters;
    assert_eq!(after.len(), 7, "{after:?}");
    assert!(after.contains(&spare) && !after.contains(&name(dead)), "{after:?}");
}

/// The dead leader's id comes first of all voters, and its own fact still says that it leads: members
/// without a vote must not believe that, or they refuse the offers of the next leader.
#[test]
fn members_without_a_vote_follow_the_next_leader() {
    let world = |seed| {
        let mut setup = Setup::of(seed, 9);
        setup.trace_lines = 120;
        setup.update.max_unavailable = Limit::Count(2);
        World::on_release_1(setup, Behaviour::healthy())
    };
    let mut world = (1..100).map(world).find(|world| world.leader() == Some(0)).expect("a seed");
    world.power_off(0);
    world.promote("2", Behaviour::healthy());
    let has_2 = |world: &World| world.all().filter(|host| world.running(*host) == "2").count();
    world.run_until("release 2 on the others", MINUTE * 3, |world| has_2(world) == 8);
}

/// Eight members, of which the one without a vote stays down after all have lost their power, it
/// `before` the others.
fn seven_back_without_the_eighth(before: u64) -> (World, usize) {
    let mut world = World::on_release_1(Setup::of(1, 8), Behaviour::healthy());
    let asked = world.follower();
    let voters = world.status(asked).voters;
    let spare = world.all().find(|host| !voters.contains(&name(*host))).unwrap_or_default();
    world.power_off(spare);
    world.pass(seconds(before));
    let others: Vec<usize> = world.all().filter(|host| *host != spare).collect();
    others.iter().for_each(|host| world.power_off(*host));
    world.pass(seconds(5));
    others.iter().for_each(|host| world.start(*host));
    world.run_until("a leader", MINUTE, |world| world.leader().is_some());
    (world, spare)
}

#[test]
fn who_has_no_vote_and_stays_down_still_counts_when_all_others_have_restarted() {
    for before in [0, 30] {
        let (mut world, spare) = seven_back_without_the_eighth(before);
        world.promote("2", Behaviour::healthy());
        world.pass(seconds(60));
        let asked = world.leader().expect("a leader");
        assert_eq!(world.touched("2").len(), 0, "one is down already: {}", world.story());
        let waiting = world.status(asked).rollout.expect("a rollout").waiting_for;
        assert!(waiting.contains(&format!("{} is dead", name(spare))), "{waiting}");
        world.start(spare);
        world.run_until_is("2", State::Completed);
        assert_eq!(world.run("2"), 8);
    }
}

#[test]
fn who_is_remembered_can_be_forgotten() {
    for before in [0, 30] {
        let (mut world, spare) = seven_back_without_the_eighth(before);
        let asked = world.leader().expect("a leader");
        let request = world.ask(asked, Request::RingForget(NodeRef::Name(name(spare))));
        world.run_until("the answer", MINUTE, |world| world.reply(request).is_some());
        assert!(matches!(world.reply(request), Some(Reply::Done(_))), "{:?}", world.reply(request));
        world.promote("2", Behaviour::healthy());
        world.run_until("a turn", MINUTE, |world| world.in_turn(Turn::Offered).is_some());
    }
}

/// Of three one is away: the leaving of another would leave the group without a majority.
#[test]
fn who_is_needed_is_told_so_when_it_asks_to_leave() {
    let mut world = World::on_release_1(Setup::of(1, 3), Behaviour::healthy());
    let leader = world.leader().expect("a leader");
    let others: Vec<usize> = world.all().filter(|host| *host != leader).collect();
    world.power_off(others[0]);
    world.pass(seconds(30));
    let request = world.ask(others[1], Request::RingLeave { force: false });
    world.run_until("the answer", seconds(20), |world| world.reply(request).is_some());
    let Some(Reply::Refused { text, .. }) = world.reply(request) else {
        panic!("{:?}", world.reply(request))
    };
    for part in [
        format!("{}: it is needed", name(others[1])),
        format!("({} away)", name(others[0])),
        "--force".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    world.start(others[0]);
    world.pass(seconds(30));
    let request = world.ask(others[1], Request::RingLeave { force: false });
    world.run_until("the answer", MINUTE, |world| world.reply(request).is_some());
    assert!(matches!(world.reply(request), Some(Reply::Done(_))), "{:?}", world.reply(request));
}

/// Members believe in no leader that has left: it must not go on beside the next one, nor be elected
/// with the vote that it kept.
#[test]
fn a_leader_that_leaves_by_force_leads_no_more() {
    let mut world = five();
    let old = world.leader().expect("a leader");
    world.leave(old, true);
    world.run_until("another leader", seconds(10), |world| {
        world.leader().is_some_and(|leader| leader != old)
    });
    world.promote("2", Behaviour::healthy());
    world.run_until_is("2", State::Completed);
    assert_eq!((world.run("2"), world.running(old)), (4, "1".to_owned()));
    let next = world.leader().expect("a leader");
    assert_eq!(world.status(next).voters.len(), 4, "{}", world.story());
    let own = world.status(old);
    assert_eq!((own.quorum, own.leader), (false, None));
    assert!(own.quorum_reason.contains("has left the ring"), "{}", own.quorum_reason);
    let request = world.type_at(old, CommandAction::Pause);
    let said = world.reply(request);
    assert!(matches!(said, Some(Reply::Refused { .. })), "{said:?}");
    world.restart_daemon(old, seconds(1));
    world.run_until("its vote and its release", MINUTE * 2, |world| {
        world.running(old) == "2" && world.voters() == 5
    });
}
