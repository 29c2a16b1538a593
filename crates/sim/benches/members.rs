//! What a rollout costs in groups of 10, 100 and 1,000 members, in the simulator: the ledger's
//! record, messages and bytes for each turn, and time.
//!
//! `cargo bench -p baton-sim --bench members [-- 10 100 1000]`. Everything but the last column is
//! counted or virtual, so it is the same on every machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench: it prints, and its last column is real time"
)]

use std::time::{Duration, Instant};

use baton_rollout::{Turn, TurnState};
use baton_sim::traffic::Flow;
use baton_sim::{Behaviour, Setup, World};
use baton_types::policy::Limit;

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10, 100, 1_000] } else { sizes };
    println!(
        "one rollout, 1 % of the members at a time (at least one), monitor 1 s, lan profile, no loss"
    );
    println!(
        "{:>7} {:>6} {:>12} {:>10} | for each turn: {:>9} {:>7} {:>10} {:>8} {:>9} {:>8} {:>9} {:>14} | {:>12} {:>9}",
        "members",
        "voters",
        "record max",
        "virtual",
        "time",
        "records",
        "ledger msg",
        "bytes",
        "turn msg",
        "bytes",
        "copies",
        "gossip B/node",
        "idle B/s/node",
        "real time"
    );
    for members in sizes {
        measure(members);
    }
}

fn measure(members: usize) {
    let began = Instant::now();
    let tell = |what: &str, world: &World| {
        let (real, there) = (began.elapsed().as_secs(), world.now().as_secs());
        eprintln!("{members} members: {what} ({there} s there, {real} s here)");
    };
    let mut setup = Setup::of(1, members);
    setup.update.monitor = Duration::from_secs(1);
    setup.update.max_unavailable = Limit::Percent(1);
    setup.through_codec = false;
    let mut world = World::begin(setup);
    world.promote("1", Behaviour::healthy());
    world.run_until("release 1 is the baseline", HOUR, |world| {
        world.baseline() == "1" && world.rollout_ended()
    });
    tell("release 1 is the baseline", &world);
    world.pass(QUIET);
    let quiet = world.traffic().ring;
    world.pass(QUIET);
    let quiet = world.traffic().ring.since(quiet);

    let leader = world.leader().unwrap_or_default();
    let version = world.status(leader).version;
    let before = world.traffic();
    world.promote("2", Behaviour::healthy());
    world.run_until("it begins", Duration::from_secs(60), |world| !world.rollout_ended());
    let start = world.now();
    tell("release 2 is on its way", &world);
    let mut record = 0;
    while !world.rollout_ended() {
        world.pass(Duration::from_secs(5));
        record = record.max(world.record_bytes());
        if members > 100 {
            let passed = |turn: &&Turn| turn.state == TurnState::Passed;
            let turns = world.rollout().map_or(0, |r| r.turns.iter().filter(passed).count());
            tell(&format!("{turns} passed"), &world);
        }
    }
    assert_eq!(world.baseline(), "2", "{}", world.story());
    let took = world.now() - start;
    let after = world.traffic();
    let commits = (world.status(leader).version - version) as f64 / members as f64;
    let each = |flow: Flow, before: Flow| {
        let flow = flow.since(before);
        let members = members as f64;
        (flow.messages as f64 / members, flow.bytes as f64 / members)
    };
    let (ledger, ledger_bytes) = each(after.ledger, before.ledger);
    let (turns, turns_bytes) = each(after.turns, before.turns);
    let (copies, _) = each(after.copies, before.copies);
    let (_, gossip_bytes) = each(after.ring, before.ring);
    println!(
        "{members:>7} {:>6} {record:>10} B {:>8.0} s | {:>24.2} s {commits:>7.1} {ledger:>10.1} {ledger_bytes:>8.0} \
         {turns:>9.1} {turns_bytes:>8.0} {copies:>9.1} {:>14.0} | {:>12.0} {:>7.0} s",
        world.voters(),
        took.as_secs_f64(),
        took.as_secs_f64() / members as f64,
        gossip_bytes / members as f64,
        quiet.bytes as f64 / QUIET.as_secs_f64() / members as f64,
        began.elapsed().as_secs_f64()
    );
}

/// Long enough for the rollout before to be told everywhere, and to count what goes on without one.
const QUIET: Duration = Duration::from_secs(20);

const HOUR: Duration = Duration::from_secs(3_600);
