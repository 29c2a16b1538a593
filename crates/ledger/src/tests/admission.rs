//! Letting in: lost, damaged and rolled-back files, spare members, removed voters.

use baton_types::{LineageId, Moment, NodeId, Term};
use baton_wire::ledger::{LedgerBody, LedgerMessage, Mark};

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
fn who_was_removed_on_request_and_does_not_go_votes_again() {
    let mut world = World::formed(10, 3);
    let leader = world.leader().expect("a leader");
    let stays = (leader + 1) % 3;
    let now = world.now;
    assert!(world.ledger(leader).remove_voter(now, node(stays)).is_ok());
    world.after(leader);
    world.run(ms(50_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 2);
    world.run_until("readmission", ms(30_000), |world| all_vote(world, 3));
    assert_eq!(world.leader(), Some(leader), "the same leader lets it in");
}

#[test]
fn who_was_removed_before_it_had_the_first_record_votes_in_the_end() {
    for leader_changes in [false, true] {
        let mut world = World::new(13, 4, 4);
        (0..4).for_each(|host| world.boot(host));
        // Everybody has accepted, and the first record is on its way to the proposer's disk.
        let (leader, late) = (0, 1);
        world.run_until("formation", ms(5_000), |world| {
            world.hosts[leader].ledger.as_ref().is_some_and(|l| l.forming.founding.is_some())
        });
        world.isolate(late);
        world.run(ms(10));
        let disk = &world.hosts[late].disk;
        let waits = matches!(disk, Disk::Holds(file) if file.record.is_none()
            && file.formation.accepted.is_some());
        assert!(waits, "{disk:?}");
        world.left.insert(late);
        world.run_until("its removal", ms(20_000), |world| {
            world.checks.newest.as_ref().is_some_and(|record| record.voters.len() == 3)
        });
        if leader_changes {
            world.crash(leader);
            world.run_until("another leader", ms(5_000), |world| world.leader().is_some());
            world.boot(leader);
            world.run(ms(2_000));
        }
        world.left.remove(&late);
        world.cut.clear();
        world.run_until("readmission", ms(20_000), |world| all_vote(world, 4));
    }
}

#[test]
fn a_leader_that_is_to_be_removed_hands_over_and_the_next_one_removes_it() {
    let mut world = World::formed(11, 3);
    let leader = world.leader().expect("a leader");
    world.run(ms(500));
    let now = world.now;
    assert_eq!(world.ledger(leader).remove_voter(now, node(leader)), Err(NotNow::HandsOver));
    world.after(leader);
    assert!(!world.hosts[leader].leading);
    world.run_until("a new leader", ms(2_000), |world| world.leader().is_some());
    let next = world.leader().expect("a leader");
    assert_ne!(next, leader);
    let now = world.now;
    assert!(world.ledger(next).remove_voter(now, node(leader)).is_ok());
    world.left.insert(leader);
    world.after(next);
    world.run(ms(5_000));
    assert_eq!(world.checks.newest.as_ref().expect("one").voters.len(), 2);
    assert_eq!(world.ledger(leader).view().role, Role::Spare);
}

#[test]
fn a_leader_that_hands_over_in_vain_leads_again() {
    let mut world = World::formed(11, 2);
    let leader = world.leader().expect("a leader");
    world.run(ms(500));
    world.settings.election_timeout = ms(60_000);
    let now = world.now;
    assert_eq!(world.ledger(leader).remove_voter(now, node(leader)), Err(NotNow::HandsOver));
    world.after(leader);
    let other = 1 - leader;
    world.crash(other);
    world.boot(other);
    world.run_until("the same leader", ms(10_000), |world| world.leader() == Some(leader));
}

#[test]
fn who_is_removed_and_was_the_only_one_to_hear_of_it_stops_nobody() {
    let mut world = World::formed(14, 3);
    let leader = world.leader().expect("a leader");
    let (gone, late) = ((leader + 1) % 3, (leader + 2) % 3);
    world.run(ms(500));
    let now = world.now;
    world.cut.insert((leader, late));
    assert!(world.ledger(leader).remove_voter(now, node(gone)).is_ok());
    world.after(leader);
    let before: usize = world.sent.values().sum();
    world.run(ms(150));
    let sent = world.sent.values().sum::<usize>() - before;
    assert!(sent < 40, "{sent} messages while it waits for the commit");
    world.crash(leader);
    world.run_until("a leader of the two others", ms(5_000), |world| {
        world.leader().is_some_and(|leader| leader == gone || leader == late)
    });
}

#[test]
fn a_later_record_is_not_given_up_because_its_voters_refused_the_first() {
    let mut world = World::formed(12, 3);
    commit(&mut world, 1);
    let leader = world.leader().expect("a leader");
    let (gone, dead) = ((leader + 1) % 3, (leader + 2) % 3);
    world.crash(dead);
    world.crash(leader);
    world.crash(gone);
    // What a group left behind that removed `gone` and stopped there: a record of the two others,
    // one of which refuses the lineage.
    let Disk::Holds(file) = &mut world.hosts[gone].disk else { panic!("no file") };
    let record = file.record.as_mut().expect("a record");
    let lineage = record.lineage;
    let voters = record.voters.clone();
    record.version += 1;
    record.voters.retain(|voter| voter.node != node(gone));
    world.boot(gone);
    for voter in voters.iter().filter(|voter| voter.node != node(gone)) {
        let body = LedgerBody::Refuse { lineage, own: None, formed: false, durable: true };
        let message = LedgerMessage {
            lineage: Some(lineage),
            term: Term(1),
            file: voter.file,
            held: Mark::default(),
            body,
        };
        world.inject(voter.node, gone, message);
    }
    world.run(ms(1_000));
    assert_eq!(world.ledger(gone).view().lineage, Some(lineage));
}

#[test]
fn a_voter_without_which_the_group_would_stand_still_is_not_removed() {
    let mut world = World::formed(12, 3);
    let leader = world.leader().expect("a leader");
    let (dead, goes) = ((leader + 1) % 3, (leader + 2) % 3);
    world.crash(dead);
    world.run(ms(2_000));
    let now = world.now;
    assert_eq!(world.ledger(leader).remove_voter(now, node(goes)), Err(NotNow::TooFewLeft));
    assert_eq!(world.ledger(leader).remove_voter(now, node(leader)), Err(NotNow::TooFewLeft));
    world.boot(dead);
    world.run(ms(2_000));
    let now = world.now;
    assert!(world.ledger(leader).remove_voter(now, node(goes)).is_ok());
}

#[test]
fn the_last_voter_stays() {
    let mut world = World::formed(12, 1);
    let now = world.now;
    assert_eq!(world.ledger(0).remove_voter(now, node(0)), Err(NotNow::LastVoter));
}

#[test]
fn spare_members_of_a_large_group_together_ask_as_often_as_those_of_a_small_one() {
    let asked_in_an_hour = |members: usize| {
        let mut now = Moment::from_millis(1_000);
        let end = now + ms(3_600_000);
        let mut ledger = Ledger::open(World::new(1, 8, 7).settings, Opened::Missing, 1, now);
        ledger.see(now, &(1..members).map(|host| says(host, 1, 1)).collect::<Vec<_>>());
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

/// A member without a vote that is told this; whom it takes for the leader after each time.
fn leaders_of_spare(told: &[&[Seen]]) -> Vec<Option<NodeId>> {
    const NOW: Moment = Moment::from_millis(5_000);
    let settings = World::new(1, 1, 3).settings;
    let mut ledger = Ledger::open(settings, Opened::Missing, 1, NOW);
    let after = |seen: &&[Seen]| {
        ledger.see(NOW, seen);
        ledger.view().leader
    };
    told.iter().map(after).collect()
}

/// Member `host` of a lineage says who leads.
fn says(host: usize, lineage: u8, leader: usize) -> Seen {
    Seen {
        node: node(host),
        liveness: Liveness::Alive,
        lineage: Some(LineageId { members: 3, random: [lineage; 16] }),
        replaces: Vec::new(),
        absorbs: Vec::new(),
        leader: Some(node(leader)),
        term: Term(1),
        heard_of_me: None,
    }
}

#[test]
fn a_member_without_a_vote_believes_no_dead_leader() {
    let dead = |seen| Seen { liveness: Liveness::Dead, ..seen };
    let before = [says(1, 1, 1), says(2, 1, 1)];
    let after = [dead(says(1, 1, 1)), Seen { term: Term(2), ..says(2, 1, 2) }];
    assert_eq!(leaders_of_spare(&[&before, &after]), [Some(node(1)), Some(node(2))]);
    let late = [dead(says(1, 1, 1)), says(2, 1, 1), Seen { term: Term(2), ..says(3, 1, 3) }];
    assert_eq!(leaders_of_spare(&[&late]), [Some(node(3))]);
    let slow = [says(1, 1, 1), Seen { term: Term(2), ..says(2, 1, 2) }, says(3, 1, 1)];
    assert_eq!(leaders_of_spare(&[&slow]), [Some(node(2))], "the first one does not know yet");
    let denies = Seen { leader: None, ..says(2, 1, 2) };
    assert_eq!(leaders_of_spare(&[&[says(1, 1, 2), denies.clone()]]), [None]);
    let elected = [Seen { term: Term(2), ..says(1, 1, 2) }, denies];
    assert_eq!(leaders_of_spare(&[&elected]), [Some(node(2))], "it has not said so itself yet");
    let none = [dead(says(1, 1, 1)), says(2, 1, 1)];
    assert_eq!(leaders_of_spare(&[&none]), [None]);
}

#[test]
fn a_member_without_a_vote_stays_with_its_lineage_when_another_one_is_met() {
    let own = says(3, 1, 3);
    let met = [says(1, 2, 1), own.clone()];
    let lost = [says(1, 2, 1), Seen { liveness: Liveness::Dead, ..own.clone() }];
    let absorbed = [Seen { replaces: vec![own.lineage.expect("one")], ..says(1, 2, 1) }];
    let told = leaders_of_spare(&[std::slice::from_ref(&own), &met, &absorbed]);
    assert_eq!(told, [Some(node(3)), Some(node(3)), Some(node(1))]);
    let told = leaders_of_spare(&[std::slice::from_ref(&own), &lost]);
    assert_eq!(told, [Some(node(3)), Some(node(1))], "nobody is left of it");
}
