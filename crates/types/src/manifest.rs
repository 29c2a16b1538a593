//! A release's own description, as `release.toml` gives it. Parsed in the depot crate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::target::ReleaseId;

/// What a release says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name and version.
    pub id: ReleaseId,
    /// How to run it.
    pub run: Run,
    /// How to ask whether it is well; without one the process itself is the measure.
    pub health: Option<HealthCheck>,
    /// Rhythm and thresholds of the health check, as far as the release sets them.
    pub health_timing: HealthTiming,
    /// What to run around a start, a stop and a turn.
    pub hooks: Hooks,
}

/// How to run and stop the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments. The first word is relative to the release's root or absolute;
    /// `${NAME}` is expanded in every word when the program starts.
    pub command: Vec<String>,
    /// Sent first.
    pub stop_signal: StopSignal,
    /// From the signal to the kill of everything that the program started.
    pub stop_timeout: Duration,
}

/// The signals that may ask a program to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGKILL: no time to tidy up.
    Kill,
}

impl StopSignal {
    /// Every signal with its name, for parsing and for errors that list what is allowed.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Term, "SIGTERM"),
        (Self::Int, "SIGINT"),
        (Self::Quit, "SIGQUIT"),
        (Self::Hup, "SIGHUP"),
        (Self::Usr1, "SIGUSR1"),
        (Self::Usr2, "SIGUSR2"),
        (Self::Kill, "SIGKILL"),
    ];

    /// The signal called `name`, for example `"SIGTERM"`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(signal, _)| *signal)
    }
}

/// One health check. `${NAME}` is expanded in arguments, address and URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HealthCheck {
    /// Exit 0 ok, 1 warning, 2 critical, anything else unknown.
    Exec(Vec<String>),
    /// 2xx is ok, everything else critical.
    Http(String),
    /// A connection is ok, none is critical.
    Tcp(String),
}

/// Rhythm and thresholds of a health check; a `None` leaves the choice to the next in line:
/// service file, then release, then the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthTiming {
    /// From the end of one check to the start of the next. Default 5 s.
    pub interval: Option<Duration>,
    /// A check that takes longer has failed. Default 3 s.
    pub timeout: Option<Duration>,
    /// Consecutive passes until the service counts as healthy. Default 1.
    pub healthy_after: Option<u32>,
    /// Consecutive failures until the service counts as not healthy. Default 3.
    pub unhealthy_after: Option<u32>,
}

impl HealthTiming {
    /// `self`, with what it leaves open taken from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            interval: self.interval.or(other.interval),
            timeout: self.timeout.or(other.timeout),
            healthy_after: self.healthy_after.or(other.healthy_after),
            unhealthy_after: self.unhealthy_after.or(other.unhealthy_after),
        }
    }

    /// See [`HealthTiming::interval`].
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_secs(5))
    }

    /// See [`HealthTiming::timeout`].
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(3))
    }

    /// See [`HealthTiming::healthy_after`].
    pub fn healthy_after(&self) -> u32 {
        self.healthy_after.unwrap_or(1).max(1)
    }

    /// See [`HealthTiming::unhealthy_after`].
    pub fn unhealthy_after(&self) -> u32 {
        self.unhealthy_after.unwrap_or(3).max(1)
    }
}

/// The six hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Before the old release stops; idempotent; exit 76 = reboot this machine and run me again.
    pub install: Option<Hook>,
    /// "May I be updated now?" 0 yes, 75 not yet; runs in the old release.
    pub ready: Option<Hook>,
    /// Before the program starts.
    pub pre_start: Option<Hook>,
    /// After the program started.
    pub post_start: Option<Hook>,
    /// After the program stopped.
    pub post_stop: Option<Hook>,
    /// An extra measure of success after first healthy.
    pub verify: Option<Hook>,
}

impl Hooks {
    /// The hook of `kind`, if the release has one.
    pub fn get(&self, kind: HookKind) -> Option<&Hook> {
        match kind {
            HookKind::Install => self.install.as_ref(),
            HookKind::Ready => self.ready.as_ref(),
            HookKind::PreStart => self.pre_start.as_ref(),
            HookKind::PostStart => self.post_start.as_ref(),
            HookKind::PostStop => self.post_stop.as_ref(),
            HookKind::Verify => self.verify.as_ref(),
        }
    }
}

/// One hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Program and arguments, as in [`Run::command`].
    pub command: Vec<String>,
    /// After it the hook and everything it started are killed.
    pub timeout: Duration,
}

/// Which hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookKind {
    /// See [`Hooks::install`].
    Install,
    /// See [`Hooks::ready`].
    Ready,
    /// See [`Hooks::pre_start`].
    PreStart,
    /// See [`Hooks::post_start`].
    PostStart,
    /// See [`Hooks::post_stop`].
    PostStop,
    /// See [`Hooks::verify`].
    Verify,
}

impl HookKind {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Install, Self::Ready, Self::PreStart, Self::PostStart, Self::PostStop, Self::Verify];

    /// The key in `release.toml`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Ready => "ready",
            Self::PreStart => "pre_start",
            Self::PostStart => "post_start",
            Self::PostStop => "post_stop",
            Self::Verify => "verify",
        }
    }
}

/// Exit code of `ready` for "not yet": EX_TEMPFAIL of sysexits.h.
pub const EXIT_NOT_YET: i32 = 75;

/// Exit code of `install` for "reboot this machine and run me again".
pub const EXIT_REBOOT: i32 = 76;
