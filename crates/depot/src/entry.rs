//! A release's signed entry: the one statement that ties name, version, digest and size together.
//!
//! Invariant: an entry never changes once it is published, and it outlives its archive, so that a
//! version can never come back with other content.

use baton_types::{Digest, Name, Release, ReleaseId, Text, Version};
use serde::{Deserialize, Serialize};

use crate::error::DepotError;
use crate::keys::{SigningKey, TrustedKeys};
use crate::limits::ARCHIVE_MAX_BYTES;
use crate::signed;

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseEntry {
    /// Tells it from an index, which the same key signs.
    kind: String,
    format: u32,
    name: Name,
    version: Version,
    /// SHA-256 of the archive.
    pub(crate) sha256: Digest,
    /// Size of the archive in bytes.
    pub(crate) size: u64,
}

impl ReleaseEntry {
    pub(crate) fn new(id: &ReleaseId, sha256: Digest, size: u64) -> Self {
        Self {
            kind: KIND.to_owned(),
            format: FORMAT,
            name: id.name.clone(),
            version: id.version.clone(),
            sha256,
            size,
        }
    }

    pub(crate) fn id(&self) -> ReleaseId {
        ReleaseId { name: self.name.clone(), version: self.version.clone() }
    }

    pub(crate) fn release(&self) -> Release {
        Release { id: self.id(), digest: self.sha256 }
    }

    pub(crate) fn seal(&self, key: &SigningKey) -> Result<Vec<u8>, DepotError> {
        let what = format!("release {}", self.id());
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| DepotError::Format { what: what.clone(), reason: e.to_string() })?;
        signed::seal(&(text + "\n"), &what, key)
    }

    /// The entry in `sealed`, which must be signed by a trusted key and be that of `id`.
    pub(crate) fn open(
        sealed: &[u8],
        trusted: &TrustedKeys,
        id: &ReleaseId,
    ) -> Result<Self, DepotError> {
        let what = format!("release {id}");
        Self::parse(signed::open(sealed, trusted, &what)?, id, &what)
    }

    /// As [`Self::open`], whoever signed it. For listings only.
    pub(crate) fn peek(sealed: &[u8], id: &ReleaseId) -> Result<Self, DepotError> {
        let what = format!("release {id}");
        Self::parse(signed::peek(sealed, &what)?, id, &what)
    }

    fn parse(text: &str, id: &ReleaseId, what: &str) -> Result<Self, DepotError> {
        let fault = |reason: String| DepotError::Format { what: what.to_owned(), reason };
        let entry: Self = serde_json::from_str(text).map_err(|e| {
            fault(format!("its entry is not readable: {}", Text::new(&e.to_string())))
        })?;
        check_kind(&entry.kind, KIND, entry.format, FORMAT).map_err(fault)?;
        if entry.id() != *id {
            return Err(fault(format!("its signature is that of the release {}", entry.id())));
        }
        if entry.size > ARCHIVE_MAX_BYTES {
            let found = entry.size;
            return Err(fault(format!(
                "an archive of {found} bytes: at most {ARCHIVE_MAX_BYTES} are allowed"
            )));
        }
        Ok(entry)
    }
}

/// Refuses a signed text of another kind, or of a format that this version does not know.
pub(crate) fn check_kind(
    kind: &str,
    expected_kind: &str,
    format: u32,
    expected_format: u32,
) -> Result<(), String> {
    if kind != expected_kind {
        return Err(format!("found a signed {kind:?}, expected a {expected_kind:?}"));
    }
    if format != expected_format {
        return Err(format!("has the format {format}: this version reads {expected_format}"));
    }
    Ok(())
}

const KIND: &str = "baton release";
const FORMAT: u32 = 1;
