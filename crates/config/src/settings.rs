//! What comes out: the settings of a node, every default filled in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_types::names::NodeName;
use baton_types::timing::{Profile, RingTiming};
use serde::Serialize;

pub use baton_types::service::ServiceSettings;

use crate::fault::Fault;

/// What became of the configuration's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Present exactly if there is no fault.
    pub settings: Option<Settings>,
    /// All faults of all files, in the order of files and lines.
    pub faults: Vec<Fault>,
    /// What works but defeats itself, in the same order.
    pub warnings: Vec<Fault>,
}

/// What became of one service file's text; see [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOutcome {
    /// Present exactly if there is no fault.
    pub service: Option<ServiceSettings>,
    /// All faults, in the order of lines.
    pub faults: Vec<Fault>,
    /// What works but defeats itself.
    pub warnings: Vec<Fault>,
}

/// The whole configuration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `[node]`.
    pub node: NodeSettings,
    /// `[ring]`.
    pub ring: RingSettings,
    /// `[control]`.
    pub control: ControlSettings,
    /// Each `[[service]]`, then each file of `services.d`.
    pub services: Vec<ServiceSettings>,
}

/// `[node]`: what this node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSettings {
    /// Its name; by default the host name.
    pub name: NodeName,
    /// Where identity, ledgers, releases and state are kept.
    pub data_dir: PathBuf,
    /// What SIGTERM to the daemon does to its services.
    pub on_stop: OnStop,
    /// What other nodes and policies may know about it, such as its zone.
    pub labels: BTreeMap<String, String>,
}

/// What SIGTERM to the daemon does to its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OnStop {
    /// They run on, and the next daemon takes them over.
    Keep,
    /// They are stopped in good order.
    Stop,
}

impl OnStop {
    /// Every choice with its word in the configuration.
    pub const ALL: &'static [(Self, &'static str)] = &[(Self::Keep, "keep"), (Self::Stop, "stop")];
}

/// `[ring]`: how this node reaches the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingSettings {
    /// UDP and TCP are bound here. Port 0 lets the system choose.
    pub bind: SocketAddr,
    /// The address that others are told. `None`: `bind`, or, if that is unspecified, the local
    /// address on the way to the first member joined.
    pub advertise: Option<SocketAddr>,
    /// `host:port` of members to join, retried for ever.
    pub join: Vec<String>,
    /// Where the timings come from that are not set on their own.
    pub profile: Profile,
    /// All timings, resolved.
    pub timing: RingTiming,
    /// The ring's keys.
    pub key_file: Option<PathBuf>,
    /// Whether plaintext may leave the machine.
    pub insecure: bool,
}

/// `[control]`: how this node is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlSettings {
    /// The Unix socket of the control API.
    pub socket: PathBuf,
    /// Where the read-only status page is served, if anywhere.
    pub http: Option<SocketAddr>,
}
