//! Voters that are gone: replaced when dead for long, removed when forgotten.

use super::world::{World, ms, node};
use crate::Role;

fn voters(world: &World) -> Vec<usize> {
    let record = world.checks.newest.as_ref().expect("a record");
    let votes = |host: &usize| record.voters.iter().any(|voter| voter.node == node(*host));
    (0..world.hosts.len()).filter(votes).collect()
}

/// `first` voters, which are as many as allowed, and `spares` more members.
fn with_spares(seed: u64, first: usize, spares: usize) -> World {
    let mut world = World::new(seed, first + spares, first as u32);
    world.settings.voter_limit = first;
    world.settings.replace_dead_after = ms(5_000);
    (0..first).for_each(|host| world.boot(host));
    world.run_until("formation", ms(5_000), |world| {
        world.leader().is_some() && world.hosts[..first].iter().all(|host| host.commits > 0)
    });
    (first..first + spares).for_each(|host| world.boot(host));
    world.run(ms(2_000));
    assert_eq!(voters(&world), (0..first).collect::<Vec<_>>());
    world
}

#[test]
fn a_dead_voter_gives_its_place_to_a_spare_member_in_time_and_not_before() {
    for seed in 0..10 {
        let mut world = with_spares(seed, 3, 1);
        let leader = world.leader().expect("a leader");
        let dead = (leader + 1) % 3;
        world.crash(dead);
        world.run(ms(4_900));
        assert!(voters(&world).contains(&dead));
        world.run_until("the replacement", ms(2_000), |world| {
            voters(world).contains(&3) && !voters(world).contains(&dead)
        });
        assert_eq!(voters(&world).len(), 3);
        // Who comes back is a spare member, knows it, and takes no place.
        world.boot(dead);
        world.run_until("knowledge", ms(5_000), |world| {
            let ledger = world.hosts[dead].ledger.as_ref();
            ledger.is_some_and(|l| l.view().role == Role::Spare && l.view().quorum)
        });
        world.run(ms(5_000));
        assert_eq!(voters(&world).len(), 3);
        assert!(!voters(&world).contains(&dead));
        assert_eq!(world.leader(), Some(leader));
    }
}

#[test]
fn a_leader_that_died_is_replaced_by_the_next_one() {
    let mut world = with_spares(1, 3, 1);
    let leader = world.leader().expect("a leader");
    world.crash(leader);
    world.run_until("the replacement", ms(9_000), |world| {
        voters(world).len() == 3 && !voters(world).contains(&leader)
    });
}

#[test]
fn dead_voters_alone_never_shrink_the_set() {
    let mut world = World::formed(2, 5);
    let leader = world.leader().expect("a leader");
    let mut world = {
        world.crash((leader + 1) % 5);
        world
    };
    for host in world.up() {
        world.ledger(host).settings.replace_dead_after = ms(2_000);
    }
    world.run(ms(20_000));
    assert_eq!(voters(&world).len(), 5);
}

#[test]
fn two_dead_voters_are_replaced_one_after_the_other() {
    let mut world = with_spares(3, 5, 2);
    let leader = world.leader().expect("a leader");
    let dead = [(leader + 1) % 5, (leader + 2) % 5];
    dead.into_iter().for_each(|host| world.crash(host));
    let mut fewest = 5;
    for _ in 0..10_000 {
        world.run(ms(1));
        fewest = fewest.min(voters(&world).len());
    }
    assert_eq!(fewest, 4);
    let now = voters(&world);
    assert_eq!(now.len(), 5);
    assert!(dead.iter().all(|host| !now.contains(host)), "{now:?}");
}

#[test]
fn two_dead_voters_with_one_spare_member_lose_one_place() {
    let mut world = with_spares(4, 5, 1);
    let leader = world.leader().expect("a leader");
    let dead = [(leader + 1) % 5, (leader + 2) % 5];
    dead.into_iter().for_each(|host| world.crash(host));
    world.run(ms(20_000));
    let now = voters(&world);
    assert_eq!(now.len(), 5);
    assert_eq!(dead.iter().filter(|host| now.contains(host)).count(), 1, "{now:?}");
}

#[test]
fn who_was_seen_in_between_is_not_dead_for_long() {
    let mut world = with_spares(5, 3, 1);
    let leader = world.leader().expect("a leader");
    let flapper = (leader + 1) % 3;
    for _ in 0..4 {
        world.crash(flapper);
        world.run(ms(3_000));
        world.boot(flapper);
        world.run(ms(1_000));
    }
    assert!(voters(&world).contains(&flapper));
}

#[test]
fn a_forgotten_voter_goes_only_if_it_does_not_answer() {
    let mut world = World::formed(6, 4);
    let leader = world.leader().expect("a leader");
    let forgotten = (leader + 1) % 4;
    world.left.insert(forgotten);
    world.run(ms(10_000));
    assert!(voters(&world).contains(&forgotten), "it answers");
    world.crash(forgotten);
    world.run_until("the removal", ms(2_000), |world| !voters(world).contains(&forgotten));
    assert_eq!(voters(&world).len(), 3);
    assert_eq!(world.leader(), Some(leader));
}
