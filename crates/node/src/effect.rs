//! What a node wants done; the shell does it and answers with an event.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use baton_types::manifest::{HealthCheck, HookKind, StopSignal};
use baton_types::{Digest, GroupName, Name, Release, RolloutId, Term, Text};
use baton_wire::Message;

use crate::request::Reply;

/// One thing to do. The shell keeps their order for sends to one address and for writes.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send messages; they may be lost.
    Send {
        /// Where.
        to: SocketAddr,
        /// What, in one envelope.
        messages: Vec<Message>,
        /// As a stream frame; otherwise as a datagram if the envelope fits `max_packet`, as a
        /// stream frame if not.
        stream: bool,
    },
    /// Write a file durably (file and folder synced) and answer with `Written`.
    Write {
        /// Names the write; rising.
        write: u64,
        /// The file's name in the data directory.
        file: String,
        /// `None`: remove it.
        content: Option<Vec<u8>>,
    },
    /// Resolve the configured `join` addresses and answer with `Seeds`.
    ResolveSeeds,
    /// Fetch and verify a release, if it is not there yet.
    Fetch {
        /// For which service: its trusted keys hold.
        group: GroupName,
        /// URL of the depot.
        depot: String,
        /// What.
        release: Release,
    },
    /// Unpack a fetched release, if it is not yet.
    Unpack {
        /// For which service.
        group: GroupName,
        /// What.
        release: Release,
    },
    /// Read the channel of a service.
    ReadChannel {
        /// Which service.
        group: GroupName,
        /// URL of the depot.
        depot: String,
        /// The release's name in it.
        name: Name,
        /// The channel.
        channel: Name,
    },
    /// Keep these unpacked releases of a service, remove its others.
    KeepReleases {
        /// Which service.
        group: GroupName,
        /// By digest.
        keep: Vec<Digest>,
    },
    /// Start the program.
    Launch {
        /// Which service.
        group: GroupName,
        /// Names the launch.
        run: u64,
        /// What and how.
        program: Program,
    },
    /// Stop the program and everything that it started.
    Halt {
        /// Which service.
        group: GroupName,
        /// Which launch.
        run: u64,
        /// Sent first.
        signal: StopSignal,
        /// Until everything is killed.
        timeout: Duration,
    },
    /// Run a hook.
    RunHook {
        /// Which service.
        group: GroupName,
        /// Names this run.
        hook: u64,
        /// Which hook.
        kind: HookKind,
        /// What and how.
        program: Program,
        /// Until it and everything that it started is killed.
        timeout: Duration,
    },
    /// Run a health check.
    Check {
        /// Which service.
        group: GroupName,
        /// Names this check.
        check: u64,
        /// What to ask, with `${NAME}` expanded.
        check_of: HealthCheck,
        /// Where and as whom an exec check runs.
        program: Program,
        /// After it the check has failed.
        timeout: Duration,
    },
    /// Keep the census file of a service current.
    Census {
        /// Which service.
        group: GroupName,
        /// The file's content.
        json: String,
    },
    /// Reboot this machine: an install hook asked for it.
    Reboot {
        /// For which service.
        group: GroupName,
    },
    /// Answer the control API.
    Reply {
        /// Of [`crate::Event::Request`].
        request: u64,
        /// With what.
        reply: Reply,
    },
    /// Keep, or forget, a service that was loaded at run time.
    Loaded {
        /// Which service.
        group: GroupName,
        /// Whether it is loaded now.
        loaded: bool,
    },
    /// A line for the journal.
    Log(Line),
    /// The ring knows that we go (or had its chance); services are stopped if that was asked.
    GoodbyeSaid,
}

/// A program, hook or check to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The release whose unpacked folder it belongs to.
    pub release: Release,
    /// Program and arguments as the release has them: the shell expands `${NAME}` from `env` and
    /// takes the first word relative to the release's root.
    pub command: Vec<String>,
    /// The service's `env`, `BATON_NODE`, `BATON_GROUP`, `BATON_RELEASE` and `BATON_ROLLOUT`; the
    /// shell adds the paths.
    pub env: BTreeMap<String, String>,
    /// User to run as; `None`: the daemon's.
    pub run_as: Option<String>,
}

/// How urgent a line is; the numbers of syslog are the shell's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Only for finding faults in Baton.
    Debug,
    /// One per step.
    Info,
    /// Wants an eye.
    Warning,
    /// Something failed.
    Error,
}

/// A line for the journal with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How urgent.
    pub level: Level,
    /// What happened, in one sentence.
    pub text: String,
    /// `BATON_GROUP`.
    pub group: Option<GroupName>,
    /// `BATON_ROLLOUT`.
    pub rollout: Option<RolloutId>,
    /// `BATON_MEMBER`: the name of the member that it is about.
    pub member: Option<Text>,
    /// `BATON_RELEASE`.
    pub release: Option<Text>,
    /// `BATON_TERM`.
    pub term: Option<Term>,
}

impl Line {
    /// A line without fields.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self {
            level,
            text: text.into(),
            group: None,
            rollout: None,
            member: None,
            release: None,
            term: None,
        }
    }

    /// The line with its group.
    pub fn of(mut self, group: &GroupName) -> Self {
        self.group = Some(group.clone());
        self
    }
}
