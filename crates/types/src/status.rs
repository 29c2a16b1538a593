//! The answers of the control API, as JSON. Names are a contract: fields may be added, never
//! renamed. They travel between nodes as JSON too, so that versions can be mixed.

use serde::{Deserialize, Serialize};

use crate::revision::Revision;

/// `baton rollout status G --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupStatus {
    /// `service.group`.
    pub group: String,
    /// Name of the leader's node, if there is one.
    pub leader: Option<String>,
    /// The ledger's term.
    pub term: u64,
    /// The committed record's version.
    pub version: u64,
    /// Whether a majority of the voters answers.
    pub quorum: bool,
    /// Why there is no quorum, or that the group is still forming; empty when there is one.
    pub quorum_reason: String,
    /// Names of the voters.
    pub voters: Vec<String>,
    /// The ledger's lineage; empty before formation.
    pub lineage: String,
    /// Further lineages of the group, formed apart, that were met and have not given way yet.
    pub met: Vec<LineageStatus>,
    /// The last target that a rollout brought to the group successfully.
    pub baseline: Option<TargetStatus>,
    /// A typed pause that holds with or without a rollout: who and when.
    pub paused_by: Option<String>,
    /// A target that waits, and why (typed pause, rejected).
    pub pending: Option<PendingStatus>,
    /// The rollout under way, or the last one that ended.
    pub rollout: Option<RolloutStatus>,
    /// What each member runs, also outside a rollout.
    pub members: Vec<MemberStatus>,
    /// Members whose service file differs from the leader's.
    pub differing_files: Vec<String>,
    /// Names of cordoned nodes.
    pub cordoned: Vec<String>,
    /// Why the channel could not be read, if so.
    pub channel_error: String,
    /// Where the leader reads releases and configuration revisions.
    pub depot: String,
    /// The configuration revision in force: that of the baseline, or of the first release to come.
    pub config: Option<RevisionStatus>,
    /// The configuration revisions that the ledger remembers, oldest first.
    pub revisions: Vec<RevisionStatus>,
}

/// A history of the group that was formed apart from the one that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineageStatus {
    /// Its id.
    pub lineage: String,
    /// Name of its leader's node, if one is heard of.
    pub leader: Option<String>,
    /// Its baseline, as people write it; empty without one.
    pub baseline: String,
    /// Names of the nodes that speak of it.
    pub nodes: Vec<String>,
}

/// A configuration revision, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RevisionStatus {
    /// Counted from 1 within the group.
    pub number: u32,
    /// SHA-256.
    pub digest: String,
    /// The node at which it was applied first; empty if the ledger has forgotten.
    pub by: String,
    /// RFC 3339, UTC.
    pub at: String,
}

/// `baton config show G`: one revision with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RevisionContent {
    /// `service.group`.
    pub group: String,
    /// SHA-256.
    pub digest: String,
    /// What it sets and brings, names not expanded.
    pub content: Revision,
}

/// A target, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetStatus {
    /// `redis/7.0.15`.
    pub release: String,
    /// Number of the configuration revision; 0 = none.
    pub config: u32,
    /// SHA-256 of the release.
    pub digest: String,
    /// SHA-256 of the configuration revision; empty without one.
    pub config_digest: String,
}

/// A target that does not start by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingStatus {
    /// `redis/7.0.15`.
    pub release: String,
    /// Why it waits and what to type.
    pub reason: String,
}

/// One rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RolloutStatus {
    /// Its id.
    pub id: String,
    /// update, config, rollback, restart, reboot or catch-up.
    pub kind: String,
    /// `preparing`, `running`, `paused`, `completed`, … (see product documentation).
    pub state: String,
    /// Why it is in that state, where a reason is needed.
    pub reason: String,
    /// The baseline that it started from; null in a group's first rollout.
    pub from: Option<TargetStatus>,
    /// What it brings.
    pub to: TargetStatus,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// Distinct (phase, member) with a failed outcome in the current phase.
    pub failures: usize,
    /// The threshold as configured.
    pub max_failures: String,
    /// Members at the start; on the way back those that were moved.
    pub total: usize,
    /// Members that passed in the current phase.
    pub passed: usize,
    /// What it waits for, on which node, since when.
    pub waiting_for: String,
    /// Every member's turn, in the rollout's order.
    pub members: Vec<MemberStatus>,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberStatus {
    /// The node's name.
    pub name: String,
    /// The node's id.
    pub node: String,
    /// waiting, offered, taken, monitoring, passed, failed, skipped or absent; empty without a
    /// rollout.
    pub turn: String,
    /// 1, or 2 in a rollback.
    pub phase: u8,
    /// What it runs.
    pub release: String,
    /// Number of the configuration revision that it runs with; 0 = none.
    pub config: u32,
    /// ok, warning, critical or unknown.
    pub health: String,
    /// The last health output or why the program is down.
    pub health_text: String,
    /// alive, suspect, restarting, dead, left.
    pub ring: String,
    /// Turns that it was given in this rollout.
    pub attempts: u32,
    /// Why its turn failed, was skipped, or what it does now.
    pub reason: String,
    /// Cordoned.
    pub cordoned: bool,
}

/// `baton ring members --json`, one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingMemberStatus {
    /// The node's name.
    pub name: String,
    /// The node's id.
    pub node: String,
    /// `ip:port`.
    pub addr: String,
    /// alive, suspect, restarting, dead, left.
    pub state: String,
    /// Raised by the member itself, to refute.
    pub incarnation: u64,
    /// The program's version.
    pub version: String,
    /// The versions of the wire that it speaks: "1", or "1-2".
    pub protocol: String,
    /// The groups of its services.
    pub groups: Vec<String>,
    /// Whether this is the node that answers.
    pub me: bool,
    /// Seconds since its state last changed, as this node saw it.
    pub since_seconds: u64,
    /// What is wrong with it (same name as another, not reachable by TCP); empty if nothing.
    pub note: String,
}

/// `baton service list --json`, one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceStatus {
    /// `service.group`.
    pub group: String,
    /// The node's name.
    pub name: String,
    /// The node's id.
    pub node: String,
    /// `redis/7.0.15`; empty when it never ran one.
    pub release: String,
    /// running or stopped.
    pub desired: String,
    /// stopped, starting, running, stopping, back-off.
    pub process: String,
    /// Process id while it runs.
    pub pid: Option<u32>,
    /// ok, warning, critical, unknown.
    pub health: String,
    /// The last health output.
    pub health_text: String,
    /// Restarts after a crash.
    pub restarts: u32,
    /// The turn it is in, in words; empty outside a turn.
    pub phase: String,
    /// A local edit of the service file waits for the next turn or `service restart`.
    pub pending_edit: bool,
    /// What the ring says of the node: alive, suspect, restarting, dead or left. Of one that is not
    /// alive everything here is what it said last.
    pub ring: String,
    /// Whether the node is cordoned, as far as the node that answers knows the group's decisions.
    pub cordoned: bool,
}

/// `baton rollout history G ROLLOUT --json`: every member's part in a rollout that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomesStatus {
    /// The rollout's id.
    pub id: String,
    /// In the rollout's order.
    pub members: Vec<MemberOutcome>,
}

/// What one member came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberOutcome {
    /// The node's name.
    pub name: String,
    /// The node's id.
    pub node: String,
    /// passed, failed, skipped, absent or, where the rollout ended before, waiting.
    pub turn: String,
    /// 1, or 2 in a rollback.
    pub phase: u8,
    /// How often it was offered.
    pub attempts: u32,
    /// Why it failed, was skipped or is absent.
    pub reason: String,
}

/// `baton rollout history G --json`, one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryStatus {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its end state.
    pub state: String,
    /// Where it started from.
    pub from: Option<TargetStatus>,
    /// What it brought.
    pub to: TargetStatus,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub ended_at: String,
    /// Why it ended so.
    pub reason: String,
    /// Members at the start.
    pub total: usize,
    /// Members that passed.
    pub passed: usize,
    /// Failed (phase, member).
    pub failures: usize,
}
