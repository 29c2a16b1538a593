//! The programs of the hosts: started, stopped, asked how they are.
//!
//! Invariant: a program goes on while its daemon is away; it ends with its machine.

use std::sync::Arc;

use baton_node::{CheckResult, Event, ExitKind, HookEnd, Launch};
use baton_types::manifest::HookKind;
use baton_types::member::Health;
use baton_types::{Digest, Text};

use crate::effects::Job;
use crate::program::{Behaviour, HOOK_TIMEOUT, Play, Process, micros};
use crate::tally::Occurrence;
use crate::world::{What, World};

impl World {
    pub(crate) fn launch(&mut self, host: usize, group: usize, run: u64, launch: &Arc<Launch>) {
        let digest = launch.target.release.digest;
        let name = self.groups[group].name.clone();
        if !self.hosts[host].unpacked.contains(&digest) {
            let reason = Text::new("bin/program: no such file");
            self.handle(host, Event::LaunchFailed { group: name, run, reason });
            return;
        }
        self.check_launch(host, group, &digest);
        self.groups[group].launches.push((host, digest));
        let behaviour = self.groups[group].depot.behaviour(host, &digest).cloned();
        let now = self.now;
        let machine = &mut self.hosts[host];
        machine.next_pid += 1;
        let pid = machine.next_pid;
        let service = &mut machine.services[group];
        let unwell_since = service.unwell_since;
        service.process =
            Some(Process { pid, digest, started: now, unwell_since, stopping: false });
        if let Some(after) = behaviour.and_then(|behaviour| behaviour.exits_after) {
            self.later(micros(after), What::Exit { host, pid });
        }
        self.handle(host, Event::Launched { group: name, run, pid });
    }

    pub(crate) fn exits(&mut self, host: usize, pid: u32) {
        if let Some(group) = self.end_process(host, pid) {
            self.say(host, &format!("process {pid} ends by itself"));
            self.tally.count(Occurrence::ProgramEnded);
            let event = Event::Exited {
                group: self.groups[group].name.clone(),
                pid,
                how: ExitKind::Code(1),
                last_output: Text::new("fatal: cannot go on"),
            };
            self.handle(host, event);
        }
    }

    pub(crate) fn halt(&mut self, host: usize, group: usize, run: u64) {
        let name = self.groups[group].name.clone();
        // What is being started is stopped as soon as it has been.
        if self.hosts[host].services[group].launching.is_some() {
            let life = self.hosts[host].life;
            let job = Box::new(Job::Halt { group: name, run });
            self.later(STARTING, What::Done { host, life, job });
            return;
        }
        self.check_halt(host, group);
        let life = self.hosts[host].life;
        let process = self.hosts[host].services[group].process.as_ref();
        let Some((pid, digest)) = process.map(|process| (process.pid, process.digest)) else {
            self.answer(host, 500, Event::Halted { group: name, run });
            return;
        };
        let behaviour = self.groups[group].depot.behaviour(host, &digest);
        let takes = behaviour.map_or(0, |behaviour| micros(behaviour.stops_in));
        let now = self.now;
        let well = self.is_well(host, group);
        let process = self.hosts[host].services[group].process.as_mut();
        if let Some(process) = process.filter(|process| !process.stopping) {
            process.stopping = true;
            if well {
                process.unwell_since = now;
            }
        }
        self.say(host, &format!("stops process {pid} (run {run})"));
        self.later(takes, What::Stopped { host, group, pid, life, run });
    }

    pub(crate) fn stopped(&mut self, host: usize, group: usize, pid: u32, life: u64, run: u64) {
        let name = self.groups[group].name.clone();
        if self.end_process(host, pid).is_some() {
            let how = ExitKind::Code(0);
            let last_output = Text::new("bye");
            self.handle(host, Event::Exited { group: name.clone(), pid, how, last_output });
        }
        if self.is_life(host, life) {
            self.handle(host, Event::Halted { group: name, run });
        }
    }

    /// A process is gone; the group that it belonged to, if it was there.
    pub(crate) fn end_process(&mut self, host: usize, pid: u32) -> Option<usize> {
        let is_it = |process: &Process| process.pid == pid;
        let services = &self.hosts[host].services;
        let group = services.iter().position(|of| of.process.as_ref().is_some_and(is_it))?;
        let since = self.unwell_since(host, group).unwrap_or(self.now);
        let service = &mut self.hosts[host].services[group];
        service.unwell_since = since;
        service.process = None;
        Some(group)
    }

    /// The programs that run on a host.
    pub(crate) fn processes(&self, host: usize) -> Vec<u32> {
        let services = self.hosts[host].services.iter();
        services.filter_map(|service| service.process.as_ref()).map(|p| p.pid).collect()
    }

    pub(crate) fn run_hook(
        &mut self,
        host: usize,
        group: usize,
        hook: u64,
        kind: HookKind,
        launch: &Launch,
    ) {
        let digest = launch.target.release.digest;
        let play =
            self.groups[group].depot.behaviour(host, &digest).and_then(|behaviour| match kind {
                HookKind::Install => behaviour.install,
                HookKind::Ready => behaviour.ready,
                HookKind::Verify => behaviour.verify,
                _ => None,
            });
        let now = self.now;
        let asked = self.hosts[host].asked.entry((digest, kind.key())).or_insert((now, 0));
        asked.1 += 1;
        let (first, times) = *asked;
        let code = |code| HookEnd::Exited(ExitKind::Code(code));
        let (end, text) = match play {
            None | Some(Play::Yes) => (code(0), "yes"),
            Some(Play::No) => (code(1), "no"),
            Some(Play::NotYetFor(span)) if now < first + micros(span) => (code(75), "not yet"),
            Some(Play::NotYetFor(_)) => (code(0), "yes"),
            Some(Play::Hangs) => (HookEnd::TimedOut, "working"),
            Some(Play::Reboots(boots)) if times <= boots => (code(76), "reboot"),
            Some(Play::Reboots(_)) => (code(0), "yes"),
        };
        let after = match end {
            HookEnd::TimedOut => micros(HOOK_TIMEOUT),
            _ => self.between(5, 100),
        };
        let version = self.groups[group].depot.version(&digest);
        self.say(host, &format!("runs {} of {version}: {text}", kind.key()));
        self.hosts[host].hooks.insert((group, hook), now);
        let life = self.hosts[host].life;
        let job = Job::Hook { group: self.groups[group].name.clone(), hook, end, text };
        self.later(after, What::Done { host, life, job: Box::new(job) });
    }

    pub(crate) fn health(&self, host: usize, group: usize, digest: &Digest) -> CheckResult {
        let (health, text) = match &self.hosts[host].services[group].process {
            Some(process) if process.digest == *digest && self.is_well(host, group) => {
                (Health::Ok, "serving")
            }
            Some(_) => (Health::Critical, "exec exited 2: does not serve"),
            None => (Health::Critical, "exec exited 2: connection refused"),
        };
        CheckResult { health, text: Text::new(text) }
    }

    /// Whether the service of a group serves on `host`, as somebody sees who sees everything.
    pub(crate) fn is_well(&self, host: usize, group: usize) -> bool {
        let Some((process, behaviour)) = self.process(host, group) else { return false };
        let running = || {
            let hosts = self.hosts.iter();
            hosts.filter(|host| host.services[group].process.is_some()).count()
        };
        self.hosts[host].powered
            && !self.hosts[host].is_suspended(self.now)
            && process.is_well(behaviour, self.now)
            && (behaviour.needs_members == 0 || running() >= behaviour.needs_members)
    }

    /// Since when it serves on `host`, if it does.
    pub(crate) fn well_since(&self, host: usize, group: usize) -> Option<u64> {
        let (process, behaviour) = self.process(host, group)?;
        let after = behaviour.healthy_after.filter(|_| self.is_well(host, group))?;
        Some((process.started + micros(after)).max(self.hosts[host].suspended.1))
    }

    /// Since when it does not serve on `host`; `None` while it does.
    pub(crate) fn unwell_since(&self, host: usize, group: usize) -> Option<u64> {
        if self.is_well(host, group) {
            return None;
        }
        let machine = &self.hosts[host];
        let (stood, _) = machine.suspended;
        let Some(process) = &machine.services[group].process else {
            return Some(machine.services[group].unwell_since);
        };
        let behaviour = self.groups[group].depot.behaviour(host, &process.digest);
        if machine.is_suspended(self.now)
            && behaviour.is_some_and(|behaviour| process.is_well(behaviour, stood))
        {
            return Some(stood);
        }
        let ill = behaviour
            .and_then(|behaviour| behaviour.ill_after)
            .map(|after| process.started + micros(after))
            .filter(|ill| *ill <= self.now);
        Some(ill.unwrap_or(process.unwell_since).max(process.unwell_since))
    }

    fn process(&self, host: usize, group: usize) -> Option<(&Process, &Behaviour)> {
        let process = self.hosts[host].services[group].process.as_ref()?;
        let behaviour = self.groups[group].depot.behaviour(host, &process.digest)?;
        Some((process, behaviour))
    }
}

/// How often a stop looks whether the start under way is done, in microseconds.
const STARTING: u64 = 10_000;
