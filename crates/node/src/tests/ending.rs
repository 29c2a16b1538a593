//! The end of a daemon.

use std::time::Duration;

use baton_wire::ring::MemberState;
use baton_wire::{Message, RingMessage};

use super::bench::{Bench, boot, group, joins, release};
use crate::event::Event;
use crate::{Effect, Reply, Request, Why};

#[test]
fn the_goodbye_leaves_before_the_daemon_does() {
    let mut bench = Bench::start(boot(&[]));
    bench.handle(joins(2));
    bench.writes = false;
    bench.handle(Event::Goodbye { stop_services: false });
    let said = |effect: &Effect| matches!(effect, Effect::GoodbyeSaid);
    assert_eq!(bench.position(said), None, "the save is not durable yet");
    let write = bench.asked.iter().rev().find_map(|effect| match effect {
        Effect::Write { write, .. } => Some(*write),
        _ => None,
    });
    bench.handle(Event::Written { write: write.expect("a write"), result: Ok(()) });
    let end = bench.position(said).expect("the end");
    let told = bench.position(|effect| {
        let Effect::Send { messages, .. } = effect else { return false };
        messages.iter().any(|message| {
            matches!(message, Message::Ring(RingMessage::Member(record))
                if record.state == MemberState::Restarting)
        })
    });
    assert!(told.is_some_and(|told| told < end), "told at {told:?}, ended at {end}");
}

#[test]
fn a_disk_that_hangs_does_not_hold_up_the_end() {
    let mut bench = Bench::start(boot(&[]));
    bench.writes = false;
    bench.handle(Event::Goodbye { stop_services: true });
    bench.pass(Duration::from_secs(3));
    assert!(bench.position(|effect| matches!(effect, Effect::GoodbyeSaid)).is_some());
}

#[test]
fn nothing_is_started_once_services_are_stopped_for_the_end() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.pass(Duration::from_secs(20));
    bench.head = Some(release(2));
    // The stop of the turn is under way when the daemon is told to end.
    bench.stops = false;
    bench.pass(Duration::from_secs(10));
    assert!(bench.node.observe(&a).expect("the group").member().turn.is_some());
    bench.stops = true;
    let launched = bench.launched(&a).len();
    bench.handle(Event::Goodbye { stop_services: true });
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.launched(&a).len(), launched);
    assert!(bench.position(|effect| matches!(effect, Effect::GoodbyeSaid)).is_some());
    let member = bench.node.observe(&a).expect("the group").member().clone();
    assert!(member.turn.is_some_and(|turn| turn.stage.is_disrupting()), "the next one goes on");
}

#[test]
fn a_node_leaves_once() {
    let mut bench = Bench::start(boot(&[]));
    let leave = || Request::RingLeave { force: false };
    let first = bench.request(leave(), Duration::from_secs(5));
    assert!(matches!(first, Reply::Done(_)), "{first:?}");
    for what in [leave(), Request::RingJoin(Vec::new())] {
        let reply = bench.request(what, Duration::from_secs(5));
        assert!(matches!(reply, Reply::Refused { why: Why::State, .. }), "{reply:?}");
    }
}

#[test]
fn a_node_that_nobody_answers_is_ready_after_a_while() {
    let mut found = boot(&[]);
    found.has_seeds = true;
    let mut bench = Bench::start(found);
    assert!(!bench.node.is_ready());
    bench.pass(Duration::from_secs(16));
    assert!(bench.node.is_ready());
}
