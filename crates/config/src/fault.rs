//! What is said about one mistake in one file.

use std::path::PathBuf;

/// A mistake (or, among the warnings, something that defeats itself). No state changed; the
/// writer of the file is at fault.
///
/// Shown as `path:line:column: key: what was found; what is allowed`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {key}: {message}", path.display())]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The full key, for example `ring.probe_period`; `syntax` if the text is no TOML, `file` for
    /// the file as a whole.
    pub key: String,
    /// What was found; what is allowed.
    pub message: String,
}
