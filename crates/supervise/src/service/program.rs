//! The program and the hook that a service has at the moment.

use std::sync::Arc;

use baton_types::Moment;
use baton_types::manifest::HookKind;

use crate::launch::Launch;

/// One launch, from the request to start it until nothing of it is left.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) run: u64,
    pub(super) launch: Arc<Launch>,
    pub(super) main: MainProcess,
    /// When the request to stop is repeated; `None` before the first one.
    pub(super) halt_repeat: Option<Moment>,
}

/// The process that was launched, without what it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainProcess {
    /// Asked for; an answer is overdue after that.
    Asked(Moment),
    /// The owner did not answer. It may exist.
    Lost,
    /// Lives.
    Alive(u32),
    /// Ended; what it started may live on.
    Gone,
}

impl Program {
    pub(super) fn asked(run: u64, launch: Arc<Launch>, overdue: Moment) -> Self {
        Self { run, launch, main: MainProcess::Asked(overdue), halt_repeat: None }
    }

    pub(super) fn adopted(run: u64, launch: Arc<Launch>, pid: u32) -> Self {
        Self { run, launch, main: MainProcess::Alive(pid), halt_repeat: None }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match self.main {
            MainProcess::Alive(pid) => Some(pid),
            _ => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        match self.main {
            MainProcess::Asked(overdue) => Some(overdue),
            _ => self.halt_repeat,
        }
    }
}

/// A hook under way.
#[derive(Debug)]
pub(super) struct RunningHook {
    pub(super) id: u64,
    pub(super) kind: HookKind,
    pub(super) launch: Arc<Launch>,
    /// After it the hook counts as timed out, whatever the owner says later.
    pub(super) deadline: Moment,
}
