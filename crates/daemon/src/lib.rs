//! The daemon: a thin shell around one `Node`. One task owns it; sockets, timers, children and the
//! control API hand it events and carry out its effects.
//!
//! Invariant: nothing is decided here. What the simulator runs is what runs in production.

pub mod api;
mod boot_complete;
pub mod client;
pub mod config_files;
mod control;
mod depots;
mod disk;
mod http;
mod identity;
mod journal;
mod launching;
mod loaded;
mod net;
mod programs;
mod reload;
mod run;
mod seeds;
mod shell;
mod written;

pub use control::ControlError;
pub use identity::IdentityError;
pub use net::NetError;
pub use run::{RunError, run};
