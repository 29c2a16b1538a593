//! Scenarios of `rollout reboot`: as a restart, with a reboot of the machine between stop and start.

use baton_types::CommandAction;

use super::World;
use super::scenarios_commands::{ROLLBACK, done, refused};
use crate::rollout::RolloutKind;
use crate::rollout::RolloutState::{Cancelled, Completed, Paused, RolledBack};
use crate::rollout::TurnState::{Failed, Monitoring, Offered, Passed, Taken, Waiting};
use crate::view::tests::node;

const REBOOT: CommandAction = CommandAction::Reboot;

/// A group on r2, with r1 completed before.
fn on_two(count: usize) -> World {
    let mut world = World::new(count);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    world.hosts.values_mut().for_each(|host| host.starts = 0);
    world.checks.most_disrupted = 0;
    world.checks.touched.clear();
    world.checks.narrated.clear();
    world
}

fn boots(world: &World) -> Vec<u8> {
    world.hosts.values().map(|host| host.boots).collect()
}

fn starts(world: &World) -> Vec<u32> {
    world.hosts.values().map(|host| host.starts).collect()
}

#[test]
fn every_machine_reboots_once_and_one_at_a_time() {
    let mut world = on_two(3);
    let said = done(&mut world, REBOOT);
    assert!(said.contains("every member's machine"), "{said}");
    assert_eq!(world.settle(), Completed);
    assert_eq!((boots(&world), starts(&world)), (vec![1; 3], vec![1; 3]));
    assert_eq!(world.checks.most_disrupted, 1);
    assert_eq!(world.checks.touched, [node("n2"), node("n3"), node("n1")], "the leader last");
    assert_eq!((world.on(2), world.baseline()), (3, Some(2)));
    assert_eq!(world.state.history.last().map(|line| line.kind), Some(RolloutKind::Reboot));
    let told: Vec<_> = world.checks.narrated.iter().map(|line| line.text.as_str()).collect();
    let want = [
        "reboot on redis/2 begins for 3 members: n2, n3, n1",
        "n2 is offered its turn to reboot",
        "n2 goes: stops what it runs, reboots and starts it again",
    ];
    assert_eq!(told[..want.len()], want);
    done(&mut world, ROLLBACK);
    assert_eq!(world.settle(), RolledBack);
    assert_eq!(world.baseline(), Some(1), "one step back, past the reboot");
}

#[test]
fn daemons_leaders_and_power_may_go_at_any_step() {
    for step in [Offered, Taken, Monitoring, Passed] {
        for name in ["n2", "n4"] {
            let mut world = on_two(5);
            done(&mut world, REBOOT);
            world.run_until(|world| world.turn(name) == step);
            let now = world.now();
            world.host(name).restart_daemon(now);
            world.failover("n5");
            assert_eq!(world.settle(), Completed, "{name} {step}");
            assert_eq!((boots(&world), starts(&world)), (vec![1; 5], vec![1; 5]), "{name} {step}");
            let mut world = on_two(5);
            done(&mut world, REBOOT);
            world.run_until(|world| world.turn(name) == step);
            world.kill(name);
            world.run(1_000);
            world.boot(name);
            assert_eq!(world.settle(), Completed, "{name} {step} after a power loss");
            assert!(world.host(name).boots <= 2 && world.on(2) == 5, "{name} {step}");
        }
    }
}

#[test]
fn a_machine_that_refuses_pauses_and_its_program_serves_again() {
    let mut world = on_two(3);
    world.view.settings.update.turn_timeout = std::time::Duration::from_secs(900);
    world.view.settings.update.progress_timeout = std::time::Duration::from_secs(900);
    world.host("n2").reboot_works = false;
    done(&mut world, REBOOT);
    assert_eq!(world.settle(), Paused);
    let reason = world.rollout().reason.to_string();
    assert_eq!(reason, "n2 failed: this machine did not reboot within 5m");
    world.run(10_000);
    assert_eq!((world.turn("n2"), world.turn("n3")), (Failed, Waiting));
    assert!(world.host("n2").healthy, "it serves");
    assert_eq!((world.state.rejected.len(), boots(&world)), (0, vec![0; 3]));
    world.host("n2").reboot_works = true;
    done(&mut world, CommandAction::Retry);
    assert_eq!(world.settle(), Completed);
    assert_eq!(boots(&world), [1; 3]);
}

#[test]
fn a_disk_that_refuses_after_the_stop_reboots_nothing() {
    let mut world = on_two(3);
    done(&mut world, REBOOT);
    world.run_until(|world| world.hosts[&node("n2")].stops == 2);
    world.host("n2").disk_works = false;
    world.run(30_000);
    assert_eq!((world.turn("n2"), boots(&world)), (Taken, vec![0; 3]));
    world.host("n2").disk_works = true;
    assert_eq!(world.settle(), Completed);
    assert_eq!(boots(&world), [1; 3]);
}

/// What was stopped must not stay down for as long as a full disk does.
#[test]
fn a_disk_that_goes_on_refusing_after_the_stop_lets_the_program_serve_again() {
    let mut world = on_two(3);
    world.view.settings.update.turn_timeout = std::time::Duration::from_secs(900);
    world.view.settings.update.progress_timeout = std::time::Duration::from_secs(900);
    done(&mut world, REBOOT);
    world.run_until(|world| world.hosts[&node("n2")].stops == 2);
    world.host("n2").disk_works = false;
    world.run(4 * 60_000);
    assert!(!world.host("n2").healthy, "the disk may mend");
    world.run(2 * 60_000);
    assert!(world.host("n2").healthy, "it serves");
    world.host("n2").disk_works = true;
    assert_eq!(world.settle(), Paused);
    let reason = world.rollout().reason.to_string();
    assert!(reason.contains("cannot write the turn's record to disk"), "{reason}");
    assert_eq!((world.turn("n2"), boots(&world)), (Failed, vec![0; 3]));
}

#[test]
fn it_is_refused_superseded_and_cancelled_as_a_restart_is() {
    let mut world = on_two(4);
    done(&mut world, REBOOT);
    world.run_until(|world| world.turn("n2") == Monitoring);
    let why = refused(&mut world, CommandAction::Restart);
    assert!(why.contains("the reboot on redis/2 is running"), "{why}");
    done(&mut world, CommandAction::Cancel);
    assert_eq!(world.settle(), Cancelled);
    assert_eq!(boots(&world).iter().sum::<u8>(), 1);
    done(&mut world, REBOOT);
    world.run_until(|world| world.turn("n2") == Taken);
    world.promote(3);
    assert_eq!(world.settle(), Completed);
    assert_eq!((world.on(3), world.baseline()), (4, Some(3)));
    assert_eq!(boots(&world).iter().sum::<u8>(), 2);
}
