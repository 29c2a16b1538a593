//! Facts: spread when they change, repaired when lost, silent otherwise.

use std::time::Duration;

use baton_types::Profile;
use baton_types::limits::{FACT_MAX_BYTES, NODE_MAX_FACTS};

use super::net::{Net, key};
use crate::{FactError, MemberState, RingOutput};

const LAN: Profile = Profile::Lan;

#[test]
fn a_change_is_known_by_all_and_told_once() {
    let mut net = Net::joined(50, LAN, 40);
    let service = key("service/redis.default");
    for value in [b"7.0.14".as_slice(), b"7.0.15"] {
        let set = net.with(9, |ring, now| ring.set_fact(now, service.clone(), value.to_vec()));
        assert_eq!(set, Ok(()));
        net.run_until(2, "known", |net| net.all_know(9, &service, Some(value)));
    }
    net.with(9, |ring, now| ring.remove_fact(now, &service));
    net.run_until(2, "removed", |net| net.all_know(9, &service, None));
    net.settle();
    net.with(9, |ring, now| ring.remove_fact(now, &service));
    net.run(Duration::from_secs(5));
    assert!(net.nodes.iter().all(|node| node.events.is_empty()));
}

#[test]
fn facts_set_before_joining_arrive_with_their_node() {
    for (count, secs) in [(6, 5), (50, 10)] {
        let mut net = Net::new(count, LAN, 49);
        for at in 0..count {
            net.start(at);
            for name in ["a", "b", "c"] {
                net.with(at, |ring, now| ring.set_fact(now, key(name), vec![1; 300]))
                    .expect("fits");
            }
        }
        net.run_until(secs, "all know all", |net| {
            net.running().into_iter().all(|at| net.ring(at).facts().count() == 3 * count)
        });
    }
}

#[test]
fn a_large_fact_goes_by_stream() {
    let mut net = Net::joined(20, LAN, 41);
    let value = vec![7; FACT_MAX_BYTES];
    net.with(3, |ring, now| ring.set_fact(now, key("large"), value.clone())).expect("fits");
    net.run_until(3, "known", |net| net.all_know(3, &key("large"), Some(&value)));
}

#[test]
fn many_facts_at_once_all_arrive() {
    let mut net = Net::joined(10, LAN, 42);
    for at in 0..10 {
        for fact in 0..20 {
            let value = vec![at as u8; 300];
            net.with(at, |ring, now| ring.set_fact(now, key(&format!("f{fact}")), value))
                .expect("fits");
        }
    }
    net.run_until(30, "known", |net| {
        net.running().into_iter().all(|at| net.ring(at).facts().count() == 200)
    });
    net.run_until(30, "all know the same", Net::digests_equal);
}

#[test]
fn lost_gossip_is_repaired_by_digest() {
    for (count, secs) in [(2, 20), (5, 30), (20, 60)] {
        let mut net = Net::joined(count, LAN, 43);
        // Nodes that have just joined exchange at the first difference.
        net.run(Duration::from_secs(20));
        net.mute = true;
        net.with(1, |ring, now| ring.set_fact(now, key("lost"), b"x".to_vec())).expect("fits");
        net.run(Duration::from_secs(1));
        assert!(!net.all_know(1, &key("lost"), Some(b"x")));
        net.run_until(secs, "repaired", |net| net.all_know(1, &key("lost"), Some(b"x")));
        net.mute = false;
        net.run_until(secs, "all know the same", Net::digests_equal);
        let repairs = |net: &Net| -> u64 {
            net.running().into_iter().map(|at| net.ring(at).counters().repairs).sum()
        };
        let before = repairs(&net);
        net.run(Duration::from_secs(60));
        assert_eq!(repairs(&net), before, "equal digests exchange nothing");
    }
}

#[test]
fn facts_of_an_earlier_life_are_replaced_or_removed() {
    let mut net = Net::joined(5, LAN, 44);
    for name in ["kept", "changed", "gone"] {
        net.with(2, |ring, now| ring.set_fact(now, key(name), b"old".to_vec())).expect("fits");
    }
    net.settle();
    net.kill(2);
    net.run(Duration::from_secs(2));
    net.start(2);
    net.with(2, |ring, now| ring.set_fact(now, key("kept"), b"old".to_vec())).expect("fits");
    net.with(2, |ring, now| ring.set_fact(now, key("changed"), b"new".to_vec())).expect("fits");
    net.run_until(20, "refreshed", |net| {
        net.all_know(2, &key("kept"), Some(b"old"))
            && net.all_know(2, &key("changed"), Some(b"new"))
            && net.all_know(2, &key("gone"), None)
    });
    net.run_until(30, "all know the same", Net::digests_equal);
}

#[test]
fn a_node_whose_state_was_lost_still_rises_above_its_past() {
    let mut net = Net::joined(4, LAN, 45);
    for round in 0..200 {
        let value = format!("{round}").into_bytes();
        net.with(2, |ring, now| ring.set_fact(now, key("count"), value)).expect("fits");
    }
    net.kill(2);
    net.run_until(20, "dead", |net| net.all_see(2, Some(MemberState::Dead)));
    net.start(2);
    net.run_until(20, "back", Net::all_see_all);
    net.kill(2);
    net.nodes[2].saved = Default::default();
    net.start(2);
    net.with(2, |ring, now| ring.set_fact(now, key("count"), b"new".to_vec())).expect("fits");
    net.run_until(30, "its own value wins", |net| {
        net.all_see_all() && net.all_know(2, &key("count"), Some(b"new"))
    });
}

#[test]
fn facts_of_the_dead_stay_and_of_those_that_left_go() {
    let mut net = Net::joined(5, LAN, 46);
    for at in [3, 4] {
        net.with(at, |ring, now| ring.set_fact(now, key("role"), b"voter".to_vec())).expect("fits");
    }
    net.settle();
    net.kill(3);
    net.with(4, |ring, now| ring.leave(now));
    net.run_until(5, "left", |net| net.nodes[4].events.contains(&RingOutput::Left));
    net.kill(4);
    net.run_until(20, "dead", |net| net.all_see(3, Some(MemberState::Dead)));
    assert!(net.all_know(3, &key("role"), Some(b"voter")));
    assert!(net.all_know(4, &key("role"), None));
    net.run_until(30, "all know the same", Net::digests_equal);
}

#[test]
fn limits_of_own_facts_are_errors() {
    let mut net = Net::joined(1, LAN, 47);
    let large = net.with(0, |ring, now| ring.set_fact(now, key("a"), vec![0; FACT_MAX_BYTES + 1]));
    assert_eq!(large, Err(FactError::TooLarge { key: key("a"), found: FACT_MAX_BYTES + 1 }));
    for at in 0..NODE_MAX_FACTS {
        let set = net.with(0, |ring, now| ring.set_fact(now, key(&format!("k{at}")), vec![]));
        assert_eq!(set, Ok(()));
    }
    let more = net.with(0, |ring, now| ring.set_fact(now, key("more"), vec![]));
    assert_eq!(more, Err(FactError::TooMany(key("more"))));
}

#[test]
fn an_idle_ring_only_probes_whatever_its_size() {
    let mut per_node = Vec::new();
    for count in [5, 50] {
        let mut net = Net::joined(count, LAN, 48);
        net.run(Duration::from_secs(100));
        let sent: usize = net.nodes.iter().map(|node| node.sent).sum();
        let bytes: usize = net.nodes.iter().map(|node| node.sent_bytes).sum();
        per_node.push((sent as f64 / count as f64, bytes as f64 / count as f64));
    }
    // One ping and one ack in each of 100 periods.
    for (sent, bytes) in &per_node {
        assert!((190.0..=205.0).contains(sent), "{per_node:?}");
        assert!(*bytes < 205.0 * 80.0, "{per_node:?}");
    }
}
