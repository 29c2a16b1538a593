//! Why an archive, or a directory that should become one, is refused.
//!
//! Invariant: every variant names the entry, what was found and what is allowed; paths are escaped,
//! so a name from an archive cannot move an operator's cursor.

/// One reason to refuse an archive. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveFault {
    /// The zstd stream is damaged, cut short or asks for too much memory.
    #[error("the archive cannot be decompressed: {0}")]
    Compression(String),
    /// Ended inside an entry or before its end mark.
    #[error("the archive is cut short {0}")]
    CutShort(&'static str),
    /// Something after the end.
    #[error("the archive goes on after its end: {0}; nothing is allowed there")]
    Trailing(&'static str),
    /// A header that is none.
    #[error("entry {number} of the archive has a damaged header: {reason}")]
    Header {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        reason: String,
    },
    /// A device, fifo, socket, sparse file or extension.
    #[error("{path:?} is {found}: only files, folders and links are allowed")]
    Kind {
        /// Which entry.
        path: String,
        /// What it is.
        found: String,
    },
    /// A setuid, setgid or sticky bit.
    #[error("{path:?} has the mode {mode:04o}: setuid, setgid and sticky bits are not allowed")]
    Mode {
        /// Which entry.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// A path that is no plain way down from the release's root.
    #[error("the path {path:?} {reason}")]
    Path {
        /// As found.
        path: String,
        /// What is wrong with it and what is allowed.
        reason: String,
    },
    /// Two entries of one name.
    #[error("{0:?} is there twice: each path may be there once")]
    Duplicate(String),
    /// An entry in a folder that the archive did not have before, or below a link or file.
    #[error("{path:?} lies in {parent:?}, which is {found}: expected a folder listed before")]
    Parent {
        /// Which entry.
        path: String,
        /// Where it should be.
        parent: String,
        /// What is there.
        found: &'static str,
    },
    /// A link that leads out of the release, or nowhere.
    #[error("the link {path:?} points at {target:?}, which {reason}")]
    Link {
        /// Which entry.
        path: String,
        /// Where it points.
        target: String,
        /// What is wrong with that.
        reason: &'static str,
    },
    /// A limit of the archive as a whole.
    #[error("the archive has more than {allowed} {what}, which is the most allowed")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The limit.
        allowed: u64,
    },
    /// A compression bomb.
    #[error(
        "the archive unpacks to more than {ratio} times its size of {packed} bytes, which is the \
         most allowed"
    )]
    Ratio {
        /// The limit.
        ratio: u64,
        /// Size of the archive.
        packed: u64,
    },
    /// No manifest where it must be.
    #[error("the first entry is {found:?}: expected the file release.toml")]
    NoManifest {
        /// What is there; empty when there is nothing at all.
        found: String,
    },
    /// A manifest with faults.
    #[error("{0}")]
    Manifest(String),
    /// A manifest of another release.
    #[error("its release.toml names {found}, expected {expected}")]
    OtherRelease {
        /// What it names.
        found: String,
        /// What was asked for.
        expected: String,
    },
}
