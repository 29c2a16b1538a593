//! Linux as the daemon uses it: clocks, durable files, processes, checks, notify sockets, systemd.
//!
//! Invariant: this is the only crate of the workspace that may hold `unsafe`, and it does so in
//! two places: between fork and exec, and where a descriptor is given to tokio. Nothing here decides anything about a rollout; it carries
//! out what it is told and reports what happened.

pub mod cgroup;
pub mod check;
pub mod clock;
pub mod durable;
pub mod family;
pub mod limits;
pub mod notify_socket;
pub mod once;
pub mod output;
mod pollable;
pub mod procfs;
pub mod reaper;
pub mod reboot;
pub mod record;
pub mod runner;
pub mod spawn;
pub mod systemd;
mod tail;
pub mod user;

pub use check::{CheckResult, http_check, tcp_check};
pub use clock::{boot_id, boot_id_from, now};
pub use durable::{DurableError, DurableFiles};
pub use once::{OnceExit, OnceRequest, OnceResult};
pub use reboot::{RebootError, reboot};
pub use record::RunRecord;
pub use runner::{
    Adopted, Adoption, Exit, Gone, LaunchRequest, Launched, Runner, RunnerError, RunnerEvent,
    RunnerSettings, StopError, StopReport,
};
pub use spawn::LaunchError;
pub use systemd::{Notifier, journal_stream};
