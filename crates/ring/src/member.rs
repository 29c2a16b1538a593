//! One member as this node sees it.

use std::net::SocketAddr;
use std::time::Duration;

use baton_types::{BootNonce, Incarnation, Moment, NodeId, NodeName, Text};
use baton_wire::Versions;
use baton_wire::ring::{MemberRecord, MemberState};

/// A member; see the crate's page for the states. This node itself is one, always alive until it
/// leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identity.
    pub node: NodeId,
    /// Name; not necessarily unique.
    pub name: NodeName,
    /// Where it receives datagrams and streams.
    pub addr: SocketAddr,
    /// Its daemon's start.
    pub boot: BootNonce,
    /// The program's version.
    pub version: Text,
    /// The number of the newest record.
    pub incarnation: Incarnation,
    /// How it is.
    pub state: MemberState,
    /// Since when it is in that state, on this node's clock; at the earliest this machine's boot.
    pub since: Moment,
    /// What it speaks.
    pub versions: Versions,
    /// Round trip of the last direct probe; `None` before the first.
    pub round_trip: Option<Duration>,
    /// Who could not reach it, while it is suspect; at most `ACCUSERS_MAX`.
    pub(crate) accusers: Vec<NodeId>,
    /// How long it had been in its state when `since` would lie before this machine's boot.
    pub(crate) age_before_since: Duration,
    /// When its suspicion or its grace ends; before the last question, when that is due.
    pub(crate) deadline: Option<Moment>,
    /// Whether it was asked for the last time before its suspicion ends.
    pub(crate) asked_last: bool,
    /// What it says of itself to newer builds; this one passes it on.
    pub(crate) more: Vec<u8>,
}

impl Member {
    /// The member that `record` describes, heard of now.
    pub(crate) fn from_record(record: MemberRecord, now: Moment) -> Self {
        let age = Duration::from_secs(u64::from(record.age_secs));
        let since = Moment(now.0.saturating_sub(age.as_micros().try_into().unwrap_or(u64::MAX)));
        let accusers =
            if record.state == MemberState::Suspect { record.accusers } else { Vec::new() };
        Self {
            node: record.node,
            name: record.name,
            addr: record.addr,
            boot: record.boot,
            version: record.version,
            incarnation: record.incarnation,
            state: record.state,
            since,
            round_trip: None,
            accusers,
            age_before_since: age.saturating_sub(now.since(since)),
            deadline: None,
            asked_last: false,
            versions: record.versions,
            more: record.more,
        }
    }

    /// How long it has been in its state.
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.since) + self.age_before_since
    }

    /// What this node tells others about it.
    pub fn record(&self, now: Moment) -> MemberRecord {
        MemberRecord {
            node: self.node,
            name: self.name.clone(),
            addr: self.addr,
            boot: self.boot,
            version: self.version.clone(),
            incarnation: self.incarnation,
            state: self.state,
            accusers: self.accusers.clone(),
            age_secs: u32::try_from(self.age(now).as_secs()).unwrap_or(u32::MAX),
            versions: self.versions,
            more: self.more.clone(),
        }
    }
}
