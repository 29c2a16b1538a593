//! The lifecycle of one service.
//!
//! Invariant: there is at most one program and at most one hook at a time, and what a caller sees as
//! `process` is derived from the phase at the end of every entry point, never remembered beside it.

mod announce;
mod checks;
mod lifecycle;
mod program;

use std::sync::Arc;

use baton_types::member::{Desired, ProcessState};
use baton_types::{Moment, Text};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::backoff::BackOff;
use crate::launch::{Launch, ServiceTiming};
use crate::messages::{HookEnd, HookResult, ServiceEvent, ServiceInput, ServiceOutput};
use crate::state::ServiceState;
use announce::Announcer;
use checks::Watch;
use program::{Program, RunningHook};

/// One service on one node.
#[derive(Debug)]
pub struct Service {
    timing: ServiceTiming,
    rng: StdRng,
    state: ServiceState,
    phase: Phase,
    /// What is to run when desired is `running`; kept while stopped, for `restart`.
    wanted: Option<Arc<Launch>>,
    program: Option<Program>,
    hook: Option<RunningHook>,
    /// The launch whose `post_stop` is due once nothing of it is left.
    clean_up: Option<Arc<Launch>>,
    watch: Watch,
    backoff: BackOff,
    /// No start before this: set by a failure, cleared by every order of the owner.
    not_before: Option<Moment>,
    last_number: u64,
    announcer: Announcer,
    outputs: Vec<ServiceOutput>,
}

/// Where a service stands between two entry points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is left and nothing is wanted.
    Stopped,
    /// `pre_start` runs.
    PreStart,
    /// The owner is about to start the program.
    Launching,
    /// The program and `post_start` run.
    PostStart,
    /// The program runs and is watched.
    Up,
    /// What is left of program and hook is being ended, whether they failed or were told to go.
    Ending,
    /// `post_stop` runs.
    PostStop,
    /// Nothing is left; the next start waits until then.
    BackOff(Moment),
}

impl Service {
    /// A service that is stopped and has never run. The seed is for the jitter of its back-off.
    pub fn new(timing: ServiceTiming, now: Moment, seed: u64) -> Self {
        let state = ServiceState::default();
        Self {
            timing,
            rng: StdRng::seed_from_u64(seed),
            phase: Phase::Stopped,
            wanted: None,
            program: None,
            hook: None,
            clean_up: None,
            watch: Watch::default(),
            backoff: BackOff::default(),
            not_before: None,
            last_number: 0,
            announcer: Announcer::new(&state, now),
            state,
            outputs: Vec::new(),
        }
    }

    /// The same, but launches, hooks and checks get numbers above this one.
    #[must_use]
    pub fn numbered_above(mut self, number: u64) -> Self {
        self.last_number = number;
        self
    }

    /// Run this. If the same program is already asked for nothing happens, so it may be repeated;
    /// another one is started after what runs was stopped. Cuts a back-off of the earlier one.
    pub fn run(&mut self, now: Moment, launch: Launch) {
        let same = self.wanted.as_ref().is_some_and(|wanted| wanted.same_program(&launch));
        let already = same && self.state.desired == Desired::Running;
        self.wanted = Some(Arc::new(launch));
        if !same {
            self.state.restarts = 0;
            self.watch.forget_notify();
        }
        if !already {
            self.start_over(now);
        }
        self.finish_entry(now);
    }

    /// Stop, and stay stopped. [`ServiceEvent::Stopped`] follows when nothing is left: at once if
    /// nothing runs, once for several calls while it stops.
    pub fn halt(&mut self, now: Moment) {
        self.state.desired = Desired::Stopped;
        self.not_before = None;
        match self.phase {
            Phase::Stopped | Phase::BackOff(_) => self.settle(now),
            Phase::PreStart | Phase::Launching | Phase::PostStart | Phase::Up => {
                self.leave(now, Text::from("stopping"));
            }
            Phase::Ending | Phase::PostStop => {}
        }
        self.finish_entry(now);
    }

    /// Stop what runs and start it again, without back-off; starts it if it was stopped. Nothing
    /// happens if it was never told to run.
    pub fn restart(&mut self, now: Moment) {
        if self.wanted.is_some() {
            self.start_over(now);
        }
        self.finish_entry(now);
    }

    /// Takes over a program that an earlier daemon started. It counts as running; its health is
    /// unknown until the first check, which is asked for at once. Answers the number under which a
    /// `Halt` will name it, or `None` and does nothing if this service already runs something.
    pub fn adopt(&mut self, now: Moment, launch: Launch, pid: u32) -> Option<u64> {
        if self.phase != Phase::Stopped {
            return None;
        }
        let launch = Arc::new(launch);
        let run = self.number();
        self.state.desired = Desired::Running;
        self.state.launch = Some(Arc::clone(&launch));
        self.state.adopted = true;
        self.state.started_at = Some(now);
        self.state.health_text = Text::from("taken over, not checked yet");
        self.wanted = Some(Arc::clone(&launch));
        self.clean_up = Some(Arc::clone(&launch));
        self.program = Some(Program::adopted(run, launch, pid));
        self.watch.start();
        self.enter_up(now);
        self.finish_entry(now);
        Some(run)
    }

    /// Takes an answer or a report; what is late or unknown is ignored.
    pub fn input(&mut self, now: Moment, input: ServiceInput) {
        match input {
            ServiceInput::Launched { run, pid } => self.on_launched(now, run, pid),
            ServiceInput::LaunchFailed { run, reason } => self.on_launch_failed(now, run, &reason),
            ServiceInput::Exited { pid, how, last_output } => {
                self.on_exited(now, pid, how, &last_output);
            }
            ServiceInput::Halted { run } => self.on_halted(now, run),
            ServiceInput::HookDone { hook, result } => self.on_hook_done(now, hook, &result),
            ServiceInput::Checked { check, result } => self.on_checked(now, check, result),
            ServiceInput::Notified { ready, status } => self.on_notified(now, ready, status),
        }
        self.finish_entry(now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.finish_entry(now);
    }

    /// When `tick` has something to do, if nothing else happens before. Later than the moment of
    /// the last call, always.
    pub fn next_tick(&self) -> Option<Moment> {
        let back_off = match self.phase {
            Phase::BackOff(until) => Some(until),
            _ => None,
        };
        [
            back_off,
            self.hook.as_ref().map(|hook| hook.deadline),
            self.program.as_ref().and_then(Program::deadline),
            self.watch.next_due(),
            self.announcer.due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Asks for a health check at once, or after the one that is under way. Nothing happens while
    /// the program is being started or stopped, or if it has no check.
    pub fn check_now(&mut self, now: Moment) {
        if self.phase == Phase::Up {
            self.watch.ask(now);
        }
        self.finish_entry(now);
    }

    /// What is known now.
    pub fn status(&self) -> &ServiceState {
        &self.state
    }

    /// What the owner is to do, in order; each is given out once. To be emptied after every call:
    /// a call adds a handful at most.
    pub fn take_outputs(&mut self) -> Vec<ServiceOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// The end of every entry point: what is due is done, and others hear of it.
    fn finish_entry(&mut self, now: Moment) {
        self.do_due(now);
        self.state.process = self.process();
        self.state.run = self.program.as_ref().map(|program| program.run);
        self.state.pid = self.program.as_ref().and_then(Program::pid);
        self.state.restart_at =
            self.not_before.filter(|_| self.state.process == ProcessState::BackOff);
        if self.announcer.is_news(&self.state, now) {
            self.outputs.push(ServiceOutput::Changed);
        }
    }

    /// One pass is enough: nothing that comes due here makes anything due before it.
    fn do_due(&mut self, now: Moment) {
        if let Some(hook) = self.hook.as_ref().filter(|hook| hook.deadline <= now).map(|h| h.id) {
            let result = HookResult { end: HookEnd::TimedOut, text: Text::default() };
            self.on_hook_done(now, hook, &result);
        }
        if self.program.as_ref().and_then(Program::deadline).is_some_and(|due| due <= now) {
            self.on_program_overdue(now);
        }
        if matches!(self.phase, Phase::BackOff(until) if until <= now) {
            self.begin(now);
        }
        if self.phase == Phase::Up {
            self.watch_due(now);
        }
    }

    fn process(&self) -> ProcessState {
        let retries = self.state.desired == Desired::Running && self.not_before.is_some();
        match self.phase {
            Phase::Stopped => ProcessState::Stopped,
            Phase::PreStart | Phase::Launching | Phase::PostStart => ProcessState::Starting,
            Phase::Up if self.watch.was_healthy() || self.state.adopted => ProcessState::Running,
            Phase::Up => ProcessState::Starting,
            Phase::BackOff(_) => ProcessState::BackOff,
            Phase::Ending | Phase::PostStop if retries => ProcessState::BackOff,
            Phase::Ending | Phase::PostStop => ProcessState::Stopping,
        }
    }

    /// A number for a launch, hook or check that was never used before.
    fn number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    fn tell(&mut self, event: ServiceEvent) {
        self.outputs.push(ServiceOutput::Event(event));
    }
}
