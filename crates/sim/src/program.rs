//! Programs of the virtual world: how a release behaves once it runs, and what its hooks say.

use std::time::Duration;

use baton_types::manifest::{HealthCheck, HealthTiming, Hook, Hooks, Manifest, Run, StopSignal};
use baton_types::{Digest, ReleaseId};

/// How the program of a release behaves, from its start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// From its start until its check passes; `None`: it never does.
    pub healthy_after: Option<Duration>,
    /// From its start until its check fails for good.
    pub ill_after: Option<Duration>,
    /// From its start until it ends by itself.
    pub exits_after: Option<Duration>,
    /// From the signal until nothing of it is left.
    pub stops_in: Duration,
    /// Its check passes only while the programs of this many members run: a cluster's state.
    pub needs_members: usize,
    /// Its `install` hook, if it has one.
    pub install: Option<Play>,
    /// Its `ready` hook, if it has one.
    pub ready: Option<Play>,
    /// Its `verify` hook, if it has one.
    pub verify: Option<Play>,
}

/// What a hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// Exits 0.
    Yes,
    /// Exits 1.
    No,
    /// Exits 75 for that long after it was first asked on a machine, then 0.
    NotYetFor(Duration),
    /// Does not end; its timeout does.
    Hangs,
    /// Exits 76 that many times on a machine, then 0.
    Reboots(u32),
}

/// One running program.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) digest: Digest,
    pub(crate) started: u64,
    /// Since when the member was not well, when this program started.
    pub(crate) unwell_since: u64,
    pub(crate) stopping: bool,
}

impl Behaviour {
    /// Healthy 200 ms after its start, for good.
    pub fn healthy() -> Self {
        Self {
            healthy_after: Some(Duration::from_millis(200)),
            ill_after: None,
            exits_after: None,
            stops_in: Duration::from_millis(50),
            needs_members: 0,
            install: None,
            ready: None,
            verify: None,
        }
    }

    /// Runs, but its check never passes.
    pub fn never_healthy() -> Self {
        Self { healthy_after: None, ..Self::healthy() }
    }

    /// Healthy at first; ends by itself `after` its start.
    pub fn exits(after: Duration) -> Self {
        Self { exits_after: Some(after), ..Self::healthy() }
    }

    /// Healthy at first; its check fails from `after` its start on.
    pub fn falls_ill(after: Duration) -> Self {
        Self { ill_after: Some(after), ..Self::healthy() }
    }

    /// With this `install` hook.
    pub fn install(self, play: Play) -> Self {
        Self { install: Some(play), ..self }
    }

    /// With this `ready` hook; it is asked before the release that follows.
    pub fn ready(self, play: Play) -> Self {
        Self { ready: Some(play), ..self }
    }

    /// With this `verify` hook.
    pub fn verify(self, play: Play) -> Self {
        Self { verify: Some(play), ..self }
    }

    /// Healthy only while `members` programs run.
    pub fn needs(self, members: usize) -> Self {
        Self { needs_members: members, ..self }
    }

    /// What `release.toml` says of such a program.
    pub(crate) fn manifest(&self, id: ReleaseId) -> Manifest {
        let hook = |play: Option<Play>| {
            play.map(|_| Hook { command: vec!["hook".into()], timeout: HOOK_TIMEOUT })
        };
        Manifest {
            id,
            run: Run {
                command: vec!["bin/program".into()],
                stop_signal: StopSignal::Term,
                stop_timeout: Duration::from_secs(5),
            },
            health: Some(HealthCheck::Exec(vec!["check".into()])),
            health_timing: HealthTiming {
                interval: Some(Duration::from_secs(1)),
                timeout: Some(Duration::from_secs(1)),
                healthy_after: Some(1),
                unhealthy_after: Some(2),
            },
            hooks: Hooks {
                install: hook(self.install),
                ready: hook(self.ready),
                verify: hook(self.verify),
                ..Hooks::default()
            },
        }
    }
}

impl Process {
    /// Whether its check passes at `now`, other members left aside.
    pub(crate) fn is_well(&self, behaviour: &Behaviour, now: u64) -> bool {
        let reached = |after: Duration| self.started + micros(after) <= now;
        !self.stopping
            && behaviour.healthy_after.is_some_and(reached)
            && !behaviour.ill_after.is_some_and(reached)
    }
}

/// A duration in the world's unit.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// After it a hook is killed.
pub(crate) const HOOK_TIMEOUT: Duration = Duration::from_secs(4);
