//! Black-box tests of the real binary: real daemons, real packets, real programs.
//!
//! This library is the ground the tests in `tests/` stand on: hosts in network namespaces or on
//! loopback, the command line, a client that writes to Redis all the time, and an observer that
//! judges from outside what was up and what was down. Nothing here uses code of the daemon, so a
//! mistake there cannot hide itself here.
//!
//! Invariant: whatever a test starts or creates carries a name of its own (process id and a
//! counter) and is gone when its owner is dropped, after a panic too. Only things with such a name
//! are ever killed or removed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on should say so loudly; nothing here is part of the daemon"
)]

pub mod cli;
pub mod depot;
pub mod fleet;
pub mod hello;
pub mod host;
pub mod leftovers;
pub mod log;
pub mod loopback;
pub mod machine;
pub mod machine_fleet;
pub mod machine_root;
pub mod mutants;
pub mod namespace;
pub mod observer;
pub mod packages;
pub mod packet_filter;
pub mod redis_client;
pub mod redis_fleet;
pub mod redis_releases;
pub mod redis_writer;
pub mod requirements;
pub mod shell;
pub mod wait;

pub use cli::{Answer, Cli};
pub use fleet::Fleet;
pub use host::{Host, HostSettings};
pub use loopback::Loopback;
pub use machine::Machine;
pub use machine_fleet::MachineFleet;
