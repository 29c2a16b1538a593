//! What the control API asks a node, and what it is told.

use std::net::SocketAddr;

use baton_types::service::ServiceSettings;
use baton_types::{CommandAction, CommandAnswer, CommandId, Digest, GroupName, NodeId, RolloutId};

/// One request of an operator.
#[derive(Clone, Debug)]
pub enum Request {
    /// For the group's leader, wherever it is.
    Command {
        /// Which group.
        group: GroupName,
        /// What.
        action: CommandAction,
        /// Given by the client to repeat a command; `None`: the node makes one.
        id: Option<CommandId>,
    },
    /// `GroupStatus` of one group, by its leader if it answers, else from this node's copy.
    Status(GroupName),
    /// A list of `HistoryStatus`.
    History(GroupName),
    /// What every member came to in a rollout that ended.
    Outcomes(GroupName, RolloutId),
    /// `RevisionContent` of a configuration revision, by the group's leader if it answers; `null`
    /// for one that is not kept any more.
    Config(GroupName, Digest),
    /// Names of the groups that the ring knows.
    Groups,
    /// A list of `RingMemberStatus`.
    RingMembers,
    /// A list of `ServiceStatus` of the whole ring.
    Services,
    /// Join further addresses.
    RingJoin(Vec<SocketAddr>),
    /// Leave the ring for good.
    RingLeave {
        /// Without waiting for the voters.
        force: bool,
    },
    /// Forget a dead member.
    RingForget(NodeRef),
    /// Load a service at run time.
    ServiceLoad(Box<ServiceSettings>),
    /// Unload a service; its program is stopped.
    ServiceUnload {
        /// Which.
        group: GroupName,
        /// Without waiting for the voters.
        force: bool,
    },
    /// Start the program on this node.
    ServiceStart(GroupName),
    /// Stop the program on this node, until `ServiceStart`.
    ServiceStop(GroupName),
    /// Restart the program on this node.
    ServiceRestart(GroupName),
    /// Keep a node out of rollouts, in every group that it has; `None`: this node.
    Cordon(Option<NodeRef>),
    /// Let a node take part again.
    Uncordon(Option<NodeRef>),
    /// One line of what the node does: for sd_notify and the status page.
    Summary,
}

/// A node as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRef {
    /// By id.
    Id(NodeId),
    /// By name.
    Name(String),
}

/// What the control API is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Content for a reading request, as JSON.
    Json(String),
    /// The result of a command, with its id.
    Command {
        /// For a repeat.
        id: CommandId,
        /// What came of it.
        answer: CommandAnswer,
    },
    /// Done, in one sentence.
    Done(String),
    /// Not done, and nothing changed.
    Refused {
        /// Why, as the exit code needs it.
        why: Why,
        /// What was found and what is allowed.
        text: String,
    },
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The ring knows no such group, node or service.
    Unknown,
    /// Not in this state.
    State,
    /// Nobody can decide now.
    NoQuorum,
    /// No answer in time.
    TimedOut,
}

/// What is said of a service that is not on this node, with those that are `here`.
pub fn no_such_service<'a>(name: &GroupName, here: impl Iterator<Item = &'a GroupName>) -> String {
    let here: Vec<String> = here.map(ToString::to_string).collect();
    match here.is_empty() {
        true => format!("no service {name} on this node; it has none"),
        false => format!("no service {name} on this node; it has: {}", here.join(", ")),
    }
}
