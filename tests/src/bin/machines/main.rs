//! Stories on booted machines, each told as it goes. Started by `tests/machines`; ends with 101 at
//! the first promise that is broken.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool of the tests that cannot go on should say so loudly"
)]

mod daemons;
mod power;
mod redis;
mod web;

use std::time::Instant;

/// A story's name and what plays it.
type Story = (&'static str, fn());

const STORIES: [Story; 3] =
    [("daemons", daemons::play), ("power", power::play), ("redis", redis::play)];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known: Vec<&str> = STORIES.iter().map(|(name, _)| *name).collect();
    for name in &wanted {
        if !known.contains(&name.as_str()) {
            println!("tests/machines: no story is called {name}; there are {}", known.join(", "));
            std::process::exit(2);
        }
    }
    for (name, play) in STORIES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let begin = Instant::now();
            println!("== {name}");
            play();
            println!("== {name}: as promised, in {} s", begin.elapsed().as_secs());
        }
    }
}
