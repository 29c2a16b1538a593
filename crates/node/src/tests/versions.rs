//! Nodes of other builds.

use std::time::Duration;

use baton_types::status::RingMemberStatus;
use baton_types::{BootNonce, CommandId, NodeId};
use baton_wire::ask::{AnswerContent, Ask, Question};
use baton_wire::ring::{MemberRecord, RingMessage};
use baton_wire::{Answer, Envelope, Head, Message, Versions};

use super::bench::{Bench, addr_of, boot, from_peer, group, joins};
use crate::{Effect, Event, Reply, Request};

fn range(oldest: u8, newest: u8) -> Versions {
    Versions::new(oldest, newest).expect("a range")
}

/// A node that speaks `ours`; its peer 2 is in the ring with `theirs`.
fn with_peer(ours: Versions, theirs: Versions) -> Bench {
    let mut bench = Bench::start(crate::Boot { versions: ours, ..boot(&[]) });
    let Event::Packet { from, envelope } = joins(2) else { unreachable!("a packet") };
    let [Message::Ring(RingMessage::Join(record))] = envelope.messages.as_slice() else {
        unreachable!("a join")
    };
    let record = MemberRecord { versions: theirs, ..record.clone() };
    // Somebody else tells of it.
    let Event::Packet { envelope: Envelope { head, .. }, .. } = from_peer(3, Vec::new()) else {
        unreachable!("a packet")
    };
    let messages = vec![Message::Ring(RingMessage::Member(record))];
    let head = Head { versions: ours, ..head };
    bench.handle(Event::Packet { from, envelope: Envelope { head, messages } });
    bench.asked.clear();
    bench
}

/// The peer asks something, in `version`.
fn asks(bench: &mut Bench, versions: Versions, version: u8) {
    let question = Question::Status(group("a.main"));
    let ask = Message::Ask(Ask { id: CommandId::from_random(9), question });
    let (sender, boot) = (NodeId::from_random(2), BootNonce::from_random(2));
    let head = Head { sender, boot, counter: 7, versions, version };
    let envelope = Envelope { head, messages: vec![ask] };
    bench.handle(Event::Packet { from: addr_of(2), envelope });
}

/// What was sent to the peer since: in which version, and what; pings aside.
fn said(bench: &mut Bench) -> Vec<(u8, Vec<Message>)> {
    let sent = std::mem::take(&mut bench.asked).into_iter().filter_map(|effect| match effect {
        Effect::Send { to, version, messages, .. } if to == addr_of(2) => Some((version, messages)),
        _ => None,
    });
    sent.filter(|(_, messages)| !matches!(messages.first(), Some(Message::Ring(_)))).collect()
}

fn answer() -> Vec<Message> {
    let content = AnswerContent::NotLeader;
    vec![Message::Answer(Answer { id: CommandId::from_random(9), content })]
}

#[test]
fn a_peer_is_answered_in_the_highest_version_that_it_speaks_now() {
    for (what, recorded, says, version) in [
        ("an older build", (1, 1), (1, 1), 1),
        ("the same build", (1, 2), (1, 2), 2),
        ("a newer build", (2, 3), (2, 3), 2),
        ("it went back, and its record is of before", (1, 2), (1, 1), 1),
        ("it was upgraded, and its record is of before", (1, 1), (1, 2), 1),
    ] {
        let mut bench = with_peer(range(1, 2), range(recorded.0, recorded.1));
        asks(&mut bench, range(says.0, says.1), says.1.min(2));
        assert_eq!(said(&mut bench), [(version, answer())], "{what}");
    }
}

#[test]
fn whoever_has_the_address_of_another_one_now_is_not_taken_for_it() {
    let mut bench = with_peer(range(1, 2), range(1, 2));
    let Event::Packet { envelope, .. } = joins(4) else { unreachable!("a packet") };
    bench.handle(Event::Packet { from: addr_of(4), envelope });
    let ping = RingMessage::Ping {
        number: 1,
        target: NodeId::from_random(1),
        digest: 0,
        way: baton_wire::ring::Way::Datagram,
    };
    let (sender, boot) = (NodeId::from_random(4), BootNonce::from_random(4));
    let head = Head { sender, boot, counter: 9, versions: range(1, 1), version: 1 };
    let envelope = Envelope { head, messages: vec![Message::Ring(ping)] };
    bench.asked.clear();
    bench.handle(Event::Packet { from: addr_of(2), envelope });
    let answers = bench.asked.iter().filter_map(|effect| match effect {
        Effect::Send { to, version, messages, .. } if *to == addr_of(2) => {
            let is_ack = |m: &Message| matches!(m, Message::Ring(RingMessage::Ack { .. }));
            messages.iter().any(is_ack).then_some(*version)
        }
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), [1]);
}

#[test]
fn whoever_speaks_too_new_a_version_is_told_what_this_node_speaks() {
    let mut bench = with_peer(range(1, 1), range(1, 2));
    asks(&mut bench, range(1, 2), 2);
    assert_eq!(said(&mut bench), [(1, vec![])], "only a head");
    asks(&mut bench, range(1, 2), 1);
    assert_eq!(said(&mut bench), [(1, answer())]);
}

#[test]
fn whoever_shares_no_version_is_named_and_not_answered() {
    let mut bench = with_peer(range(1, 2), range(3, 4));
    for _ in 0..3 {
        asks(&mut bench, range(3, 4), 3);
    }
    let lines = |bench: &Bench| {
        let lines = bench.asked.iter().filter_map(|effect| match effect {
            Effect::Log(line) if line.text.contains("of the wire") => Some(line.text.clone()),
            _ => None,
        });
        lines.collect::<Vec<_>>()
    };
    let text = "n2 at 127.0.0.2:7117 speaks version 3-4 of the wire, this node 1-2: neither \
                understands the other until the older of the two runs a build in between";
    assert_eq!(lines(&bench), [text]);
    assert_eq!(said(&mut bench), []);
    let reply = bench.request(Request::RingMembers, Duration::from_secs(1));
    let Reply::Json(json) = reply else { panic!("{reply:?}") };
    let members: Vec<RingMemberStatus> = serde_json::from_str(&json).expect("members");
    let shown: Vec<_> =
        members.iter().map(|m| (m.name.as_str(), m.protocol.as_str(), m.note.as_str())).collect();
    let note = "speaks version 3-4 of the wire, this node 1-2";
    assert_eq!(shown, [("n1", "1-2", ""), ("n2", "3-4", note)]);
}
