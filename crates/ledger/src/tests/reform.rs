//! A majority lost for good: one new lineage, the newest record of those that are left, and nothing
//! from the old one counts afterwards.

use baton_types::{FileId, LineageId};
use baton_wire::ledger::{Heard, LedgerBody, LedgerMessage, Record};
use rand::RngExt;

use super::world::{CALM, Disk, Faults, World, ms, node};
use crate::{NoReform, Role};

/// `hosts` hosts that wrote something; then all but the first `left` are gone, and nobody leads.
fn bereft(seed: u64, hosts: usize, left: usize) -> World {
    let mut world = World::formed(seed, hosts);
    for byte in 0..3 {
        world.run(ms(400));
        let leader = world.leader().expect("a leader");
        assert!(world.propose(leader, byte));
    }
    world.run(ms(400));
    (left..hosts).for_each(|host| world.crash(host));
    world.run(ms(2_000));
    assert_eq!(world.leader(), None);
    world
}

fn lineage(world: &World) -> LineageId {
    world.checks.newest.as_ref().expect("a record").lineage
}

/// Types `reform` at `host` again and again until somebody leads.
fn reform_until_led(world: &mut World, host: usize) {
    for _ in 0..20 {
        if world.hosts[host].ledger.is_none() {
            world.boot(host);
        }
        if world.leader().is_some() {
            return;
        }
        world.reform(host);
        world.run(ms(3_000));
    }
    panic!("nobody leads:\n{}", world.picture());
}

/// Everybody follows one leader of that lineage, who decides.
fn together(world: &mut World, lineage: LineageId) {
    world.run_until("one lineage", ms(40_000), |world| {
        world.leader().is_some()
            && world.up().iter().all(|host| {
                let view = world.hosts[*host].ledger.as_ref().map(crate::Ledger::view);
                view.is_some_and(|view| {
                    view.quorum
                        && view.role != Role::Spare
                        && view.committed.is_some_and(|record| record.lineage == lineage)
                })
            })
    });
    let leader = world.leader().expect("a leader");
    world.run_until("readiness", ms(5_000), |world| {
        world.hosts[leader].ledger.as_ref().is_some_and(|ledger| ledger.view().ready)
    });
    assert!(world.propose(leader, 99));
    world.run(ms(1_000));
    let newest = world.checks.newest.as_ref().expect("a record");
    assert_eq!((newest.lineage, newest.state.as_slice().last()), (lineage, Some(&99)));
}

#[test]
fn those_that_are_left_form_a_new_lineage_and_old_voters_are_absorbed() {
    for (hosts, left) in [(2, 1), (3, 1), (5, 2), (5, 1), (7, 3)] {
        let mut world = bereft(7, hosts, left);
        let old = lineage(&world);
        world.reform(left - 1);
        world.run_until("a leader", ms(5_000), |world| world.leader().is_some());
        let record = world.checks.newest.clone().expect("a record");
        assert_eq!(record.replaces, [old]);
        assert_eq!(record.state.as_slice(), [0, 1, 2]);
        assert_eq!(record.voters.len(), left);
        let reformed = world.hosts[left - 1].reformed;
        assert_eq!(reformed, Some(Ok(record.lineage)));
        (left..hosts).for_each(|host| world.boot(host));
        together(&mut world, record.lineage);
        let voters = world.checks.newest.as_ref().map(|record| record.voters.len());
        assert_eq!(voters, Some(hosts));
        let notes = &world.hosts[hosts - 1].notes;
        assert!(notes.iter().any(|note| note.contains("was replaced by")), "{notes:?}");
    }
}

#[test]
fn the_newest_record_of_those_that_answer_is_taken_wherever_it_is() {
    let mut world = World::formed(3, 5);
    let leader = world.leader().expect("a leader");
    let behind = (leader + 1) % 5;
    let fresh = (leader + 2) % 5;
    world.isolate(behind);
    assert!(world.propose(leader, 7));
    world.run(ms(500));
    (0..5).filter(|host| ![behind, fresh].contains(host)).for_each(|host| world.crash(host));
    world.cut.clear();
    world.run(ms(2_000));
    world.reform(behind);
    world.run_until("a leader", ms(5_000), |world| world.leader().is_some());
    assert_eq!(world.checks.newest.as_ref().map(|r| r.state.as_slice()), Some(&[7][..]));
    assert_eq!(world.hosts[fresh].commits, world.hosts[fresh].commits.max(2));
}

#[test]
fn it_is_refused_while_a_leader_or_a_majority_is_there_and_where_nothing_is_held() {
    let mut world = World::formed(1, 3);
    let leader = world.leader().expect("a leader");
    for host in 0..3 {
        world.reform(host);
        assert_eq!(world.hosts[host].reformed, Some(Err(NoReform::Leader(node(leader)))));
    }
    // A leader that is lost leaves a majority, which elects the next one before the survey ends.
    world.crash(leader);
    let other = (leader + 1) % 3;
    world.run_until("silence", ms(5_000), |world| {
        world.hosts[other].ledger.as_ref().is_some_and(|l| l.view().leader.is_none())
    });
    world.reform(other);
    world.run(ms(2_000));
    let refused = world.hosts[other].reformed;
    assert!(matches!(refused, Some(Err(NoReform::Leader(_)))), "{refused:?}");

    let mut world = World::new(1, 3, 3);
    world.boot(0);
    world.run(ms(100));
    world.reform(0);
    world.run(ms(2_000));
    assert_eq!(world.hosts[0].reformed, Some(Err(NoReform::NothingHeld)));
}

#[test]
fn a_crash_at_any_write_of_a_reform_leaves_one_lineage_with_everything() {
    for victim in [0, 1] {
        for at in 0..60 {
            let mut world = bereft(at, 5, 2);
            let old = lineage(&world);
            world.reform(0);
            world.run_until("the survey", ms(2_000), |world| world.hosts[0].reformed.is_some());
            world.run(std::time::Duration::from_micros(at * 250));
            world.crash(victim);
            world.run(ms(700));
            world.boot(victim);
            world.run(ms(3_000));
            reform_until_led(&mut world, 1 - victim);
            let record = world.checks.newest.clone().expect("a record");
            assert!(record.replaces.contains(&old), "{}", world.picture());
            assert_eq!(record.state.as_slice(), [0, 1, 2]);
            (2..5).for_each(|host| world.boot(host));
            together(&mut world, record.lineage);
        }
    }
}

#[test]
fn a_proposer_that_dies_for_good_costs_nothing_but_another_reform() {
    for at in 0..40 {
        let mut world = bereft(at, 5, 2);
        world.reform(0);
        world.run_until("the survey", ms(2_000), |world| world.hosts[0].reformed.is_some());
        world.run(std::time::Duration::from_micros(at * 250));
        world.crash(0);
        world.run(ms(2_000));
        reform_until_led(&mut world, 1);
        let newest = world.checks.newest.clone().expect("a record");
        assert_eq!(newest.state.as_slice(), [0, 1, 2]);
        world.boot(0);
        (2..5).for_each(|host| world.boot(host));
        together(&mut world, newest.lineage);
    }
}

#[test]
fn two_operators_at_once_make_one_lineage() {
    for seed in 0..40 {
        let mut world = bereft(seed, 5, 2);
        world.reform(0);
        let pause = world.rng.random_range(0..20);
        world.run(ms(pause));
        world.reform(1);
        world.run(ms(3_000));
        reform_until_led(&mut world, 0);
        let newest = lineage(&world);
        (2..5).for_each(|host| world.boot(host));
        together(&mut world, newest);
    }
}

#[test]
fn a_majority_of_old_voters_that_returns_together_decides_nothing() {
    for seed in 0..100 {
        let mut world = bereft(seed, 5, 2);
        world.reform(0);
        world.run_until("a leader", ms(5_000), |world| world.leader().is_some());
        let new = lineage(&world);
        world.faults = Faults { loss: 100, delay_max: 40, ..CALM };
        (2..5).for_each(|host| world.boot(host));
        // Whoever leads the old lineage would write its record anew; the checks refuse that.
        together(&mut world, new);
    }
}

#[test]
fn those_that_were_only_cut_off_are_absorbed_as_well() {
    let mut world = World::formed(5, 5);
    let leader = world.leader().expect("a leader");
    let alone = (leader + 1) % 5;
    let other = (leader + 2) % 5;
    for host in 0..5 {
        for near in [alone, other]
            .into_iter()
            .filter(|near| ![alone, other].contains(&host) && *near != host)
        {
            world.cut.extend([(host, near), (near, host)]);
        }
    }
    world.run(ms(2_000));
    world.reform(alone);
    world.run_until("a new lineage", ms(5_000), |world| {
        world.checks.newest.as_ref().is_some_and(|record| !record.replaces.is_empty())
    });
    let new = lineage(&world);
    world.cut.clear();
    world.run_until("the old leader gives way", ms(5_000), |world| !world.hosts[leader].leading);
    together(&mut world, new);
}

#[test]
fn an_unfinished_reform_is_left_when_a_leader_shows_itself() {
    let mut world = World::formed(5, 5);
    let leader = world.leader().expect("a leader");
    let (first, second) = ((leader + 1) % 5, (leader + 2) % 5);
    let old = lineage(&world);
    for host in (0..5).filter(|host| ![first, second].contains(host)) {
        for near in [first, second] {
            world.cut.extend([(host, near), (near, host)]);
        }
    }
    world.run(ms(2_000));
    world.reform(first);
    world.run_until("the survey", ms(2_000), |world| world.hosts[first].reformed.is_some());
    world.crash(second);
    world.run(ms(2_000));
    let reason = world.ledger(first).view().quorum_reason;
    assert!(reason.contains("formed anew"), "{reason}");
    world.cut.clear();
    world.run(ms(1_000));
    world.boot(second);
    together(&mut world, old);
}

/// A second reform is typed while the first one waits, and is proposed just after that one was
/// finished, has decided something and has lost its leader.
#[test]
fn a_reform_that_comes_too_late_takes_nothing_from_the_one_that_was_finished() {
    for at in 0..30 {
        let mut world = bereft(at, 7, 3);
        world.reform(0);
        world.run_until("the survey", ms(2_000), |world| world.hosts[0].reformed.is_some());
        // That it accepts reaches the proposer late.
        world.cut.insert((1, 0));
        world.run(ms(200));
        world.reform(2);
        world.run_until("the second", ms(2_000), |world| world.hosts[2].reformed.is_some());
        world.cut = [(2, 0), (2, 1), (0, 2)].into();
        world.run_until("the first", ms(2_000), |world| world.hosts[0].leading);
        let first = lineage(&world);
        assert_eq!(world.hosts[0].reformed, Some(Ok(first)));
        assert!(world.propose(0, 50));
        world.run(ms(60));
        let newest = world.checks.newest.as_ref().map(|record| record.state.as_slice());
        assert_eq!(newest, Some(&[0, 1, 2, 50][..]), "{}", world.picture());
        world.crash(0);
        world.run(ms(500 + at * 7));
        world.cut.clear();
        world.run(ms(2_000));
        world.boot(0);
        together(&mut world, first);
        let newest = world.checks.newest.as_ref().expect("a record");
        assert_eq!(newest.state.as_slice(), [0, 1, 2, 50, 99], "{}", world.picture());
    }
}

/// What a peer heard from it in the old lineage is no proof that its file went back.
#[test]
fn a_late_word_of_the_old_lineage_does_not_speak_for_an_unfinished_one() {
    let mut world = bereft(9, 5, 2);
    let old = lineage(&world);
    let view = world.ledger(1).view();
    let held = view.newest.map(Record::mark).expect("a record");
    let heard = Heard { file: view.file, term: view.term, held };
    world.reform(1);
    world.run_until("the survey", ms(2_000), |world| world.hosts[1].reformed.is_some());
    world.crash(0);
    world.run(ms(200));
    let message = LedgerMessage {
        lineage: Some(old),
        file: FileId::from_random(77),
        term: held.term,
        held,
        body: LedgerBody::Stale { heard },
    };
    world.inject(node(0), 1, message);
    world.run(ms(200));
    assert_eq!(world.ledger(1).view().file, heard.file, "{}", world.picture());
    // The operator was wrong: a majority of the old lineage is there after all.
    (2..5).for_each(|host| world.boot(host));
    world.run(ms(1_000));
    world.boot(0);
    together(&mut world, old);
    for host in 2..5 {
        let notes = world.hosts[host].notes.join("; ");
        assert!(!notes.contains("was replaced"), "{notes}");
    }
}

/// The proposer of an unfinished reform was away while the old leader was there again.
#[test]
fn a_reform_that_was_left_does_not_go_on_by_itself() {
    for seed in 0..20 {
        let mut world = World::formed(seed, 5);
        let leader = world.leader().expect("a leader");
        let (first, second) = ((leader + 1) % 5, (leader + 2) % 5);
        let old = lineage(&world);
        let few = [first, second];
        let rest: Vec<usize> = (0..5).filter(|host| !few.contains(host)).collect();
        for host in &rest {
            for near in few {
                world.cut.extend([(*host, near), (near, *host)]);
            }
        }
        world.run(ms(2_000));
        world.reform(first);
        world.run_until("the survey", ms(2_000), |world| world.hosts[first].reformed.is_some());
        world.cut.insert((second, first));
        world.run(ms(700));
        world.crash(first);
        world.cut.clear();
        world.run_until("it leaves", ms(5_000), |world| {
            world.hosts[second].notes.iter().any(|note| note.contains("is given up, because"))
        });
        assert!(world.propose(leader, 77));
        world.run(ms(20));
        let newest = world.checks.newest.clone().expect("a record");
        assert_eq!(newest.state.as_slice(), [77]);
        rest.iter().for_each(|host| world.crash(*host));
        world.boot(first);
        world.run(ms(3_000));
        rest.iter().for_each(|host| world.boot(*host));
        together(&mut world, old);
        let newest = world.checks.newest.as_ref().expect("a record");
        assert_eq!(newest.state.as_slice(), [77, 99]);
    }
}

/// Formed anew once, and again, which waits for one of its voters: what the first reform took the
/// place of is over all the same.
#[test]
fn an_unfinished_second_reform_does_not_bring_the_first_lineage_back() {
    let mut world = bereft(11, 7, 2);
    world.reform(0);
    world.run_until("a leader", ms(5_000), |world| world.leader().is_some());
    world.run(ms(500));
    let leader = world.leader().expect("a leader");
    assert!(world.propose(leader, 60));
    world.run(ms(500));
    world.crash(1);
    world.run(ms(1_000));
    world.boot(2);
    world.run(ms(2_000));
    world.reform(0);
    world.run_until("the survey", ms(2_000), |world| world.hosts[0].reformed.is_some());
    let second = world.hosts[0].reformed.and_then(Result::ok).expect("it was proposed");
    world.crash(2);
    world.run(ms(1_000));
    world.crash(0);
    world.boot(0);
    (3..7).for_each(|host| world.boot(host));
    world.run(ms(3_000));
    assert!(world.leader().is_none(), "{}", world.picture());
    (1..3).for_each(|host| world.boot(host));
    together(&mut world, second);
    let newest = world.checks.newest.as_ref().expect("a record");
    assert_eq!(newest.state.as_slice(), [0, 1, 2, 60, 99]);
}

/// Faults all the while, a majority lost for good, a reform, and everybody back.
fn one_run(seed: u64) {
    let hosts = 3 + (seed % 3) as usize;
    let left = 1 + (seed as usize / 3) % (hosts / 2 + hosts % 2 - 1).max(1);
    let mut world = World::formed(seed, hosts);
    world.faults = Faults {
        loss: world.rng.random_range(0..150),
        duplication: world.rng.random_range(0..100),
        delay_max: world.rng.random_range(1..100),
        write_max: world.rng.random_range(0..60),
        write_fails: world.rng.random_range(0..40),
    };
    for byte in 0..4 {
        for leader in 0..hosts {
            if world.hosts[leader].leading {
                world.propose(leader, byte);
            }
        }
        world.run(ms(300));
    }
    (left..hosts).for_each(|host| world.crash(host));
    world.run(ms(2_000));
    let old = lineage(&world);
    for _ in 0..40 {
        let host = world.rng.random_range(0..left);
        // Each of two, typed while the other is away, makes its own: nothing could prevent that.
        let newest = lineage(&world);
        let is_known = newest == old
            || world.up().into_iter().any(|host| world.ledger(host).view().lineage == Some(newest));
        match world.rng.random_range(0..4) {
            0 if world.hosts[host].ledger.is_some() => world.crash(host),
            _ if world.hosts[host].ledger.is_none() => world.boot(host),
            1 | 2 if is_known => world.reform(host),
            _ => {}
        }
        let pause = world.rng.random_range(0..900);
        world.run(ms(pause));
        // A minority of the old voters comes and goes as well.
        if world.rng.random_range(0..6) == 0 && hosts - left > 1 {
            let back = world.rng.random_range(left..hosts);
            match world.hosts[back].ledger {
                Some(_) => world.crash(back),
                None if world.up().iter().all(|host| *host < left) => world.boot(back),
                None => {}
            }
        }
    }
    world.faults = CALM;
    (0..left)
        .filter(|host| world.hosts[*host].ledger.is_none())
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|host| world.boot(host));
    world.run(ms(2_000));
    reform_until_led(&mut world, 0);
    let new = lineage(&world);
    let fell_back = new == old;
    for host in 0..hosts {
        if world.hosts[host].ledger.is_none() {
            world.boot(host);
            let pause = world.rng.random_range(0..600);
            world.run(ms(pause));
        }
    }
    together(&mut world, new);
    assert!(!fell_back || hosts - left > 1, "the old lineage came back without its majority");
    assert!(world.hosts.iter().all(|host| matches!(host.disk, Disk::Holds(_))));
}

#[test]
fn two_hundred_seeds_of_chaos() {
    (0..200).for_each(one_run);
}
