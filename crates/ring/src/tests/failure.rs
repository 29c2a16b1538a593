//! Finding failures, and not finding what is none.

use std::time::Duration;

use baton_types::Profile;

use super::net::Net;
use crate::MemberState;

const DEAD: Option<MemberState> = Some(MemberState::Dead);

#[test]
fn a_killed_node_is_dead_everywhere() {
    for (count, profile, secs) in [
        (2, Profile::Lan, 10),
        (5, Profile::Lan, 10),
        (50, Profile::Lan, 20),
        (5, Profile::Local, 2),
    ] {
        let mut net = Net::joined(count, profile, 20);
        net.kill(1);
        net.run_until(secs, "dead everywhere", |net| net.all_see(1, DEAD));
        for other in (0..count).filter(|at| *at != 1) {
            assert!(net.all_see(other, Some(MemberState::Alive)) || count == 2);
            assert!(!net.was_reported(other, MemberState::Dead));
        }
    }
}

#[test]
fn a_suspicion_is_refuted() {
    let mut net = Net::joined(5, Profile::Lan, 21);
    net.nodes[3].side = 1;
    net.run_until(10, "suspected", |net| net.was_reported(3, MemberState::Suspect));
    net.nodes[3].side = 0;
    net.run_until(4, "refuted", Net::all_see_all);
    net.run(Duration::from_secs(20));
    assert!(!net.was_reported(3, MemberState::Dead));
}

#[test]
fn thirty_percent_loss_kills_nobody() {
    for (seed, loss, lose_streams) in [(22, 0.3, false), (23, 0.15, true)] {
        let mut net = Net::joined(20, Profile::Lan, seed);
        net.loss = loss;
        net.lose_streams = lose_streams;
        net.run(Duration::from_secs(300));
        for at in 0..20 {
            assert!(!net.was_reported(at, MemberState::Dead), "n{at}, seed {seed}");
        }
        net.loss = 0.0;
        net.run_until(30, "calm again", |net| net.all_see_all() && net.digests_equal());
    }
}

#[test]
fn a_killed_node_is_found_under_loss() {
    let mut net = Net::joined(20, Profile::Lan, 24);
    net.loss = 0.3;
    net.kill(7);
    net.run_until(60, "dead everywhere", |net| net.all_see(7, DEAD));
}

#[test]
fn a_split_ring_heals_by_itself() {
    for split in [1, 5] {
        let mut net = Net::joined(10, Profile::Lan, 25);
        for at in 0..split {
            net.nodes[9 - at].side = 1;
        }
        net.run(Duration::from_secs(120));
        let dead = net.ring(0).members().filter(|m| m.state == MemberState::Dead).count();
        assert_eq!(dead, split);
        for node in &mut net.nodes {
            node.side = 0;
            node.events.clear();
        }
        net.run_until(90, "healed", |net| net.all_see_all() && net.digests_equal());
        for at in 0..10 {
            assert!(!net.was_reported(at, MemberState::Dead), "n{at} died of the healing");
        }
    }
}

#[test]
fn a_node_that_was_suspended_accuses_nobody() {
    for seed in 26..36 {
        let mut net = Net::joined(6, Profile::Lan, seed);
        net.nodes[2].paused = true;
        net.run(Duration::from_secs(60));
        assert!((0..6).filter(|at| *at != 2).all(|at| net.state(at, 2) == DEAD));
        net.nodes[2].paused = false;
        net.nodes[2].events.clear();
        net.run_until(60, "back", |net| net.all_see_all() && net.digests_equal());
        assert!(net.ring(2).counters().late_ticks > 0);
        for at in [0, 1, 3, 4, 5] {
            assert!(!net.was_reported(at, MemberState::Suspect), "n{at} was accused, seed {seed}");
        }
    }
}

#[test]
fn round_trips_are_measured() {
    let net = Net::joined(3, Profile::Lan, 27);
    let member = net.ring(0).member(net.nodes[1].id).expect("known");
    let round_trip = member.round_trip.expect("was probed");
    assert!(round_trip >= Duration::from_micros(400) && round_trip < Duration::from_millis(4));
}

#[test]
fn a_member_that_only_streams_reach_is_not_accused() {
    let mut net = Net::joined(5, Profile::Lan, 28);
    net.loss = 1.0;
    net.run(Duration::from_secs(60));
    for at in 0..5 {
        assert!(!net.was_reported(at, MemberState::Suspect), "n{at}");
    }
}
