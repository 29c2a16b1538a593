//! The key under which a node publishes one fact to the ring.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::FACT_KEY_MAX_BYTES;

/// Why a text is no fact key. No state changed; the giver of the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactKeyError {
    /// Nothing there.
    #[error(
        "a fact key is empty: 1 to {FACT_KEY_MAX_BYTES} printable ASCII characters are allowed"
    )]
    Empty,
    /// Longer than [`FACT_KEY_MAX_BYTES`].
    #[error("a fact key has {0} bytes: at most {FACT_KEY_MAX_BYTES} are allowed")]
    TooLong(usize),
    /// Not printable ASCII, or a space.
    #[error("a fact key has {found:?} at position {at}: printable ASCII without spaces is allowed")]
    Character {
        /// The first offending character.
        found: char,
        /// Its position, counted from 1 in characters.
        at: usize,
    },
}

/// What a fact is about, for example `service/redis.default`: 1 to [`FACT_KEY_MAX_BYTES`]
/// printable ASCII characters without spaces.
///
/// The ring relays kinds of facts that it does not know, so a key says nothing about the value's
/// form to the ring itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FactKey(String);

impl FactKey {
    /// Checks `text`; see [`FactKeyError`] for what is refused.
    pub fn new(text: impl Into<String>) -> Result<Self, FactKeyError> {
        let text = text.into();
        if text.is_empty() {
            return Err(FactKeyError::Empty);
        }
        if text.len() > FACT_KEY_MAX_BYTES {
            return Err(FactKeyError::TooLong(text.len()));
        }
        match text.chars().enumerate().find(|(_, c)| !c.is_ascii_graphic()) {
            Some((at, found)) => Err(FactKeyError::Character { found, at: at + 1 }),
            None => Ok(Self(text)),
        }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FactKey {
    type Error = FactKeyError;

    fn try_from(text: String) -> Result<Self, FactKeyError> {
        Self::new(text)
    }
}

impl From<FactKey> for String {
    fn from(key: FactKey) -> Self {
        key.0
    }
}

impl FromStr for FactKey {
    type Err = FactKeyError;

    fn from_str(text: &str) -> Result<Self, FactKeyError> {
        Self::new(text)
    }
}

impl fmt::Display for FactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for FactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_keys_within_bounds_pass_and_others_say_why() {
        for good in ["a", "service/redis.default", "~!", &"k".repeat(FACT_KEY_MAX_BYTES)] {
            assert!(FactKey::new(good).is_ok(), "{good}");
        }
        for (bad, message) in [
            ("", "a fact key is empty: 1 to 160 printable ASCII characters are allowed"),
            ("a b", "a fact key has ' ' at position 2: printable ASCII without spaces is allowed"),
            (
                "a\nb",
                "a fact key has '\\n' at position 2: printable ASCII without spaces is allowed",
            ),
            ("ä", "a fact key has 'ä' at position 1: printable ASCII without spaces is allowed"),
        ] {
            let found = FactKey::new(bad).map_err(|error| error.to_string());
            assert_eq!(found, Err(message.to_owned()), "{bad:?}");
        }
        let long = "k".repeat(FACT_KEY_MAX_BYTES + 1);
        assert_eq!(FactKey::new(long), Err(FactKeyError::TooLong(FACT_KEY_MAX_BYTES + 1)));
    }
}
