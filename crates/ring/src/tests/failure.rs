//! Finding failures, and not finding what is none.

use std::time::Duration;

use baton_types::Profile;

use baton_wire::RingMessage;

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
fn a_cut_between_two_nodes_is_bridged_by_relays() {
    let mut net = Net::joined(5, Profile::Lan, 29);
    net.cut = Some((1, 3));
    net.run(Duration::from_secs(120));
    for at in 0..5 {
        assert!(!net.was_reported(at, MemberState::Suspect), "n{at}");
    }
}

#[test]
fn confirmations_shorten_a_suspicion() {
    for (accusers, millis) in [(1, 3_900), (2, 2_650), (4, 1_400)] {
        let mut net = Net::joined(6, Profile::Lan, 30);
        (1..6).for_each(|at| net.nodes[at].paused = true);
        let (from, sender, boot) = (net.nodes[1].addr, net.nodes[1].id, net.ring(1).me.boot);
        let mut record = net.ring(0).member(net.nodes[5].id).expect("known").record(net.now);
        record.state = MemberState::Suspect;
        for accuser in 1..=accusers {
            // One after the other, as they are heard in a ring.
            record.accusers = vec![net.nodes[accuser].id];
            let message = RingMessage::Member(record.clone());
            net.with(0, |ring, now| ring.receive(now, from, sender, boot, message));
        }
        // Node 0 itself accuses one member each period; this one is the last to be probed.
        net.with(0, |ring, _| ring.probe_last(record.node));
        net.run(Duration::from_millis(millis));
        assert_eq!(net.state(0, 5), Some(MemberState::Suspect), "{accusers} accusers");
        net.run(Duration::from_millis(200));
        assert_eq!(net.state(0, 5), DEAD, "{accusers} accusers");
    }
}

#[test]
fn a_suspect_hears_first_that_it_is_suspected() {
    let mut net = Net::joined(3, Profile::Lan, 31);
    net.nodes[2].side = 1;
    net.run_until(10, "suspected", |net| net.was_reported(2, MemberState::Suspect));
    net.trace.clear();
    net.run(Duration::from_secs(3));
    let to = format!("to: {}, messages: ", net.nodes[2].addr);
    let pings: Vec<_> =
        net.trace.iter().filter(|line| line.contains(&to) && line.contains("Ping {")).collect();
    assert!(!pings.is_empty());
    for ping in pings {
        let (accusation, _) = ping.split_once("Ping {").expect("a ping");
        assert!(accusation.contains("state: Suspect"), "{ping}");
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
