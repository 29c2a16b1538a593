//! The target of each member where it differs from the baseline.
//!
//! Invariant: a target is written once however many members have it, so that 1,000 members with a
//! target of their own still fit a ledger record.

use std::collections::BTreeMap;

use baton_types::{NodeId, Target};
use serde::{Deserialize, Serialize};

/// The last target for which each member was told *go*; members that are not named have the
/// baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTargets {
    known: Vec<Target>,
    of: BTreeMap<NodeId, u16>,
}

impl MemberTargets {
    /// The target of `node`, if it has one of its own.
    pub fn get(&self, node: NodeId) -> Option<&Target> {
        self.known.get(usize::from(*self.of.get(&node)?))
    }

    /// Notes `target` for `node`.
    pub fn set(&mut self, node: NodeId, target: &Target) {
        let at = match self.known.iter().position(|known| known == target) {
            Some(at) => at,
            None => {
                self.known.push(target.clone());
                self.known.len() - 1
            }
        };
        if let Ok(at) = u16::try_from(at) {
            self.of.insert(node, at);
        }
        self.tidy();
    }

    /// `node` has the baseline again.
    pub fn remove(&mut self, node: NodeId) {
        self.of.remove(&node);
        self.tidy();
    }

    /// Everybody has the baseline.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether everybody has the baseline.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Members with a target of their own.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Target)> {
        self.of.iter().filter_map(|(node, at)| Some((*node, self.known.get(usize::from(*at))?)))
    }

    /// Drops targets that nobody has any more.
    fn tidy(&mut self) {
        let mut at = 0;
        while at < self.known.len() {
            let here = u16::try_from(at).unwrap_or(u16::MAX);
            if self.of.values().any(|used| *used == here) {
                at += 1;
                continue;
            }
            self.known.remove(at);
            for used in self.of.values_mut().filter(|used| **used > here) {
                *used -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::target;

    #[test]
    fn each_target_is_kept_once_and_dropped_with_its_last_member() {
        let node = |n| NodeId::from_random(n);
        let mut targets = MemberTargets::default();
        targets.set(node(1), &target(1));
        targets.set(node(2), &target(2));
        targets.set(node(3), &target(2));
        assert_eq!(targets.known.len(), 2);
        targets.set(node(1), &target(2));
        assert_eq!(targets.known, [target(2)]);
        assert_eq!(targets.get(node(3)), Some(&target(2)));
        targets.remove(node(3));
        assert_eq!(targets.iter().count(), 2);
        targets.clear();
        assert!(targets.is_empty() && targets.get(node(1)).is_none());
    }
}
