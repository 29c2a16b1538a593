//! What operators type: 17, 18, 45–47.

use baton_rollout::{RolloutState as State, TurnState as Turn};
use baton_sim::Behaviour;
use baton_sim::scenario::MINUTE;
use baton_types::{CommandAction, CommandId, CommandResult};

use crate::{five, seconds};

#[test]
fn s17_a_pause_on_a_follower_lets_the_turn_end_and_stops_the_next() {
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until("a taken turn", MINUTE, |world| world.in_turn(Turn::Taken).is_some());
    let in_turn = world.in_turn(Turn::Taken).expect("a turn");
    let typed_at = world.all().find(|host| Some(*host) != world.leader() && *host != in_turn);
    let typed_at = typed_at.expect("a follower");
    world.must(typed_at, CommandAction::Pause);
    // Far longer than every timeout of the policy.
    world.pass(MINUTE * 10);
    assert_eq!(world.turn(in_turn), Some(Turn::Passed));
    assert_eq!(world.touched("2"), [in_turn]);
    assert!(world.is("2", State::Paused));
    assert_eq!(world.turns(Turn::Failed), 0);
    world.must(typed_at, CommandAction::Resume);
    world.run_until_is("2", State::Completed);
    assert_eq!(world.run("2"), 5);
}

#[test]
fn s18_and_s45_a_cancelled_rollout_stays_where_it_is_until_it_is_rolled_back() {
    let mut world = five();
    world.promote("2", Behaviour::healthy());
    world.run_until("two passed", MINUTE * 5, |world| world.turns(Turn::Passed) == 2);
    let follower = world.follower();
    world.must(follower, CommandAction::Cancel);
    world.run_until_is("2", State::Cancelled);
    let mixed = (world.run("1"), world.run("2"));
    assert!(mixed == (3, 2) || mixed == (2, 3), "{mixed:?}: a turn under way may have ended");
    let status = world.status(follower);
    let on_two = status.members.iter().filter(|member| member.release == "app/2").count();
    assert_eq!(on_two, mixed.1, "{status:?}");
    // 45: each keeps what it had over a restart of its daemon and of its machine.
    let two = world.touched("2")[0];
    let one = world.all().find(|host| world.running(*host) == "1").expect("one on 1");
    world.bounce_daemon(two, seconds(3));
    world.pass(seconds(10));
    world.power_cycle(one, seconds(5));
    world.pass(seconds(60));
    assert_eq!((world.running(one).as_str(), world.running(two).as_str()), ("1", "2"));
    assert_eq!((world.run("1"), world.run("2"), world.rollout_ended()), (mixed.0, mixed.1, true));
    world.must(follower, CommandAction::Rollback { to: None });
    world.run_until("all on 1", MINUTE * 10, |world| world.rollout_ended() && world.run("1") == 5);
    assert_eq!(world.baseline(), "1");
}

#[test]
fn s46_a_typed_pause_holds_without_a_rollout_and_over_a_change_of_leader() {
    let mut world = five();
    let follower = world.follower();
    world.must(follower, CommandAction::Pause);
    world.promote("2", Behaviour::healthy());
    world.pass(seconds(30));
    let leader = world.leader().expect("a leader");
    world.kill_daemon(leader);
    world.run_until("another leader", seconds(30), |world| {
        world.leader().is_some_and(|now| now != leader)
    });
    world.start(leader);
    world.pass(seconds(60));
    assert_eq!((world.run("1"), world.touched("2").len()), (5, 0));
    let asked = world.follower();
    let status = world.status(asked);
    assert!(status.paused_by.is_some());
    assert_eq!(status.pending.map(|pending| pending.release), Some("app/2".to_owned()));
    world.must(asked, CommandAction::Resume);
    world.run_until_is("2", State::Completed);
}

#[test]
fn s47_a_rollback_that_is_repeated_over_a_change_of_leader_steps_back_once() {
    for delay in [0, 1, 2, 4, 8, 15, 40, 200] {
        let mut world = five();
        for next in ["2", "3"] {
            world.promote(next, Behaviour::healthy());
            world.run_until_is(next, State::Completed);
        }
        let leader = world.leader().expect("a leader");
        let typed_at = world.follower();
        let id = Some(CommandId::from_random(47));
        let action = CommandAction::Rollback { to: None };
        world.type_with_id(typed_at, action.clone(), id).expect("a daemon");
        world.pass(std::time::Duration::from_millis(delay));
        world.kill_daemon(leader);
        world.run_until("another leader", seconds(30), |world| {
            world.leader().is_some_and(|now| now != leader)
        });
        let other = world.all().find(|host| *host != leader && *host != typed_at).expect("one");
        let again = world.type_with_id(other, action, id).expect("a daemon");
        let answer = world.answer_to(again);
        assert_eq!(answer.result, CommandResult::Done, "{}", answer.message);
        world.start(leader);
        world.run_until("all on 2", MINUTE * 10, |world| {
            world.rollout_ended() && world.run("2") == 5
        });
        assert_eq!(world.baseline(), "2", "after {delay} ms");
        world.pass(seconds(60));
        assert_eq!(world.run("2"), 5);
    }
}
