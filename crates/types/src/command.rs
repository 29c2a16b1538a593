//! What an operator asks of a group, and what he is told.

use serde::{Deserialize, Serialize};

use crate::ids::{CommandId, NodeId, RolloutId};
use crate::names::{GroupName, NodeName};
use crate::target::{Digest, Version};
use crate::text::Text;

/// One command. Its id is made by the node that took it; a repeat under the same id is answered
/// with the first result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Identity, for repeats.
    pub id: CommandId,
    /// Whom it is about.
    pub group: GroupName,
    /// The node at which it was typed.
    pub by: NodeName,
    /// What is asked.
    pub action: CommandAction,
}

/// What can be asked of a group's leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandAction {
    /// Start a rollout: of the channel's head, or of this version.
    Start {
        /// `None`: the head of the channel.
        version: Option<Version>,
    },
    /// No further turn, until `Resume`.
    Pause,
    /// Accept the failures so far and go on.
    Resume,
    /// End the rollout where it stands.
    Cancel,
    /// Back to the baseline, or a step further back, or to a version that completed before.
    Rollback {
        /// `None`: as far back as the state says.
        to: Option<Version>,
    },
    /// A new attempt for the failed members, failures at 0.
    Retry,
    /// Let the next wave go.
    Approve,
    /// Restart every member, one at a time, on what it runs.
    Restart,
    /// Reboot every member, one at a time.
    Reboot,
    /// Keep a node out of rollouts.
    Cordon {
        /// Which node.
        node: NodeId,
    },
    /// Let a node take part again.
    Uncordon {
        /// Which node.
        node: NodeId,
    },
    /// Read the channel now: somebody promoted or demoted.
    ReadChannel,
    /// Remove a node from the voters: it leaves, or its service is unloaded.
    RemoveVoter {
        /// Which node.
        node: NodeId,
    },
    /// Roll this configuration revision out; it lies signed in the group's depot.
    ApplyConfig {
        /// SHA-256 of the revision.
        digest: Digest,
    },
    /// Form the group anew, from the newest record that is left: a majority of its voters is lost
    /// for good. Not for a leader: there is none.
    Reform,
    /// Let this history of the group stay, of several that were formed apart; the others give way.
    Adopt {
        /// As the status names it, or enough of its first characters.
        lineage: Text,
    },
}

/// What came of a command. Kept in the ledger under the command's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandAnswer {
    /// Whether it took effect.
    pub result: CommandResult,
    /// One sentence for the operator: what happens now, or why not and what to type instead.
    pub message: Text,
    /// The rollout that it started or touched.
    pub rollout: Option<RolloutId>,
}

/// How a command ended; the command line's exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandResult {
    /// Committed.
    Done,
    /// Not possible in this state; nothing changed.
    Refused,
    /// No quorum: nobody can decide now.
    NoQuorum,
    /// May have been accepted: the answer did not come in time.
    TimedOut,
}
