//! Two lineages that were formed apart and meet: one says that it stays, then the other gives way.

use baton_types::{FileId, LineageId, Moment, Term};
use baton_wire::ledger::{Record, StateBytes, Voter};
use rand::RngExt;

use super::world::{World, ms, node};
use crate::{Ledger, LedgerFile, Liveness, NotNow, Opened, Seen};

/// Hosts 0 and 1, and hosts 2 to 4, formed the group without each other, and have met.
fn met(seed: u64) -> World {
    let mut world = World::new(seed, 5, 2);
    world.checks.meeting = true;
    for one in 0..2 {
        for other in 2..5 {
            world.cut.extend([(one, other), (other, one)]);
        }
    }
    (0..5).for_each(|host| world.boot(host));
    world.run_until("two groups", ms(10_000), |world| {
        world.hosts.iter().all(|host| host.commits > 0) && leaders(world).len() == 2
    });
    world.run(ms(3_000));
    world.cut.clear();
    world.run(ms(1_000));
    world
}

fn leaders(world: &World) -> Vec<usize> {
    (0..5).filter(|host| world.hosts[*host].leading).collect()
}

fn lineage(world: &mut World, host: usize) -> LineageId {
    world.ledger(host).view().lineage.expect("a lineage")
}

fn absorb(world: &mut World, host: usize, other: LineageId) -> Result<u64, NotNow> {
    let now = world.now;
    let said = world.ledger(host).absorb(now, other);
    world.after(host);
    said
}

fn give_way(world: &mut World, host: usize, other: LineageId) -> Result<u64, NotNow> {
    let now = world.now;
    let said = world.ledger(host).give_way(now, other);
    world.after(host);
    said
}

fn together(world: &mut World, lineage: LineageId) {
    world.run_until("one lineage", ms(40_000), |world| {
        world.hosts.iter().all(|host| {
            let view = host.ledger.as_ref().map(crate::Ledger::view);
            view.is_some_and(|view| {
                view.quorum
                    && view.voters.len() == 5
                    && view.committed.is_some_and(|record| record.lineage == lineage)
            })
        })
    });
}

#[test]
fn two_that_meet_change_nothing_by_themselves() {
    let mut world = met(1);
    world.run(ms(20_000));
    let leaders = leaders(&world);
    assert_eq!(leaders.len(), 2);
    assert_ne!(lineage(&mut world, leaders[0]), lineage(&mut world, leaders[1]));
}

#[test]
fn the_one_that_is_absorbed_gives_way_and_its_members_are_let_in() {
    for (stays, goes) in [(1, 0), (0, 1)] {
        let mut world = met(2);
        let leaders = leaders(&world);
        let (stays, goes) = (leaders[stays], leaders[goes]);
        let (winner, loser) = (lineage(&mut world, stays), lineage(&mut world, goes));
        absorb(&mut world, stays, loser).expect("it is written");
        world.run(ms(1_000));
        give_way(&mut world, goes, winner).expect("it is written");
        together(&mut world, winner);
        assert!(world.hosts[goes].notes.iter().any(|note| note.contains("was replaced")));
    }
}

#[test]
fn when_both_say_that_they_stay_the_larger_one_does() {
    let mut world = met(3);
    let leaders = leaders(&world);
    let (small, large) = (leaders[0], leaders[1]);
    let (smaller, larger) = (lineage(&mut world, small), lineage(&mut world, large));
    assert!(smaller < larger);
    absorb(&mut world, small, larger).expect("it is written");
    absorb(&mut world, large, smaller).expect("it is written");
    world.run(ms(1_000));
    assert_eq!(give_way(&mut world, large, smaller), Err(NotNow::Stays));
    give_way(&mut world, small, larger).expect("it is written");
    together(&mut world, larger);
}

#[test]
fn a_lineage_that_gave_way_says_nothing_else_whoever_of_it_comes_back() {
    for seed in 0..60 {
        let mut world = met(seed);
        let leaders = leaders(&world);
        let (stays, goes) = (leaders[0], leaders[1]);
        let (winner, loser) = (lineage(&mut world, stays), lineage(&mut world, goes));
        let away = (2..5).find(|host| *host != goes).expect("a follower");
        if seed % 2 == 0 {
            world.crash(away);
            world.run(ms(500));
        }
        absorb(&mut world, stays, loser).expect("it is written");
        world.run(ms(1_000));
        if give_way(&mut world, goes, winner).is_err() {
            continue;
        }
        // The leader dies at any moment of its last record.
        let pause = world.rng.random_range(0..12);
        world.run(ms(pause));
        world.crash(goes);
        world.run(ms(2_000));
        for host in 0..5 {
            if world.hosts[host].ledger.is_none() {
                world.boot(host);
            }
        }
        world.run(ms(5_000));
        // Without the last word of the first leader the next one gives way.
        let again = (2..5).find(|host| world.hosts[*host].leading);
        if let Some(again) = again.filter(|_| lineage(&mut world, again.unwrap_or(0)) == loser) {
            give_way(&mut world, again, winner).expect("it is written");
        }
        together(&mut world, winner);
    }
}

#[test]
fn a_lineage_without_a_leader_is_left_by_each_of_its_nodes() {
    let mut world = met(4);
    let leaders = leaders(&world);
    let (stays, goes) = (leaders[0], leaders[1]);
    let (winner, loser) = (lineage(&mut world, stays), lineage(&mut world, goes));
    let left = (2..5).find(|host| *host != goes).expect("a follower");
    (2..5).filter(|host| *host != left).for_each(|host| world.crash(host));
    world.run(ms(8_000));
    assert_eq!(lineage(&mut world, left), loser, "nobody asked for it");
    absorb(&mut world, stays, loser).expect("it is written");
    world.run(ms(8_000));
    assert_eq!(lineage(&mut world, left), winner, "{}", world.picture());
    (2..5).filter(|host| *host != left).for_each(|host| world.boot(host));
    together(&mut world, winner);
}

/// Host 0 of three hears no leader, and a smaller lineage is to absorb its own.
fn leaves(told: impl FnOnce(&mut [Seen], LineageId, LineageId)) -> bool {
    const NOW: Moment = Moment::from_millis(5_000);
    let own = LineageId { members: 3, random: [3; 16] };
    let other = LineageId { members: 2, random: [2; 16] };
    let voter = |host: usize| Voter { node: node(host), file: FileId::from_random(host as u128) };
    let record = Record {
        lineage: own,
        term: Term(1),
        version: 1,
        voters: (0..3).map(voter).collect(),
        absorbed_by: None,
        absorbs: Vec::new(),
        replaces: Vec::new(),
        state: StateBytes::default(),
    };
    let file =
        LedgerFile { term: Term(1), record: Some(record), ..LedgerFile::new(voter(0).file, false) };
    let settings = World::new(1, 1, 3).settings;
    let mut ledger = Ledger::open(settings, Opened::File(Box::new(file)), 1, NOW);
    let seen = |host, lineage| Seen {
        node: node(host),
        liveness: Liveness::Alive,
        lineage: Some(lineage),
        replaces: Vec::new(),
        absorbs: Vec::new(),
        leader: None,
        term: Term(1),
        heard_of_me: None,
    };
    let mut seen = [seen(1, own), seen(2, own), seen(3, other)];
    (seen[2].leader, seen[2].absorbs) = (Some(node(3)), vec![own]);
    told(&mut seen, own, other);
    ledger.see(NOW, &seen);
    ledger.tick(NOW + ms(10_000));
    ledger.view().lineage != Some(own)
}

#[test]
fn nobody_leaves_alone_a_lineage_that_is_led_or_that_stays() {
    assert!(leaves(|_, _, _| ()));
    assert!(!leaves(|seen, _, _| seen[0].leader = Some(node(1))), "it is led, beside this node");
    assert!(leaves(|seen, _, _| {
        (seen[0].leader, seen[0].liveness) = (Some(node(1)), Liveness::Dead);
    }));
    let stays = |seen: &mut [Seen], _, other| {
        (seen[0].absorbs, seen[0].liveness) = (vec![other], Liveness::Dead);
    };
    assert!(!leaves(stays), "the larger one said that it stays, in a record not held here");
}
