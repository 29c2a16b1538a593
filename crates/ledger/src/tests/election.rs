//! Elections: who may lead, and when a leader stops.

use super::world::{Disk, World, ms};
use crate::{NotNow, Role};
use baton_wire::ledger::StateBytes;

#[test]
fn a_new_leader_comes_soon_and_commits_the_found_record_anew() {
    for seed in 0..40 {
        let mut world = World::formed(seed, 5);
        let old = world.leader().expect("a leader");
        assert!(world.propose(old, 7));
        world.run_until("commit", ms(200), |world| {
            world.checks.newest.as_ref().is_some_and(|r| r.state.as_slice() == [7])
        });
        let before = world.checks.newest.clone().expect("a record");
        world.crash(old);
        // The promise for the profile whose timings these are.
        world.run_until("a new leader", ms(550), |world| world.leader().is_some());
        let after = world.checks.newest.clone().expect("a record");
        assert_eq!(after.state, before.state);
        assert!(after.term > before.term && after.version > before.version);
    }
}

#[test]
fn nothing_is_proposed_before_the_found_record_is_committed() {
    let mut world = World::formed(1, 3);
    let old = world.leader().expect("a leader");
    world.crash(old);
    let leads = |world: &World, host: usize| {
        world.hosts[host].ledger.as_ref().is_some_and(|l| l.view().role == Role::Leader)
    };
    world.run_until("a winner", ms(2_000), |world| (0..3).any(|host| leads(world, host)));
    let new = (0..3).find(|host| leads(&world, *host)).expect("a winner");
    assert_eq!(world.leader(), None);
    let now = world.now;
    assert_eq!(world.ledger(new).propose(now, StateBytes::default()), Err(NotNow::NotReady));
    assert!(!world.ledger(new).view().quorum);
    world.run_until("readiness", ms(200), |world| world.leader() == Some(new));
    assert!(world.propose(new, 1));
    let now = world.now;
    assert_eq!(world.ledger(new).propose(now, StateBytes::default()), Err(NotNow::InFlight));
    let other = (0..3).find(|h| *h != new && *h != old).expect("a follower");
    assert_eq!(world.ledger(other).propose(now, StateBytes::default()), Err(NotNow::NotLeader));
}

#[test]
fn a_leader_without_majority_steps_down_and_falls_silent() {
    let mut world = World::formed(2, 5);
    let old = world.leader().expect("a leader");
    world.isolate(old);
    world.run_until("stepping down", ms(450), |world| !world.hosts[old].leading);
    assert!(!world.ledger(old).view().quorum);
    world.run_until("a new leader", ms(1_000), |world| world.leader().is_some());
    let term = world.ledger(old).view().term;
    world.run(ms(10_000));
    assert_eq!(world.ledger(old).view().term, term, "pre-vote raises no term");
    let leader = world.leader();
    world.cut.clear();
    world.run(ms(1_000));
    assert_eq!(world.leader(), leader, "who comes back deposes nobody");
    assert!(world.ledger(old).view().quorum);
}

#[test]
fn a_leader_that_hears_nobody_gives_way() {
    let mut world = World::formed(3, 3);
    let old = world.leader().expect("a leader");
    for other in 0..3 {
        world.cut.insert((other, old));
    }
    world.run_until("another leader", ms(2_000), |world| {
        world.leader().is_some_and(|leader| leader != old)
    });
    assert!(!world.hosts[old].leading);
}

#[test]
fn a_follower_that_flaps_deposes_nobody() {
    let mut world = World::formed(4, 5);
    let leader = world.leader().expect("a leader");
    let term = world.ledger(leader).view().term;
    let flapper = (leader + 1) % 5;
    for _ in 0..10 {
        world.isolate(flapper);
        world.run(ms(700));
        assert!(!world.ledger(flapper).view().quorum);
        world.cut.clear();
        world.run(ms(300));
    }
    assert_eq!(world.leader(), Some(leader));
    assert_eq!(world.ledger(leader).view().term, term);
}

#[test]
fn a_voter_that_hears_its_leader_gives_no_vote_even_in_a_higher_term() {
    use baton_types::Term;
    use baton_wire::ledger::{LedgerBody, LedgerMessage};
    let mut world = World::formed(5, 3);
    let leader = world.leader().expect("a leader");
    let (voter, candidate) = ((leader + 1) % 3, (leader + 2) % 3);
    let view = world.ledger(candidate).view();
    let held = view.newest.expect("a record").mark();
    let (lineage, file, term) = (view.lineage, view.file, view.term);
    let asked = world.ledger(voter).view().file;
    for body in [LedgerBody::PreVote { probe: 1 }, LedgerBody::Vote { voter: asked, probe: 1 }] {
        let term = Term(term.0 + 5);
        let message = LedgerMessage { lineage, file, term, held, body };
        world.inject(super::world::node(candidate), voter, message);
    }
    world.run(ms(1_000));
    assert_eq!(world.leader(), Some(leader));
    assert_eq!(world.ledger(voter).view().term, term);
}

#[test]
fn a_group_of_two_needs_both_and_comes_back() {
    let mut world = World::formed(6, 2);
    let leader = world.leader().expect("a leader");
    let other = 1 - leader;
    world.crash(other);
    world.run(ms(2_000));
    let view = world.ledger(leader).view();
    assert!(!view.quorum, "{view:?}");
    assert_eq!(view.quorum_reason, "no leader among 2 voters is heard");
    world.boot(other);
    world.run_until("a leader", ms(2_000), |world| world.leader().is_some());
}

#[test]
fn one_of_three_after_a_power_loss_shows_no_quorum() {
    let mut world = World::formed(7, 3);
    (0..3).for_each(|host| world.crash(host));
    world.boot(1);
    world.run(ms(5_000));
    let view = world.ledger(1).view();
    assert!(!view.quorum);
    assert!(view.quorum_reason.starts_with("just started"), "{}", view.quorum_reason);
    world.boot(2);
    world.run_until("a leader", ms(2_000), |world| world.leader().is_some());
}

#[test]
fn a_vote_survives_a_crash() {
    let mut world = World::formed(8, 3);
    let leader = world.leader().expect("a leader");
    world.crash(leader);
    world.run_until("a new leader", ms(2_000), |world| world.leader().is_some());
    for host in world.up() {
        let term = world.ledger(host).view().term;
        let Disk::Holds(file) = &world.hosts[host].disk else { panic!("a file") };
        assert_eq!(file.term, term);
        assert!(file.voted_for.is_some());
    }
}

#[test]
fn who_cannot_read_the_record_gives_it_to_one_that_can_and_stands_aside() {
    let mut world = World::formed(9, 3);
    let leader = world.leader().expect("a leader");
    world.ledger(leader).set_can_read(false);
    let others: Vec<usize> = (0..3).filter(|host| *host != leader).collect();
    world.run_until("another one leads", ms(4_000), |world| {
        world.leader().is_some_and(|found| found != leader)
    });
    // One that is behind, and the one that could read is gone: only of the one that cannot may it get
    // the newest record.
    let (last, behind) = match world.leader() == Some(others[0]) {
        true => (others[0], others[1]),
        false => (others[1], others[0]),
    };
    world.crash(behind);
    assert!(world.propose(last, 1));
    world.run(ms(500));
    world.crash(last);
    world.boot(behind);
    world.run_until("the one behind leads", ms(20_000), |world| world.leader() == Some(behind));
    let version = world.ledger(behind).view().committed.map(|record| record.version);
    world.run(ms(10_000));
    assert_eq!(world.leader(), Some(behind), "with the vote of the one that cannot");
    assert!(world.propose(behind, 2));
    world.run(ms(500));
    assert!(world.ledger(behind).view().committed.map(|record| record.version) > version);
}
