//! Whole lives of a service, each with the exact list of what it asked for and told, and random
//! ones that hold its invariants.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

mod health;
mod random;
mod release;
mod script;
mod starting;
mod stopping;
mod surroundings;
