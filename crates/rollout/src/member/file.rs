//! What a member must not forget about its turn and about what it runs: one durable record.
//!
//! Invariant: written before the step that it names is done, so that a restart at any point
//! resumes that step.

use baton_types::{Moment, Target, Text};
use baton_wire::{Terms, TurnId, TurnOutcome};
use serde::{Deserialize, Serialize};

/// One member's durable record of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberFile {
    /// What it runs; `None` = never ran a release of this group.
    pub running: Option<Target>,
    /// What it ran before: kept on disk, so that a rollback needs no depot.
    pub previous: Option<Target>,
    /// The group's baseline at its last offer: kept on disk too, because after two bad releases it
    /// is neither what runs nor what ran before.
    pub baseline: Option<Target>,
    /// The turn that it is in.
    pub turn: Option<TurnFile>,
}

/// A turn that has not been forgotten yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFile {
    /// Which.
    pub turn: TurnId,
    /// What for.
    pub terms: Terms,
    /// Where it stands.
    pub stage: Stage,
    /// The machine's boot in which the record was written; moments of another boot say nothing.
    pub boot: [u8; 16],
    /// Boots of the machine since the offer.
    pub boots: u8,
    /// When the stage, or the wait that it is part of, began.
    pub since: Moment,
}

/// A durable stage of a turn; the order is the order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Fetch, unpack and `install` are to do, or to do again.
    Offered,
    /// `install` has exited 0; `ready` and the claim are to do.
    Installed,
    /// The *go* was heard: the old release is being stopped. From here on there is no withdrawal.
    Begun,
    /// Nothing of the old release runs, and the machine is to reboot before it is started again.
    Rebooting {
        /// The boot that has to end: another boot id means that it did.
        boot: [u8; 16],
    },
    /// The target is being started.
    Started,
    /// First healthy; `verify` is to run.
    Healthy,
    /// Must stay healthy.
    Monitoring,
    /// Ended; the leader does not know yet.
    Ended {
        /// How.
        outcome: TurnOutcome,
        /// Whether the old release was stopped.
        begun: bool,
        /// Why.
        reason: Text,
    },
}

impl Stage {
    /// Whether the old release was, or may have been, stopped in this turn, and the turn goes on.
    pub const fn is_disrupting(&self) -> bool {
        matches!(
            self,
            Self::Begun | Self::Rebooting { .. } | Self::Started | Self::Healthy | Self::Monitoring
        )
    }

    /// Whether the service is down by intent, so that nobody is to start it but the turn.
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::Begun | Self::Rebooting { .. })
    }

    /// Whether the turn may still be withdrawn.
    pub const fn is_before_begun(&self) -> bool {
        matches!(self, Self::Offered | Self::Installed)
    }
}
