//! Messages on their way through a third node.

use baton_types::{CommandId, NodeId};
use baton_wire::ask::{AnswerContent, Ask, Question};
use baton_wire::{Answer, Message, Relayed, RingMessage, Versions};

use super::bench::{Bench, addr_of, boot, from_peer, group, joins};
use crate::Effect;

fn node(number: u8) -> NodeId {
    NodeId::from_random(number.into())
}

fn question() -> Message {
    let question = Question::Status(group("a.main"));
    Message::Ask(Ask { id: CommandId::from_random(9), question })
}

fn wrapped(from: u8, to: u8, message: &Message) -> Relayed {
    Relayed::new(node(from), node(to), 1, message).expect("encodes")
}

/// What the node sends when `sender` hands `relayed` to it; pings aside.
fn sent(sender: u8, relayed: Relayed) -> Vec<(std::net::SocketAddr, Message)> {
    let mut bench = Bench::start(boot(&[]));
    for peer in 2..=4 {
        bench.handle(joins(peer));
    }
    bench.asked.clear();
    bench.handle(from_peer(sender.into(), vec![Message::Relayed(relayed)]));
    let sends = bench.asked.into_iter().filter_map(|effect| match effect {
        Effect::Send { to, messages, .. } => Some(messages.into_iter().map(move |m| (to, m))),
        _ => None,
    });
    sends.flatten().filter(|(_, message)| !matches!(message, Message::Ring(_))).collect()
}

#[test]
fn what_an_author_hands_over_is_passed_on_as_it_is() {
    // Also what this build could not read, in a version that it does not speak.
    let unread = Relayed { version: 9, message: vec![255; 9], ..wrapped(2, 3, &question()) };
    for relayed in [wrapped(2, 3, &question()), unread] {
        assert_eq!(sent(2, relayed.clone()), [(addr_of(3), Message::Relayed(relayed))]);
    }
}

#[test]
fn what_is_for_this_node_is_answered_to_its_author() {
    let mut grown = wrapped(3, 1, &question());
    grown.message.extend([1, 2, 3]);
    for relayed in [wrapped(3, 1, &question()), grown] {
        let passed = sent(2, relayed);
        let content = AnswerContent::NotLeader;
        let want = Message::Answer(Answer { id: CommandId::from_random(9), content });
        assert!(passed.contains(&(addr_of(3), want)), "{passed:?}");
    }
}

#[test]
fn nothing_else_is_passed_on() {
    let nack = Message::Ring(RingMessage::Nack { number: 1 });
    for (what, sender, relayed) in [
        ("by somebody else than its author", 2, wrapped(3, 4, &question())),
        ("to somebody unknown", 2, wrapped(2, 9, &question())),
        ("back to its author", 2, wrapped(2, 1, &Message::Relayed(wrapped(2, 4, &question())))),
        ("of the ring", 2, wrapped(3, 1, &nack)),
        ("from somebody unknown", 2, wrapped(9, 1, &question())),
        ("in this node's own name", 2, wrapped(1, 1, &question())),
        ("in a version that is not spoken", 2, {
            Relayed { version: 2, ..wrapped(3, 1, &question()) }
        }),
    ] {
        assert_eq!(sent(sender, relayed), [], "{what}");
    }
}

#[test]
fn a_relayed_message_reads_back() {
    assert_eq!(wrapped(2, 3, &question()).open(Versions::OURS), Some(question()));
}
