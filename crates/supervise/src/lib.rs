//! Supervision of one service on one node: start, health, restart with back-off, stop.
//!
//! [`Service`] is a sans-IO state machine. It knows neither ring nor ledger nor turn: it is told
//! what to run, it asks its owner to launch, to stop, to run hooks and checks, and it tells what
//! became of them. [`verdict`] and [`environment`] are the pure functions around it: what an exit
//! code or an HTTP status means, and what a program sees of its surroundings.
//!
//! Invariant: at most one program of a service exists at any time. A launch follows another only
//! after the owner has said that nothing of the earlier one is left.

mod backoff;
pub mod environment;
pub mod launch;
pub mod limits;
pub mod messages;
pub mod service;
pub mod state;
pub mod verdict;

pub use launch::{Launch, ServiceTiming};
pub use messages::{
    CheckResult, ExitKind, HookEnd, HookResult, ServiceEvent, ServiceInput, ServiceOutput,
};
pub use service::Service;
pub use state::{LastExit, ServiceState};
pub use verdict::HookOutcome;
