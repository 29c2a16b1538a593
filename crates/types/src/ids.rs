//! Identities: all random 128-bit values but for the counters `Term` and `Incarnation`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex;

/// What is wrong with a text that should be an id. No state changed; the giver of the text is at
/// fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {kind}: expected {expected}")]
pub struct IdError {
    kind: &'static str,
    expected: &'static str,
    found: String,
}

/// Ids are text in JSON, where people read them, and sixteen bytes on the wire.
macro_rules! text_for_people {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        text_for_people!($name);

        impl $name {
            /// The id made of 128 random bits that the caller drew.
            pub const fn from_random(bits: u128) -> Self {
                Self(bits.to_be_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(&self.0[..4]))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                hex::decode(text).map(Self).ok_or_else(|| IdError {
                    kind: $kind,
                    expected: "32 hexadecimal digits",
                    found: text.chars().take(64).collect(),
                })
            }
        }
    };
}

/// A node: a UUID (RFC 9562, version 4) that lives in the node's data directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 16]);

text_for_people!(NodeId);

impl NodeId {
    /// A version 4 UUID from 128 random bits; the six bits of version and variant are set here.
    pub const fn from_random(bits: u128) -> Self {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The sixteen bytes, as they travel and as they are ordered.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex::encode(&self.0);
        let (a, b, c, d, e) =
            (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0[..4]))
    }
}

impl FromStr for NodeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let dashes_fit = text.len() == 36
            && text
                .bytes()
                .enumerate()
                .all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23));
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        hex::decode(&digits).filter(|_| dashes_fit).map(Self).ok_or_else(|| IdError {
            kind: "a node id",
            expected: "a UUID like 6f1c0a52-6a0e-4c0e-9a3e-0d7f3f1b2c4d",
            found: text.chars().take(64).collect(),
        })
    }
}

random_id!(
    /// One rollout of one group.
    RolloutId, "a rollout id"
);
random_id!(
    /// One command of an operator, made by the node that took it; a repeat is answered with the
    /// first result.
    CommandId, "a command id"
);
random_id!(
    /// One claim of a member on its turn. Kept in memory only, so that a restart cannot act on an
    /// old *go*.
    ClaimId, "a claim id"
);
random_id!(
    /// One ledger file. A voter is (node id, file id): a file that was lost or damaged comes back
    /// under a new id and has no vote until the leader lets it in again.
    FileId, "a ledger file id"
);
random_id!(
    /// One start of a daemon. Two living daemons with one node id are told apart by it.
    BootNonce, "a boot nonce"
);

/// One history of a group's ledger, made at formation and never changed.
///
/// Ordered by (members at formation, random part): of two lineages that meet, the smaller gives
/// way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineageId {
    /// Members that the group counted at its formation.
    pub members: u32,
    /// What tells apart two formations of the same size.
    pub random: [u8; 16],
}

impl fmt::Display for LineageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.members, hex::encode(&self.random))
    }
}

impl fmt::Debug for LineageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.members, hex::encode(&self.random[..4]))
    }
}

/// A term of the ledger, as in Raft section 5.1: at most one leader each.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one; `None` at the end of the numbers, which only a forged message
    /// reaches.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A member's incarnation, as in SWIM section 4.2: raised by its owner alone, to refute.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_id_is_a_version_4_uuid_and_reads_back() {
        let id = NodeId::from_random(u128::MAX);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "ffffffffffff4fffbfffffffffffffff", "ffffffff-ffff-4fff-bfff-fffffffffff-"]
        {
            assert!(bad.parse::<NodeId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn random_ids_read_back() {
        let id = RolloutId::from_random(7);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("xyz".parse::<RolloutId>().is_err());
    }

    #[test]
    fn larger_formation_outranks_smaller() {
        let small = LineageId { members: 3, random: [255; 16] };
        let large = LineageId { members: 5, random: [0; 16] };
        assert!(large > small);
    }

    #[test]
    fn last_term_has_no_next() {
        assert_eq!(Term(u64::MAX).next(), None);
    }
}
