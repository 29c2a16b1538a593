//! Between a group's leader and one of its members: prepare, offer, claim, go, outcome.
//!
//! Invariant: every message names the rollout, phase and attempt that it belongs to, so that a
//! late, repeated or replayed one is recognised and changes nothing. Only a *go* with the claim id
//! that the member has in its memory lets a member stop what it runs.

use std::time::Duration;

use baton_types::member::Prepared;
use baton_types::policy::OnNotReady;
use baton_types::{ClaimId, Digest, RolloutId, Target, Text};
use serde::{Deserialize, Serialize};

/// One turn: which attempt of which phase of which rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TurnId {
    /// The rollout.
    pub rollout: RolloutId,
    /// 1, or 2 in a rollback.
    pub phase: u8,
    /// Counted from 1 for this member over the whole rollout.
    pub attempt: u32,
}

/// What a turn is for and how the member is to judge itself; frozen at the rollout's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What the member shall run.
    pub target: Target,
    /// The group's baseline: the member keeps its copy, so that a rollback needs no depot.
    pub baseline: Option<Target>,
    /// Where the target comes from: `file:///…` or `https://…`; at most
    /// [`DEPOT_MAX_BYTES`] bytes, longer ones are refused by the member.
    pub depot: String,
    /// From the stop of the old release to first healthy.
    pub start_timeout: Duration,
    /// How long the member must stay healthy after first healthy.
    pub monitor: Duration,
    /// How long `ready` may say "not yet".
    pub ready_timeout: Duration,
    /// What a member does that is not ready in time.
    pub on_not_ready: OnNotReady,
}

/// Where a member stands in its turn; the order is the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TurnStep {
    /// Fetches or unpacks the target.
    Unpacking,
    /// Runs `install`, or reboots for it.
    Installing,
    /// Asks `ready`.
    AskingReady,
    /// Has said that it is ready and waits for the *go*.
    Claiming,
    /// Stops the old release: the disruption begins.
    Stopping,
    /// Starts the target and waits for first healthy.
    Starting,
    /// Runs `verify`.
    Verifying,
    /// Healthy; must stay so.
    Monitoring,
}

impl TurnStep {
    /// In words, for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unpacking => "unpacking",
            Self::Installing => "installing",
            Self::AskingReady => "asking ready",
            Self::Claiming => "ready, waiting for go",
            Self::Stopping => "stopping the old release",
            Self::Starting => "starting",
            Self::Verifying => "verifying",
            Self::Monitoring => "monitoring",
        }
    }
}

/// How a turn ended, as its member saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// Healthy for as long as asked.
    Passed,
    /// Not.
    Failed,
    /// Not ready in time, and the policy says to leave it.
    Skipped,
}

/// One message of the turn protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnMessage {
    /// Leader: fetch and verify this; nothing is disrupted. Repeated until reported.
    Prepare {
        /// For which rollout.
        rollout: RolloutId,
        /// What to fetch.
        target: Target,
        /// From where.
        depot: String,
    },
    /// Member: how far the fetch is.
    PrepareReport {
        /// For which rollout.
        rollout: RolloutId,
        /// Of which target: its [`Target::key`].
        digest: Digest,
        /// How far.
        prepared: Prepared,
    },
    /// Leader: it is your turn; from here on it holds a place in the budget. Repeated.
    Offer {
        /// Which turn.
        turn: TurnId,
        /// What for.
        terms: Box<Terms>,
    },
    /// Member: where it stands; sent at each step and repeated slowly.
    Progress {
        /// Which turn.
        turn: TurnId,
        /// Which step.
        step: TurnStep,
        /// The last output of the hook, fetch or check that stands in the way; empty if nothing.
        text: Text,
        /// An environment fault (the depot or the disk failing before anything was stopped): not
        /// a failure, the leader pauses and names it.
        environment: bool,
    },
    /// Member: ready to stop. Repeated until *go*; a fresh id after a restart or the window.
    Claim {
        /// Which turn.
        turn: TurnId,
        /// In the member's memory only.
        claim: ClaimId,
    },
    /// Leader: *taken* is committed with this claim id. Stop the old release now.
    Go {
        /// Which turn.
        turn: TurnId,
        /// The claim that it answers.
        claim: ClaimId,
    },
    /// Member: the turn ended. Repeated until kept.
    Outcome {
        /// Which turn.
        turn: TurnId,
        /// How.
        outcome: TurnOutcome,
        /// Whether the old release was stopped in it.
        begun: bool,
        /// Why, with the last output.
        reason: Text,
    },
    /// Leader: the outcome is committed, or that turn was judged before.
    OutcomeKept {
        /// Which turn.
        turn: TurnId,
    },
    /// Leader: do not claim; acknowledge only if not begun. Repeated.
    Withdraw {
        /// Which turn.
        turn: TurnId,
    },
    /// Member: that turn is not begun and never will be.
    Withdrawn {
        /// Which turn.
        turn: TurnId,
    },
}

impl TurnMessage {
    /// Whether the message is one that a leader sends, so that it belongs to the member's side.
    pub const fn is_for_member(&self) -> bool {
        matches!(
            self,
            Self::Prepare { .. }
                | Self::Offer { .. }
                | Self::Go { .. }
                | Self::OutcomeKept { .. }
                | Self::Withdraw { .. }
        )
    }
}

/// Longest depot address that a member takes.
pub const DEPOT_MAX_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn messages_read_back_and_have_a_side() {
        let turn = TurnId { rollout: RolloutId::from_random(7), phase: 1, attempt: 2 };
        let claim = ClaimId::from_random(9);
        for (message, for_member) in [
            (TurnMessage::Claim { turn, claim }, false),
            (TurnMessage::Go { turn, claim }, true),
            (TurnMessage::Withdraw { turn }, true),
            (TurnMessage::Withdrawn { turn }, false),
        ] {
            assert_eq!(message.is_for_member(), for_member);
            let bytes = codec::encode(&message).expect("encodes");
            assert!(bytes.len() < 64, "a turn message without terms is small");
            assert_eq!(codec::decode::<TurnMessage>(&bytes).expect("decodes"), message);
        }
    }

    #[test]
    fn steps_are_in_the_order_of_time() {
        assert!(TurnStep::Claiming < TurnStep::Stopping);
        assert!(TurnStep::Stopping < TurnStep::Monitoring);
    }
}
