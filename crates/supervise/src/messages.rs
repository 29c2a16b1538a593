//! What goes into a [`Service`](crate::Service) and what comes out of it.
//!
//! Invariant: every request carries a number that is never used again in the life of the
//! `Service`, and is answered exactly once under that number. Answers under other numbers are
//! ignored, so a late one can do no harm.

use std::sync::Arc;
use std::time::Duration;

use baton_types::Text;
use baton_types::manifest::{HealthCheck, HookKind, StopSignal};
use baton_types::member::Health;
use serde::{Deserialize, Serialize};

use crate::launch::Launch;

/// How a program or hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitKind {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It is gone, and nobody can say how: it was no child of this daemon.
    Unknown,
}

/// What became of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookEnd {
    /// It ended by itself.
    Exited(ExitKind),
    /// It, and everything that it started, was killed at its timeout.
    TimedOut,
    /// It was killed because [`ServiceOutput::CancelHook`] said so.
    Cancelled,
    /// It could not be started: the reason is in the text.
    NotStarted,
}

/// The end of a hook, before it is judged; see [`verdict::hook`](crate::verdict::hook).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookResult {
    /// How it ended.
    pub end: HookEnd,
    /// The last line of its output, or why it could not be started.
    pub text: Text,
}

/// One health check, judged by the functions of [`verdict`](crate::verdict).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// `ok` and `warning` pass.
    pub health: Health,
    /// What the check said.
    pub text: Text,
}

/// What the owner reports. The answer to every request comes after the request, and
/// [`ServiceInput::Launched`] before the [`ServiceInput::Exited`] of that process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceInput {
    /// The program of this launch runs.
    Launched {
        /// Number of the launch.
        run: u64,
        /// Process id.
        pid: u32,
    },
    /// The program of this launch could not be started; nothing of it is left.
    LaunchFailed {
        /// Number of the launch.
        run: u64,
        /// Why, for example `bin/redis-server: no such file`.
        reason: Text,
    },
    /// The main process ended. Things that it started may live on.
    Exited {
        /// Process id, as in `Launched` or `adopt`.
        pid: u32,
        /// How.
        how: ExitKind,
        /// The last line that it printed.
        last_output: Text,
    },
    /// Nothing of this launch is left: main process, children, the whole control group. The
    /// answer to every [`ServiceOutput::Halt`], also when there was nothing left to stop.
    Halted {
        /// Number of the launch.
        run: u64,
    },
    /// A hook ended and nothing of it is left. The answer to every [`ServiceOutput::RunHook`], also
    /// to one that was cancelled.
    HookDone {
        /// Number of the hook.
        hook: u64,
        /// How it ended.
        result: HookResult,
    },
    /// A health check ended.
    Checked {
        /// Number of the check.
        check: u64,
        /// Its verdict.
        result: CheckResult,
    },
    /// The program spoke over sd_notify. The owner lets only words of the current program pass.
    Notified {
        /// It said `READY=1` (now).
        ready: bool,
        /// What it said as `STATUS=…`.
        status: Option<Text>,
    },
}

/// What the owner is asked to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceOutput {
    /// Start the program: `Launched` or `LaunchFailed`.
    Launch {
        /// Number of the launch.
        run: u64,
        /// What to start.
        launch: Arc<Launch>,
    },
    /// Stop everything of this launch: send `signal` to the main process, and kill what is left
    /// when `timeout` is over. Main process already gone: kill the rest at once. Answered by
    /// `Halted`. May be repeated for the same run.
    Halt {
        /// Number of the launch.
        run: u64,
        /// Sent first.
        signal: StopSignal,
        /// From the signal to the kill.
        timeout: Duration,
    },
    /// Run `pre_start`, `post_start` or `post_stop`: `HookDone`. Only asked for if the release has
    /// it; command and timeout are in the launch's manifest.
    RunHook {
        /// Number of the hook.
        hook: u64,
        /// Which one.
        kind: HookKind,
        /// The launch whose hook it is; for `post_stop` the one that ended.
        launch: Arc<Launch>,
    },
    /// Kill this hook and everything that it started: `HookDone` as always.
    CancelHook {
        /// Number of the hook.
        hook: u64,
    },
    /// Run a health check: `Checked`, at the latest after `timeout`.
    Check {
        /// Number of the check.
        check: u64,
        /// What to do.
        what: HealthCheck,
        /// After it the check is killed and has failed.
        timeout: Duration,
        /// The launch that runs.
        launch: Arc<Launch>,
    },
    /// [`Service::status`](crate::Service::status) has changed in a way that others want to know.
    Changed,
    /// Something happened.
    Event(ServiceEvent),
}

/// What happened to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceEvent {
    /// The program runs; whether it is well is not known yet.
    Started {
        /// Process id.
        pid: u32,
    },
    /// Healthy for the first time since this start, or since it was adopted.
    FirstHealthy,
    /// Healthy again.
    BecameHealthy,
    /// No longer healthy, and not because it was asked to stop.
    BecameUnhealthy {
        /// Critical or unknown.
        health: Health,
        /// The last health output, or how the program ended.
        text: Text,
    },
    /// It was healthy, and nobody knows whether it still is: this machine stood still.
    BecameUnknown,
    /// The program ended without having been asked to.
    Exited {
        /// How.
        how: ExitKind,
        /// In words, with its last output.
        text: Text,
    },
    /// `pre_start` or `post_start` failed, or the program could not be launched. It will be tried
    /// again.
    StartFailed {
        /// What failed, and its last output.
        text: Text,
    },
    /// `post_stop` failed; the service is stopped all the same.
    PostStopFailed {
        /// Its last output.
        text: Text,
    },
    /// Asked to stop, and nothing is left.
    Stopped,
    /// It will be started again by itself.
    RestartScheduled {
        /// From now.
        delay: Duration,
        /// How many restarts that makes.
        restarts: u32,
    },
}
