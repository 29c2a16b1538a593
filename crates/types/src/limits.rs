//! Every limit on a value that is shared between crates, each with its reason.

/// Longest node, service, group, release or channel name. Fits a file name, a unit name and a
/// journal column with room for the rest.
pub const NAME_MAX_BYTES: usize = 64;

/// Longest version text. Semantic versions with build metadata fit; a path does not.
pub const VERSION_MAX_BYTES: usize = 64;

/// Longest line of program or hook output that is kept as a reason. Small enough that the
/// reasons of a whole group fit a ledger record, long enough for a compiler-style message.
pub const TEXT_MAX_BYTES: usize = 240;

/// Largest encoded ledger record: one round trip on any link, and 1,000 members fit.
pub const RECORD_MAX_BYTES: usize = 64 * 1024;

/// Members of one group. Above it a record would no longer fit its limit.
pub const GROUP_MAX_MEMBERS: usize = 1_024;

/// Members of one ring; more invented ones are refused rather than remembered.
pub const RING_MAX_MEMBERS: usize = 4_096;

/// Facts that one node may own: a dozen kinds for each of its services.
pub const NODE_MAX_FACTS: usize = 256;

/// Largest value of one fact. Larger things do not belong into gossip.
pub const FACT_MAX_BYTES: usize = 4 * 1024;

/// Longest fact key.
pub const FACT_KEY_MAX_BYTES: usize = 160;

/// Services of one node.
pub const NODE_MAX_SERVICES: usize = 64;

/// Ids of the last commands with their results: repeats arrive within seconds, so this covers any
/// burst that people type.
pub const COMMANDS_REMEMBERED: usize = 64;

/// Ended rollouts that the ledger lists.
pub const HISTORY_MAX: usize = 32;

/// Rejected targets that the ledger lists; the oldest gives way.
pub const REJECTED_MAX: usize = 32;

/// Completed targets that can be named by `rollback --to`.
pub const BASELINES_MAX: usize = 16;

/// Configuration revisions whose numbers the ledger remembers; the oldest gives way.
pub const REVISIONS_MAX: usize = 32;

/// Names, values and contents of one configuration revision together. It is read whole, kept in
/// memory by every member and written at each start; larger things belong into a release.
pub const REVISION_MAX_BYTES: usize = 256 * 1024;

/// Files of one configuration revision.
pub const REVISION_FILES_MAX: usize = 64;

/// Variables of one configuration revision, as many as a service file may set.
pub const REVISION_ENV_MAX: usize = 256;

/// Longest name of a file or variable in a configuration revision: with the folder before it, it
/// stays far below the kernel's longest path.
pub const REVISION_NAME_MAX_BYTES: usize = 128;

/// Voters of a group by default: survives three losses, and a commit waits for the fastest four.
pub const VOTER_LIMIT: usize = 7;

/// Arguments of one command in a release.
pub const ARGV_MAX: usize = 64;

/// Longest argument in a release's command.
pub const ARGUMENT_MAX_BYTES: usize = 4 * 1024;

/// Boots of one machine within one turn; a fourth means that the release breaks boot.
pub const TURN_MAX_BOOTS: u8 = 3;
