//! How much a rollout is talked about: counted messages, no time of any real clock.

use std::time::Duration;

use baton_sim::scenario::MINUTE;
use baton_sim::{Behaviour, Setup, World};

/// Each record has another version, and what is waited for changes at every moment; a fact is told
/// to every member of the ring, many times over. So the leader tells of it once a second, and the
/// other voters only that the rollout stands otherwise.
#[test]
fn not_every_record_is_told_to_everybody_by_every_voter() {
    let mut world = World::on_release_1(Setup::of(1, HOSTS), Behaviour::healthy());
    world.pass(MINUTE);
    let before = world.traffic();
    world.pass(MINUTE);
    assert_eq!(world.traffic().ledger_facts.since(before.ledger_facts).messages, 0, "all is said");

    let began = world.now();
    world.promote("2", Behaviour::healthy());
    world.run_until("release 2 everywhere", MINUTE * 5, |world| world.baseline() == "2");
    let seconds = (world.now() - began).as_secs_f64().ceil() as u64;
    world.pass(Duration::from_secs(20));
    let told = world.traffic().ledger_facts.since(before.ledger_facts).messages;
    let facts = seconds + VOTERS * CHANGES;
    let most = facts * HOSTS as u64 * TOLD_BY_EACH;
    assert!(told <= most, "{told} messages, at most {facts} facts are expected: {most}");
    assert!(told > 0);
}

/// What goes through others as well is for links that are broken.
#[test]
fn nothing_takes_the_long_way_while_every_link_carries() {
    let mut world = World::on_release_1(Setup::of(1, HOSTS), Behaviour::healthy());
    world.pass(MINUTE);
    let before = world.traffic();
    world.promote("2", Behaviour::healthy());
    world.run_until("release 2 everywhere", MINUTE * 5, |world| world.baseline() == "2");
    world.pass(Duration::from_secs(20));
    let (turns, copies) = (world.traffic().turns, world.traffic().copies);
    assert!(turns.since(before.turns).messages >= HOSTS as u64 * 6);
    assert_eq!(copies.since(before.copies).messages, 0, "copies");
}

const HOSTS: usize = 10;

const VOTERS: u64 = 7;

/// It is there, runs, and is gone; the baseline is another one.
const CHANGES: u64 = 4;

/// SWIM's limit in a ring of ten.
const TOLD_BY_EACH: u64 = 8;
