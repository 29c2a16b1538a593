//! Every limit of a depot, each with its reason.
//!
//! Invariant: nothing that a depot sends is held in memory or written to disk without one of these.

use std::time::Duration;

/// Largest archive. A database engine with its plugins stays far below; a node's disk must hold a
/// few of them beside the data.
pub const ARCHIVE_MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Largest `release.toml`. Six hooks with 64 long arguments each fit.
pub const MANIFEST_MAX_BYTES: u64 = 256 * 1024;

/// Largest channel index, signature included. It is read at every poll, and holds
/// [`INDEX_MAX_ENTRIES`] entries of ordinary length.
pub const INDEX_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Entries of all channels of a depot together. Above it, old ones have to be demoted: nobody
/// promotes them again.
pub const INDEX_MAX_ENTRIES: usize = 10_000;

/// Largest signed configuration revision: its text with every character escaped that may have to be,
/// and a signature.
pub const REVISION_FILE_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// Largest signed release entry: a name, a version, a digest, a size and a signature.
pub const ENTRY_MAX_BYTES: u64 = 16 * 1024;

/// Largest `depot.json`.
pub const IDENTITY_MAX_BYTES: u64 = 4 * 1024;

/// Largest key file: a comment line and a line of Base64.
pub const KEY_FILE_MAX_BYTES: u64 = 4 * 1024;

/// Trusted keys of one service: every operator and a few retired ones.
pub const TRUSTED_KEYS_MAX: usize = 64;

/// Releases that `list` and `verify` look at in one depot; a folder with more is no depot's.
pub const LISTED_RELEASES_MAX: usize = 100_000;

/// How long one operator waits for another one's promotion. It takes milliseconds; a holder that
/// needs longer is stopped or its disk is.
pub const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Pause between two looks at a held lock: short for a person, long for a disk.
pub const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Buffer of every copy. Larger ones bring no speed, smaller ones cost system calls.
pub const COPY_BUFFER_BYTES: usize = 128 * 1024;

/// zstd level of `publish`. Level 9 costs seconds once and saves every node's network; its window
/// stays within [`ZSTD_WINDOW_LOG_MAX`].
pub const ZSTD_LEVEL: i32 = 9;

/// Largest zstd window, as a power of two: 8 MiB of memory while a release is unpacked. The frame's
/// own header could ask for gigabytes.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Symbolic links followed to find what one points at; the kernel gives up after as many.
pub const LINK_HOPS_MAX: usize = 40;

/// Until a connection to an `https://` depot stands, name lookup included.
pub const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Until the answer to a request begins, and between two parts of it. A server that is silent for
/// longer is treated as unreachable and asked again at the next poll.
pub const HTTP_SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// One whole download. [`ARCHIVE_MAX_BYTES`] at 20 Mbit/s; it bounds a server that drips.
pub const HTTP_TOTAL_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// One whole small file: index or entry. It is read at every poll, which a server that drips must not
/// hold up for long.
pub const HTTP_SMALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Redirects of one request. Object stores need one or two.
pub const HTTP_REDIRECTS_MAX: u32 = 4;

/// What an archive may contain. A value rather than constants, so that tests can reach every limit
/// in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveLimits {
    /// Files, folders and links.
    pub(crate) entries_max: usize,
    /// Folders within each other.
    pub(crate) depth_max: usize,
    /// One path from the release's root, in bytes.
    pub(crate) path_max_bytes: usize,
    /// All paths and link targets together, in bytes.
    pub(crate) names_max_bytes: usize,
    /// The unpacked archive.
    pub(crate) unpacked_max_bytes: u64,
    /// Unpacked bytes for each packed one.
    pub(crate) ratio_max: u64,
    /// Unpacked bytes that need no ratio.
    pub(crate) ratio_free_bytes: u64,
}

/// What archives are held to.
pub(crate) const ARCHIVE_LIMITS: ArchiveLimits = ArchiveLimits {
    // A Python or Node program with all its dependencies has some ten thousand files.
    entries_max: 100_000,
    // Deeper trees are loops; each level costs a system call when a file is opened.
    depth_max: 32,
    // A quarter of the kernel's PATH_MAX, so that the path fits wherever the data folder is.
    path_max_bytes: 1_024,
    // The tree is held in memory while it is checked: 160 bytes for each of the entries.
    names_max_bytes: 16 * 1024 * 1024,
    // Four times the largest archive: programs compress to a third or a quarter.
    unpacked_max_bytes: 16 * 1024 * 1024 * 1024,
    // Program code compresses to a third, text to a tenth; a bomb is a thousand and more.
    ratio_max: 200,
    // A few empty pages or a zero-filled table may compress to nothing without being a bomb.
    ratio_free_bytes: 64 * 1024 * 1024,
};

/// Longest part of a path between two slashes: the file system's NAME_MAX.
pub(crate) const COMPONENT_MAX_BYTES: usize = 255;
