//! Formation: exactly one lineage, whatever the order of boots, losses and deaths.

use super::world::{Disk, Faults, World, ms, node};
use crate::{Ledger, Opened, Role};
use rand::RngExt;

fn all_committed(world: &World) -> bool {
    world.up().iter().all(|host| world.hosts[*host].commits > 0)
}

#[test]
fn five_that_boot_in_random_order_form_one_lineage() {
    for expect in [3, 5] {
        for seed in 0..60 {
            let mut world = World::new(seed, 5, expect);
            world.faults = Faults {
                loss: 200,
                duplication: 100,
                delay_max: 60,
                write_max: 10,
                write_fails: 50,
            };
            let mut order: Vec<usize> = (0..5).collect();
            while !order.is_empty() {
                let next = world.rng.random_range(0..order.len());
                world.boot(order.remove(next));
                let pause = world.rng.random_range(0..600);
                world.run(ms(pause));
            }
            // The checks refuse a second lineage.
            world.run_until("formation", ms(60_000), all_committed);
        }
    }
}

#[test]
fn crashes_during_formation_leave_one_lineage() {
    for seed in 0..300 {
        let mut world = World::new(seed, 5, 3);
        world.faults =
            Faults { loss: 100, duplication: 50, delay_max: 40, write_max: 20, write_fails: 20 };
        for host in 0..5 {
            world.boot(host);
        }
        for _ in 0..12 {
            let host = world.rng.random_range(0..5);
            match world.hosts[host].ledger {
                Some(_) => world.crash(host),
                None => world.boot(host),
            }
            let pause = world.rng.random_range(0..500);
            world.run(ms(pause));
        }
        for host in 0..5 {
            if world.hosts[host].ledger.is_none() {
                world.boot(host);
            }
        }
        world.run_until("formation", ms(60_000), all_committed);
    }
}

#[test]
fn fewer_than_expected_form_nothing() {
    let mut world = World::new(1, 3, 3);
    world.boot(0);
    world.boot(2);
    world.run(ms(10_000));
    assert!(world.checks.newest.is_none());
    let view = world.ledger(0).view();
    assert_eq!(view.role, Role::Forming);
    assert_eq!(
        view.quorum_reason,
        "the group is forming: 2 of the 3 members it starts with are seen"
    );
    world.boot(1);
    world.run_until("formation", ms(3_000), all_committed);
}

#[test]
fn one_forms_alone_at_once() {
    let mut world = World::new(1, 1, 1);
    world.boot(0);
    world.run_until("formation", ms(20), |world| world.leader() == Some(0));
    assert!(world.propose(0, 7));
    world.run_until("commit", ms(20), |world| world.hosts[0].commits == 2);
}

#[test]
fn voters_are_the_first_by_node_id_up_to_the_limit() {
    let mut world = World::new(1, 5, 5);
    world.settings.voter_limit = 3;
    (0..5).for_each(|host| world.boot(host));
    world.run_until("formation", ms(5_000), |world| world.leader().is_some());
    let voters: Vec<_> = world.ledger(0).view().voters.iter().map(|voter| voter.node).collect();
    assert_eq!(voters, [node(0), node(1), node(2)]);
    world.run(ms(5_000));
    assert_eq!(world.ledger(0).view().voters.len(), 3);
    let spare = world.ledger(4).view();
    assert_eq!((spare.role, spare.quorum), (Role::Spare, true));
}

#[test]
fn a_proposal_is_repeated_unchanged_after_a_restart() {
    let mut world = World::new(3, 3, 3);
    (0..3).for_each(|host| world.boot(host));
    world.run_until("a proposal", ms(5_000), |world| {
        matches!(&world.hosts[1].disk, Disk::Holds(file) if file.formation.accepted.is_some())
            && matches!(&world.hosts[0].disk, Disk::Holds(file) if file.record.is_none())
    });
    let Disk::Holds(before) = world.hosts[0].disk.clone() else { panic!("a file") };
    let proposal = before.formation.accepted.clone().expect("a proposal");
    world.crash(0);
    world.hosts[0].disk = Disk::Holds(before);
    world.boot(0);
    world.run_until("formation", ms(5_000), all_committed);
    assert_eq!(world.checks.newest.as_ref().map(|r| r.lineage), Some(proposal.lineage));
}

#[test]
fn acceptors_of_a_dead_proposer_form_another_lineage_only_when_enough_refused() {
    let mut world = World::new(3, 4, 3);
    (0..3).for_each(|host| world.boot(host));
    // The proposal reaches both, no acceptance comes back.
    world.cut.extend([(1, 0), (2, 0)]);
    for host in 1..3 {
        world.run_until("acceptance", ms(5_000), |world| {
            matches!(&world.hosts[host].disk, Disk::Holds(file) if file.formation.accepted.is_some())
                || world.now.0 > 4_000_000
        });
    }
    let Disk::Holds(file) = world.hosts[0].disk.clone() else { panic!("a file") };
    let first = file.formation.accepted.as_ref().map(|proposal| proposal.lineage);
    world.crash(0);
    world.cut.clear();
    world.boot(3);
    world.run_until("another lineage", ms(10_000), all_committed);
    assert_ne!(world.checks.newest.as_ref().map(|record| Some(record.lineage)), Some(first));
    // The old proposer comes back and is let in; its lineage never comes to be.
    world.boot(0);
    world.run_until("the return", ms(20_000), |world| {
        world.hosts[0].commits > 0
            && world.hosts[0].ledger.as_ref().is_some_and(|l| l.view().voters.len() == 4)
    });
}

#[test]
fn a_damaged_file_forms_nothing() {
    let mut world = World::new(1, 1, 1);
    world.hosts[0].disk = Disk::Damaged;
    world.boot(0);
    world.run(ms(5_000));
    assert!(world.ledger(0).view().needs_readmission);
    assert!(world.checks.newest.is_none());
    // Nor after the next start, when the file is no longer damaged.
    world.crash(0);
    world.boot(0);
    world.run(ms(5_000));
    assert!(world.ledger(0).view().needs_readmission);
}

#[test]
fn a_file_with_impossible_content_counts_as_damaged() {
    let world = World::formed(1, 1);
    let Disk::Holds(mut file) = world.hosts[0].disk.clone() else { panic!("a file") };
    file.term = baton_types::Term(u64::MAX);
    let ledger = Ledger::open(world.settings.clone(), Opened::File(file), 1, world.now);
    assert!(ledger.view().needs_readmission);
}

#[test]
fn a_group_of_one_forms_whatever_its_disk_takes() {
    for write_max in [1, 3, 200, 3_000] {
        for seed in 0..20 {
            let mut world = World::new(seed, 1, 1);
            world.faults.write_max = write_max;
            world.boot(0);
            world.run_until("formation", ms(60_000), all_committed);
        }
    }
}

#[test]
fn a_founder_that_has_left_the_first_term_leads_no_other_one_without_votes() {
    let mut world = World::new(1, 1, 1);
    world.faults.write_max = 3;
    world.boot(0);
    world.run_until("a record", ms(10_000), |world| {
        world.hosts[0].ledger.as_ref().is_some_and(|ledger| ledger.view().newest.is_some())
    });
    world.run_until("formation", ms(10_000), all_committed);
    let view = world.ledger(0).view();
    assert_eq!(view.newest.map(|record| record.term), Some(view.term));
}

#[test]
fn two_that_refuse_the_same_lineage_do_not_answer_each_other_for_ever() {
    let mut world = World::new(3, 5, 5);
    world.faults.write_max = 40;
    (0..5).for_each(|host| world.boot(host));
    let has_accepted = |world: &World, host: usize| matches!(&world.hosts[host].disk, Disk::Holds(f) if f.formation.accepted.is_some());
    for _ in 0..20_000 {
        if has_accepted(&world, 1) && has_accepted(&world, 2) {
            break;
        }
        world.run(ms(1));
    }
    // Two acceptors are left of five: both refuse, neither can go on.
    for host in [0, 3, 4] {
        world.crash(host);
    }
    // Each message comes twice, which multiplies whatever is answered without need.
    world.faults.duplication = 1_000;
    let before: usize = world.sent.values().sum();
    for _ in 0..3_000 {
        world.run(ms(10));
        let sent = world.sent.values().sum::<usize>() - before;
        assert!(sent < 2_000, "{sent} messages: {:?}", world.sent);
    }
    for host in 1..3 {
        let Disk::Holds(file) = world.hosts[host].disk.clone() else { panic!("a file") };
        assert!(!file.formation.refused.is_empty(), "{}", world.picture());
    }
}

/// Refusals count by file: one that refused with the file that it lost must not be listed with its
/// new one, or a voter of this lineage founds another one beside it.
#[test]
fn a_file_that_is_lost_while_the_group_forms_ends_the_proposal() {
    let mut world = World::new(5, 3, 3);
    (0..3).for_each(|host| world.boot(host));
    let accepted = |world: &World, host: usize| match &world.hosts[host].disk {
        Disk::Holds(file) => file.formation.accepted.clone(),
        _ => None,
    };
    world.run_until("a proposal", ms(5_000), |world| accepted(world, 0).is_some());
    let lineage = accepted(&world, 0).expect("a proposal").lineage;
    // What the lost file answered must not arrive.
    world.isolate(2);
    world.run(ms(100));
    world.crash(2);
    world.hosts[2].disk = Disk::Nothing;
    world.boot(2);
    world.cut.clear();
    world.run_until("formation", ms(10_000), all_committed);
    let record = world.checks.newest.as_ref().expect("a record");
    assert_ne!(record.lineage, lineage);
    assert_eq!(record.voters.len(), 3);
    let refused = |host: usize| {
        world.hosts[host].ledger.as_ref().is_some_and(|l| l.file.has_refused(lineage))
    };
    assert!((0..3).all(refused), "{}", world.picture());
}
