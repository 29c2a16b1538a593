//! What is known of a service at one moment.

use std::sync::Arc;

use baton_types::member::{Desired, Health, ProcessState};
use baton_types::{Moment, Target, Text};

use crate::launch::Launch;
use crate::messages::ExitKind;

/// How the program last ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastExit {
    /// How.
    pub how: ExitKind,
    /// In words, with its last output.
    pub text: Text,
    /// When.
    pub at: Moment,
}

/// A service as its owner sees it; always current, also between two
/// [`ServiceOutput::Changed`](crate::ServiceOutput::Changed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// What it is meant to do.
    pub desired: Desired,
    /// Where the program stands.
    pub process: ProcessState,
    /// What runs or ran last: of the program while there is one, else of the last attempt.
    pub launch: Option<Arc<Launch>>,
    /// Number of the launch that runs or is being stopped.
    pub run: Option<u64>,
    /// Process id of the main process while it lives.
    pub pid: Option<u32>,
    /// Health after thresholds.
    pub health: Health,
    /// The last health output, or why the program is down.
    pub health_text: Text,
    /// Since when it is healthy without interruption.
    pub healthy_since: Option<Moment>,
    /// When the program that runs was started or adopted.
    pub started_at: Option<Moment>,
    /// Whether the program was started before this daemon.
    pub adopted: bool,
    /// Restarts after a crash or a failed start, since this launch was first asked for.
    pub restarts: u32,
    /// When it will be started again, while it waits for that.
    pub restart_at: Option<Moment>,
    /// How the program last ended, asked to or not.
    pub last_exit: Option<LastExit>,
    /// What the program last said over sd_notify as `STATUS=…`.
    pub notify_status: Text,
}

impl ServiceState {
    /// What runs or ran last.
    pub fn target(&self) -> Option<&Target> {
        self.launch.as_deref().map(|launch| &launch.target)
    }
}

impl Default for ServiceState {
    fn default() -> Self {
        Self {
            desired: Desired::Stopped,
            process: ProcessState::Stopped,
            launch: None,
            run: None,
            pid: None,
            health: Health::Unknown,
            health_text: Text::from("stopped"),
            healthy_since: None,
            started_at: None,
            adopted: false,
            restarts: 0,
            restart_at: None,
            last_exit: None,
            notify_status: Text::default(),
        }
    }
}
