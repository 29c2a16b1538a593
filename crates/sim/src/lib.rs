//! The deterministic world: whole nodes on a virtual clock, network, disk and depot.
//!
//! Every node is the very [`baton_node::Node`] that the daemon runs. The world carries out what it
//! wants done, later, badly or not at all, as one seed says, and an observer who sees everything
//! holds every step against what Baton promises.
//!
//! Invariant: the same seed gives the same run byte for byte. Nothing here reads a clock, a thread's
//! randomness or an order that memory addresses decide.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a tool for tests: a script that asks for what cannot be is a failed test"
)]

mod builds;
pub mod campaign;
pub mod check;
pub mod course;
mod departures;
pub mod depot;
mod disk;
mod effects;
mod faults;
mod group;
mod host;
mod lineages;
mod lying;
pub mod net;
pub mod operator;
pub mod program;
mod programs;
mod rest;
pub mod runner;
pub mod scenario;
pub mod script;
pub mod settings;
pub mod tally;
pub mod trace;
mod trace_words;
pub mod traffic;
pub mod world;

pub use campaign::Campaign;
pub use check::Violation;
pub use course::{Course, Generation};
pub use net::{Network, Weather};
pub use program::{Behaviour, Play};
pub use runner::{Runner, Sum};
pub use script::Script;
pub use settings::{GroupSetup, Setup};
pub use tally::{Occurrence, Tally};
pub use world::World;
