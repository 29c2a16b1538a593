//! How a running program is judged: rhythm of the checks, thresholds, READY.
//!
//! Invariant: never two checks at once, and the next one starts only some time after the end of the
//! one before.

use std::sync::Arc;
use std::time::Duration;

use baton_types::manifest::HealthTiming;
use baton_types::member::Health;
use baton_types::{Moment, Text, format_duration};

use super::{Phase, Service};
use crate::limits::{ADOPTED_HEALTHY_AFTER, ANSWER_GRACE, CHECK_INTERVAL_MIN, LATE_MIN};
use crate::messages::{CheckResult, ServiceEvent, ServiceOutput};
use crate::verdict::{self, with_output};

/// The watch over one start of a program.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The check under way and when its answer is overdue.
    running: Option<(u64, Moment)>,
    next: Option<Moment>,
    /// Somebody asked for a check while one was under way.
    again: bool,
    /// The wait after the next failed check, until it was healthy once.
    quick: Duration,
    passes: u32,
    failures: u32,
    was_healthy: bool,
    told_unhealthy: bool,
    /// Without a check: when its running alone makes it healthy.
    assume_at: Option<Moment>,
    ready: bool,
    /// This program once spoke over sd_notify; outlives a restart of the same program.
    speaks_notify: bool,
}

impl Watch {
    /// A new start: nothing is known but whether the program speaks.
    pub(super) fn start(&mut self) {
        *self = Self { speaks_notify: self.speaks_notify, ..Self::default() };
    }

    /// No check any more; what was seen so far is kept for `was_healthy`.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.next = None;
        self.again = false;
        self.assume_at = None;
    }

    pub(super) fn forget_notify(&mut self) {
        self.speaks_notify = false;
    }

    pub(super) fn was_healthy(&self) -> bool {
        self.was_healthy
    }

    pub(super) fn ask(&mut self, now: Moment) {
        if self.running.is_some() {
            self.again = true;
        } else if self.next.is_some() {
            self.next = Some(now);
        }
    }

    /// When something should have happened at the latest, had neither machine nor daemon stood
    /// still: a check answers within its timeout, because the platform ends it then.
    fn expected(&self) -> Option<Moment> {
        let grace = u64::try_from(ANSWER_GRACE.as_micros()).unwrap_or(u64::MAX);
        let answer = self.running.map(|(_, overdue)| Moment(overdue.0.saturating_sub(grace)));
        [answer, self.next, self.assume_at].into_iter().flatten().min()
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        let overdue = self.running.map(|(_, overdue)| overdue);
        [overdue, self.next, self.assume_at].into_iter().flatten().min()
    }

    /// From the end of a check to the start of the next.
    fn wait(&mut self, passed: bool, adopted: bool, timing: &HealthTiming) -> Duration {
        let interval = timing.interval().max(CHECK_INTERVAL_MIN);
        if passed || adopted || self.was_healthy {
            return interval;
        }
        let wait = self.quick.clamp(CHECK_INTERVAL_MIN, interval);
        self.quick = wait.saturating_mul(2);
        wait
    }
}

impl Service {
    /// The program runs and `post_start` is over: from here on it is watched.
    pub(super) fn enter_up(&mut self, now: Moment) {
        let Some(launch) = self.program.as_ref().map(|program| Arc::clone(&program.launch)) else {
            return;
        };
        self.phase = Phase::Up;
        let adopted = self.state.adopted;
        if launch.manifest.health.is_some() {
            let first = if adopted { Duration::ZERO } else { self.timing.first_check };
            self.watch.quick = self.timing.first_check;
            self.watch.next = Some(now + first);
        } else if self.watch.ready {
            self.judge(now, said_ready(&self.state.notify_status));
        } else if adopted {
            let after = launch.assume_healthy_after.min(ADOPTED_HEALTHY_AFTER);
            self.watch.assume_at = Some(now + after);
        } else if !self.watch.speaks_notify {
            self.watch.assume_at = Some(now + launch.assume_healthy_after);
        }
    }

    pub(super) fn on_checked(&mut self, now: Moment, check: u64, result: CheckResult) {
        if self.watch.running.take_if(|(running, _)| *running == check).is_none() {
            return;
        }
        let Some(timing) = self.program.as_ref().map(|program| program.launch.health_timing) else {
            return;
        };
        let passed = result.health.is_healthy();
        self.judge(now, result);
        let wait = self.watch.wait(passed, self.state.adopted, &timing);
        let again = std::mem::take(&mut self.watch.again);
        self.watch.next = Some(if again { now } else { now + wait });
    }

    pub(super) fn on_notified(&mut self, now: Moment, ready: bool, status: Option<Text>) {
        let watched = matches!(self.phase, Phase::Launching | Phase::PostStart | Phase::Up);
        let Some(program) = self.program.as_ref().filter(|_| watched) else { return };
        let has_check = program.launch.manifest.health.is_some();
        let spoke = status.is_some();
        self.state.notify_status = status.unwrap_or_else(|| self.state.notify_status.clone());
        self.watch.speaks_notify = true;
        self.watch.ready |= ready;
        if has_check || self.phase != Phase::Up {
            return;
        }
        if !self.state.adopted {
            self.watch.assume_at = None;
        }
        if self.watch.ready && !self.state.health.is_healthy() {
            self.watch.assume_at = None;
            self.judge(now, said_ready(&self.state.notify_status));
        } else if spoke {
            self.state.health_text = self.state.notify_status.clone();
        }
    }

    /// To be called before anything else that happens at `now`. If a check should have been over or
    /// begun long ago, this machine or its daemon stood still, and what was seen before says nothing of
    /// how the program is now: its health is unknown until the next checks say so. True if that is new.
    pub fn notice_late(&mut self, now: Moment) -> bool {
        let Some(program) = self.program.as_ref() else { return false };
        let (launch, healthy) = (&program.launch, self.state.health.is_healthy());
        let watched = self.phase == Phase::Up && launch.manifest.health.is_some() && healthy;
        let most = launch.health_timing.interval().max(LATE_MIN);
        let is_late = self.watch.expected().is_some_and(|due| now.since(due) > most);
        if !watched || !is_late {
            return false;
        }
        self.watch.stop();
        self.watch.next = Some(now);
        (self.watch.passes, self.watch.failures) = (0, 0);
        self.state.health = Health::Unknown;
        self.state.health_text = Text::from("not checked since this machine stood still");
        self.tell(ServiceEvent::BecameUnknown);
        self.finish_entry(now);
        true
    }

    /// Does what is due while the program is watched.
    pub(super) fn watch_due(&mut self, now: Moment) {
        let Some(launch) = self.program.as_ref().map(|program| Arc::clone(&program.launch)) else {
            return;
        };
        let timeout = launch.health_timing.timeout();
        if let Some((check, _)) = self.watch.running.filter(|(_, overdue)| *overdue <= now) {
            self.on_checked(now, check, verdict::no_answer(timeout));
        }
        if self.watch.assume_at.take_if(|at| *at <= now).is_some() {
            let age = format_duration(now.since(self.state.started_at.unwrap_or(now)));
            let text = Text::new(&format!("has run for {age}"));
            self.judge(now, CheckResult { health: Health::Ok, text });
        }
        if self.watch.next.take_if(|at| *at <= now).is_some()
            && let Some(what) = launch.manifest.health.clone()
        {
            let check = self.number();
            self.watch.running = Some((check, now + timeout + ANSWER_GRACE));
            self.outputs.push(ServiceOutput::Check { check, what, timeout, launch });
        }
    }

    /// Counts one verdict and draws the conclusion.
    fn judge(&mut self, now: Moment, result: CheckResult) {
        let Some(program) = self.program.as_ref() else { return };
        // Without a check there is one verdict only, and nothing to count.
        let counted = program.launch.manifest.health.is_some();
        let timing = program.launch.health_timing;
        let healthy = self.state.health.is_healthy();
        let CheckResult { health, text } = result;
        if health.is_healthy() {
            self.watch.failures = 0;
            self.watch.passes = self.watch.passes.saturating_add(1);
            let (passes, needed) = (self.watch.passes, timing.healthy_after());
            if counted && !healthy && passes < needed {
                self.state.health_text =
                    with_output(&format!("passed {passes} of {needed}"), &text);
                return;
            }
            self.state.health = health;
            self.state.health_text = text;
            if !healthy {
                self.became_healthy(now);
            }
            return;
        }
        self.watch.passes = 0;
        self.watch.failures = self.watch.failures.saturating_add(1);
        let (failures, needed) = (self.watch.failures, timing.unhealthy_after());
        // One that stood still after it was healthy has the same patience.
        let was_well = self.watch.was_healthy && !self.watch.told_unhealthy;
        if was_well && failures < needed {
            self.state.health_text = with_output(&format!("failed {failures} of {needed}"), &text);
            return;
        }
        self.state.health_text = text.clone();
        // A program that was never healthy since its start is not ill, it is not up yet.
        let counts = self.watch.was_healthy || (self.state.adopted && failures >= needed);
        if !counts {
            return;
        }
        self.state.health = health;
        self.state.healthy_since = None;
        if !std::mem::replace(&mut self.watch.told_unhealthy, true) {
            self.tell(ServiceEvent::BecameUnhealthy { health, text });
        }
    }

    fn became_healthy(&mut self, now: Moment) {
        self.state.healthy_since = Some(now);
        self.watch.told_unhealthy = false;
        let first = !std::mem::replace(&mut self.watch.was_healthy, true);
        self.tell(if first { ServiceEvent::FirstHealthy } else { ServiceEvent::BecameHealthy });
    }
}

fn said_ready(status: &Text) -> CheckResult {
    let text = if status.is_empty() { Text::from("said READY=1") } else { status.clone() };
    CheckResult { health: Health::Ok, text }
}
