//! What goes in: the text of files that somebody else has read, and facts about the machine.

use std::path::PathBuf;

/// One configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it was read from; shown in every fault, never opened.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// The file at `path` with this `text`.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// What the machine knows about itself and the configuration may leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host name, the default of `node.name`.
    pub name: String,
}
