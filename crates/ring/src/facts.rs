//! The facts of all members.
//!
//! Invariant: of one fact the highest version is kept, and of two values under one version (the
//! owner's disk was set back) the greater one, so that all nodes end with the same. Removed facts
//! stay as records without a value.

use std::collections::BTreeMap;

use baton_types::limits::{FACT_MAX_BYTES, NODE_MAX_FACTS};
use baton_types::{FactKey, NodeId};
use baton_wire::ring::FactRecord;

use crate::digest::{Digest, item};

/// What is known of every member's facts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    owners: BTreeMap<NodeId, BTreeMap<FactKey, Versioned>>,
    bytes: usize,
    digest: Digest,
}

/// A value with the number that orders it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Versioned {
    pub(crate) version: u64,
    pub(crate) value: Option<Vec<u8>>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is news.
    New,
    /// As new as what was known, or older.
    Old,
    /// Above a limit.
    Refused,
}

impl Facts {
    pub(crate) fn get(&self, node: NodeId, key: &FactKey) -> Option<&Versioned> {
        self.owners.get(&node)?.get(key)
    }

    /// Every fact that has a value.
    pub(crate) fn values(&self) -> impl Iterator<Item = (NodeId, &FactKey, &[u8])> {
        self.owners.iter().flat_map(|(node, facts)| {
            facts.iter().filter_map(|(key, fact)| Some((*node, key, fact.value.as_deref()?)))
        })
    }

    /// Every record, removed facts included.
    pub(crate) fn records(&self) -> impl Iterator<Item = FactRecord> {
        self.owners.iter().flat_map(|(node, facts)| {
            facts.iter().map(|(key, fact)| fact_record(*node, key.clone(), fact))
        })
    }

    pub(crate) fn record(&self, node: NodeId, key: &FactKey) -> Option<FactRecord> {
        self.get(node, key).map(|fact| fact_record(node, key.clone(), fact))
    }

    /// How many facts with a value `node` owns.
    pub(crate) fn count(&self, node: NodeId) -> usize {
        let facts = self.owners.get(&node);
        facts.map_or(0, |facts| facts.values().filter(|fact| fact.value.is_some()).count())
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Keeps `record` when it is news and within the limits.
    pub(crate) fn take(&mut self, record: FactRecord) -> Taken {
        let size = record.value.as_ref().map_or(0, Vec::len);
        let fresh = Versioned { version: record.version, value: record.value };
        let owned = self.owners.get(&record.node);
        let old = owned.and_then(|facts| facts.get(&record.key));
        if old.is_some_and(|old| *old >= fresh) {
            return Taken::Old;
        }
        let old_size = old.and_then(|old| old.value.as_ref()).map_or(0, Vec::len);
        let one_too_many =
            old.is_none() && owned.is_some_and(|facts| facts.len() >= RECORDS_PER_NODE);
        let bytes = self.bytes - old_size + size;
        if size > FACT_MAX_BYTES || one_too_many || bytes > BYTES_MAX {
            return Taken::Refused;
        }
        self.bytes = bytes;
        self.digest = self.digest + fact_item(record.node, &record.key, &fresh);
        let facts = self.owners.entry(record.node).or_default();
        if let Some(old) = facts.insert(record.key.clone(), fresh) {
            self.digest = self.digest - fact_item(record.node, &record.key, &old);
        }
        Taken::New
    }

    /// Drops everything of `node`; gives the keys that had a value.
    pub(crate) fn drop_owner(&mut self, node: NodeId) -> Vec<FactKey> {
        let mut keys = Vec::new();
        for (key, fact) in self.owners.remove(&node).unwrap_or_default() {
            self.digest = self.digest - fact_item(node, &key, &fact);
            if let Some(value) = fact.value {
                self.bytes -= value.len();
                keys.push(key);
            }
        }
        keys
    }
}

fn fact_record(node: NodeId, key: FactKey, fact: &Versioned) -> FactRecord {
    FactRecord { node, key, version: fact.version, value: fact.value.clone() }
}

fn fact_item(node: NodeId, key: &FactKey, fact: &Versioned) -> Digest {
    let version = fact.version.to_le_bytes();
    let (there, value) = match &fact.value {
        Some(value) => ([1], value.as_slice()),
        None => ([0], [].as_slice()),
    };
    item(3, &[node.as_bytes(), key.as_str().as_bytes(), &version, &there, value])
}

/// Facts of one node, removed ones included: a node may replace all its keys once. Keys name
/// services and groups, so they hardly change.
pub(crate) const RECORDS_PER_NODE: usize = 2 * NODE_MAX_FACTS;

/// Values of all facts together: 1,000 nodes with 64 KiB each. Keeps invented facts from taking
/// the machine's memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(key: &str, version: u64, value: &[u8]) -> FactRecord {
        let key = FactKey::new(key).expect("a key");
        FactRecord { node: NodeId::from_random(1), key, version, value: Some(value.to_vec()) }
    }

    #[test]
    fn the_highest_version_wins_in_any_order() {
        let mut records = [fact("a", 1, b"x"), fact("a", 3, b"z"), fact("a", 3, b"y")];
        let mut digests = Vec::new();
        for _ in 0..3 {
            records.rotate_left(1);
            let mut facts = Facts::default();
            for record in &records {
                facts.take(record.clone());
            }
            assert_eq!(facts.take(records[0].clone()), Taken::Old);
            assert_eq!(facts.values().next().map(|(_, _, value)| value), Some(b"z".as_slice()));
            assert_eq!(facts.bytes, 1);
            digests.push(facts.digest());
            facts.drop_owner(NodeId::from_random(1));
            assert_eq!((facts.digest(), facts.bytes), (Digest(0), 0));
        }
        assert!(digests.iter().all(|digest| *digest == digests[0]));
    }

    #[test]
    fn limits_hold() {
        let mut facts = Facts::default();
        assert_eq!(facts.take(fact("a", 1, &vec![0; FACT_MAX_BYTES + 1])), Taken::Refused);
        for at in 0..RECORDS_PER_NODE {
            assert_eq!(facts.take(fact(&format!("k{at}"), 1, b"")), Taken::New);
        }
        assert_eq!(facts.take(fact("more", 1, b"")), Taken::Refused);
        assert_eq!(facts.take(fact("k0", 2, b"")), Taken::New);
    }
}
