//! A signed text in one file: minisign's four lines, then the content.
//!
//! Invariant: content comes out only after its signature was verified. One file rather than two, so
//! that a reader can never meet a new content beside an old signature.

use crate::error::DepotError;
use crate::keys::{SigningKey, TrustedKeys};

/// Signs `content`; `comment` says in the signature what it is.
pub(crate) fn seal(content: &str, comment: &str, key: &SigningKey) -> Result<Vec<u8>, DepotError> {
    let signature = key.sign(content.as_bytes(), comment)?;
    Ok(format!("{}\n{content}", signature.trim_end()).into_bytes())
}

/// The content of `sealed`, if a trusted key signed it. `what` names it in errors.
pub(crate) fn open<'a>(
    sealed: &'a [u8],
    trusted: &TrustedKeys,
    what: &str,
) -> Result<&'a str, DepotError> {
    let fault = |reason| DepotError::Signature { what: what.to_owned(), reason };
    let (signature, content) = split(sealed).map_err(fault)?;
    trusted.verify(content.as_bytes(), signature).map_err(fault)?;
    Ok(content)
}

/// The content of `sealed` without a look at its signature: for listings only.
pub(crate) fn peek<'a>(sealed: &'a [u8], what: &str) -> Result<&'a str, DepotError> {
    let fault = |reason| DepotError::Signature { what: what.to_owned(), reason };
    split(sealed).map(|(_, content)| content).map_err(fault)
}

fn split(sealed: &[u8]) -> Result<(&str, &str), String> {
    let text = std::str::from_utf8(sealed).map_err(|_| "not text".to_owned())?;
    let end =
        text.match_indices('\n').nth(SIGNATURE_LINES - 1).map(|(at, _)| at + 1).ok_or_else(
            || "cut short: expected a signature of four lines, then content".to_owned(),
        )?;
    Ok(text.split_at(end))
}

const SIGNATURE_LINES: usize = 4;
