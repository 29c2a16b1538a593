//! One number over everything that a node knows.
//!
//! Invariant: the sum does not depend on the order in which items came and went, and it is the
//! same on every node and in every version of the program that knows the same items: the hash is
//! spelled out here, not borrowed from a library that may change it.

use std::ops::{Add, Sub};

/// A sum of item hashes, kept as items come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) u64);

impl Add for Digest {
    type Output = Self;

    fn add(self, item: Self) -> Self {
        Self(self.0.wrapping_add(item.0))
    }
}

impl Sub for Digest {
    type Output = Self;

    fn sub(self, item: Self) -> Self {
        Self(self.0.wrapping_sub(item.0))
    }
}

/// The hash of one item: FNV-1a over its kind and its parts, each with its length, then the
/// finalizer of SplitMix64, because a sum of plain FNV values would cancel similar items out.
pub(crate) fn item(kind: u8, parts: &[&[u8]]) -> Digest {
    let mut hash = (FNV_OFFSET ^ u64::from(kind)).wrapping_mul(FNV_PRIME);
    for part in parts {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(part.iter()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Digest(hash ^ (hash >> 31))
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_what_went_leaves_no_trace() {
        let (a, b, c) = (item(1, &[b"a"]), item(1, &[b"b"]), item(2, &[b"a"]));
        assert_eq!(a + b + c, c + a + b);
        assert_eq!(a + b - a, b);
        assert_ne!(a, c);
        assert_ne!(item(1, &[b"ab", b"c"]), item(1, &[b"a", b"bc"]));
    }

    #[test]
    fn the_hash_is_the_same_in_every_version() {
        assert_eq!(item(3, &[b"node", b"key"]), item(3, &[b"node", b"key"]));
        assert_eq!(item(0, &[]).0, 2_737_183_428_366_584_608);
    }
}
