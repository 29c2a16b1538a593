//! Configuration revisions in a depot: `configs/SERVICE.GROUP/DIGEST.KEY.signed`.
//!
//! Invariant: the signed text of a revision follows from its content and its group alone, so that the
//! same revision has the same digest whoever signs it; a revision never changes, one of a group is
//! none of another, and nobody's key can put something in the place of what another key signed.

use std::path::Path;

use baton_types::{Digest, GroupName, Revision, Text};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::depot::{CONFIGS_PATH, Depot, ENTRY_SUFFIX};
use crate::durable;
use crate::entry::check_kind;
use crate::error::DepotError;
use crate::keys::{SigningKey, TrustedKeys};
use crate::limits::REVISION_FILE_MAX_BYTES;
use crate::publish::{PublishOutcome, WriteLock};
use crate::signed;

/// What is signed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Tells it from what else the same key signs.
    kind: String,
    format: u32,
    group: GroupName,
    content: Revision,
}

/// Signs a revision of `group`: what a depot keeps of it, and what may be handed to a daemon.
///
/// # Errors
///
/// A revision that is not within its limits.
pub fn seal_revision(
    group: &GroupName,
    revision: &Revision,
    key: &SigningKey,
) -> Result<(Digest, Vec<u8>), DepotError> {
    let text = text_of(group, revision)?;
    let digest = digest_of(&text);
    Ok((digest, signed::seal(&text, &what(group, &digest), key)?))
}

impl Depot {
    /// Signs a revision of `group` and adds it to the depot; no group is told. Returns its digest and
    /// whether anything was written.
    ///
    /// # Errors
    ///
    /// A revision that is not within its limits, an `https://` depot, or a file that cannot be
    /// written.
    pub fn add_revision(
        &self,
        group: &GroupName,
        revision: &Revision,
        key: &SigningKey,
    ) -> Result<(Digest, PublishOutcome), DepotError> {
        let root = self.folder()?;
        self.identity()?;
        let text = text_of(group, revision)?;
        let digest = digest_of(&text);
        let path = root.join(revision_path(group, &digest, key.mark()));
        let _lock = WriteLock::take(&root)?;
        let outcome = match durable::read(&path, REVISION_FILE_MAX_BYTES) {
            Ok(Some(there)) if open(&there, key.accepts(), group, &digest).is_ok() => {
                return Ok((digest, PublishOutcome::Unchanged));
            }
            Ok(None) => PublishOutcome::New,
            Err(fault) if fault.is_environment() => return Err(fault),
            // Damaged, or grown beyond what is read.
            Ok(Some(_)) | Err(_) => PublishOutcome::Restored,
        };
        let sealed = signed::seal(&text, &what(group, &digest), key)?;
        durable::create_folder(path.parent().unwrap_or(Path::new(".")))?;
        durable::write(&path, &sealed)?;
        Ok((digest, outcome))
    }

    /// A revision as one of the `trusted` keys signed it, with its signed text.
    pub(crate) fn revision(
        &self,
        trusted: &TrustedKeys,
        group: &GroupName,
        digest: &Digest,
    ) -> Result<(Revision, Vec<u8>), DepotError> {
        let mut refusal = None;
        for mark in trusted.marks() {
            let path = revision_path(group, digest, mark);
            let Some(sealed) = self.read(&path, REVISION_FILE_MAX_BYTES)? else { continue };
            match open(&sealed, trusted, group, digest) {
                Ok(revision) => return Ok((revision, sealed)),
                Err(fault) => refusal = Some(fault),
            }
        }
        if let Some(fault) = refusal {
            return Err(fault);
        }
        // A depot that is not mounted has no revision either, but that passes.
        self.identity()?;
        let (what, url) = (what(group, digest), self.url().to_string());
        Err(DepotError::NoRevision { what, url, keys: trusted.files() })
    }
}

/// The revision in `sealed`, which must be signed by a trusted key and be `digest` of `group`.
pub(crate) fn open(
    sealed: &[u8],
    trusted: &TrustedKeys,
    group: &GroupName,
    digest: &Digest,
) -> Result<Revision, DepotError> {
    let what = what(group, digest);
    parse(signed::open(sealed, trusted, &what)?, group, digest, &what)
}

/// The revision of `group` in `sealed`, whichever it is, which must be signed by a trusted key, with its
/// digest.
pub(crate) fn open_any(
    sealed: &[u8],
    trusted: &TrustedKeys,
    group: &GroupName,
) -> Result<(Digest, Revision), DepotError> {
    let any = format!("configuration revision of {group}");
    let digest = digest_of(signed::open(sealed, trusted, &any)?);
    open(sealed, trusted, group, &digest).map(|revision| (digest, revision))
}

/// As [`open`], whoever signed it: for a copy that was verified when it was made.
pub(crate) fn peek(
    sealed: &[u8],
    group: &GroupName,
    digest: &Digest,
) -> Result<Revision, DepotError> {
    let what = what(group, digest);
    parse(signed::peek(sealed, &what)?, group, digest, &what)
}

fn parse(
    text: &str,
    group: &GroupName,
    digest: &Digest,
    what: &str,
) -> Result<Revision, DepotError> {
    let fault = |reason: String| DepotError::Format { what: what.to_owned(), reason };
    let found = digest_of(text);
    if found != *digest {
        return Err(DepotError::Digest { release: what.to_owned(), found, expected: *digest });
    }
    let document: Document = serde_json::from_str(text)
        .map_err(|e| fault(format!("is not readable: {}", Text::new(&e.to_string()))))?;
    check_kind(&document.kind, KIND, document.format, FORMAT).map_err(fault)?;
    if document.group != *group {
        return Err(fault(format!("its signature is that of a revision of {}", document.group)));
    }
    document.content.check().map_err(|e| fault(e.to_string()))?;
    Ok(document.content)
}

/// The one text of a revision: keys in their order, nothing of the machine or the moment.
fn text_of(group: &GroupName, revision: &Revision) -> Result<String, DepotError> {
    let what = format!("configuration revision of {group}");
    let fault = |reason: String| DepotError::Format { what: what.clone(), reason };
    revision.check().map_err(|e| fault(e.to_string()))?;
    let document = Document {
        kind: KIND.to_owned(),
        format: FORMAT,
        group: group.clone(),
        content: revision.clone(),
    };
    let text = serde_json::to_string_pretty(&document).map_err(|e| fault(e.to_string()))?;
    Ok(text + "\n")
}

fn digest_of(text: &str) -> Digest {
    Digest(Sha256::digest(text.as_bytes()).into())
}

fn what(group: &GroupName, digest: &Digest) -> String {
    format!("configuration revision {digest} of {group}")
}

fn revision_path(group: &GroupName, digest: &Digest, mark: &str) -> String {
    format!("{CONFIGS_PATH}/{group}/{digest}.{mark}{ENTRY_SUFFIX}")
}

const KIND: &str = "baton config";
const FORMAT: u32 = 1;
