//! What the members say of their services and ledgers, decoded from the ring's facts.
//!
//! Invariant: it holds exactly what the ring's facts hold, as far as they decode; a fact of a kind
//! that this program does not know is left to the ring, which passes it on, and so is what a newer
//! build has added at the end of one.

use std::collections::BTreeMap;

use baton_types::facts::FactKey;
use baton_types::member::{Health, LedgerFact, ServiceFact};
use baton_types::{GroupName, NodeId, Target};
use baton_wire::codec;
use serde::Serialize;

/// Facts by group, then by node.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    services: BTreeMap<GroupName, BTreeMap<NodeId, ServiceFact>>,
    ledgers: BTreeMap<GroupName, BTreeMap<NodeId, LedgerFact>>,
}

/// What has changed with a fact. In a large group there are some all the time, and most of them
/// change little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// A word that a leader may decide by: how far a turn is, what is waited for.
    Word,
    /// What the census shows of a member.
    Service,
    /// Who is a member, or how its ledger stands: the group's ledger looks at that.
    Member,
    /// A member that is none any more.
    Gone,
}

impl Directory {
    /// Takes a fact's value as it is now; `None`: it is gone. Returns the group it is about, and who
    /// looks at what has changed.
    pub(crate) fn take(
        &mut self,
        node: NodeId,
        key: &FactKey,
        value: Option<&[u8]>,
    ) -> Option<(GroupName, News)> {
        let (kind, group) = key.as_str().split_once('/')?;
        let group: GroupName = group.parse().ok()?;
        let news = match kind {
            SERVICE => {
                let old = put(&mut self.services, &group, node, value);
                match (old, self.member(&group, node)) {
                    (Some(old), Some(new)) if shown(&old) == shown(new) => News::Word,
                    (Some(_), Some(_)) => News::Service,
                    (None, Some(_)) => News::Member,
                    (_, None) => News::Gone,
                }
            }
            LEDGER => {
                let old = put(&mut self.ledgers, &group, node, value);
                match (old, self.ledger(&group, node)) {
                    (Some(old), Some(new)) if old.is_led_like(new) => News::Word,
                    _ => News::Member,
                }
            }
            _ => return None,
        };
        Some((group, news))
    }

    /// The service facts of a group's members, living or not.
    pub(crate) fn members(
        &self,
        group: &GroupName,
    ) -> impl Iterator<Item = (NodeId, &ServiceFact)> {
        self.services.get(group).into_iter().flatten().map(|(node, fact)| (*node, fact))
    }

    /// What one member says of its service.
    pub(crate) fn member(&self, group: &GroupName, node: NodeId) -> Option<&ServiceFact> {
        self.services.get(group)?.get(&node)
    }

    /// The ledger facts of a group.
    pub(crate) fn ledgers(&self, group: &GroupName) -> impl Iterator<Item = (NodeId, &LedgerFact)> {
        self.ledgers.get(group).into_iter().flatten().map(|(node, fact)| (*node, fact))
    }

    /// What one member says of its ledger.
    pub(crate) fn ledger(&self, group: &GroupName, node: NodeId) -> Option<&LedgerFact> {
        self.ledgers.get(group)?.get(&node)
    }

    /// Every group that some member has.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &GroupName> {
        self.services.keys()
    }

    /// The groups of one node.
    pub(crate) fn groups_of(&self, node: NodeId) -> impl Iterator<Item = &GroupName> {
        self.services.iter().filter(move |(_, of)| of.contains_key(&node)).map(|(group, _)| group)
    }
}

/// What the census shows of a member, beside what the ring says of it.
fn shown(fact: &ServiceFact) -> (Option<&Target>, Health) {
    (fact.running.as_ref(), fact.health)
}

/// Puts a fact in place of what was there, which it gives back.
fn put<T: serde::de::DeserializeOwned>(
    table: &mut BTreeMap<GroupName, BTreeMap<NodeId, T>>,
    group: &GroupName,
    node: NodeId,
    value: Option<&[u8]>,
) -> Option<T> {
    match value.and_then(|bytes| codec::decode_grown(bytes).ok()) {
        Some(fact) => table.entry(group.clone()).or_default().insert(node, fact),
        None => {
            let of = table.get_mut(group)?;
            let old = of.remove(&node);
            if of.is_empty() {
                table.remove(group);
            }
            old
        }
    }
}

/// Key of the fact about a service.
pub(crate) fn service_key(group: &GroupName) -> Option<FactKey> {
    FactKey::new(format!("{SERVICE}/{group}")).ok()
}

/// Key of the fact about a group's ledger.
pub(crate) fn ledger_key(group: &GroupName) -> Option<FactKey> {
    FactKey::new(format!("{LEDGER}/{group}")).ok()
}

/// A fact's value as it travels.
pub(crate) fn fact_bytes<T: Serialize>(fact: &T) -> Option<Vec<u8>> {
    codec::encode(fact).ok()
}

const SERVICE: &str = "service";
const LEDGER: &str = "ledger";
