//! The lifecycle of one service.

use baton_types::Moment;

use crate::launch::{Launch, ServiceTiming};
use crate::messages::{ServiceInput, ServiceOutput};
use crate::state::ServiceState;

/// One service on one node.
#[derive(Debug)]
pub struct Service {
    state: ServiceState,
    outputs: Vec<ServiceOutput>,
}

impl Service {
    /// A service that is stopped and has never run.
    pub fn new(_timing: ServiceTiming, _now: Moment, _seed: u64) -> Self {
        Self { state: ServiceState::default(), outputs: Vec::new() }
    }

    /// Run this. The same program as already asked for: nothing happens. Another one: what runs is
    /// stopped first.
    pub fn run(&mut self, _now: Moment, _launch: Launch) {}

    /// Stop, and stay stopped. `Stopped` is reported when nothing is left, at once if nothing is.
    pub fn halt(&mut self, _now: Moment) {}

    /// Stop what runs and start it again, without back-off. Nothing if it was never told to run.
    pub fn restart(&mut self, _now: Moment) {}

    /// Takes over a program that an earlier daemon started; only before anything else. Answers the
    /// number under which a `Halt` will name it; `None` if this service already runs something.
    pub fn adopt(&mut self, _now: Moment, _launch: Launch, _pid: u32) -> Option<u64> {
        None
    }

    /// Takes an answer or a report.
    pub fn input(&mut self, _now: Moment, _input: ServiceInput) {}

    /// Does what is due.
    pub fn tick(&mut self, _now: Moment) {}

    /// When `tick` has something to do, if nothing else happens before.
    pub fn next_tick(&self) -> Option<Moment> {
        None
    }

    /// Asks for a health check at once; after the one that runs, if one does.
    pub fn check_now(&mut self, _now: Moment) {}

    /// What is known now.
    pub fn status(&self) -> &ServiceState {
        &self.state
    }

    /// What the owner is to do, in order; each is given out once.
    pub fn take_outputs(&mut self) -> Vec<ServiceOutput> {
        std::mem::take(&mut self.outputs)
    }
}
