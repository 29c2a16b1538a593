//! Limits of this crate, each with its reason.

use std::time::Duration;

use baton_types::limits::RECORD_MAX_BYTES;

/// Largest encoded [`crate::GroupState`]: the ledger's record less what the ledger itself puts
/// beside it (term, version, voters), with room to spare.
pub const STATE_MAX_BYTES: usize = RECORD_MAX_BYTES - 4 * 1024;

/// Reasons of turns that are kept in full when the record grows too large; a whole group failing
/// for the same reason needs no thousand copies of it.
pub const REASONS_KEPT: usize = 16;

/// Command answers whose sentence is kept when the record grows too large; older repeats are
/// answered with the result alone.
pub const ANSWERS_KEPT: usize = 8;

/// History lines that are kept when the record grows too large.
pub const HISTORY_KEPT: usize = 8;

/// Inputs that one step folds into one record: more than a burst of people and members makes
/// within one commit, few enough that a step stays far below a millisecond.
pub const STEP_INPUTS_MAX: usize = 4_096;

/// Channel entries that are looked at, newest first; an older target counts as still listed.
pub const CHANNEL_ENTRIES_MAX: usize = 1_024;

/// From one repeat of an acknowledged offer to the next; only a displaced member needs it.
pub const RESEND_SLOW: Duration = Duration::from_secs(5);

/// A member in a turn says at least this often where it stands.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// From one "not yet" of `ready` to the next question.
pub const READY_INTERVAL: Duration = Duration::from_secs(2);

/// First wait after an environment fault; doubled each time up to [`BACK_OFF_MAX`].
pub const BACK_OFF_MIN: Duration = Duration::from_millis(500);

/// Longest wait after an environment fault.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Environment faults in a row within one turn before the leader is told to pause.
pub const ENVIRONMENT_TRIES: u32 = 4;
