//! The way of a service through its phases: start, failure, stop.
//!
//! Invariant: `begin` is reached only from [`Service::settle`] or out of a phase in which neither
//! program nor hook exists.

use std::sync::Arc;
use std::time::Duration;

use baton_types::manifest::{HookKind, StopSignal};
use baton_types::member::{Desired, Health};
use baton_types::{Moment, Text, format_duration};

use super::program::{MainProcess, Program, RunningHook};
use super::{Phase, Service};
use crate::launch::Launch;
use crate::limits::{ADOPTED_RECENTLY, ANSWER_GRACE, HALT_REPEAT, LAUNCH_TIMEOUT};
use crate::messages::{ExitKind, HookResult, ServiceEvent, ServiceOutput};
use crate::state::LastExit;
use crate::verdict::{self, HookOutcome};

impl Service {
    /// An order of the owner: whatever there is ends, then the wanted program starts at once.
    pub(super) fn start_over(&mut self, now: Moment) {
        self.state.desired = Desired::Running;
        self.not_before = None;
        self.backoff.reset();
        match self.phase {
            Phase::Stopped | Phase::BackOff(_) => {
                self.state.health_text = Text::default();
                self.begin(now);
            }
            Phase::PreStart | Phase::Launching | Phase::PostStart | Phase::Up => {
                self.leave(now, Text::from("stopping, to be started again"));
            }
            Phase::Ending | Phase::PostStop => {}
        }
    }

    /// Starts what is wanted. Neither program nor hook exists.
    pub(super) fn begin(&mut self, now: Moment) {
        let Some(launch) = self.wanted.clone() else {
            self.phase = Phase::Stopped;
            return;
        };
        let failed_before = self.not_before.take().is_some();
        self.state.launch = Some(Arc::clone(&launch));
        self.state.adopted = false;
        self.state.started_at = None;
        self.state.health = Health::Unknown;
        self.state.health_text = match failed_before {
            true => Text::new(&format!("starting again; before: {}", self.state.health_text)),
            false => Text::from("starting"),
        };
        if self.run_hook(now, HookKind::PreStart, &launch) {
            self.phase = Phase::PreStart;
        } else {
            self.launch(now, launch);
        }
    }

    fn launch(&mut self, now: Moment, launch: Arc<Launch>) {
        let run = self.number();
        self.watch.start();
        self.state.notify_status = Text::default();
        self.program = Some(Program::asked(run, Arc::clone(&launch), now + LAUNCH_TIMEOUT));
        self.phase = Phase::Launching;
        self.outputs.push(ServiceOutput::Launch { run, launch });
    }

    pub(super) fn on_launched(&mut self, now: Moment, run: u64, pid: u32) {
        let Some(program) = self.program.as_mut().filter(|program| {
            program.run == run && matches!(program.main, MainProcess::Asked(_) | MainProcess::Lost)
        }) else {
            return;
        };
        program.main = MainProcess::Alive(pid);
        let launch = Arc::clone(&program.launch);
        self.clean_up = Some(Arc::clone(&launch));
        if self.phase != Phase::Launching {
            // Told to stop meanwhile.
            self.request_halt(now);
            return;
        }
        self.state.started_at = Some(now);
        self.tell(ServiceEvent::Started { pid });
        if self.run_hook(now, HookKind::PostStart, &launch) {
            self.phase = Phase::PostStart;
        } else {
            self.enter_up(now);
        }
    }

    pub(super) fn on_launch_failed(&mut self, now: Moment, run: u64, reason: &Text) {
        if !self.program.as_ref().is_some_and(|program| {
            program.run == run && matches!(program.main, MainProcess::Asked(_) | MainProcess::Lost)
        }) {
            return;
        }
        self.program = None;
        if self.phase == Phase::Launching {
            self.start_failed(now, Text::new(&format!("could not be started: {reason}")));
        }
        self.finish_ending(now);
    }

    /// The main process ended. What it started is ended too before anything else happens.
    pub(super) fn on_exited(&mut self, now: Moment, pid: u32, how: ExitKind, last_output: &Text) {
        let Some(program) = self.program.as_mut().filter(|program| program.pid() == Some(pid))
        else {
            return;
        };
        program.main = MainProcess::Gone;
        let text = match how {
            ExitKind::Unknown if self.state.adopted => {
                let age = now.since(self.state.started_at.unwrap_or(now));
                Text::from(if age <= ADOPTED_RECENTLY {
                    "exit status unknown (it ended while the daemon was away)"
                } else {
                    "exit status unknown (it was started before this daemon)"
                })
            }
            _ => verdict::exit_text(how, last_output),
        };
        self.state.last_exit = Some(LastExit { how, text: text.clone(), at: now });
        if self.phase != Phase::Ending {
            self.tell(ServiceEvent::Exited { how, text: text.clone() });
            self.fail(now, text);
        }
    }

    pub(super) fn on_halted(&mut self, now: Moment, run: u64) {
        let Some(program) = self.program.as_ref().filter(|program| program.run == run) else {
            return;
        };
        if program.halt_repeat.is_none() {
            // Nobody asked, but nothing is left all the same: the exit was not reported.
            let Some(pid) = program.pid() else { return };
            self.on_exited(now, pid, ExitKind::Unknown, &Text::default());
        }
        self.program = None;
        self.finish_ending(now);
    }

    pub(super) fn on_hook_done(&mut self, now: Moment, hook: u64, result: &HookResult) {
        let Some(hook) = self.hook.take_if(|running| running.id == hook) else { return };
        let timeout = hook.launch.manifest.hooks.get(hook.kind).map(|h| h.timeout);
        let failure = match verdict::hook(hook.kind, timeout.unwrap_or_default(), result) {
            HookOutcome::Ok => None,
            HookOutcome::NotYet(text) | HookOutcome::Failed(text) => Some(text),
            HookOutcome::Reboot => Some(Text::from("asks for a reboot, which only install may")),
        };
        match (self.phase, failure) {
            (Phase::PreStart, None) => self.launch(now, hook.launch),
            (Phase::PostStart, None) => self.enter_up(now),
            (Phase::PreStart | Phase::PostStart, Some(text)) => {
                self.start_failed(now, text);
                self.finish_ending(now);
            }
            (Phase::PostStop, failure) => {
                if let Some(text) = failure {
                    self.tell(ServiceEvent::PostStopFailed { text });
                }
                self.settle(now);
            }
            _ => self.finish_ending(now),
        }
    }

    /// The owner owes an answer about the program.
    pub(super) fn on_program_overdue(&mut self, now: Moment) {
        let Some(program) = self.program.as_mut() else { return };
        if matches!(program.main, MainProcess::Asked(_)) {
            program.main = MainProcess::Lost;
            if self.phase == Phase::Launching {
                let waited = format_duration(LAUNCH_TIMEOUT);
                self.start_failed(now, Text::new(&format!("was not started within {waited}")));
            } else {
                self.request_halt(now);
            }
        } else {
            program.halt_repeat = Some(now + HALT_REPEAT);
            let run = program.run;
            let (signal, timeout) = (StopSignal::Kill, Duration::ZERO);
            self.outputs.push(ServiceOutput::Halt { run, signal, timeout });
        }
    }

    fn start_failed(&mut self, now: Moment, text: Text) {
        self.tell(ServiceEvent::StartFailed { text: text.clone() });
        self.fail(now, text);
    }

    /// It ended, or did not come up, without having been asked to: try again after a while.
    fn fail(&mut self, now: Moment, text: Text) {
        let was_healthy = self.state.health.is_healthy();
        if self.state.healthy_since.is_some_and(|t| now.since(t) >= self.timing.backoff_reset) {
            self.backoff.reset();
        }
        self.leave(now, text.clone());
        self.state.health = Health::Critical;
        if was_healthy {
            self.tell(ServiceEvent::BecameUnhealthy { health: Health::Critical, text });
        }
        let delay = self.backoff.next(&self.timing, &mut self.rng);
        self.not_before = Some(now + delay);
        self.state.restarts = self.state.restarts.saturating_add(1);
        let restarts = self.state.restarts;
        self.tell(ServiceEvent::RestartScheduled { delay, restarts });
    }

    /// Ends program and hook, whatever there is of them.
    pub(super) fn leave(&mut self, now: Moment, text: Text) {
        self.phase = Phase::Ending;
        self.watch.stop();
        self.state.health = Health::Unknown;
        self.state.health_text = text;
        self.state.healthy_since = None;
        if let Some(hook) = &mut self.hook {
            hook.deadline = now + ANSWER_GRACE;
            let hook = hook.id;
            self.outputs.push(ServiceOutput::CancelHook { hook });
        }
        // Before the owner has said that the program exists a `Halt` could overtake the launch.
        if !self.program.as_ref().is_some_and(|p| matches!(p.main, MainProcess::Asked(_))) {
            self.request_halt(now);
        }
    }

    fn request_halt(&mut self, now: Moment) {
        let Some(program) = self.program.as_mut().filter(|p| p.halt_repeat.is_none()) else {
            return;
        };
        let run = program.run;
        let (signal, timeout) = match program.main {
            MainProcess::Gone => (StopSignal::Kill, Duration::ZERO),
            _ => {
                (program.launch.manifest.run.stop_signal, program.launch.manifest.run.stop_timeout)
            }
        };
        program.halt_repeat = Some(now + timeout + HALT_REPEAT);
        self.outputs.push(ServiceOutput::Halt { run, signal, timeout });
    }

    /// Goes on once nothing is left: first `post_stop` of what ended, then what is wanted.
    fn finish_ending(&mut self, now: Moment) {
        if self.phase != Phase::Ending || self.program.is_some() || self.hook.is_some() {
            return;
        }
        let ended = self.clean_up.take();
        if ended.is_some_and(|launch| self.run_hook(now, HookKind::PostStop, &launch)) {
            self.phase = Phase::PostStop;
        } else {
            self.settle(now);
        }
    }

    /// Nothing is left: rest, wait or start.
    pub(super) fn settle(&mut self, now: Moment) {
        if self.state.desired == Desired::Stopped {
            self.phase = Phase::Stopped;
            self.state.adopted = false;
            self.state.started_at = None;
            self.state.health = Health::Unknown;
            self.state.health_text = Text::from("stopped");
            self.tell(ServiceEvent::Stopped);
            return;
        }
        match self.not_before.filter(|until| *until > now) {
            Some(until) => self.phase = Phase::BackOff(until),
            None => self.begin(now),
        }
    }

    /// Asks for a hook of `launch`, if it has that one.
    fn run_hook(&mut self, now: Moment, kind: HookKind, launch: &Arc<Launch>) -> bool {
        let Some(timeout) = launch.manifest.hooks.get(kind).map(|hook| hook.timeout) else {
            return false;
        };
        let id = self.number();
        let deadline = now + timeout + ANSWER_GRACE;
        self.hook = Some(RunningHook { id, kind, launch: Arc::clone(launch), deadline });
        self.outputs.push(ServiceOutput::RunHook { hook: id, kind, launch: Arc::clone(launch) });
        true
    }
}
