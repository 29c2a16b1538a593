//! Every limit of supervision, each with its reason.

use std::time::Duration;

/// First wait before a restart: one crash is over before anybody notices it.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Longest wait before a restart: a cause that went away is noticed within half a minute, and a
/// crash loop costs the machine next to nothing.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Healthy for this long, and the next crash is a new story: the back-off begins anew.
pub const BACKOFF_RESET: Duration = Duration::from_secs(60);

/// From the start of a program to its first health check, and from the first failed check to the
/// next: most programs answer within a fraction of a second, and a rollout waits for it.
pub const FIRST_CHECK: Duration = Duration::from_millis(100);

/// Least time between two checks, whatever the configuration says: an interval of zero would be a
/// busy loop.
pub const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// How long after its timeout a hook, check or launch may stay unanswered by the shell that
/// enforces the timeout. Then it counts as timed out, so that a lost answer stops nothing for ever.
pub const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// A check that comes later than this, and than its interval, was not late because the machine had much
/// to do: daemon or machine stood still.
pub const LATE_MIN: Duration = Duration::from_secs(1);

/// A launch is a fork and an exec; what takes longer hangs in the file system.
pub const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);

/// From one request to stop to its repeat, after the stop timeout: a program that survives
/// SIGKILL waits for the kernel (a dead disk), and nothing but asking again helps.
pub const HALT_REPEAT: Duration = Duration::from_secs(10);

/// An adopted program without a health check counts as healthy after this: it ran before, so a
/// moment is enough to see that it is not just ending.
pub const ADOPTED_HEALTHY_AFTER: Duration = Duration::from_secs(1);

/// Changes of the health text alone are announced at most this often, as the whole ring hears them.
pub const TEXT_ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

/// An adopted program of unknown exit status that ends within this had ended before it was adopted.
pub const ADOPTED_RECENTLY: Duration = Duration::from_secs(1);

/// Largest file of a configuration revision after expansion: four times what a revision may hold.
pub const RENDERED_MAX_BYTES: usize = 1024 * 1024;

/// Longest word of a command after expansion: the kernel's MAX_ARG_STRLEN, above which exec fails.
pub const EXPANDED_MAX_BYTES: usize = 128 * 1024 - 1;
