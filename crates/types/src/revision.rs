//! A configuration revision: environment and files that a group's program sees beside its release.
//!
//! Invariant: a [`Revision`] is within its limits and its names lead nowhere outside of the folder
//! that is made for it, whoever wrote it: [`Revision::check`] is asked again wherever one comes in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{
    REVISION_ENV_MAX, REVISION_FILES_MAX, REVISION_MAX_BYTES, REVISION_NAME_MAX_BYTES,
};

/// What a revision holds. Its files are texts in which `${NAME}` stands for a variable of the
/// program's environment and `$$` for a dollar sign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Variables, set over those of the service file.
    pub env: BTreeMap<String, String>,
    /// Files by name, relative to `BATON_CONFIG_DIR`.
    pub files: BTreeMap<String, RevisionFile>,
}

/// One file of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevisionFile {
    /// Its text, before names are expanded.
    pub content: String,
    /// Its mode; only bits of [`REVISION_MODE_MASK`].
    pub mode: u32,
}

/// Why something is no revision. No state changed; its writer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// Neither a variable nor a file.
    #[error("found neither a variable nor a file; at least one of them is needed")]
    Empty,
    /// Too many variables or files.
    #[error("found {found} {what}; at most {allowed} are allowed")]
    TooMany {
        /// `variables` or `files`.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many may be.
        allowed: usize,
    },
    /// All of it together.
    #[error("found {0} bytes in all; at most {REVISION_MAX_BYTES} are allowed")]
    TooLarge(usize),
    /// A name that the environment cannot or may not have.
    #[error(
        "found the variable {0:?}; a letter or '_' first, then letters, digits, '_' is allowed, and \
         no name that begins with BATON_ or is NOTIFY_SOCKET: those are set by baton itself"
    )]
    Variable(String),
    /// A value or content that a program cannot be given.
    #[error("found a zero byte in {0}; none is allowed")]
    ZeroByte(String),
    /// A name that is no relative path of plain parts.
    #[error(
        "found the file name {0:?}; a relative path of at most {REVISION_NAME_MAX_BYTES} bytes is \
         allowed, its parts of letters, digits, '.', '-', '_', '+', '@', none of them \".\" or \"..\" \
         or beginning with \".draft-\""
    )]
    FileName(String),
    /// A name that is a folder of another name.
    #[error("found the file {0:?} and another one below it; a name is a file or a folder")]
    FileAndFolder(String),
    /// More than permission bits of owner, group and others.
    #[error("found the mode {0:#o}; 0400 to 0777 with a readable owner is allowed")]
    Mode(u32),
    /// `${` without a name and `}`.
    #[error(
        "found in line {line} a \"${{\" that is not followed by a name (A-Z, a-z, 0-9, _) and \"}}\"; \
         \"$${{\" is allowed for one that is meant as it stands"
    )]
    Template {
        /// Counted from 1.
        line: usize,
    },
}

impl Revision {
    /// Whether it is within its limits.
    ///
    /// # Errors
    ///
    /// The first thing that is not.
    pub fn check(&self) -> Result<(), RevisionError> {
        let too_many = |what, found, allowed| RevisionError::TooMany { what, found, allowed };
        if self.env.is_empty() && self.files.is_empty() {
            return Err(RevisionError::Empty);
        }
        if self.env.len() > REVISION_ENV_MAX {
            return Err(too_many("variables", self.env.len(), REVISION_ENV_MAX));
        }
        if self.files.len() > REVISION_FILES_MAX {
            return Err(too_many("files", self.files.len(), REVISION_FILES_MAX));
        }
        let size = self.size_bytes();
        if size > REVISION_MAX_BYTES {
            return Err(RevisionError::TooLarge(size));
        }
        for (name, value) in &self.env {
            check_variable(name)?;
            if value.contains('\0') {
                return Err(RevisionError::ZeroByte(name.clone()));
            }
        }
        for (name, file) in &self.files {
            check_file_name(name)?;
            file.check(name)?;
        }
        self.check_folders()
    }

    /// Names, values and contents together.
    pub fn size_bytes(&self) -> usize {
        let env = self.env.iter().map(|(name, value)| name.len() + value.len());
        let files = self.files.iter().map(|(name, file)| name.len() + file.content.len());
        env.chain(files).fold(0, usize::saturating_add)
    }

    fn check_folders(&self) -> Result<(), RevisionError> {
        for name in self.files.keys() {
            let mut rest = name.as_str();
            while let Some((folder, _)) = rest.rsplit_once('/') {
                if self.files.contains_key(folder) {
                    return Err(RevisionError::FileAndFolder(folder.to_owned()));
                }
                rest = folder;
            }
        }
        Ok(())
    }
}

impl RevisionFile {
    /// Whether content and mode are allowed; `name` is for the message.
    ///
    /// # Errors
    ///
    /// What is not.
    pub fn check(&self, name: &str) -> Result<(), RevisionError> {
        if self.content.contains('\0') {
            return Err(RevisionError::ZeroByte(name.to_owned()));
        }
        if self.mode & !REVISION_MODE_MASK != 0 || self.mode & 0o400 == 0 {
            return Err(RevisionError::Mode(self.mode));
        }
        pieces(&self.content).try_for_each(|piece| piece.map(drop))
    }
}

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Taken as it stands.
    Plain(&'a str),
    /// A variable, and the line in which it is named, counted from 1.
    Name(&'a str, usize),
}

/// The parts of a template in their order: `${NAME}` is a name, `$$` a dollar sign, and any other
/// `$` is one too.
pub fn pieces(text: &str) -> impl Iterator<Item = Result<Piece<'_>, RevisionError>> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let piece = match rest.find('$') {
            None => Ok((Piece::Plain(rest), rest.len())),
            Some(0) => special(rest, line),
            Some(at) => Ok((Piece::Plain(&rest[..at]), at)),
        };
        match piece {
            Ok((piece, length)) => {
                line += rest[..length].matches('\n').count();
                rest = &rest[length..];
                Some(Ok(piece))
            }
            Err(error) => {
                rest = "";
                Some(Err(error))
            }
        }
    })
}

/// What a text that begins with `$` begins with, and how long that is.
fn special(text: &str, line: usize) -> Result<(Piece<'_>, usize), RevisionError> {
    if text.starts_with("$$") {
        return Ok((Piece::Plain("$"), 2));
    }
    let Some(behind) = text.strip_prefix("${") else {
        return Ok((Piece::Plain("$"), 1));
    };
    let name = behind.split('}').next().filter(|name| name.len() < behind.len());
    let plain = |name: &&str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match name.filter(plain) {
        Some(name) => Ok((Piece::Name(name, line), name.len() + 3)),
        None => Err(RevisionError::Template { line }),
    }
}

/// Whether a revision may set the variable `name`.
///
/// # Errors
///
/// See [`RevisionError::Variable`].
pub fn check_variable(name: &str) -> Result<(), RevisionError> {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.len() <= REVISION_NAME_MAX_BYTES;
    if plain && !name.starts_with("BATON_") && name != "NOTIFY_SOCKET" {
        Ok(())
    } else {
        Err(RevisionError::Variable(name.chars().take(SHOWN_MAX_CHARS).collect()))
    }
}

/// Whether a revision may have a file called `name`.
///
/// # Errors
///
/// See [`RevisionError::FileName`].
pub fn check_file_name(name: &str) -> Result<(), RevisionError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_+@".contains(c);
    let part = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.starts_with(".draft-")
            && part.chars().all(fits)
    };
    if name.len() <= REVISION_NAME_MAX_BYTES && name.split('/').all(part) {
        Ok(())
    } else {
        Err(RevisionError::FileName(name.chars().take(SHOWN_MAX_CHARS).collect()))
    }
}

/// The bits that a file's mode may have. No program of a release comes from a revision, but a
/// script that is only configuration may.
pub const REVISION_MODE_MASK: u32 = 0o777;

/// The mode of a file that names none: its program may read it, others may not.
pub const REVISION_MODE_DEFAULT: u32 = 0o640;

/// Enough of a wrong name to recognise it, however long it is.
const SHOWN_MAX_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> RevisionFile {
        RevisionFile { content: content.to_owned(), mode: REVISION_MODE_DEFAULT }
    }

    fn revision(env: &[(&str, &str)], files: &[(&str, &str)]) -> Revision {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), file(content)));
        Revision { env: env.collect(), files: files.collect() }
    }

    #[test]
    fn what_is_within_its_limits_passes_and_the_rest_says_why() {
        let big = "x".repeat(REVISION_MAX_BYTES);
        for (env, files, want) in [
            (&[("A", "1")][..], &[][..], ""),
            (&[], &[("redis.conf", "port ${PORT}\nrate 5$ $$ $x\n")], ""),
            (&[], &[("conf.d/a+b@c_1.conf", "")], ""),
            (&[], &[], "neither a variable nor a file"),
            (&[("1A", "")], &[], "the variable \"1A\""),
            (&[("BATON_NODE", "")], &[], "begins with BATON_"),
            (&[("NOTIFY_SOCKET", "")], &[], "NOTIFY_SOCKET"),
            (&[("A", "a\0b")], &[], "a zero byte in A"),
            (&[], &[("../a", "")], "the file name \"../a\""),
            (&[], &[("/a", "")], "the file name \"/a\""),
            (&[], &[("a//b", "")], "the file name"),
            (&[], &[("a b", "")], "the file name"),
            (&[], &[(".draft-x", "")], "the file name"),
            (&[], &[("a", ""), ("a/b/c", "")], "the file \"a\" and another one below it"),
            (&[], &[("a", "\n\n${")], "in line 3 a \"${\""),
            (&[], &[("a", "${A-B}")], "in line 1"),
            (&[], &[("a", big.as_str())], "bytes in all; at most 262144"),
        ] {
            let found = revision(env, files).check().map_err(|error| error.to_string());
            match want {
                "" => assert_eq!(found, Ok(()), "{env:?} {files:?}"),
                want => {
                    let why = found.expect_err(want);
                    assert!(why.contains(want), "{want}: {why}");
                }
            }
        }
        let mut wrong = revision(&[], &[("a", "")]);
        for mode in [0o1640, 0o040, 0] {
            wrong.files.insert("a".to_owned(), RevisionFile { content: String::new(), mode });
            assert_eq!(wrong.check(), Err(RevisionError::Mode(mode)));
        }
    }

    #[test]
    fn a_template_falls_into_its_pieces() {
        let all: Result<Vec<_>, _> = pieces("a$$b\n${X}$c$").collect();
        let want = [
            Piece::Plain("a"),
            Piece::Plain("$"),
            Piece::Plain("b\n"),
            Piece::Name("X", 2),
            Piece::Plain("$"),
            Piece::Plain("c"),
            Piece::Plain("$"),
        ];
        assert_eq!(all.expect("a template"), want);
        assert_eq!(pieces("$${X}").collect::<Vec<_>>().len(), 2, "an escaped one is no name");
        assert_eq!(pieces("").count(), 0);
    }
}
