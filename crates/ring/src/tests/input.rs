//! What nobody should send, and replays.

use std::time::Duration;

use baton_types::limits::{FACT_MAX_BYTES, RING_MAX_MEMBERS};
use baton_types::{BootNonce, Incarnation, NodeId, NodeName, Profile};
use baton_wire::ring::{FactRecord, ForgetRecord, MORE_MAX_BYTES, MemberRecord, Way};
use baton_wire::{RingMessage, Versions};

use super::net::{Net, key};
use crate::{MemberState, RingCounters, RingOutput};

fn stranger(at: u128) -> MemberRecord {
    MemberRecord {
        node: NodeId::from_random(1_000 + at),
        name: NodeName::new("stranger").expect("a name"),
        addr: "10.9.9.9:7117".parse().expect("an address"),
        boot: BootNonce::from_random(at),
        version: "0.1.0".into(),
        incarnation: Incarnation(1),
        state: MemberState::Alive,
        accusers: vec![],
        age_secs: 0,
        versions: Versions::OURS,
        more: vec![],
    }
}

/// Gives node 0 of a ring of three `message` from node 1 and says what was counted.
fn counted(message: RingMessage) -> (RingCounters, Net) {
    let mut net = Net::joined(3, Profile::Lan, 60);
    let (from, sender, boot) = (net.nodes[1].addr, net.nodes[1].id, net.ring(1).me.boot);
    let digest = net.ring(0).digest();
    net.with(0, |ring, now| ring.receive(now, from, sender, boot, message));
    assert_eq!(net.ring(0).digest(), digest, "changes nothing");
    (net.ring(0).counters(), net)
}

#[test]
fn records_that_cannot_be_are_refused_and_counted() {
    let check = |what: &str, message: RingMessage| {
        let (counters, _) = counted(message);
        assert_eq!(counters.refused_records, 1, "{what}");
    };
    let member = |change: &dyn Fn(&mut MemberRecord)| {
        let mut record = stranger(1);
        change(&mut record);
        RingMessage::Member(record)
    };
    check("no port", member(&|r| r.addr.set_port(0)));
    check("no address", member(&|r| r.addr = "0.0.0.0:7117".parse().expect("an address")));
    check("no v6 address", member(&|r| r.addr = "[::]:7117".parse().expect("an address")));
    check("multicast", member(&|r| r.addr = "224.0.0.1:7117".parse().expect("an address")));
    check("incarnation 0", member(&|r| r.incarnation = Incarnation(0)));
    check("largest incarnation", member(&|r| r.incarnation = Incarnation(u64::MAX)));
    check("many accusers", member(&|r| r.accusers = vec![r.node; 5]));
    check("more than there is room for", member(&|r| r.more = vec![0; MORE_MAX_BYTES + 1]));
    let known = NodeId::from_random(3);
    check(
        "incarnation of a known one leaps",
        member(&|r| {
            r.node = known;
            r.incarnation = Incarnation(1 << 30);
        }),
    );
    let me = NodeId::from_random(1);
    check(
        "own incarnation leaps",
        member(&|r| {
            r.node = me;
            r.incarnation = Incarnation(1 << 30);
        }),
    );
    let forget = |node, incarnation| {
        RingMessage::Forget(ForgetRecord {
            node,
            incarnation: Incarnation(incarnation),
            age_secs: 0,
        })
    };
    check("forgotten up to the end", forget(known, u64::MAX));
    check("itself forgotten up to the end", forget(me, u64::MAX));
    let fact = |version, bytes| {
        let value = Some(vec![0; bytes]);
        RingMessage::Fact(FactRecord { node: known, key: key("k"), version, value })
    };
    check("largest version", fact(u64::MAX, 1));
    check("large fact", fact(1, FACT_MAX_BYTES + 1));
    check("join for another", RingMessage::Join(stranger(1)));
}

#[test]
fn what_is_not_meant_for_this_node_is_left_alone() {
    let other = NodeId::from_random(77);
    let ping = RingMessage::Ping { number: 1, target: other, digest: 0, way: Way::Datagram };
    let (counters, _) = counted(ping);
    assert_eq!(counters, RingCounters::default());
    for message in [
        RingMessage::Ack { number: u64::MAX, digest: 0 },
        RingMessage::IndirectAck { number: u64::MAX },
        RingMessage::Nack { number: u64::MAX },
    ] {
        counted(message);
    }
    let (counters, _) = counted(RingMessage::PingRequest { number: 1, target: other });
    assert_eq!(counters.refused_requests, 1);
}

#[test]
fn own_id_as_sender_is_an_echo_or_a_clone() {
    let mut net = Net::joined(3, Profile::Lan, 61);
    let (from, me, boot) = (net.nodes[1].addr, net.nodes[0].id, net.ring(0).me.boot);
    for (boot, times) in [(boot, 1), (BootNonce::from_random(9), 5)] {
        for _ in 0..times {
            let mut record = stranger(1);
            record.node = me;
            let message = RingMessage::Member(record);
            net.with(0, |ring, now| ring.receive(now, from, me, boot, message));
        }
    }
    let counters = net.ring(0).counters();
    assert_eq!((counters.echoes, counters.clones), (1, 5));
    let warnings = net.nodes[0].events.iter().filter(|e| matches!(e, RingOutput::Warning(_)));
    assert_eq!(warnings.count(), 1, "not with every message");
}

#[test]
fn invented_members_stop_at_the_limit() {
    let mut net = Net::joined(3, Profile::Lan, 62);
    let (from, sender, boot) = (net.nodes[1].addr, net.nodes[1].id, net.ring(1).me.boot);
    let members = (0..10_000).map(stranger).collect();
    let forgotten = (0..10_000).map(|at| ForgetRecord {
        node: NodeId::from_random(100_000 + at),
        incarnation: Incarnation(1),
        age_secs: 0,
    });
    let message =
        RingMessage::State { members, forgotten: forgotten.collect(), facts: vec![], reply: false };
    net.with(0, |ring, now| ring.receive(now, from, sender, boot, message));
    assert_eq!(net.ring(0).members().count(), RING_MAX_MEMBERS);
    assert_eq!(
        net.ring(0).counters().refused_members,
        10_000 * 2 - 2 * RING_MAX_MEMBERS as u64 + 3
    );
}

#[test]
fn endless_slander_is_refuted_a_few_times_a_period() {
    let mut net = Net::joined(3, Profile::Lan, 63);
    let (from, sender, boot) = (net.nodes[1].addr, net.nodes[1].id, net.ring(1).me.boot);
    let me = net.nodes[0].id;
    let before = net.ring(0).member(me).expect("itself").incarnation.0;
    for _ in 0..10_000 {
        let mut record = net.ring(0).member(me).expect("itself").record(net.now);
        record.state = MemberState::Dead;
        net.with(0, |ring, now| {
            ring.receive(now, from, sender, boot, RingMessage::Member(record));
        });
    }
    let after = net.ring(0).member(me).expect("itself").incarnation.0;
    assert!(after > before && after - before <= 8, "{before} {after}");
    net.run_until(10, "alive after all", |net| net.all_see_all() && net.digests_equal());
}

#[test]
fn the_saved_ceiling_is_always_ahead() {
    let mut net = Net::joined(3, Profile::Lan, 64);
    for _ in 0..40 {
        for at in 0..3 {
            net.kill(at);
            net.start(at);
            let ring = net.ring(at);
            let mine = ring.member(net.nodes[at].id).expect("itself").incarnation.0;
            assert!(net.nodes[at].saved.incarnation_ceiling > mine);
        }
        net.run(Duration::from_millis(500));
    }
    net.run_until(20, "all see all", Net::all_see_all);
}

#[test]
fn a_damaged_saved_ring_does_no_harm() {
    let mut net = Net::joined(3, Profile::Lan, 65);
    net.kill(2);
    let mut bad = stranger(1);
    bad.state = MemberState::Dead;
    bad.addr.set_port(0);
    net.nodes[2].saved.members = vec![bad; 10];
    net.nodes[2].saved.incarnation_ceiling = u64::MAX;
    net.start(2);
    assert_eq!(net.ring(2).members().count(), 1);
    net.run_until(10, "it joins all the same", Net::all_see_all);
}

#[test]
fn a_storm_of_nonsense_never_ends_the_process() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand::rngs::StdRng::seed_from_u64(68);
    let mut net = Net::joined(5, Profile::Lan, 68);
    net.timing.max_packet = 65_000;
    let numbers = [0, 1, 2, 65, 70, (1 << 31) - 1, 1 << 32, 1 << 63, u64::MAX];
    let states = [
        MemberState::Alive,
        MemberState::Suspect,
        MemberState::Restarting,
        MemberState::Dead,
        MemberState::Left,
    ];
    for _ in 0..20_000 {
        let mut number = || numbers[rng.random_range(0..numbers.len())];
        let (a, b, c) = (number(), number(), number());
        let node = NodeId::from_random(rng.random_range(1..8));
        let age_secs = [0, 1, 300_000, u32::MAX][rng.random_range(0..4)];
        let mut record = stranger(rng.random_range(0..5));
        record.node = node;
        record.incarnation = Incarnation(a);
        record.state = states[rng.random_range(0..states.len())];
        record.accusers = vec![NodeId::from_random(u128::from(b)); rng.random_range(0..6)];
        record.age_secs = age_secs;
        let way = if rng.random() { Way::Stream } else { Way::Datagram };
        let forget = ForgetRecord { node, incarnation: Incarnation(a), age_secs };
        let value = rng.random::<bool>().then(|| vec![0; rng.random_range(0..5_000)]);
        let fact = FactRecord { node, key: key("k"), version: b, value };
        let message = match rng.random_range(0..10) {
            0 => RingMessage::Ping { number: a, target: node, digest: b, way },
            1 => RingMessage::Ack { number: a, digest: b },
            2 => RingMessage::PingRequest { number: c, target: node },
            3 => RingMessage::IndirectAck { number: c },
            4 => RingMessage::Nack { number: c },
            5 => RingMessage::Fact(fact),
            6 => RingMessage::Forget(forget),
            7 => RingMessage::Join(record),
            8 => RingMessage::State {
                members: vec![record],
                forgotten: vec![forget],
                facts: vec![fact],
                reply: rng.random(),
            },
            _ => RingMessage::Member(record),
        };
        let (at, from) = (rng.random_range(0..5), rng.random_range(0..5));
        let (addr, boot) = (net.nodes[from].addr, BootNonce::from_random(u128::from(c)));
        let sender = NodeId::from_random(rng.random_range(1..9));
        net.with(at, |ring, now| ring.receive(now, addr, sender, boot, message));
        net.run(Duration::from_millis(rng.random_range(0..20)));
    }
    net.run_until(120, "the five still find together", |net| {
        (0..5).all(|of| net.all_see(of, Some(MemberState::Alive)))
    });
}

#[test]
fn one_seed_one_trace() {
    let run = |seed| {
        let mut net = Net::joined(12, Profile::Lan, seed);
        net.loss = 0.2;
        net.kill(3);
        net.with(5, |ring, now| ring.set_fact(now, key("k"), b"v".to_vec())).expect("fits");
        net.run(Duration::from_secs(20));
        net.trace
    };
    let first = run(66);
    assert!(first.len() > 1_000);
    assert!(first == run(66), "the same seed replays");
    assert!(first != run(67), "another seed differs");
}
