//! Scenarios of rolling updates, by their numbers in the project's list: each is one script on the
//! simulator's world, with the values that must come out.
//!
//! Groups have 5 members, `max_unavailable = 1`, `max_failures = 0`, `on_failure = "pause"` and
//! short times, unless said otherwise. Release 1 is the baseline.

mod again;
mod groups;
mod lineages;
mod members;
mod nights;
mod operators;
mod relays;
mod revisions;
mod targets;
mod turns;
mod voters;

use std::time::Duration;

use baton_sim::{Behaviour, Setup, World};

/// Five members on release 1.
fn five() -> World {
    five_with(|_| (), Behaviour::healthy())
}

/// Five members on release 1 with this behaviour, under this policy.
fn five_with(change: impl FnOnce(&mut Setup), first: Behaviour) -> World {
    let mut setup = Setup::of(1, 5);
    setup.trace_lines = 120;
    change(&mut setup);
    World::on_release_1(setup, first)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
