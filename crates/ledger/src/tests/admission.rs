//! Letting in: lost, damaged and rolled-back files, spare members, removed voters.

use baton_types::{LineageId, Moment, Term};
use baton_wire::ledger::LedgerBody;

use super::world::{Disk, World, ms, node};
use crate::{Ledger, LedgerOutput, Liveness, NotNow, Opened, Role, Seen};

/// Whether all that are up are voters with the files they have, and have committed the same.
fn all_vote(world: &World, count: usize) -> bool {
    let newest = world.checks.newest.as_ref().map(|record| record.mark());
    world.up().iter().all(|host| {
        let view = world.hosts[*host].ledger.as_ref().map(|ledger| ledger.view());
        view.is_some_and(|view| {
            view.voters.len() == count
                && view.voters.iter().any(|v| v.node == node(*host) && v.file == view.file)
                && view.committed.map(|record| record.mark()) == newest
        })
    })
}

fn commit(world: &mut World, byte: u8) {
    let leader = world.leader().expect("a leader");
    assert!(world.propose(leader, byte));
    world.run_until("commit", ms(1_000), |world| {
        world.checks.newest.as_ref().is_some_and(|r| r.state.as_slice().last() == Some(&byte))
    });
}

#[test]
fn a_follower_with_a_lost_or_damaged_file_is_removed_and_added_again() {
    for (seed, lost) in [(1, Disk::Nothing), (2, Disk::Damaged)] {
        for size in [3, 4, 5] {
            let mut world = World::formed(seed, size);
            commit(&mut world, 1);
            let leader = world.leader().expect("a leader");
            let victim = (leader + 1) % size;
            let old_file = world.ledger(victim).view().file;
            world.crash(victim);
            world.hosts[victim].disk = lost.clone();
            world.boot(victim);
            world.run_until("readmission", ms(10_000), |world| all_vote(world, size));
            assert_ne!(world.ledger(victim).view().file, old_file);
            let notes = &world.hosts[leader].notes;
            assert!(notes.iter().any(|note| note.contains("removed, because")), "{notes:?}");
            assert!(notes.iter().any(|note| note.contains("added")), "{notes:?}");
            commit(&mut world, 2);
            assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1, 2]);
        }
    }
}

#[test]
fn a_leader_with_a_lost_file_is_let_in_by_the_next_one() {
    let mut world = World::formed(3, 3);
    commit(&mut world, 1);
    let leader = world.leader().expect("a leader");
    world.crash(leader);
    world.hosts[leader].disk = Disk::Nothing;
    world.boot(leader);
    world.run_until("readmission", ms(10_000), |world| all_vote(world, 3));
    assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1]);
}

#[test]
fn a_lost_file_has_no_vote_before_it_is_let_in() {
    let mut world = World::formed(4, 3);
    commit(&mut world, 1);
    let leader = world.leader().expect("a leader");
    let (victim, other) = ((leader + 1) % 3, (leader + 2) % 3);
    // Only the leader and the victim hold the record; then the leader is gone and the victim's
    // file is lost: nobody may lead, because the record would be forgotten.
    world.isolate(other);
    assert!(world.propose(leader, 2));
    world.run(ms(100));
    assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1, 2]);
    world.crash(leader);
    world.crash(victim);
    world.hosts[victim].disk = Disk::Nothing;
    world.cut.clear();
    world.boot(victim);
    world.run(ms(10_000));
    assert_eq!(world.leader(), None);
    world.boot(leader);
    world.run_until("readmission", ms(10_000), |world| all_vote(world, 3));
    assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1, 2]);
}

#[test]
fn an_older_copy_of_a_file_is_given_up() {
    for restart_all in [false, true] {
        let mut world = World::formed(5, 3);
        commit(&mut world, 1);
        let leader = world.leader().expect("a leader");
        let victim = (leader + 1) % 3;
        let old = world.hosts[victim].disk.clone();
        commit(&mut world, 2);
        commit(&mut world, 3);
        world.crash(victim);
        if restart_all {
            // What peers heard survives their own restart.
            (0..3).filter(|host| *host != victim).for_each(|host| world.crash(host));
        }
        world.hosts[victim].disk = old;
        (0..3).filter(|host| restart_all || *host == victim).for_each(|host| world.boot(host));
        world.run_until("readmission", ms(10_000), |world| all_vote(world, 3));
        let notes = &world.hosts[victim].notes;
        assert!(notes.iter().any(|note| note.contains("went back")), "{notes:?}");
        assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1, 2, 3]);
    }
}

#[test]
fn a_group_of_two_that_lost_a_file_waits_and_forms_nothing() {
    for (of_leader, lost) in [(false, Disk::Nothing), (true, Disk::Nothing), (false, Disk::Damaged)]
    {
        let mut world = World::formed(6, 2);
        commit(&mut world, 1);
        let leader = world.leader().expect("a leader");
        let victim = if of_leader { leader } else { 1 - leader };
        let copy = world.hosts[victim].disk.clone();
        world.crash(victim);
        world.hosts[victim].disk = lost;
        world.run(ms(3_000));
        world.boot(victim);
        // One voter is no majority of two. The checks refuse a second lineage.
        world.run(ms(20_000));
        assert_eq!(world.leader(), None);
        assert!(!world.ledger(victim).view().quorum);
        assert!(!world.ledger(1 - victim).view().quorum);
        // The file turns up again.
        world.crash(victim);
        world.hosts[victim].disk = copy;
        world.boot(victim);
        world.run_until("a leader", ms(5_000), |world| world.leader().is_some());
        commit(&mut world, 2);
        assert_eq!(world.checks.newest.as_ref().expect("one").state.as_slice(), [1, 2]);
    }
}

#[test]
fn a_leader_of_two_lets_the_other_in_again_while_it_still_leads() {
    let mut world = World::formed(6, 2);
    commit(&mut world, 1);
    let leader = world.leader().expect("a leader");
    world.crash(1 - leader);
    world.hosts[1 - leader].disk = Disk::Nothing;
    world.boot(1 - leader);
    world.run_until("readmission", ms(10_000), |world| all_vote(world, 2));
    commit(&mut world, 2);
}

#[test]
fn spare_members_become_voters_one_at_a_time_up_to_the_limit() {
    let mut world = World::new(7, 6, 3);
    world.settings.voter_limit = 5;
    (0..3).for_each(|host| world.boot(host));
    world.run_until("formation", ms(5_000), |world| world.leader().is_some());
    (3..6).for_each(|host| world.boot(host));
    world.run_until("five voters", ms(10_000), |world| {
        world.checks.newest.as_ref().is_some_and(|record| record.voters.len() == 5)
    });
    world.run(ms(5_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 5);
}

#[test]
fn no_spare_is_added_while_a_voter_does_not_answer() {
    let mut world = World::formed(8, 3);
    let leader = world.leader().expect("a leader");
    world.crash((leader + 1) % 3);
    let mut host = super::world::World::formed(9, 1);
    world.hosts.append(&mut host.hosts);
    world.hosts[3].ledger = None;
    world.hosts[3].disk = Disk::Nothing;
    world.run(ms(1_000));
    world.boot(3);
    world.run(ms(5_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 3);
    world.boot((leader + 1) % 3);
    world.run_until("four voters", ms(10_000), |world| all_vote(world, 4));
}

#[test]
fn a_removed_voter_knows_it_and_stays_out() {
    let mut world = World::formed(10, 4);
    let leader = world.leader().expect("a leader");
    let gone = (leader + 1) % 4;
    let now = world.now;
    assert!(world.ledger(leader).remove_voter(now, node(gone)).is_ok());
    assert_eq!(world.ledger(leader).remove_voter(now, node(gone)), Err(NotNow::NoVoter));
    world.after(leader);
    world.run(ms(10_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 3);
    assert_eq!(world.ledger(gone).view().role, Role::Spare);
    assert_eq!(world.leader(), Some(leader));
}

#[test]
fn who_was_removed_on_request_votes_again_when_it_comes_back() {
    for comes_with_new_file in [true, false] {
        let mut world = World::formed(10, 3);
        let leader = world.leader().expect("a leader");
        let gone = (leader + 1) % 3;
        let now = world.now;
        assert!(world.ledger(leader).remove_voter(now, node(gone)).is_ok());
        world.after(leader);
        world.run(ms(5_000));
        if comes_with_new_file {
            // A service that was unloaded and loaded again at once: nobody saw it gone.
            world.crash(gone);
            world.hosts[gone].disk = Disk::Nothing;
            world.boot(gone);
        } else {
            world.left.insert(gone);
            world.run(ms(2_000));
            world.left.remove(&gone);
        }
        world.run_until("readmission", ms(10_000), |world| all_vote(world, 3));
        assert_eq!(world.leader(), Some(leader), "the same leader lets it in");
    }
}

#[test]
fn a_leader_that_removes_itself_steps_down_after_the_commit() {
    let mut world = World::formed(11, 3);
    let leader = world.leader().expect("a leader");
    world.left.insert(leader);
    let now = world.now;
    assert!(world.ledger(leader).remove_voter(now, node(leader)).is_ok());
    world.after(leader);
    assert!(world.hosts[leader].leading);
    world.run_until("the commit", ms(200), |world| {
        world.checks.newest.as_ref().is_some_and(|record| record.voters.len() == 2)
    });
    assert!(!world.hosts[leader].leading);
    world.run_until("a new leader", ms(2_000), |world| world.leader().is_some());
    world.run(ms(5_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 2);
}

#[test]
fn the_last_voter_stays() {
    let mut world = World::formed(12, 1);
    let now = world.now;
    assert_eq!(world.ledger(0).remove_voter(now, node(0)), Err(NotNow::LastVoter));
}

fn member(host: usize, liveness: Liveness, term: u64, leader: usize) -> Seen {
    Seen {
        node: node(host),
        liveness,
        lineage: Some(LineageId { members: 7, random: [1; 16] }),
        replaces: Vec::new(),
        absorbs: Vec::new(),
        leader: Some(node(leader)),
        term: Term(term),
        heard_of_me: None,
    }
}

#[test]
fn spare_members_of_a_large_group_together_ask_as_often_as_those_of_a_small_one() {
    let asked_in_an_hour = |members: usize| {
        let mut now = Moment::from_millis(1_000);
        let end = now + ms(3_600_000);
        let mut ledger = Ledger::open(World::new(1, 8, 7).settings, Opened::Missing, 1, now);
        let seen = |host| member(host, Liveness::Alive, 1, 1);
        ledger.see(now, &(1..members).map(seen).collect::<Vec<_>>());
        let mut asked = 0;
        while now < end {
            for output in ledger.take_outputs() {
                match output {
                    LedgerOutput::Persist { token, .. } => ledger.persisted(now, token, true),
                    LedgerOutput::Send { message, .. } => {
                        asked += usize::from(message.body == LedgerBody::Introduce);
                    }
                    _ => {}
                }
            }
            now = ledger.next_tick().max(now + ms(1));
            ledger.tick(now);
        }
        asked
    };
    // Every tenth election timeout of 300 ms, after the first eight at each.
    assert_eq!(asked_in_an_hour(60), 1_200 + 8);
    assert_eq!(asked_in_an_hour(1_024), 1_200 / 16 + 8);
}

#[test]
fn a_spare_member_believes_the_newest_word_of_the_living_about_a_living_leader() {
    let check = |words: &[(usize, Liveness, u64, usize)], expected: Option<usize>| {
        let now = Moment::from_millis(1_000);
        let mut ledger = Ledger::open(World::new(1, 8, 7).settings, Opened::Missing, 1, now);
        let say = |(host, liveness, term, leader): &(usize, Liveness, u64, usize)| {
            member(*host, *liveness, *term, *leader)
        };
        ledger.see(now, &words.iter().map(say).collect::<Vec<_>>());
        assert_eq!(ledger.view().leader, expected.map(node), "{words:?}");
    };
    let (alive, dead) = (Liveness::Alive, Liveness::Dead);
    check(&[(1, alive, 4, 1), (2, alive, 4, 1)], Some(1));
    check(&[(1, dead, 4, 1), (2, alive, 5, 3), (3, alive, 5, 3)], Some(3));
    check(&[(1, dead, 4, 2), (2, alive, 5, 3), (3, alive, 5, 3)], Some(3));
    check(&[(1, alive, 4, 2), (2, alive, 5, 3), (3, alive, 5, 3)], Some(3));
    check(&[(1, dead, 4, 1), (2, alive, 4, 1)], None);
}
