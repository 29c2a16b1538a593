//! The register: what it costs to commit, what failed writes and slow disks do.

use super::world::{CALM, Faults, World, ms};

#[test]
fn a_step_costs_about_one_and_a_half_round_trips() {
    let mut world = World::formed(1, 3);
    world.faults = Faults { delay_max: 1, write_max: 0, ..CALM };
    let leader = world.leader().expect("a leader");
    // Long after the last heartbeat or shortly before the next one: it must not matter.
    for pause in [7, 50, 133] {
        world.run(ms(pause));
        let before: Vec<usize> = world.hosts.iter().map(|host| host.commits).collect();
        assert!(world.propose(leader, 1));
        world.run(ms(4));
        let after: Vec<usize> = world.hosts.iter().map(|host| host.commits).collect();
        assert!(before.iter().zip(&after).all(|(b, a)| *a == b + 1), "{before:?} {after:?}");
    }
}

#[test]
fn record_bytes_go_only_to_those_that_lack_them() {
    let mut world = World::formed(2, 5);
    let leader = world.leader().expect("a leader");
    world.run(ms(1_000));
    world.records_sent = 0;
    world.run(ms(10_000));
    assert_eq!(world.records_sent, 0);
    assert!(world.propose(leader, 1));
    world.run(ms(1_000));
    assert_eq!(world.records_sent, 4);
    // A dead voter is sent the record once, then heartbeats.
    world.crash((leader + 1) % 5);
    world.run(ms(500));
    world.records_sent = 0;
    assert!(world.propose(leader, 2));
    world.run(ms(10_000));
    assert_eq!(world.records_sent, 4);
}

#[test]
fn heartbeats_are_rarer_without_an_open_turn() {
    let mut world = World::formed(3, 3);
    let leader = world.leader().expect("a leader");
    let count = |world: &mut World, busy: bool| {
        let now = world.now;
        world.ledger(leader).set_busy(now, busy);
        world.run(ms(500));
        world.sent.clear();
        world.run(ms(8_000));
        world.sent["append"]
    };
    let (idle, busy) = (count(&mut world, false), count(&mut world, true));
    assert!((95..=105).contains(&idle), "2 followers × 8 s / 160 ms = 100, not {idle}");
    assert!((390..=410).contains(&busy), "2 followers × 8 s / 40 ms = 400, not {busy}");
    assert_eq!(world.leader(), Some(leader));
}

#[test]
fn a_follower_that_cannot_write_acknowledges_nothing() {
    let mut world = World::formed(4, 3);
    let leader = world.leader().expect("a leader");
    let others: Vec<usize> = (0..3).filter(|host| *host != leader).collect();
    others.iter().for_each(|host| world.fail_writes(*host, true));
    let commits = world.hosts[leader].commits;
    assert!(world.propose(leader, 9));
    world.run(ms(3_000));
    assert_eq!(world.hosts[leader].commits, commits, "no majority wrote it");
    assert!(world.ledger(others[0]).view().degraded);
    assert!(!world.hosts[others[0]].notes.is_empty());
    // The disk works again, and the protocol repeats what was given up.
    world.fail_writes(others[0], false);
    world.run_until("the commit", ms(2_000), |world| {
        world.checks.newest.as_ref().is_some_and(|r| r.state.as_slice() == [9])
    });
    assert!(!world.ledger(others[0]).view().degraded);
}

#[test]
fn a_leader_that_cannot_write_steps_down() {
    let mut world = World::formed(5, 3);
    let old = world.leader().expect("a leader");
    world.fail_writes(old, true);
    assert!(world.propose(old, 9));
    world.run_until("another leader", ms(2_000), |world| {
        world.leader().is_some_and(|leader| leader != old)
    });
    // Both others had the record, so it was found and committed.
    world.run(ms(500));
    assert_eq!(world.checks.newest.as_ref().expect("a record").state.as_slice(), [9]);
}

#[test]
fn a_slow_disk_loses_no_leader() {
    let mut world = World::formed(6, 3);
    let leader = world.leader().expect("a leader");
    world.faults = Faults { write_max: 2_000, ..CALM };
    for byte in 0..5 {
        let commits = world.hosts[leader].commits;
        assert!(world.propose(leader, byte));
        world.run_until("the commit", ms(5_000), |world| world.hosts[leader].commits > commits);
        assert_eq!(world.leader(), Some(leader));
    }
}
