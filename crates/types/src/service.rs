//! A service as one node's configuration describes it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::manifest::HealthTiming;
use crate::names::{GroupName, Name};
use crate::policy::{Policy, Strategy, choice};

choice!(
    /// Who runs the program.
    Runner {
        /// systemd where the daemon is a service of it and D-Bus answers, else the process runner.
        Auto = "auto",
        /// A transient systemd unit.
        Systemd = "systemd",
        /// A child process of the daemon in a cgroup of its own where that can be had.
        Process = "process",
    }
);

/// One service of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSettings {
    /// Service and group name.
    pub name: GroupName,
    /// Where its releases are: `file:///…` or `https://…`.
    pub depot: String,
    /// The release's name in the depot.
    pub release: Name,
    /// The channel that is followed.
    pub channel: Name,
    /// How often the leader reads the channel.
    pub poll: Duration,
    /// minisign public key files; a release or index must be signed by one of them.
    pub trusted_keys: Vec<PathBuf>,
    /// How a new target reaches the group.
    pub strategy: Strategy,
    /// Who runs the program.
    pub runner: Runner,
    /// Members that the group starts with; used for formation only.
    pub expect: u32,
    /// User (and group) of the program, its hooks and its checks; `None`: that of the daemon.
    pub run_as: Option<String>,
    /// Unpacked releases kept, baseline and last target always among them.
    pub keep_releases: u32,
    /// The local environment.
    pub env: BTreeMap<String, String>,
    /// What the service file sets over the release's own rhythm.
    pub health: HealthTiming,
    /// Policy of a rollout's first phase.
    pub update: Policy,
    /// Policy of a rollback.
    pub rollback: Policy,
    /// Place in a rollout's order (label `order`): lower first, then by node name.
    pub order: i32,
}
