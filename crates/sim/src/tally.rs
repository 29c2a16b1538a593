//! What befell a run: how often each fault and each rare branch occurred.
//!
//! Invariant: counting never changes the run. A campaign in which something of the list never
//! occurred has shown nothing about it, so a large one that misses any of it has failed.

use std::fmt;

use baton_rollout::{GroupState, RolloutState, TurnState};

/// Counts, one for each [`Occurrence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    counts: [u64; Occurrence::ALL.len()],
}

impl Tally {
    /// It happened once more.
    pub(crate) fn count(&mut self, what: Occurrence) {
        let count = &mut self.counts[what as usize];
        *count = count.saturating_add(1);
    }

    /// Counts what a newly committed record says that the one before it did not.
    pub(crate) fn record(&mut self, before: Option<&GroupState>, now: &GroupState) {
        let shown = |state: &GroupState| {
            let rollout = state.shown_rollout()?;
            let turns = |of: &[TurnState]| {
                rollout.turns.iter().filter(|turn| of.contains(&turn.state)).count()
            };
            let left_out = turns(&[TurnState::Skipped, TurnState::Absent]);
            Some((rollout.id, rollout.state, turns(&[TurnState::Failed]), left_out))
        };
        let Some((id, state, failed, left_out)) = shown(now) else { return };
        let old = before.and_then(shown).filter(|(other, ..)| *other == id);
        if old.is_none_or(|(_, before, ..)| before != state) {
            match state {
                RolloutState::Paused => self.count(Occurrence::Paused),
                RolloutState::RollbackPaused => self.count(Occurrence::RollbackPaused),
                RolloutState::Completed => self.count(Occurrence::Completed),
                RolloutState::CompletedWithExceptions => self.count(Occurrence::WithExceptions),
                RolloutState::RolledBack => self.count(Occurrence::RolledBack),
                RolloutState::Cancelled => self.count(Occurrence::Cancelled),
                RolloutState::Preparing | RolloutState::Running | RolloutState::RollingBack => {}
                // Counted below: the record shows the next rollout already.
                RolloutState::Superseded => {}
            }
        }
        let superseded = |state: &GroupState| {
            state.history.iter().filter(|line| line.state == RolloutState::Superseded).count()
        };
        if before.map_or(0, superseded) < superseded(now) {
            self.count(Occurrence::Superseded);
        }
        let wave = |state: &GroupState| state.rollout.as_deref().map(|r| (r.id, r.phase, r.wave));
        if let (Some((was, phase, before)), Some((is, now_in, wave))) =
            (before.and_then(wave), wave(now))
            && (was, phase) == (is, now_in)
            && before < wave
        {
            self.count(Occurrence::NextWave);
        }
        if old.map_or(0, |(_, _, failed, _)| failed) < failed {
            self.count(Occurrence::TurnFailed);
        }
        if old.map_or(0, |(.., left_out)| left_out) < left_out {
            self.count(Occurrence::TurnSkipped);
        }
    }

    /// How often it happened.
    pub fn of(&self, what: Occurrence) -> u64 {
        self.counts[what as usize]
    }

    /// Adds what befell another run.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// Everything, in the order of the list.
    pub fn rows(&self) -> impl Iterator<Item = (Occurrence, u64)> + '_ {
        Occurrence::ALL.iter().copied().zip(self.counts)
    }

    /// What never happened in a campaign of so many seeds, if that many seeds should have shown it.
    pub fn missing(&self, seeds: u64) -> Vec<Occurrence> {
        if seeds < SEEDS_THAT_SHOW_ALL {
            return Vec::new();
        }
        self.rows().filter(|(_, count)| *count == 0).map(|(what, _)| what).collect()
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self { counts: [0; Occurrence::ALL.len()] }
    }
}

macro_rules! occurrences {
    ($($name:ident, $words:literal;)+) => {
        /// A fault, or a branch of the protocol that a calm world seldom takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Occurrence {
            $(#[doc = $words] $name,)+
        }

        impl Occurrence {
            /// All of them, faults first.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }

        impl fmt::Display for Occurrence {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $words,)+ })
            }
        }
    };
}

occurrences! {
    NothingArrived, "datagram lost";
    ArrivedTwice, "datagram doubled";
    LinkCut, "link cut one way";
    Partition, "partition";
    DepotLost, "depot out of reach";
    DaemonKilled, "daemon killed";
    KilledAtWrite, "daemon killed at a write";
    WriteLost, "write under way lost";
    WriteKept, "write under way kept";
    WriteFailed, "write refused by the disk";
    FailedWriteStays, "refused write there all the same";
    UnsyncedLost, "refused write gone with the power";
    LastWriteLost, "last write lost by a lying disk";
    LastWriteTorn, "last write torn by a lying disk";
    DaemonRestarted, "daemon restarted in good order";
    DaemonStopped, "daemon stopped for a while";
    MachineSuspended, "machine suspended";
    PowerFailed, "power failed";
    Rebooted, "machine rebooted by a hook";
    ClockStepped, "clock stepped by up to a year";
    JoinedLate, "member joined late";
    MemberLeft, "member left the ring";
    MemberForgotten, "dead member forgotten";
    ForgottenAlive, "living member forgotten";
    AddressChanged, "machine back under a new address";
    AddressRecycled, "machine back under another one's address";
    MemberReturned, "member back that left or was forgotten";
    BuildUpgraded, "build upgraded while a rollout ran";
    BuildDowngraded, "build downgraded while a rollout ran";
    BuildsMet, "message between two builds";
    NextVersionSpoken, "newer version spoken between two newer builds";
    VersionUnknown, "message in a version not spoken after a downgrade";
    MessageSkipped, "message of an unknown kind skipped";
    WrittenInNext, "record written in the newer version";
    WrittenBack, "record written again in the older version";
    ProgramEnded, "program ended by itself";
    LeaderChanged, "another leader";
    TurnFailed, "turn failed";
    TurnSkipped, "turn skipped or absent";
    Paused, "rollout paused";
    RollbackPaused, "rollback paused";
    Completed, "rollout completed";
    WithExceptions, "completed with exceptions";
    RolledBack, "rolled back";
    Cancelled, "cancelled";
    Superseded, "superseded";
    NextWave, "next wave begun";
    InOrder, "rollout begun in the order of labels";
    NextZone, "next zone begun";
    RollAtOnce, "two groups roll at once";
    LeadsTwo, "one host leads two groups";
    LedApart, "two groups led by different hosts";
    TurnElsewhere, "member waits that is in a turn of another group";
    LineagesMet, "two lineages met";
    GaveWay, "one lineage gave way to another";
    Adopted, "lineage adopted";
    Reformed, "group formed anew";
    CommandDone, "command done";
    CommandRefused, "command refused";
    CommandRepeated, "command repeated under its id";
}

/// From so many seeds on everything of the list occurs, with a wide margin.
const SEEDS_THAT_SHOW_ALL: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_campaign_that_never_saw_a_fault_misses_it() {
        let mut tally = Tally::default();
        for what in Occurrence::ALL.iter().filter(|what| **what != Occurrence::WriteLost) {
            tally.count(*what);
        }
        assert_eq!(tally.missing(SEEDS_THAT_SHOW_ALL), [Occurrence::WriteLost]);
        assert_eq!(tally.missing(SEEDS_THAT_SHOW_ALL - 1), []);
        let mut sum = Tally::default();
        sum.count(Occurrence::WriteLost);
        sum.add(&tally);
        assert_eq!(sum.missing(SEEDS_THAT_SHOW_ALL), []);
        assert_eq!(sum.of(Occurrence::WriteLost), 1);
        assert_eq!(sum.rows().map(|(_, count)| count).sum::<u64>(), Occurrence::ALL.len() as u64);
    }
}
