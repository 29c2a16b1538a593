//! Joining, leaving, restarting, forgetting.

use std::time::Duration;

use baton_types::Profile;

use super::net::{Net, addr};
use crate::{ForgetError, MemberState, RingOutput};

const LAN: Profile = Profile::Lan;

#[test]
fn all_join_through_one_seed_and_see_all() {
    for count in [1, 2, 5, 50] {
        let net = Net::joined(count, LAN, 1);
        for at in 0..count {
            assert_eq!(net.ring(at).members().count(), count);
            assert_eq!(net.ring(at).is_joined(), count > 1, "{count}");
            assert_eq!(net.ring(at).is_alone(), count == 1);
        }
    }
}

#[test]
fn a_newcomer_costs_a_calm_ring_hardly_any_exchange() {
    for seed in 80..85 {
        let mut net = Net::joined(20, LAN, seed);
        net.kill(7);
        net.run_until(20, "dead", |net| net.all_see(7, Some(MemberState::Dead)));
        net.settle();
        net.start(7);
        net.run_until(2, "back", Net::all_see_all);
        net.run(Duration::from_secs(30));
        let streams = net.nodes.iter().map(|node| node.streams).sum::<usize>();
        assert!(streams <= 8, "{streams} streams, seed {seed}");
    }
}

#[test]
fn a_seed_that_comes_late_is_tried_for_ever() {
    let mut net = Net::new(3, LAN, 2);
    net.start(1);
    net.start(2);
    net.run(Duration::from_secs(600));
    assert!(!net.ring(1).is_joined());
    net.start(0);
    net.run_until(60, "all see all", Net::all_see_all);
}

#[test]
fn remembered_members_replace_a_lost_seed() {
    let mut net = Net::joined(4, LAN, 3);
    net.kill(0);
    net.kill(3);
    net.run(Duration::from_secs(30));
    net.start(3);
    net.run_until(10, "all see all", Net::all_see_all);
}

#[test]
fn a_whole_ring_that_lost_power_comes_back() {
    let mut net = Net::joined(5, LAN, 4);
    (0..5).for_each(|at| net.kill(at));
    net.run(Duration::from_secs(5));
    (1..5).for_each(|at| net.start(at));
    net.run_until(10, "all see all", Net::all_see_all);
    assert_eq!(net.state(1, 0), None, "nothing is claimed of a member not heard of yet");
}

#[test]
fn a_restart_under_a_new_address_replaces_the_member() {
    let mut net = Net::joined(5, LAN, 5);
    net.kill(3);
    net.nodes[3].addr = addr(3, 1);
    net.start(3);
    let (id, wanted) = (net.nodes[3].id, addr(3, 1));
    net.run_until(5, "the new address is known", |net| {
        net.running().into_iter().all(|at| net.ring(at).addr_of(id) == Some(wanted))
    });
    net.run(Duration::from_secs(30));
    assert!(!net.was_reported(3, MemberState::Dead));
    assert_eq!(net.ring(0).members().count(), 5);
}

#[test]
fn a_restart_within_the_suspicion_is_no_failure() {
    let mut net = Net::joined(5, LAN, 6);
    let before = net.ring(0).member(net.nodes[2].id).map(|m| (m.boot, m.incarnation));
    net.kill(2);
    net.run_until(10, "somebody suspects", |net| net.was_reported(2, MemberState::Suspect));
    net.start(2);
    net.run(Duration::from_secs(30));
    assert!(net.all_see(2, Some(MemberState::Alive)));
    assert!(!net.was_reported(2, MemberState::Dead));
    let after = net.ring(0).member(net.nodes[2].id).map(|m| (m.boot, m.incarnation));
    assert!(after > before, "{after:?} {before:?}");
}

#[test]
fn leaving_is_known_to_all_and_no_failure() {
    let mut net = Net::joined(8, LAN, 7);
    net.loss = 0.3;
    net.with(5, |ring, now| ring.leave(now));
    net.run_until(5, "acknowledged", |net| net.nodes[5].events.contains(&RingOutput::Left));
    net.kill(5);
    net.run_until(20, "all see it", |net| net.all_see(5, Some(MemberState::Left)));
    net.run(Duration::from_secs(60));
    assert!(net.all_see(5, Some(MemberState::Left)));
    assert!(!net.was_reported(5, MemberState::Suspect));
    net.start(5);
    net.run_until(20, "it may come back", Net::all_see_all);
}

#[test]
fn leaving_alone_ends_at_once_and_leaving_the_deaf_ends_too() {
    let mut net = Net::joined(1, LAN, 8);
    net.with(0, |ring, now| ring.leave(now));
    assert!(net.nodes[0].events.contains(&RingOutput::Left));
    let mut net = Net::joined(3, LAN, 8);
    net.nodes[1].side = 1;
    net.with(1, |ring, now| ring.leave(now));
    net.run_until(5, "gone", |net| net.nodes[1].events.contains(&RingOutput::Left));
    assert!(net.nodes[1].events.iter().any(|event| matches!(event, RingOutput::Warning(_))));
}

#[test]
fn goodbye_and_back_within_the_grace_is_no_failure() {
    let mut net = Net::joined(6, LAN, 9);
    net.with(4, |ring, now| ring.goodbye(now));
    net.kill(4);
    net.run_until(5, "shown", |net| net.all_see(4, Some(MemberState::Restarting)));
    net.run(Duration::from_secs(20));
    assert!(net.all_see(4, Some(MemberState::Restarting)));
    net.start(4);
    net.run_until(5, "back", Net::all_see_all);
    net.run(Duration::from_secs(60));
    assert!(net.all_see_all());
    assert!(!net.was_reported(4, MemberState::Dead));
    assert!(!net.was_reported(4, MemberState::Suspect));
}

#[test]
fn goodbye_without_return_is_death_after_the_grace() {
    let mut net = Net::joined(6, LAN, 10);
    net.with(4, |ring, now| ring.goodbye(now));
    net.kill(4);
    net.run(Duration::from_secs(29));
    assert!(net.all_see(4, Some(MemberState::Restarting)));
    net.run(Duration::from_secs(2));
    assert!(net.all_see(4, Some(MemberState::Dead)));
}

#[test]
fn forgotten_on_every_node_and_a_late_rumour_changes_nothing() {
    let mut net = Net::joined(6, LAN, 11);
    let id = net.nodes[4].id;
    let late = net.ring(0).member(id).expect("known").record(net.now);
    assert!(matches!(
        net.with(1, |ring, now| ring.forget(now, id)),
        Err(ForgetError::NotGone { .. })
    ));
    net.kill(4);
    net.run_until(20, "dead", |net| net.all_see(4, Some(MemberState::Dead)));
    assert_eq!(net.with(1, |ring, now| ring.forget(now, id)), Ok(()));
    assert_eq!(
        net.with(1, |ring, now| ring.forget(now, id)),
        Err(ForgetError::Unknown(id)),
        "and again"
    );
    net.run_until(5, "forgotten", |net| net.all_see(4, None));
    let (sender, boot, from) = (net.nodes[0].id, net.ring(0).me.boot, net.nodes[0].addr);
    net.nodes.iter_mut().for_each(|node| node.events.clear());
    let late = baton_wire::RingMessage::Member(late);
    net.with(2, |ring, now| ring.receive(now, from, sender, boot, late.clone()));
    net.run(Duration::from_secs(60));
    assert!(net.all_see(4, None));
    assert!(!net.was_reported(4, MemberState::Alive));
    // The tombstone survives a restart of the node that keeps it.
    net.kill(2);
    net.start(2);
    net.with(2, |ring, now| ring.receive(now, from, sender, boot, late));
    assert_eq!(net.state(2, 4), None);
    net.run_until(5, "back", Net::all_see_all);
    assert!(net.all_see(4, None));
    net.start(4);
    net.run_until(20, "a new start of it is welcome", Net::all_see_all);
}

#[test]
fn a_living_node_that_hears_that_it_was_forgotten_rejoins() {
    let mut net = Net::joined(5, LAN, 12);
    net.nodes[4].side = 1;
    net.run_until(30, "dead", |net| (0..4).all(|at| net.state(at, 4) == Some(MemberState::Dead)));
    let id = net.nodes[4].id;
    net.with(1, |ring, now| ring.forget(now, id)).expect("it is dead here");
    net.run_until(5, "forgotten", |net| (0..4).all(|at| net.state(at, 4).is_none()));
    net.nodes[4].side = 0;
    net.run_until(90, "rejoined", Net::all_see_all);
}

#[test]
fn two_nodes_of_one_name_both_stay_and_both_warn_once() {
    let mut net = Net::joined(3, LAN, 13);
    let name = net.ring(1).me.name.clone();
    let id = net.nodes[2].id;
    let mut record = net.ring(2).member(id).expect("itself").record(net.now);
    net.kill(2);
    record.name = name;
    record.incarnation.0 += 1;
    let (sender, boot, from) = (net.nodes[0].id, net.ring(0).me.boot, net.nodes[0].addr);
    for _ in 0..3 {
        record.incarnation.0 += 1;
        let message = baton_wire::RingMessage::Member(record.clone());
        net.with(1, |ring, now| ring.receive(now, from, sender, boot, message));
    }
    let warnings: Vec<_> =
        net.nodes[1].events.iter().filter(|e| matches!(e, RingOutput::Warning(_))).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(net.ring(1).members().count(), 3);
}

#[test]
fn the_dead_are_reaped_everywhere_and_do_not_return() {
    let mut net = Net::new(4, LAN, 14);
    net.timing.reap_after = Duration::from_secs(600);
    (0..4).for_each(|at| net.start(at));
    net.run_until(20, "all see all", Net::all_see_all);
    net.kill(3);
    net.run_until(20, "dead", |net| net.all_see(3, Some(MemberState::Dead)));
    net.run(Duration::from_secs(500));
    assert!(net.all_see(3, Some(MemberState::Dead)));
    net.run(Duration::from_secs(150));
    assert!(net.all_see(3, None));
    net.run(Duration::from_secs(600));
    assert!(net.all_see(3, None));
    assert!(net.digests_equal());
}
