//! Scenarios with waves and zones.

use baton_types::CommandAction;
use baton_types::policy::Approve;

use super::World;
use super::scenarios_commands::{ROLLBACK, done, refused};
use crate::rollout::RolloutState;
use crate::rollout::RolloutState::{Completed, Paused, RolledBack};
use crate::rollout::TurnState::{Monitoring, Passed, Waiting};
use crate::view::tests::node;

#[test]
fn s37_waves_by_hand() {
    let mut world = World::new(5);
    let policy = &mut world.view.settings.update;
    policy.waves = ["1", "60%"].map(|wave| wave.parse().expect("a limit")).to_vec();
    policy.approve = Approve::Manual;
    world.promote(2);
    for on in [1, 3] {
        world.run(900_000);
        assert_eq!((world.on(2), world.rollout_state()), (on, RolloutState::Running));
        assert!(world.waits_for().contains("approve redis.default"), "{}", world.waits_for());
        done(&mut world, CommandAction::Approve);
        assert!(refused(&mut world, CommandAction::Approve).contains("wave"));
    }
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.on(2), 5);
}

/// The way back has waves of its own, of those that were moved: nobody waits for an approval of
/// members that have no way to go.
#[test]
fn s37_waves_on_the_way_back_are_of_those_that_were_moved() {
    for (touched, approvals) in [(1, 0), (2, 1)] {
        let mut world = World::new(5);
        for policy in [&mut world.view.settings.update, &mut world.view.settings.rollback] {
            policy.waves = vec!["1".parse().expect("a limit")];
            policy.approve = Approve::Manual;
        }
        let fails = ["n2", "n3"][touched - 1];
        world.host(fails).behave(2, |behavior| behavior.verifies = false);
        world.promote(2);
        if touched == 2 {
            world.run_until(|world| world.turn("n2") == Passed);
            world.run(1_000);
            done(&mut world, CommandAction::Approve);
        }
        assert_eq!(world.settle(), Paused);
        done(&mut world, ROLLBACK);
        world.run(60_000);
        for _ in 0..approvals {
            assert_eq!(world.rollout_state(), RolloutState::RollingBack);
            assert!(world.waits_for().contains("approve redis.default"), "{}", world.waits_for());
            done(&mut world, CommandAction::Approve);
        }
        assert_eq!(world.settle(), RolledBack, "{touched}");
        assert_eq!(world.on(1), 5);
    }
}

/// n2 is the first wave, has passed, and soaks for 30 s.
fn first_wave_passed() -> World {
    let mut world = World::new(5);
    let policy = &mut world.view.settings.update;
    policy.waves = vec!["1".parse().expect("a limit")];
    policy.wave_soak = std::time::Duration::from_secs(30);
    world.promote(2);
    world.run_until(|world| world.turn("n2") == Passed);
    world
}

#[test]
fn s38_a_member_of_a_finished_wave_falls_ill() {
    let mut world = first_wave_passed();
    let now = world.now();
    world.host("n2").behave(2, |behavior| behavior.healthy_after = Some(80_000));
    world.host("n2").crash(now);
    world.run(70_000);
    assert_eq!(world.on(2), 1);
    assert!(world.waits_for().contains("n2 is critical"), "{}", world.waits_for());
    assert_eq!(world.settle(), Completed);
}

/// Nobody waits for ever for a wave that does not get well.
#[test]
fn a_finished_wave_that_stays_ill_pauses_the_rollout() {
    let mut world = first_wave_passed();
    let now = world.now();
    world.host("n2").behave(2, |behavior| behavior.healthy_after = None);
    world.host("n2").crash(now);
    assert_eq!(world.settle(), Paused);
    assert_eq!(world.on(2), 1);
    let reason = world.rollout().reason.to_string();
    assert!(reason.starts_with("the wave that ended was not all well within"), "{reason}");
    assert!(reason.contains("n2 is critical"), "{reason}");
}

/// A member that is gone for good, or that an operator leaves out, holds nobody up.
#[test]
fn a_finished_wave_does_not_wait_for_a_member_that_takes_no_part_any_more() {
    for is_gone in [true, false] {
        let mut world = first_wave_passed();
        world.kill("n2");
        world.run(60_000);
        assert_eq!((world.on(2), world.rollout_state()), (1, RolloutState::Running));
        assert!(world.waits_for().contains("n2 is dead"), "{}", world.waits_for());
        match is_gone {
            true => {
                world.hosts.remove(&node("n2"));
                world.view.members.remove(&node("n2"));
            }
            false => drop(done(&mut world, CommandAction::Cordon { node: node("n2") })),
        }
        assert_eq!(world.settle(), Completed, "{is_gone} {}", world.rollout().reason);
    }
}

#[test]
fn never_two_zones_at_once() {
    let mut world = two_zones();
    world.checks.most_disrupted = 0;
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.checks.touched[..2], ["n3", "n4"].map(node), "zone a first");
    assert_eq!(world.checks.most_disrupted, 2);
}

/// A leader whose node has just started does not know yet where others stand: the zones of two that
/// it has not heard of are not the same one.
#[test]
fn nobody_goes_beside_a_turn_whose_zone_is_not_known() {
    let mut world = World::new(3);
    let policy = &mut world.view.settings.update;
    policy.zone_label = Some("zone".to_owned());
    policy.max_unavailable = "3".parse().expect("a limit");
    for (name, zone) in [("n1", "b"), ("n2", "b"), ("n3", "a")] {
        let seen = world.view.members.get_mut(&node(name)).expect("a member");
        seen.zone = Some(baton_types::Text::new(zone));
    }
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Monitoring);
    for name in ["n1", "n3"] {
        let seen = world.view.members.get_mut(&node(name)).expect("a member");
        (seen.zone, seen.heard) = (None, false);
    }
    world.run(2_000);
    assert_eq!((world.turn("n3"), world.turn("n1")), (Monitoring, Waiting));
    world.run_until(|world| world.turn("n3") == Passed);
    world.run(1_000);
    assert_ne!(world.turn("n2"), Waiting, "its zone is known, and no other is open");
}

/// n1 and n2 stand in zone b, n3 and n4 in zone a.
fn two_zones() -> World {
    let mut world = World::new(4);
    let policy = &mut world.view.settings.update;
    policy.zone_label = Some("zone".to_owned());
    policy.max_unavailable = "3".parse().expect("a limit");
    for name in ["n1", "n2", "n3", "n4"] {
        let zone = if name < "n3" { "b" } else { "a" };
        let seen = world.view.members.get_mut(&node(name)).expect("a member");
        seen.zone = Some(baton_types::Text::new(zone));
    }
    world.checks.touched.clear();
    world
}

#[test]
fn an_ill_member_of_a_later_zone_goes_first_and_its_zone_does_not_follow_it() {
    let mut world = two_zones();
    stay_ill(&mut world, "n2", None);
    world.run(6_000);
    world.checks.touched.clear();
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.checks.touched, ["n2", "n3", "n4", "n1"].map(node));
}

#[test]
fn a_zone_is_not_finished_while_one_of_it_is_given_time_to_heal() {
    let mut world = two_zones();
    world.view.settings.update.start_timeout = std::time::Duration::from_secs(30);
    stay_ill(&mut world, "n4", Some(25_000));
    world.run(3_000);
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Passed);
    world.run(1_000);
    assert_eq!(world.on(2), 1);
    let waits_for = world.waits_for();
    assert!(waits_for.contains("n4 is critical"), "{waits_for}");
    assert!(waits_for.contains("given time to heal"), "{waits_for}");
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.checks.touched[..2], ["n3", "n4"].map(node));
}

fn stay_ill(world: &mut World, name: &str, healthy_after: Option<u64>) {
    let now = world.now();
    world.host(name).behave(1, |behavior| behavior.healthy_after = healthy_after);
    world.host(name).crash(now);
}
