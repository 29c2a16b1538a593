//! A majority of the voters lost for good, and lineages that replace one another.

use baton_node::Request;
use baton_rollout::{RolloutState, TurnState};
use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Setup, World};
use baton_types::{CommandAction, CommandResult};

use crate::{five, seconds};

/// A group on release 1, release 2 under way with one member in its turn.
fn in_the_middle(hosts: usize) -> World {
    let mut setup = Setup::of(1, hosts);
    setup.trace_lines = 200;
    let mut world = World::on_release_1(setup, Behaviour::healthy());
    world.promote("2", Behaviour::healthy());
    world.run_until("a turn", MINUTE * 2, |world| world.turns(TurnState::Monitoring) == 1);
    world
}

fn quorum(world: &mut World, host: usize) -> bool {
    world.status(host).quorum
}

#[test]
fn s50_two_of_three_voters_are_gone_for_good() {
    let mut world = in_the_middle(3);
    let left = world.follower();
    let lost: Vec<usize> = world.all().filter(|host| *host != left).collect();
    let before = world.status(left);
    let refused = world.order(left, CommandAction::Reform);
    assert_eq!(refused.result, CommandResult::Refused, "{}", refused.message);
    assert!(refused.message.as_str().contains("has a leader"), "{}", refused.message);
    lost.iter().for_each(|host| world.power_off(*host));
    world.pass(seconds(60));
    assert!(!quorum(&mut world, left));
    assert!(world.serves(left), "what runs goes on running");

    let done = world.must(left, CommandAction::Reform);
    assert!(done.message.as_str().contains("formed anew"), "{}", done.message);
    world.pass(seconds(5));
    let after = world.status(left);
    assert!(after.quorum && after.lineage != before.lineage, "{after:?}");
    assert_eq!(after.baseline, before.baseline);
    assert!(after.paused_by.is_some_and(|by| by.contains("reform")), "{}", world.story());
    let rollout = after.rollout.expect("the one that was under way");
    assert_eq!((rollout.state.as_str(), rollout.to.release.as_str()), ("paused", "app/2"));
    let touched = world.touched("2").len();

    for host in lost {
        world.start(host);
        world.pass(seconds(90));
        let status = world.status(left);
        assert!(status.voters.contains(&format!("n{}", host + 1)), "{:?}", status.voters);
        assert_eq!(status.lineage, after.lineage);
    }
    assert_eq!(world.touched("2").len(), touched, "paused");
    world.must(left, CommandAction::Resume);
    world.run_until("release 2 everywhere", MINUTE * 10, |world| {
        world.run("2") == 3 && world.rollout_ended()
    });
    assert_eq!(world.baseline(), "2");
}

#[test]
fn s50_an_old_majority_that_returns_at_once_decides_nothing() {
    for victim_is_leader in [true, false] {
        let mut world = in_the_middle(5);
        let leader = world.leader().expect("a leader");
        let in_turn = world.in_turn(TurnState::Monitoring).expect("a turn");
        // Once with the member in its turn among the lost, once among those that are left.
        let mut lost: Vec<usize> = world.all().filter(|host| *host != in_turn).collect();
        lost.sort_by_key(|host| *host != leader);
        lost.truncate(if victim_is_leader { 3 } else { 2 });
        if !victim_is_leader {
            lost.push(in_turn);
        }
        lost.iter().for_each(|host| world.power_off(*host));
        world.pass(seconds(40));
        let left = world.all().find(|host| !lost.contains(host)).expect("one");
        world.must(left, CommandAction::Reform);
        let lineage = world.status(left).lineage;
        world.pass(seconds(100));
        let taken = world.turns(TurnState::Taken) + world.turns(TurnState::Monitoring);
        assert_eq!(taken, 0, "an open turn ends, by its member or by its time");
        // The checkers refuse a commit in the old lineage.
        lost.iter().for_each(|host| world.start(*host));
        world.pass(seconds(120));
        let status = world.status(left);
        assert_eq!((status.lineage, status.voters.len()), (lineage, 5), "{}", world.story());
        assert!(world.is("2", RolloutState::Paused));
        world.must(left, CommandAction::Resume);
        world.run_until("an end", MINUTE * 15, |world| {
            world.rollout_ended() || world.is("2", RolloutState::Paused)
        });
    }
}

#[test]
fn s50_those_that_were_only_cut_off_are_absorbed() {
    let mut world = five();
    let leader = world.leader().expect("a leader");
    let few: Vec<usize> = world.all().filter(|host| *host != leader).take(2).collect();
    world.partition(&few);
    world.pass(seconds(60));
    let done = world.must(few[0], CommandAction::Reform);
    assert!(done.message.as_str().contains("formed anew"), "{}", done.message);
    let lineage = world.status(few[0]).lineage;
    world.heal();
    world.pass(seconds(180));
    for host in world.all() {
        assert_eq!(world.status(host).lineage, lineage, "n{}: {}", host + 1, world.story());
    }
    assert_eq!(world.status(leader).voters.len(), 5);
    world.must(leader, CommandAction::Resume);
    world.promote("2", Behaviour::healthy());
    world.run_until("release 2 everywhere", MINUTE * 10, |world| {
        world.run("2") == 5 && world.rollout_ended()
    });
}

#[test]
fn s50_a_reform_typed_again_with_its_id_is_answered_with_its_first_result() {
    let mut world = five();
    let leader = world.leader().expect("a leader");
    let left: Vec<usize> = world.all().filter(|host| *host != leader).take(2).collect();
    let lost: Vec<usize> = world.all().filter(|host| !left.contains(host)).collect();
    lost.iter().for_each(|host| world.power_off(*host));
    world.pass(seconds(60));
    let id = Some(baton_types::CommandId::from_random(77));
    let first = world.type_with_id(left[0], CommandAction::Reform, id).expect("it runs");
    let first = world.answer_to(first);
    assert_eq!(first.result, CommandResult::Done, "{}", first.message);
    let lineage = world.status(left[1]).lineage;
    let again = world.type_with_id(left[1], CommandAction::Reform, id).expect("it runs");
    assert_eq!(world.answer_to(again), first);
    assert_eq!(world.status(left[0]).lineage, lineage);
}

/// Two sides, of two and of three, that formed the group each for itself, both on release 1.
fn two_sides() -> World {
    let mut setup = Setup::of(1, 5);
    (setup.expect, setup.trace_lines) = (2, 200);
    let mut world = World::apart(setup, &[0, 3]);
    world.pass(seconds(20));
    world.promote("1", Behaviour::healthy());
    world.run_until("release 1 on both sides", MINUTE * 2, |world| world.run("1") == 5);
    world.pass(seconds(30));
    let (one, other) = (world.status(0), world.status(4));
    assert!(one.quorum && other.quorum && one.lineage != other.lineage, "{}", world.story());
    assert_eq!((one.voters.len(), other.voters.len()), (2, 3));
    world
}

/// Everybody is in that lineage, all vote, and nothing else is met.
fn all_in(world: &mut World, lineage: &str) {
    for host in world.all() {
        let status = world.status(host);
        assert_eq!(status.lineage, lineage, "n{}\n{}", host + 1, world.story());
        assert!(status.met.is_empty() && status.voters.len() == world.all().len(), "{status:?}");
    }
}

#[test]
fn two_sides_that_formed_apart_become_one_group_by_themselves() {
    let mut world = two_sides();
    let larger = world.status(4).lineage;
    world.heal();
    world.pass(seconds(180));
    all_in(&mut world, &larger);
    assert_eq!((0..5).map(|host| world.starts("1", host)).sum::<usize>(), 5, "nobody is touched");
    world.promote("2", Behaviour::healthy());
    world.run_until("release 2 everywhere", MINUTE * 10, |world| {
        world.run("2") == 5 && world.rollout_ended()
    });
}

#[test]
fn sides_with_different_baselines_wait_for_somebody_to_adopt_one() {
    for adopted in [0, 4] {
        let mut world = two_sides();
        world.lose_depot(&[0, 3]);
        world.promote("2", Behaviour::healthy());
        world.run_until("release 2 on the larger side", MINUTE * 5, |world| world.run("2") == 3);
        world.pass(seconds(60));
        let ids = [world.status(0).lineage, world.status(4).lineage];
        world.net.heal();
        world.pass(seconds(120));
        for (host, own, other) in [(0, 0, 1), (4, 1, 0)] {
            let status = world.status(host);
            assert_eq!(status.lineage, ids[own], "{}", world.story());
            assert_eq!(status.met.len(), 1, "{}", world.story());
            assert_eq!(status.met[0].lineage, ids[other]);
            assert_ne!(status.met[0].baseline, "");
        }
        assert_eq!((world.run("1"), world.run("2")), (2, 3), "nothing new is offered");
        let lineage = if adopted == 0 { ids[0].as_str() } else { &ids[1][..8] };
        let wrong = baton_types::Text::new("9-");
        let refused = world.order(2, CommandAction::Adopt { lineage: wrong });
        assert_eq!(refused.result, CommandResult::Refused);
        assert!(refused.message.as_str().contains(&ids[0]), "{}", refused.message);
        if adopted == 4 {
            // They must be able to fetch what they do not have.
            world.heal();
        }
        // Typed at a node of the other side.
        let adopt = CommandAction::Adopt { lineage: baton_types::Text::new(lineage) };
        let done = world.must(if adopted == 0 { 1 } else { 3 }, adopt);
        assert!(done.message.as_str().contains("stays"), "{}", done.message);
        world.pass(seconds(180));
        all_in(&mut world, &ids[usize::from(adopted != 0)]);
        let kept = if adopted == 0 { "1" } else { "2" };
        world.run_until("what it has, everywhere", MINUTE * 10, |world| world.run(kept) == 5);
        world.heal();
        world.run_until("the channel's release", MINUTE * 10, |world| world.run("2") == 5);
    }
}

/// Three sides of two, each of which formed the group for itself, all on release 1.
fn three_sides() -> World {
    let mut setup = Setup::of(1, 6);
    (setup.expect, setup.trace_lines) = (2, 200);
    let mut world = World::apart(setup, &[0, 3]);
    world.partition(&[1, 4]);
    // The third side has nobody of the join addresses.
    let at = vec![([10, 0, 0, 6], 7946).into()];
    world.ask(2, Request::RingJoin { name: "n6".to_owned(), at });
    world.pass(seconds(20));
    world.promote("1", Behaviour::healthy());
    world.run_until("release 1", MINUTE * 5, |world| world.run("1") == 6);
    world.pass(seconds(30));
    world
}

#[test]
fn three_sides_that_formed_apart_become_one_group_by_themselves() {
    let mut world = three_sides();
    world.heal();
    world.pass(seconds(240));
    let lineage = world.status(0).lineage;
    all_in(&mut world, &lineage);
    assert_eq!((0..6).map(|host| world.starts("1", host)).sum::<usize>(), 6, "nobody is touched");
}

#[test]
fn of_three_sides_that_meet_the_adopted_one_absorbs_both_others() {
    for adopted in 0..3 {
        let mut world = three_sides();
        world.lose_depot(&[0, 3]);
        // One side after the other: together they would be more than the budget of one group.
        world.must(2, CommandAction::Pause);
        world.promote("2", Behaviour::healthy());
        world.run_until("release 2", MINUTE * 5, |world| world.run("2") == 2);
        world.pass(seconds(60));
        world.lose_depot(&[1, 4]);
        world.promote("3", Behaviour::healthy());
        world.must(2, CommandAction::Resume);
        world.run_until("release 3", MINUTE * 5, |world| world.run("3") == 2);
        world.pass(seconds(60));
        let ids = [0, 1, 2].map(|host| world.status(host).lineage);
        world.net.heal();
        world.pass(seconds(120));
        for (side, id) in ids.iter().enumerate() {
            let status = world.status(side);
            assert_eq!((&status.lineage, status.met.len()), (id, 2), "{}", world.story());
        }
        let lineage = baton_types::Text::new(&ids[adopted]);
        let done = world.must(5, CommandAction::Adopt { lineage });
        assert!(done.message.as_str().contains("stays"), "{}", done.message);
        world.pass(seconds(180));
        all_in(&mut world, &ids[adopted]);
    }
}

#[test]
fn two_operators_who_adopt_both_sides_leave_one_of_them() {
    for wait in [0, 1, 20] {
        let mut world = two_sides();
        world.lose_depot(&[0, 3]);
        world.promote("2", Behaviour::healthy());
        world.run_until("release 2 on the larger side", MINUTE * 5, |world| world.run("2") == 3);
        world.pass(seconds(60));
        let ids = [world.status(0).lineage, world.status(4).lineage];
        world.net.heal();
        world.pass(seconds(60));
        let adopt =
            |side: usize| CommandAction::Adopt { lineage: baton_types::Text::new(&ids[side]) };
        // The smaller one first: once it said so, the larger one may have given way already.
        let first = world.type_at(0, adopt(0));
        world.pass(std::time::Duration::from_millis(wait));
        let second = world.type_at(4, adopt(1));
        world.pass(seconds(180));
        let answers = [first, second].map(|typed| world.answer_to(typed).result);
        let lineage = world.status(0).lineage;
        let stays = ids.iter().position(|id| *id == lineage).expect("one of them");
        assert_eq!(answers[stays], CommandResult::Done, "{}", world.story());
        all_in(&mut world, &lineage);
    }
}
