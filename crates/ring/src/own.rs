//! This node's own facts, and facts that others tell.
//!
//! Invariant: only this node raises the versions of its facts. They begin at its incarnation, so
//! they rise over restarts although nothing of them is on disk; what an earlier life left behind
//! in the ring is answered with a removal of a higher version.

use baton_types::limits::{FACT_MAX_BYTES, NODE_MAX_FACTS};
use baton_types::{FactKey, Moment};
use baton_wire::ring::{FactRecord, MemberState};

use crate::facts::Taken;
use crate::gossip::Rumour;
use crate::output::{FactError, RingOutput};
use crate::ring::{Phase, Ring};

impl Ring {
    /// Publishes `value` under `key`. Spread only when it differs from what is there.
    ///
    /// # Errors
    ///
    /// A value above the limit, or one fact too many; nothing changes then.
    pub fn set_fact(&mut self, now: Moment, key: FactKey, value: Vec<u8>) -> Result<(), FactError> {
        if value.len() > FACT_MAX_BYTES {
            return Err(FactError::TooLarge { key, found: value.len() });
        }
        let old = self.fact(self.me.node, &key);
        if old == Some(value.as_slice()) {
            return Ok(());
        }
        if old.is_none() && self.facts.count(self.me.node) >= NODE_MAX_FACTS {
            return Err(FactError::TooMany(key));
        }
        match self.publish(now, key.clone(), Some(value)) {
            Taken::New => Ok(()),
            Taken::Old | Taken::Refused => Err(FactError::TooMany(key)),
        }
    }

    /// Takes a fact back; one that is not there is no error.
    pub fn remove_fact(&mut self, now: Moment, key: &FactKey) {
        if self.fact(self.me.node, key).is_some() {
            self.publish(now, key.clone(), None);
        }
    }

    pub(crate) fn hear_fact(&mut self, now: Moment, record: FactRecord) {
        let size = record.value.as_ref().map_or(0, Vec::len);
        if record.version > FACT_VERSION_MAX || size > FACT_MAX_BYTES {
            self.counters.refused_records += 1;
            return;
        }
        if record.node == self.me.node {
            self.hear_my_fact(now, record);
            return;
        }
        // A fact may overtake the rumour of its owner; the digest brings it back.
        let Some(owner) = self.members.get(record.node) else { return };
        if owner.state == MemberState::Left {
            return;
        }
        let (node, key) = (record.node, record.key.clone());
        match self.facts.take(record) {
            Taken::New => {
                self.outputs.push(RingOutput::FactChanged { node, key: key.clone() });
                self.spread(now, Rumour::Fact(node, key));
            }
            Taken::Old => {}
            Taken::Refused => self.counters.refused_facts += 1,
        }
    }

    /// What others believe of a fact of this node, which may come from an earlier life.
    fn hear_my_fact(&mut self, now: Moment, record: FactRecord) {
        if !matches!(self.phase, Phase::Here) {
            return;
        }
        let mine = self.facts.get(self.me.node, &record.key);
        let is_known = mine.is_some_and(|mine| {
            mine.version > record.version
                || (mine.version == record.version && mine.value == record.value)
        });
        if is_known {
            return;
        }
        let value = mine.and_then(|mine| mine.value.clone());
        self.fact_version = self.fact_version.max(record.version);
        if self.publish(now, record.key, value) == Taken::Refused {
            self.counters.refused_facts += 1;
        }
    }

    fn publish(&mut self, now: Moment, key: FactKey, value: Option<Vec<u8>>) -> Taken {
        let node = self.me.node;
        self.fact_version = self.fact_version.saturating_add(1);
        let record = FactRecord { node, key: key.clone(), version: self.fact_version, value };
        let taken = self.facts.take(record);
        if taken == Taken::New {
            self.spread(now, Rumour::Fact(node, key));
        }
        taken
    }
}

/// Largest fact version that is believed: the owner can always go above it.
const FACT_VERSION_MAX: u64 = 1 << 63;
