//! The member's side: carries out one turn, durable at each step.
//!
//! Invariants: the old release is stopped only after a *go* that answers the claim in this
//! process's memory, within the claim window by the boot clock, and after *begun* is on disk. A
//! begun turn is never withdrawn or displaced: it ends with an outcome, which is repeated until
//! the leader has kept it.

mod clock;
pub mod file;
mod message;
mod prepare;
mod reboot;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::VecDeque;
use std::time::Duration;

use baton_types::manifest::HookKind;
use baton_types::{ClaimId, Digest, Moment, NodeId, Now, Target, Text};
use baton_wire::{TurnId, TurnMessage, TurnOutcome};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use self::file::{MemberFile, Stage};
use self::prepare::Prepare;

/// Timings of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// From a claim to the last moment at which the *go* for it is acted on.
    pub claim_window: Duration,
    /// From one repeat of an unanswered message to the next.
    pub resend: Duration,
}

/// Something that happened on the member's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberInput {
    /// The write that [`MemberOutput::Persist`] with this token asked for has ended.
    Persisted {
        /// Of that output.
        token: u64,
        /// Whether it is on disk.
        ok: bool,
    },
    /// [`MemberOutput::Fetch`] has ended.
    Fetched {
        /// The key of the target asked for: its release and its configuration revision.
        digest: Digest,
        /// How.
        result: FetchResult,
    },
    /// [`MemberOutput::Unpack`] has ended.
    Unpacked {
        /// Of the release asked for.
        digest: Digest,
        /// How.
        result: FetchResult,
    },
    /// [`MemberOutput::RunHook`] has ended.
    HookDone {
        /// Which hook.
        kind: HookKind,
        /// How.
        verdict: HookVerdict,
    },
    /// The service changed.
    Service(ServiceNote),
}

/// How a fetch or an unpacking ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchResult {
    /// There and verified.
    Done,
    /// The depot or the disk failed: it may work later.
    Environment(Text),
    /// The release itself is not acceptable: digest, signature or content.
    Refused(Text),
}

/// How a hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// Exit 0, or the release has no such hook (`ran` is false).
    Yes {
        /// Whether there was anything to run.
        ran: bool,
    },
    /// `ready` exited 75.
    NotYet(Text),
    /// `install` exited 76.
    Reboot,
    /// Any other exit, a signal or its timeout, with the last output.
    No(Text),
}

/// What the supervisor says of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceNote {
    /// The stop that was asked for is complete: nothing of it runs.
    Stopped,
    /// Healthy after thresholds (`ok` or `warning`).
    Healthy,
    /// It was healthy and may be so still: the machine stood still, and nothing was checked since.
    Unknown,
    /// Not healthy after thresholds, with the last output of the check.
    Unhealthy(Text),
    /// The program ended by itself.
    Exited(Text),
    /// It could not be started; the supervisor tries again by its own rules.
    StartFailed(Text),
}

/// Something that the node has to do for the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutput {
    /// Send this to the group's leader, whoever it is now; lost ones are repeated.
    Send(TurnMessage),
    /// Write the whole record durably, then say [`MemberInput::Persisted`].
    Persist {
        /// Names this write; a newer one makes the older obsolete.
        token: u64,
        /// The record.
        file: Box<MemberFile>,
    },
    /// Fetch and verify the archive and the configuration revision, unless they are there already.
    Fetch {
        /// What.
        target: Target,
        /// From where.
        depot: String,
    },
    /// Unpack the fetched archive, unless it is unpacked already.
    Unpack {
        /// What.
        target: Target,
    },
    /// Run this hook if the release has it. Only one hook of a turn runs at a time.
    RunHook {
        /// Install, ready or verify.
        kind: HookKind,
        /// The release that it belongs to and runs in.
        target: Target,
    },
    /// Stop the service, then say [`ServiceNote::Stopped`] (at once if nothing runs).
    StopService,
    /// Start this target; if it runs already, do nothing but say how it is.
    StartService(Target),
    /// Reboot this machine in good order.
    Reboot,
    /// Where the turn stands, in words, for the service fact; empty outside a turn.
    Phase(Text),
}

/// The member's side of one group on one node.
#[derive(Debug)]
pub struct Member {
    settings: MemberSettings,
    boot: [u8; 16],
    /// When the daemon started, or the machine went on that had stood still.
    awake_since: Moment,
    rng: StdRng,
    file: MemberFile,
    /// What the outputs of the current stage wait for, if anything.
    doing: Doing,
    /// The token of the newest write, while it is under way.
    saving: Option<u64>,
    tokens: u64,
    /// The newest record is not on disk; when to try again.
    unsaved: Option<Moment>,
    claim: Option<Claimed>,
    /// The outcome that was kept last: whoever offers that turn once more is told it. It is a late
    /// repeat, or the record that knew of it was lost.
    kept: Option<Kept>,
    /// A withdrawal that is acknowledged once it is on disk.
    withdrawn: Option<TurnId>,
    prepare: Option<Prepare>,
    /// Consecutive environment faults of this turn.
    /// How long what ran before took to stop, in the turn under way.
    stop_took: Duration,
    faults: u32,
    /// A hook of an earlier turn or stage that has not ended yet.
    hook: Option<HookKind>,
    /// The last output of whatever stands in the way.
    note: Text,
    environment: bool,
    /// What the service said last.
    healthy: bool,
    /// When the last repeated message went out.
    sent: Option<Moment>,
    phase: Text,
    outputs: VecDeque<MemberOutput>,
}

/// What a stage is waiting for; in memory only, begun again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing: no turn, or it waits for the disk or the leader.
    Idle,
    /// A fetch.
    Fetching,
    /// An unpacking.
    Unpacking,
    /// A hook.
    Hook(HookKind),
    /// Until this moment, then the stage is entered again.
    Pausing(Moment),
    /// The *go* for the claim.
    Claiming,
    /// The reboot that `install`, or a rolling reboot, asked for.
    Rebooting,
    /// The service's next note.
    Service,
}

/// How the last turn ended.
#[derive(Clone, Debug)]
struct Kept {
    turn: TurnId,
    outcome: TurnOutcome,
    begun: bool,
    reason: Text,
}

/// A claim under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claimed {
    id: ClaimId,
    at: Moment,
}

impl Member {
    /// A member as its durable record says, after the start of its daemon at `now`. `boot` is the
    /// machine's boot id: moments in the record count only within the same boot.
    pub fn open(
        settings: MemberSettings,
        me: NodeId,
        boot: [u8; 16],
        file: MemberFile,
        seed: u64,
        now: Now,
    ) -> Self {
        let salt =
            me.as_bytes().iter().fold(0u64, |salt, byte| salt.rotate_left(7) ^ u64::from(*byte));
        let mut member = Self {
            settings,
            boot,
            awake_since: now.moment,
            rng: StdRng::seed_from_u64(seed ^ salt),
            file,
            doing: Doing::Idle,
            saving: None,
            tokens: 0,
            unsaved: None,
            claim: None,
            kept: None,
            withdrawn: None,
            prepare: None,
            stop_took: Duration::ZERO,
            faults: 0,
            hook: None,
            note: Text::default(),
            environment: false,
            healthy: false,
            sent: None,
            phase: Text::default(),
            outputs: VecDeque::new(),
        };
        member.resume(now);
        member
    }

    /// What the service is to run now, turn or not: the node starts it at boot without asking
    /// anybody. `None`: nothing, because it never ran anything or is between two releases.
    pub fn wants_running(&self) -> Option<&Target> {
        let down = self.file.turn.as_ref().is_some_and(|turn| turn.stage.is_down());
        self.file.running.as_ref().filter(|_| !down)
    }

    /// The durable record as it is now (perhaps not yet on disk).
    pub fn file(&self) -> &MemberFile {
        &self.file
    }

    /// Whether a turn has begun here and not ended: the service may be down by intent.
    pub fn is_disrupting(&self) -> bool {
        self.file.turn.as_ref().is_some_and(|turn| turn.stage.is_disrupting())
    }

    /// Whether the node is in a turn of this group, or would be after a restart, because the end of
    /// the turn is not on disk yet: it must be in no other.
    pub fn in_turn(&self) -> bool {
        let is_saved = self.saving.is_none() && self.unsaved.is_none();
        let is_over = |stage: &Stage| is_saved && matches!(stage, Stage::Ended { .. });
        self.file.turn.as_ref().is_some_and(|turn| !is_over(&turn.stage))
    }

    /// Releases and configuration revisions that must stay on this node: what it runs, what it ran
    /// before, the group's baseline, what its turn brings and what it fetched for a rollout.
    pub fn kept(&self) -> Vec<Digest> {
        let turn = self.file.turn.as_ref().map(|turn| &turn.terms.target);
        let prepared = self.prepare.as_ref().map(|prepare| &prepare.target);
        let file = &self.file;
        [file.running.as_ref(), file.previous.as_ref(), file.baseline.as_ref(), turn, prepared]
            .into_iter()
            .flatten()
            .flat_map(Target::digests)
            .collect()
    }

    /// Takes what has to be done, in order.
    pub fn take_outputs(&mut self) -> Vec<MemberOutput> {
        self.outputs.drain(..).collect()
    }
}
