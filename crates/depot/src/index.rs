//! The channel index: which releases each channel holds, in the order of their promotion.
//!
//! Invariant: every change raises the sequence by one; the promotion number of an entry is the
//! sequence at which it was promoted, so within a channel the numbers rise and the head has the
//! highest; a release is in a channel once at most.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{Digest, Name, NodeId, Release, ReleaseId, Text, Version};
use serde::{Deserialize, Serialize};

use crate::entry::check_kind;
use crate::error::DepotError;
use crate::keys::{SigningKey, TrustedKeys};
use crate::limits::INDEX_MAX_ENTRIES;
use crate::signed;

/// The index as it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelIndex {
    kind: String,
    format: u32,
    /// The depot's id.
    pub(crate) depot: String,
    /// Raised by one with every change; never falls.
    pub(crate) sequence: u64,
    /// By release name, then by channel; the head is last.
    channels: BTreeMap<Name, BTreeMap<Name, Vec<IndexEntry>>>,
    /// Demoted from their last channel: what `gc` may take the archives of.
    retired: BTreeSet<ReleaseId>,
}

/// One release in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexEntry {
    version: Version,
    sha256: Digest,
    promotion: u64,
    #[serde(default)]
    again: bool,
}

/// One release in a channel, as the daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelEntry {
    /// The release.
    pub release: Release,
    /// The index sequence at which it was promoted.
    pub promotion: u64,
    /// Promoted with `--again`: a rejected target may be started again.
    pub again: bool,
}

impl ChannelIndex {
    pub(crate) fn new(depot: &str) -> Self {
        Self {
            kind: KIND.to_owned(),
            format: FORMAT,
            depot: depot.to_owned(),
            sequence: 0,
            channels: BTreeMap::new(),
            retired: BTreeSet::new(),
        }
    }

    /// Puts `release` at the head of `channel`, from wherever in it it was.
    pub(crate) fn promote(
        &mut self,
        release: &Release,
        channel: &Name,
        again: bool,
    ) -> Result<u64, DepotError> {
        let promotion = self.sequence + 1;
        let entries = self
            .channels
            .entry(release.id.name.clone())
            .or_default()
            .entry(channel.clone())
            .or_default();
        entries.retain(|entry| entry.version != release.id.version);
        entries.push(IndexEntry {
            version: release.id.version.clone(),
            sha256: release.digest,
            promotion,
            again,
        });
        self.retired.remove(&release.id);
        self.sequence = promotion;
        let found = self.entries().count();
        if found > INDEX_MAX_ENTRIES {
            return Err(DepotError::IndexFull { found, allowed: INDEX_MAX_ENTRIES });
        }
        Ok(promotion)
    }

    /// Takes `id` out of `channel`.
    pub(crate) fn demote(&mut self, id: &ReleaseId, channel: &Name) -> Result<u64, DepotError> {
        let entries = self.channels.get_mut(&id.name).and_then(|c| c.get_mut(channel));
        let before = entries.as_ref().map_or(0, |entries| entries.len());
        if let Some(entries) = entries {
            entries.retain(|entry| entry.version != id.version);
        }
        if self.channel(&id.name, channel).len() == before {
            let present = self.channel(&id.name, channel);
            let present: Vec<_> = present.iter().map(|e| e.release.id.to_string()).collect();
            return Err(DepotError::NotInChannel {
                id: id.clone(),
                channel: channel.to_string(),
                present: if present.is_empty() { "none".to_owned() } else { present.join(", ") },
            });
        }
        if !self.entries().any(|(_, entry)| entry.release.id == *id) {
            self.retired.insert(id.clone());
        }
        self.sequence += 1;
        Ok(self.sequence)
    }

    /// What `channel` holds of the releases called `name`, head last.
    pub(crate) fn channel(&self, name: &Name, channel: &Name) -> Vec<ChannelEntry> {
        let entries = self.channels.get(name).and_then(|channels| channels.get(channel));
        entries.into_iter().flatten().map(|entry| entry.of(name)).collect()
    }

    /// Every entry of every channel, with the channel's name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Name, ChannelEntry)> {
        self.channels.iter().flat_map(|(name, channels)| {
            channels.iter().flat_map(move |(channel, entries)| {
                entries.iter().map(move |entry| (channel, entry.of(name)))
            })
        })
    }

    pub(crate) fn is_retired(&self, id: &ReleaseId) -> bool {
        self.retired.contains(id)
    }

    pub(crate) fn seal(&self, key: &SigningKey) -> Result<Vec<u8>, DepotError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| DepotError::Format { what: WHAT.to_owned(), reason: e.to_string() })?;
        let comment = format!("channel index of depot {} sequence {}", self.depot, self.sequence);
        signed::seal(&(text + "\n"), &comment, key)
    }

    pub(crate) fn open(sealed: &[u8], trusted: &TrustedKeys) -> Result<Self, DepotError> {
        Self::parse(signed::open(sealed, trusted, WHAT)?)
    }

    /// As [`Self::open`], whoever signed it. For listings only.
    pub(crate) fn peek(sealed: &[u8]) -> Result<Self, DepotError> {
        Self::parse(signed::peek(sealed, WHAT)?)
    }

    fn parse(text: &str) -> Result<Self, DepotError> {
        let fault = |reason: String| DepotError::Format { what: WHAT.to_owned(), reason };
        let index: Self = serde_json::from_str(text).map_err(|e| {
            let e = Text::new(&e.to_string());
            fault(format!("is not readable: {e}"))
        })?;
        check_kind(&index.kind, KIND, index.format, FORMAT).map_err(fault)?;
        if index.depot.parse::<NodeId>().is_err() {
            return Err(fault(format!("has the depot id {:?}, expected a UUID", index.depot)));
        }
        let found = index.entries().count();
        if found > INDEX_MAX_ENTRIES {
            return Err(DepotError::IndexFull { found, allowed: INDEX_MAX_ENTRIES });
        }
        for entries in index.channels.values().flat_map(BTreeMap::values) {
            let rising = entries.is_sorted_by(|a, b| a.promotion < b.promotion);
            let versions: BTreeSet<_> = entries.iter().map(|entry| &entry.version).collect();
            let last = entries.last().map_or(0, |entry| entry.promotion);
            if !rising || last > index.sequence || versions.len() != entries.len() {
                return Err(fault("has a channel whose promotions are not in order".to_owned()));
            }
        }
        Ok(index)
    }
}

impl IndexEntry {
    fn of(&self, name: &Name) -> ChannelEntry {
        let id = ReleaseId { name: name.clone(), version: self.version.clone() };
        let release = Release { id, digest: self.sha256 };
        ChannelEntry { release, promotion: self.promotion, again: self.again }
    }
}

const KIND: &str = "baton channel index";
const FORMAT: u32 = 1;
const WHAT: &str = "the channel index";

#[cfg(test)]
mod tests {
    use super::*;

    const DEPOT: &str = "6f1c0a52-6a0e-4c0e-9a3e-0d7f3f1b2c4d";

    fn release(version: u8) -> Release {
        let id = format!("redis/{version}").parse().expect("a release");
        Release { id, digest: Digest([version; 32]) }
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn heads(index: &ChannelIndex) -> Vec<(String, u64, bool)> {
        let entries = index.channel(&name("redis"), &name("stable"));
        entries.iter().map(|e| (e.release.to_string(), e.promotion, e.again)).collect()
    }

    #[test]
    fn the_head_is_the_one_promoted_last() {
        let mut index = ChannelIndex::new(DEPOT);
        let stable = name("stable");
        for (version, again, promotion) in [(1, false, 1), (2, false, 2), (1, true, 3)] {
            assert_eq!(index.promote(&release(version), &stable, again).ok(), Some(promotion));
        }
        let redis = |version: u8| format!("redis/{version}");
        assert_eq!(heads(&index), [(redis(2), 2, false), (redis(1), 3, true)]);
        assert_eq!(index.demote(&release(1).id, &stable).ok(), Some(4));
        assert_eq!(heads(&index), [(redis(2), 2, false)]);
        assert!(index.is_retired(&release(1).id));
        assert_eq!(index.promote(&release(1), &name("beta"), false).ok(), Some(5));
        assert!(!index.is_retired(&release(1).id));

        let before = index.clone();
        let error = index.demote(&release(1).id, &stable).expect_err("not there").to_string();
        assert_eq!(error, "release redis/1 is not in the channel stable; there are: redis/2");
        let error = index.demote(&release(1).id, &name("none")).expect_err("not there").to_string();
        assert_eq!(error, "release redis/1 is not in the channel none; there are: none");
        assert_eq!(index, before);
    }

    #[test]
    fn signed_nonsense_is_refused() {
        let mut index = ChannelIndex::new(DEPOT);
        index.promote(&release(1), &name("stable"), false).expect("promoted");
        index.promote(&release(2), &name("stable"), false).expect("promoted");
        let text = serde_json::to_string(&index).expect("text");
        assert_eq!(ChannelIndex::parse(&text).expect("an index"), index);
        for (from, to, part) in [
            ("baton channel index", "baton release", "expected a \"baton channel index\""),
            ("\"format\":1", "\"format\":2", "has the format 2: this version reads 1"),
            ("\"depot\":\"6f", "\"depot\":\"x", "expected a UUID"),
            ("\"promotion\":1", "\"promotion\":2", "not in order"),
            ("\"sequence\":2", "\"sequence\":1", "not in order"),
            ("\"version\":\"1\"", "\"version\":\"2\"", "not in order"),
            ("\"version\":\"1\"", "\"version\":\"../1\"", "is not a version"),
            ("\"sequence\":2", "\"sequence\":2,\"more\":1", "unknown field"),
            ("\"sequence\":2", "\"sequence\":-2", "not readable"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = ChannelIndex::parse(&changed).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
