//! What a node says of itself to the ring: its service facts.

use serde::{Deserialize, Serialize};

use crate::ids::{Incarnation, LineageId, NodeId, RolloutId, Term};
use crate::policy::choice;
use crate::target::{Digest, Target};
use crate::text::Text;
use std::fmt;

choice!(
    /// How a service is, by its health check and thresholds.
    Health {
        /// All well.
        Ok = "ok",
        /// Counts as healthy.
        Warning = "warning",
        /// Not healthy.
        Critical = "critical",
        /// Not healthy: no verdict (yet).
        Unknown = "unknown",
    }
);

impl Health {
    /// Whether a member in this health counts as available.
    pub const fn is_healthy(self) -> bool {
        matches!(self, Self::Ok | Self::Warning)
    }
}

choice!(
    /// Where the program of a service stands.
    ProcessState {
        /// Not running and not meant to.
        Stopped = "stopped",
        /// Being started (hooks included), not yet healthy.
        Starting = "starting",
        /// Runs.
        Running = "running",
        /// Being stopped.
        Stopping = "stopping",
        /// Ended by itself; a restart is due.
        BackOff = "back-off",
    }
);

choice!(
    /// What a service is meant to do.
    Desired {
        /// Run.
        Running = "running",
        /// Stay down: `baton service stop`.
        Stopped = "stopped",
    }
);

/// How far a member is with fetching and verifying a rollout's target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prepared {
    /// At work.
    Fetching,
    /// Fetched and verified.
    Ready,
    /// Cannot, and why.
    Failed(Text),
}

/// One service of one node, as the ring knows it. Raised by its owner alone, spread when it
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceFact {
    /// What runs, or ran last; `None` = never ran a release of this group.
    pub running: Option<Target>,
    /// What its operator wants.
    pub desired: Desired,
    /// Where the program stands.
    pub process: ProcessState,
    /// Its process id while it runs.
    pub pid: Option<u32>,
    /// Health after thresholds.
    pub health: Health,
    /// The last health output, or why the program is down.
    pub health_text: Text,
    /// Restarts after a crash, since the daemon first started this release.
    pub restarts: u32,
    /// The turn in which the member is, in words; empty outside a turn.
    pub phase: Text,
    /// How far the fetch of the current rollout's target is.
    pub prepared: Option<(Digest, Prepared)>,
    /// A local edit waits for the next turn or `service restart`.
    pub pending_edit: bool,
    /// Digest over strategy, policy, channel and depot of this node's file, to find files that
    /// differ.
    pub file_digest: u64,
    /// Place in a rollout's order.
    pub order: i32,
    /// Value of the group's zone label on this node.
    pub zone: Option<Text>,
    /// The owner's incarnation in the ring when it said so. A member that was taken for dead and
    /// says that it lives does so under a higher one: what it said before is of the past.
    pub incarnation: Incarnation,
}

/// What a voter tells the ring of its group's ledger, so that members that are no voters know
/// whom to ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerFact {
    /// Which history.
    pub lineage: LineageId,
    /// The histories that it took the place of, and those that this voter gave up for it.
    pub replaces: Vec<LineageId>,
    /// The histories, formed apart, that are to give way to it.
    pub absorbs: Vec<LineageId>,
    /// The baseline: what tells it from others, and what people call it.
    pub baseline: Option<(Digest, Text)>,
    /// The term of the committed record.
    pub term: Term,
    /// The committed record's version. A newer one alone is told by the leader only, and not each.
    pub version: u64,
    /// The leader of that term, as far as this voter knows.
    pub leader: Option<NodeId>,
    /// The rollout under way, its state's word and, from the leader, one line of what it waits for.
    pub rollout: Option<(RolloutId, Text, Text)>,
}

impl LedgerFact {
    /// Whether `other` differs at most in what every record changes: the version, and what is
    /// waited for.
    pub fn stands_like(&self, other: &Self) -> bool {
        let rollout =
            |fact: &Self| fact.rollout.as_ref().map(|(id, state, _)| (*id, state.clone()));
        self.is_led_like(other)
            && self.baseline == other.baseline
            && rollout(self) == rollout(other)
    }

    /// Whether `other` says the same of history, term and leader.
    pub fn is_led_like(&self, other: &Self) -> bool {
        self.lineage == other.lineage
            && self.term == other.term
            && self.leader == other.leader
            && self.replaces == other.replaces
            && self.absorbs == other.absorbs
    }
}
