//! Messages on their way through a third node.

use baton_types::{CommandId, NodeId};
use baton_wire::ask::{AnswerContent, Ask, Question};
use baton_wire::{Answer, Message, Relayed};

use super::bench::{Bench, addr_of, boot, from_peer, group, joins};
use crate::Effect;

fn node(number: u8) -> NodeId {
    NodeId::from_random(number.into())
}

fn question() -> Message {
    let question = Question::Status(group("a.main"));
    Message::Ask(Ask { id: CommandId::from_random(9), question })
}

/// What the node sends when `sender` hands `message` of `from` for `to` to it; pings aside.
fn sent(sender: u8, from: u8, to: u8, message: Message) -> Vec<(std::net::SocketAddr, Message)> {
    let mut bench = Bench::start(boot(&[]));
    for peer in 2..=4 {
        bench.handle(joins(peer));
    }
    bench.asked.clear();
    let relayed = Relayed { from: node(from), to: node(to), message: Box::new(message) };
    bench.handle(from_peer(sender.into(), vec![Message::Relayed(relayed)]));
    let sends = bench.asked.into_iter().filter_map(|effect| match effect {
        Effect::Send { to, messages, .. } => Some(messages.into_iter().map(move |m| (to, m))),
        _ => None,
    });
    sends.flatten().filter(|(_, message)| !matches!(message, Message::Ring(_))).collect()
}

#[test]
fn what_an_author_hands_over_is_passed_on_as_it_is() {
    let passed = sent(2, 2, 3, question());
    let want = Relayed { from: node(2), to: node(3), message: Box::new(question()) };
    assert_eq!(passed, [(addr_of(3), Message::Relayed(want))]);
}

#[test]
fn what_is_for_this_node_is_answered_to_its_author() {
    let passed = sent(2, 3, 1, question());
    let content = AnswerContent::NotLeader;
    let want = Message::Answer(Answer { id: CommandId::from_random(9), content });
    assert!(passed.contains(&(addr_of(3), want)), "{passed:?}");
}

#[test]
fn nothing_else_is_passed_on() {
    let twice = Relayed { from: node(2), to: node(4), message: Box::new(question()) };
    for (what, sender, from, to, message) in [
        ("by somebody else than its author", 2, 3, 4, question()),
        ("to somebody unknown", 2, 2, 9, question()),
        ("back to its author", 2, 2, 1, Message::Relayed(twice.clone())),
        ("twice", 2, 2, 4, Message::Relayed(twice)),
        ("from somebody unknown", 2, 9, 1, question()),
        ("in this node's own name", 2, 1, 1, question()),
    ] {
        assert_eq!(sent(sender, from, to, message), [], "{what}");
    }
}
