//! Which versions of the wire a build speaks.
//!
//! Invariant: a range has at least one version, and no version is 0.

use std::fmt;

use serde::{Deserialize, Serialize};

/// From the oldest to the newest version, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u8, u8)", into = "(u8, u8)")]
pub struct Versions {
    oldest: u8,
    newest: u8,
}

/// No build speaks such a range. No state changed; whoever named it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} to {1} is no range of versions")]
pub struct NoRange(u8, u8);

impl Versions {
    /// What this build speaks; docs/wire.md, "Versions", says when it changes.
    pub const OURS: Self = Self { oldest: 1, newest: 1 };

    /// From `oldest` to `newest`.
    ///
    /// # Errors
    ///
    /// Version 0, or the wrong way round.
    pub const fn new(oldest: u8, newest: u8) -> Result<Self, NoRange> {
        if oldest == 0 || newest < oldest {
            return Err(NoRange(oldest, newest));
        }
        Ok(Self { oldest, newest })
    }

    /// The oldest of them.
    pub const fn oldest(self) -> u8 {
        self.oldest
    }

    /// The newest of them.
    pub const fn newest(self) -> u8 {
        self.newest
    }

    /// Whether `version` is one of them.
    pub const fn speaks(self, version: u8) -> bool {
        self.oldest <= version && version <= self.newest
    }

    /// What both speak.
    pub fn overlap(self, other: Self) -> Option<Self> {
        Self::new(self.oldest.max(other.oldest), self.newest.min(other.newest)).ok()
    }
}

impl TryFrom<(u8, u8)> for Versions {
    type Error = NoRange;

    fn try_from((oldest, newest): (u8, u8)) -> Result<Self, NoRange> {
        Self::new(oldest, newest)
    }
}

impl From<Versions> for (u8, u8) {
    fn from(versions: Versions) -> Self {
        (versions.oldest, versions.newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{}-{}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    fn range(oldest: u8, newest: u8) -> Versions {
        Versions::new(oldest, newest).expect("a range")
    }

    #[test]
    fn what_both_speak() {
        for (one, other, both) in [
            ((1, 1), (1, 2), Some((1, 1))),
            ((1, 2), (1, 2), Some((1, 2))),
            ((1, 2), (2, 3), Some((2, 2))),
            ((1, 2), (3, 4), None),
        ] {
            let (one, other) = (range(one.0, one.1), range(other.0, other.1));
            let both = both.map(|(oldest, newest)| range(oldest, newest));
            assert_eq!((one.overlap(other), other.overlap(one)), (both, both), "{one} {other}");
        }
        assert!(range(2, 3).speaks(2) && range(2, 3).speaks(3));
        assert!(!range(2, 3).speaks(1) && !range(2, 3).speaks(4));
        assert_eq!([range(1, 1).to_string(), range(1, 2).to_string()], ["1", "1-2"]);
    }

    #[test]
    fn what_is_no_range_does_not_decode() {
        assert_eq!(codec::decode::<Versions>(&[1, 2]).ok(), Some(range(1, 2)));
        for bytes in [[0, 1], [0, 0], [2, 1]] {
            assert!(codec::decode::<Versions>(&bytes).is_err(), "{bytes:?}");
        }
    }
}
