//! Every limit of this crate, each with its reason.

use std::time::Duration;

/// Largest durable file that the runner reads back: a record is argv and a few words.
pub const RECORD_MAX_BYTES: usize = 1024 * 1024;

/// A program's log file is emptied when it is longer than this, so that a flood cannot fill the
/// disk.
pub const LOG_CAP_BYTES: u64 = 4 * 1024 * 1024;

/// Output that is looked at per service and look: at [`LOOK_PERIOD`] this is 50 MiB/s, above
/// which output is skipped instead of starving the daemon.
pub const LOOK_MAX_BYTES: usize = 1024 * 1024;

/// Output that is looked at over all services in one look, shared evenly.
pub const LOOK_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// Between two looks at a program that writes without a pause.
pub const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Between two looks when the kernel cannot tell us that something was written.
pub const LOOK_PERIOD_BLIND: Duration = Duration::from_millis(250);

/// Longest line that is relayed; the journal and a terminal show more only with trouble.
pub const LINE_MAX_BYTES: usize = 2 * 1024;

/// Lines that a program may print in one go before lines are left out.
pub const LINE_BURST: u32 = 1_000;

/// Lines per second that a program may print for ever; what journald grants a service.
pub const LINES_PER_SECOND: u32 = 333;

/// Output kept for `last_lines` when the log file is emptied.
pub const TAIL_BYTES: usize = 16 * 1024;

/// Rounds of look-and-kill until a family is given up as unkillable: with the pause between two
/// rounds this is ten seconds, and only a process that hangs in the kernel lives that long.
pub const KILL_ROUNDS: u32 = 1_000;

/// Pause between two rounds of killing.
pub const KILL_PAUSE: Duration = Duration::from_millis(10);

/// From SIGKILL to the verdict that a process cannot be killed.
pub const KILL_DEADLINE: Duration = Duration::from_secs(15);

/// What a hook may print at full speed; after it, it is read at [`ONCE_PACE`] a chunk.
pub const ONCE_FREE_BYTES: usize = 1024 * 1024;

/// Read in one go from a hook.
pub const ONCE_CHUNK_BYTES: usize = 64 * 1024;

/// Pause after each chunk of a hook that prints without end: 64 MiB/s at most.
pub const ONCE_PACE: Duration = Duration::from_millis(1);

/// Longest answer of a health check that is read.
pub const CHECK_MAX_BYTES: usize = 16 * 1024;

/// Longest notify datagram; the sd_notify protocol needs a few hundred bytes.
pub const NOTIFY_MAX_BYTES: usize = 4 * 1024;

/// Notify datagrams of one service handled before other work gets its turn.
pub const NOTIFY_BATCH: usize = 32;

/// Largest environ, stat or children file that is read from /proc: environ may be long, and the
/// marker is looked for in this much of it.
pub const PROC_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Largest /etc/passwd or /etc/group.
pub const USER_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Supplementary groups of a user: NGROUPS_MAX of Linux.
pub const USER_MAX_GROUPS: usize = 65_536;

/// Damaged files that are kept beside each other; the next one takes the place of the last.
pub const DAMAGED_MAX: u32 = 100;

/// How long the lock of a data directory is tried for: a child between fork and exec of a
/// daemon that just ended holds it for a moment.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(500);
