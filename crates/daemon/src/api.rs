//! The control API's vocabulary: HTTP/1.1 and JSON on a Unix socket. Server and client share it.

use baton_types::{CommandAction, CommandAnswer, CommandId, Digest, GroupName, RolloutId};
use serde::{Deserialize, Serialize};

/// `POST /v1/command`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandBody {
    /// Which group.
    pub group: GroupName,
    /// What.
    pub action: CommandAction,
    /// The id under which a repeat finds the first result; made by the node if absent.
    #[serde(default)]
    pub id: Option<CommandIdText>,
}

/// A command id as text: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandIdText(pub CommandId);

impl TryFrom<String> for CommandIdText {
    type Error = baton_types::ids::IdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl From<CommandIdText> for String {
    fn from(id: CommandIdText) -> Self {
        id.0.to_string()
    }
}

/// Answer to `POST /v1/command`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandReply {
    /// The command's id.
    pub id: CommandIdText,
    /// What came of it.
    #[serde(flatten)]
    pub answer: CommandAnswer,
}

/// `POST /v1/ring/join`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinBody {
    /// `host:port`.
    pub addr: String,
}

/// `POST /v1/ring/leave`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveBody {
    /// Without waiting until this node is no longer a voter.
    pub force: bool,
}

/// `POST /v1/ring/forget`, `/v1/member/cordon`, `/v1/member/uncordon`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeBody {
    /// Name or id; `None`: the node that is asked.
    pub node: Option<String>,
}

/// `POST /v1/depot/trust`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustBody {
    /// The depot's URL, as service files name it.
    pub depot: String,
}

/// `POST /v1/service/load`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBody {
    /// Where the text comes from, for errors.
    pub path: String,
    /// The service file.
    pub toml: String,
}

/// `POST /v1/service/start`, `stop`, `restart` and `unload`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceBody {
    /// Which.
    pub group: GroupName,
    /// Only for `unload`: without waiting until this node is no longer a voter.
    #[serde(default)]
    pub force: bool,
}

/// `GET /v1/status`, `/v1/history`, `/v1/outcomes`, `/v1/logs`; `POST /v1/config/hand-in`, whose body
/// is a signed configuration revision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupQuery {
    /// Which group.
    pub group: GroupName,
    /// Only for `/v1/logs`: how many of the last lines.
    #[serde(default)]
    pub lines: Option<usize>,
    /// Only for `/v1/outcomes`: which rollout.
    #[serde(default)]
    pub rollout: Option<RolloutId>,
}

/// `GET /v1/config`: the content of one configuration revision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigQuery {
    /// Of which group.
    pub group: GroupName,
    /// Its digest.
    pub digest: Digest,
}

/// Done, in one sentence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DoneReply {
    /// The sentence.
    pub message: String,
}

/// The last lines that a service's program printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogsReply {
    /// Oldest first.
    pub lines: Vec<String>,
}

/// Any answer that is not 2xx.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorReply {
    /// What was found and what is allowed.
    pub error: String,
    /// Which exit code follows.
    pub kind: ErrorKind,
}

/// Kinds of refusal; the command line's exit codes follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request itself is malformed (HTTP 400).
    BadRequest,
    /// No such group, node or service (404).
    Unknown,
    /// Not in this state (409).
    State,
    /// Nobody can decide now (503).
    NoQuorum,
    /// No answer in time; the thing asked for may have been accepted (504).
    TimedOut,
    /// The daemon is stopping or failed (500).
    Failed,
}

impl ErrorKind {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unknown => 404,
            Self::State => 409,
            Self::NoQuorum => 503,
            Self::TimedOut => 504,
            Self::Failed => 500,
        }
    }
}
