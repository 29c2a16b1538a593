//! What can happen to a node.

use std::net::SocketAddr;
use std::sync::Arc;

use baton_supervise::{CheckResult, ExitKind, HookResult};
use baton_types::manifest::Manifest;
use baton_types::service::ServiceSettings;
use baton_types::{CommandId, Digest, GroupName, NodeId, Release, Revision, Text};
use baton_wire::Envelope;

use crate::request::Request;

/// One thing that happened; the shell hands them to [`crate::Node::handle`] one after the other.
#[derive(Clone, Debug)]
pub enum Event {
    /// The moment that [`crate::Node::next_tick`] named has come, or passed.
    Tick,
    /// A datagram or stream frame arrived, decrypted and decoded.
    Packet {
        /// The address that it came from; for a stream, the peer's.
        from: SocketAddr,
        /// Its content.
        envelope: Envelope,
    },
    /// A write ended.
    Written {
        /// Of [`crate::Effect::Write`].
        write: u64,
        /// The text names file, operation and cause; it is final for that write.
        result: Result<(), Text>,
    },
    /// The configured `join` addresses, resolved.
    Seeds(Vec<SocketAddr>),
    /// A fetch ended.
    Fetched {
        /// Of [`crate::Effect::Fetch`].
        group: GroupName,
        /// The release.
        release: Release,
        /// Its manifest once it is verified and kept.
        result: Result<Box<Manifest>, DepotFault>,
    },
    /// A configuration revision was fetched, or not.
    RevisionFetched {
        /// Of [`crate::Effect::FetchRevision`].
        group: GroupName,
        /// Its digest.
        digest: Digest,
        /// Its content once it is verified and kept.
        result: Result<Arc<Revision>, DepotFault>,
    },
    /// A configuration revision of another node was verified and kept, or not.
    RevisionTaken {
        /// Of [`crate::Effect::TakeRevision`].
        group: GroupName,
        /// Its digest.
        digest: Digest,
        /// Its content once it is verified and kept.
        result: Result<Arc<Revision>, DepotFault>,
    },
    /// A configuration revision was read for another node.
    RevisionRead {
        /// Of [`crate::Effect::ReadRevision`]: who asks.
        to: NodeId,
        /// Under which id.
        id: CommandId,
        /// As it was signed; `None`: it is not here.
        sealed: Option<Vec<u8>>,
    },
    /// An unpacking ended.
    Unpacked {
        /// Of [`crate::Effect::Unpack`].
        group: GroupName,
        /// The release.
        release: Release,
        /// Whether it lies ready to run.
        result: Result<(), DepotFault>,
    },
    /// A channel was read.
    Channel {
        /// Of [`crate::Effect::ReadChannel`].
        group: GroupName,
        /// What it holds.
        result: Result<ChannelContent, DepotFault>,
    },
    /// The program runs.
    Launched {
        /// Of [`crate::Effect::Launch`].
        group: GroupName,
        /// Which launch.
        run: u64,
        /// The process.
        pid: u32,
    },
    /// The program could not be started.
    LaunchFailed {
        /// Of [`crate::Effect::Launch`].
        group: GroupName,
        /// Which launch.
        run: u64,
        /// Names program and cause.
        reason: Text,
    },
    /// The program ended, and everything that it had started is gone.
    Exited {
        /// Which service.
        group: GroupName,
        /// The process.
        pid: u32,
        /// How.
        how: ExitKind,
        /// The last line that it printed.
        last_output: Text,
    },
    /// Nothing of the program is left.
    Halted {
        /// Of [`crate::Effect::Halt`].
        group: GroupName,
        /// Which launch.
        run: u64,
    },
    /// A hook ended.
    HookDone {
        /// Of [`crate::Effect::RunHook`].
        group: GroupName,
        /// Which run of a hook.
        hook: u64,
        /// How.
        result: HookResult,
    },
    /// A health check ended.
    Checked {
        /// Of [`crate::Effect::Check`].
        group: GroupName,
        /// Which check.
        check: u64,
        /// The verdict on this one answer.
        result: CheckResult,
    },
    /// The program spoke over `NOTIFY_SOCKET`.
    Notified {
        /// Which service.
        group: GroupName,
        /// READY=1.
        ready: bool,
        /// STATUS=…
        status: Option<Text>,
    },
    /// The control API was asked something.
    Request {
        /// Names it in [`crate::Effect::Reply`].
        request: u64,
        /// What.
        what: Request,
    },
    /// The services of the configuration as they are now; others that came from it are unloaded.
    Services(Vec<ServiceSettings>),
    /// The boot of this machine, during which the node was started, is complete.
    BootComplete,
    /// The daemon is to stop: say goodbye to the ring.
    Goodbye {
        /// Whether the machine goes down, or `on_stop = "stop"`: services are stopped in order
        /// first. [`crate::Effect::GoodbyeSaid`] follows in any case.
        stop_services: bool,
    },
}

/// Why a depot operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepotFault {
    /// Whether it may go away by itself (unreachable, no space) and is retried; otherwise the
    /// content itself is refused.
    pub environment: bool,
    /// Names release, found and allowed.
    pub text: Text,
}

/// A channel's content: entries in order, the head last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelContent {
    /// The depot's id.
    pub depot_id: String,
    /// The index's sequence.
    pub sequence: u64,
    /// What is promoted in it.
    pub entries: Vec<ChannelEntry>,
    /// The versions that were to be looked up, as far as they exist; all releases of that name if
    /// one does not, so that the refusal can list them.
    pub releases: Vec<Release>,
}

/// One promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEntry {
    /// What.
    pub release: Release,
    /// The index sequence at which it was promoted.
    pub promotion: u64,
    /// Promoted with `--again`: a rejected target may start once more.
    pub again: bool,
}

/// A release's digest with its manifest: what the shell finds in the store at start.
pub type Manifests = std::collections::BTreeMap<Digest, Manifest>;

/// A configuration revision's digest with its content: what the shell finds on disk at start.
pub type Revisions = std::collections::BTreeMap<Digest, Arc<Revision>>;
