//! Commands and questions that one node passes on to a group's leader, and the answers.

use baton_types::{Command, CommandAnswer, CommandId, Digest, GroupName, RolloutId};
use serde::{Deserialize, Serialize};

/// Something for a group's leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Matches the answer; for a command, the command's own id.
    pub id: CommandId,
    /// What is asked.
    pub question: Question,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Do this.
    Command(Command),
    /// How does the group stand? Answered with `GroupStatus` as JSON.
    Status(GroupName),
    /// Which rollouts ended? Answered with a list of `HistoryStatus` as JSON.
    History(GroupName),
    /// What did every member come to in this rollout? Answered with `OutcomesStatus` as JSON, by
    /// whoever keeps it, leader or not.
    Outcomes(GroupName, RolloutId),
    /// What does this configuration revision hold? Answered with `RevisionContent` as JSON, or
    /// `null` for one that the leader does not keep.
    Config(GroupName, Digest),
    /// This configuration revision as it was signed, of whoever has it: the depot has not.
    Sealed(GroupName, Digest),
}

/// What came of an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question's id.
    pub id: CommandId,
    /// The content.
    pub content: AnswerContent,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerContent {
    /// Of a command.
    Command(CommandAnswer),
    /// Of a reading question: JSON, so that nodes of different versions understand each other.
    Json(String),
    /// A configuration revision as it was signed; `None`: it is not here.
    Sealed(Option<Vec<u8>>),
    /// The node asked is not the group's leader; ask that one, if it knows better.
    NotLeader,
}
