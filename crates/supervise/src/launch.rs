//! What a service is asked to run, and how patiently.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_types::manifest::{HealthTiming, Manifest};
use baton_types::{Revision, RolloutId, Target};
use serde::{Deserialize, Serialize};

use crate::limits;

/// One complete order to run a program: everything that the program, its hooks and its checks
/// depend on, frozen. A later edit of the configuration makes another launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// What is run.
    pub target: Target,
    /// The release's own description.
    pub manifest: Manifest,
    /// Rhythm and thresholds, resolved: service file over release.
    pub health_timing: HealthTiming,
    /// Without a health check and without a word over sd_notify the program counts as healthy
    /// when it has run for this long: the policy's `monitor`.
    pub assume_healthy_after: Duration,
    /// The service's local environment, as it was when this launch was made; without the
    /// revision's, which goes over it.
    pub env: BTreeMap<String, String>,
    /// The configuration revision of the target, if it has one.
    pub revision: Option<Arc<Revision>>,
    /// User of the program, its hooks and its checks; `None`: that of the daemon.
    pub run_as: Option<String>,
    /// The rollout that brought it, for `BATON_ROLLOUT`.
    pub rollout: Option<RolloutId>,
}

impl Launch {
    /// A launch with the release's own health timing, no local environment and the defaults.
    pub fn new(target: Target, manifest: Manifest) -> Self {
        Self {
            target,
            health_timing: manifest.health_timing,
            manifest,
            assume_healthy_after: Duration::from_secs(30),
            env: BTreeMap::new(),
            revision: None,
            run_as: None,
            rollout: None,
        }
    }

    /// Whether a program started by `other` need not be restarted to be what `self` asks for:
    /// all is equal but the rollout's id and the patience with a program without a check.
    pub fn same_program(&self, other: &Self) -> bool {
        self.target.same_as(&other.target)
            && self.manifest == other.manifest
            && self.health_timing == other.health_timing
            && self.env == other.env
            && self.run_as == other.run_as
    }
}

/// How long a service waits before restarts and checks; see [`limits`] for the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTiming {
    /// First wait before a restart. Default 100 ms.
    pub backoff_min: Duration,
    /// Longest wait before a restart. Default 30 s.
    pub backoff_max: Duration,
    /// Healthy for this long: the back-off begins anew. Default 60 s.
    pub backoff_reset: Duration,
    /// From the start to the first check. Default 100 ms.
    pub first_check: Duration,
}

impl Default for ServiceTiming {
    fn default() -> Self {
        Self {
            backoff_min: limits::BACKOFF_MIN,
            backoff_max: limits::BACKOFF_MAX,
            backoff_reset: limits::BACKOFF_RESET,
            first_check: limits::FIRST_CHECK,
        }
    }
}
