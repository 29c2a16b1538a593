//! What a node wants done; the shell does it and answers with an event.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_supervise::Launch;

use baton_types::manifest::{HealthCheck, HookKind, StopSignal};
use baton_types::{
    CommandId, Digest, GroupName, Name, NodeId, Release, RolloutId, Term, Text, Version,
};
use baton_wire::Message;

use crate::notice::Notice;
use crate::request::Reply;

/// One thing to do. The shell keeps their order for sends to one address and for writes.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send messages; they may be lost.
    Send {
        /// Where.
        to: SocketAddr,
        /// In which version of the wire.
        version: u8,
        /// What, in one envelope; without any, its head is what is to be heard.
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
    /// Fetch and verify a configuration revision, if it is not there yet, and look whether its files
    /// can be written with this service's environment.
    FetchRevision {
        /// For which service: its trusted keys and its environment hold.
        group: GroupName,
        /// URL of the depot.
        depot: String,
        /// What.
        digest: Digest,
    },
    /// Verify a configuration revision that another node had, and keep it; answered as
    /// [`Effect::FetchRevision`] is, by `RevisionTaken`.
    TakeRevision {
        /// For which service: its trusted keys and its environment hold.
        group: GroupName,
        /// What it must be.
        digest: Digest,
        /// As it was signed.
        sealed: Vec<u8>,
    },
    /// Read a configuration revision as it was signed, for another node; answered by `RevisionRead`.
    ReadRevision {
        /// Of which service.
        group: GroupName,
        /// What.
        digest: Digest,
        /// Who asks.
        to: NodeId,
        /// Under which id.
        id: CommandId,
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
        /// Versions to look up as well, promoted or not.
        versions: Vec<Version>,
    },
    /// Keep these releases and configuration revisions, remove all others.
    KeepReleases {
        /// The service whose need changed.
        group: GroupName,
        /// What any service of this node needs, by digest.
        keep: Vec<Digest>,
    },
    /// Start the program.
    Launch {
        /// Which service.
        group: GroupName,
        /// Names the launch.
        run: u64,
        /// What and how.
        launch: Arc<Launch>,
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
        /// The launch whose hook it is.
        launch: Arc<Launch>,
        /// Until it and everything that it started is killed.
        timeout: Duration,
    },
    /// Kill a hook and everything that it started; it is answered as always.
    CancelHook {
        /// Which service.
        group: GroupName,
        /// Which run of a hook.
        hook: u64,
    },
    /// Run a health check.
    Check {
        /// Which service.
        group: GroupName,
        /// Names this check.
        check: u64,
        /// What to ask.
        what: HealthCheck,
        /// The launch that is asked.
        launch: Arc<Launch>,
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
    /// Reboot this machine: an install hook or a rolling reboot asked for it.
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
    /// Keep, or forget, a service that was loaded at run time; the reply to its request comes later
    /// and is not "done" if that fails.
    Loaded {
        /// Of [`crate::Event::Request`].
        request: u64,
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
    /// What it is about.
    pub notice: Notice,
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
    pub fn new(notice: Notice, level: Level, text: impl Into<String>) -> Self {
        Self {
            notice,
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
