//! What a node makes of the words of other members.

use std::time::Duration;

use baton_types::facts::FactKey;
use baton_types::member::{Health, ServiceFact};
use baton_types::{Incarnation, NodeId, Target};
use baton_wire::ring::{FactRecord, MemberRecord, MemberState};
use baton_wire::{Message, RingMessage, codec};

use super::bench::{Bench, addr_of, boot, from_peer, group, joins, release, service_fact};
use crate::{Effect, NodeRef, Reply, Request};

const PEER: u8 = 2;

fn peer() -> NodeId {
    NodeId::from_random(PEER.into())
}

/// What the peer says of its service under this incarnation.
fn says(version: u64, incarnation: u64) -> Message {
    let fact = ServiceFact {
        running: Some(Target::of(release(1))),
        incarnation: Incarnation(incarnation),
        ..service_fact(Health::Ok)
    };
    fact_record(version, Some(codec::encode(&fact).expect("encodes")))
}

fn fact_record(version: u64, value: Option<Vec<u8>>) -> Message {
    let key = FactKey::new("service/a.main").expect("a key");
    Message::Ring(RingMessage::Fact(FactRecord { node: peer(), key, version, value }))
}

fn is(state: MemberState, incarnation: u64) -> Message {
    let RingMessage::Join(record) = joined() else { unreachable!("a join") };
    let incarnation = Incarnation(incarnation);
    Message::Ring(RingMessage::Member(MemberRecord { state, incarnation, ..record }))
}

fn joined() -> RingMessage {
    match joins(PEER) {
        crate::Event::Packet { envelope, .. } => match envelope.messages.into_iter().next() {
            Some(Message::Ring(message)) => message,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn hears(bench: &mut Bench, messages: Vec<Message>) {
    bench.handle(from_peer(PEER.into(), messages));
}

/// Health and its text as `rollout status` shows them of the peer; `None`: it is no member.
fn shown(bench: &mut Bench) -> Option<(String, String)> {
    let status = Request::Status(group("a.main"));
    let Reply::Json(json) = bench.request(status, Duration::ZERO) else { panic!("no status") };
    let status: baton_types::status::GroupStatus = serde_json::from_str(&json).expect("a status");
    let member = status.members.into_iter().find(|member| member.node == peer().to_string())?;
    Some((format!("{} {}", member.ring, member.health), member.health_text))
}

fn with_peer() -> Bench {
    let mut bench = Bench::start(boot(&[(&group("a.main"), Some(&release(1)))]));
    bench.pass(Duration::from_secs(5));
    bench.handle(joins(PEER));
    hears(&mut bench, vec![says(1, 1)]);
    assert_eq!(shown(&mut bench), Some(("alive ok".to_owned(), String::new())));
    bench
}

#[test]
fn what_a_member_said_before_it_was_taken_for_dead_counts_no_more() {
    let mut bench = with_peer();
    hears(&mut bench, vec![is(MemberState::Alive, 2)]);
    let awaited = "its word about its health is awaited".to_owned();
    assert_eq!(shown(&mut bench), Some(("alive unknown".to_owned(), awaited)));
    hears(&mut bench, vec![says(2, 2)]);
    assert_eq!(shown(&mut bench), Some(("alive ok".to_owned(), String::new())));
}

#[test]
fn what_a_newer_build_has_added_to_a_fact_is_left_aside() {
    let mut bench = with_peer();
    let fact = ServiceFact { incarnation: Incarnation(1), ..service_fact(Health::Critical) };
    let grown = [codec::encode(&fact).expect("encodes"), vec![1, 2, 3]].concat();
    hears(&mut bench, vec![fact_record(9, Some(grown))]);
    assert_eq!(shown(&mut bench), Some(("alive critical".to_owned(), String::new())));
}

#[test]
fn who_has_to_say_that_it_lives_says_again_what_it_runs() {
    let mut bench = with_peer();
    let me = NodeId::from_random(1);
    let RingMessage::Join(record) = joined() else { unreachable!("a join") };
    let incarnation = bench.node.incarnation();
    let accused = MemberRecord {
        node: me,
        name: "n1".parse().expect("a name"),
        addr: addr_of(1),
        state: MemberState::Suspect,
        incarnation,
        accusers: vec![peer()],
        ..record
    };
    bench.asked.clear();
    hears(&mut bench, vec![Message::Ring(RingMessage::Member(accused))]);
    bench.pass(Duration::from_secs(1));
    let said = bench.asked.iter().find_map(|effect| {
        let Effect::Send { messages, .. } = effect else { return None };
        messages.iter().find_map(|message| match message {
            Message::Ring(RingMessage::Fact(fact)) if fact.node == me => {
                let fact: ServiceFact = codec::decode(fact.value.as_deref()?).ok()?;
                Some(fact.incarnation)
            }
            _ => None,
        })
    });
    assert_eq!(said, Some(Incarnation(incarnation.0 + 1)));
}

/// The node again, with the files that it left.
fn starts_again(bench: &Bench) -> Bench {
    let found = boot(&[(&group("a.main"), Some(&release(1)))]);
    let mut again = Bench::start(bench.left(found));
    again.pass(Duration::from_secs(5));
    again
}

#[test]
fn who_was_a_member_before_a_restart_is_one_after_it() {
    let mut bench = with_peer();
    bench.pass(Duration::from_secs(6));
    let mut again = starts_again(&bench);
    let (state, _) = shown(&mut again).expect("it is remembered");
    assert_eq!(state, "dead unknown");
    let Reply::Json(members) = again.request(Request::RingMembers, Duration::ZERO) else {
        panic!("no list")
    };
    assert!(members.contains("not heard of since this node started"), "{members}");

    let forget = Request::RingForget(NodeRef::Name("n2".to_owned()));
    let reply = again.request(forget, Duration::from_secs(1));
    assert_eq!(reply, Reply::Done("n2 is forgotten".to_owned()));
    assert_eq!(shown(&mut again), None);
    again.pass(Duration::from_secs(6));
    assert_eq!(shown(&mut starts_again(&again)), None, "nor is it after another start");
}

#[test]
fn who_takes_its_service_back_is_a_member_no_more() {
    let mut bench = with_peer();
    hears(&mut bench, vec![fact_record(2, None)]);
    assert_eq!(shown(&mut bench), None);
    bench.pass(Duration::from_secs(6));
    assert_eq!(shown(&mut starts_again(&bench)), None);
}

#[test]
fn who_did_so_while_this_node_was_away_is_one_for_a_little_while() {
    let mut bench = with_peer();
    bench.pass(Duration::from_secs(6));
    let mut again = starts_again(&bench);
    again.handle(joins(PEER));
    assert_eq!(shown(&mut again).expect("it may serve").0, "alive unknown");
    for _ in 0..31 {
        // It answers no probe here; it says that it lives.
        again.pass(Duration::from_secs(1));
        let incarnation = 2 + again.now.moment.0 / 1_000_000;
        hears(&mut again, vec![is(MemberState::Alive, incarnation)]);
    }
    assert_eq!(shown(&mut again), None);
}
