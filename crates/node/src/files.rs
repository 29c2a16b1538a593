//! The node's durable files, and which part of the node waits for which write.
//!
//! Invariant: writes are numbered in the order in which they were asked for, and each is answered
//! once.

use std::collections::BTreeMap;

use baton_types::GroupName;
use baton_types::member::Desired;
use baton_wire::codec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::boot::FoundFile;

/// What a node keeps of one of its services, beside ledger and turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceFile {
    /// Whether its operator wants it to run on this node.
    pub desired: Desired,
}

impl Default for ServiceFile {
    fn default() -> Self {
        Self { desired: Desired::Running }
    }
}

/// Who waits for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nobody.
    Nobody,
    /// The ring: what it sends after a save waits for it.
    Ring,
    /// A group's ledger.
    Ledger(GroupName, u64),
    /// A group's turn.
    Turn(GroupName, u64),
    /// Who is in a group.
    Roster(GroupName),
    /// What the operator wants of a service on this node.
    Desired(GroupName),
    /// The same, with the request that is answered so once it is on disk.
    Operator(GroupName, u64, String),
}

/// Writes under way.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Writes {
    /// The number of a new write.
    pub(crate) fn begin(&mut self, waiting: Waiting) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, waiting);
        self.next
    }

    /// Somebody else waits for a write that is under way.
    pub(crate) fn hand_over(&mut self, write: u64, waiting: Waiting) {
        self.waiting.insert(write, waiting);
    }

    /// The group is gone: what it waited for must not be told to one of the same name after it. An
    /// operator is still answered.
    pub(crate) fn forget(&mut self, gone: &GroupName) {
        for waiting in self.waiting.values_mut() {
            if matches!(waiting, Waiting::Ledger(group, _) | Waiting::Turn(group, _)
                | Waiting::Desired(group) | Waiting::Roster(group) if group == gone)
            {
                *waiting = Waiting::Nobody;
            }
        }
    }

    /// Who waited for it; `None` for a number that is not under way.
    pub(crate) fn end(&mut self, write: u64) -> Option<Waiting> {
        self.waiting.remove(&write)
    }
}

pub(crate) const RING: &str = "ring";

pub(crate) fn ledger(group: &GroupName) -> String {
    format!("ledger.{group}")
}

pub(crate) fn turn(group: &GroupName) -> String {
    format!("turn.{group}")
}

pub(crate) fn service(group: &GroupName) -> String {
    format!("service.{group}")
}

pub(crate) fn outcomes(group: &GroupName) -> String {
    format!("outcomes.{group}")
}

pub(crate) fn roster(group: &GroupName) -> String {
    format!("members.{group}")
}

/// A file's value: `Ok(None)` where there is none, `Err` names what was wrong. What a newer build has
/// added at its end is gone with the next write.
pub(crate) fn read<T: DeserializeOwned>(found: Option<&FoundFile>) -> Result<Option<T>, String> {
    match found {
        None => Ok(None),
        Some(FoundFile::Damaged) => Err("it failed its checksum and was moved aside".to_owned()),
        Some(FoundFile::Content(bytes)) => codec::decode_grown(bytes)
            .map(Some)
            .map_err(|cause| format!("{cause}; a new one takes its place")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_that_is_gone_waited_for_is_told_to_nobody() {
        let [a, b]: [GroupName; 2] = ["a.main", "b.main"].map(|name| name.parse().expect("a name"));
        let mut writes = Writes::default();
        let of_a = [Waiting::Ledger(a.clone(), 1), Waiting::Turn(a.clone(), 1)];
        let of_a = of_a.map(|waiting| writes.begin(waiting));
        let of_b = writes.begin(Waiting::Ledger(b.clone(), 1));
        let operator = Waiting::Operator(a.clone(), 7, String::new());
        let asked = writes.begin(operator.clone());
        writes.forget(&a);
        assert_eq!(of_a.map(|write| writes.end(write)), [const { Some(Waiting::Nobody) }; 2]);
        assert_eq!(writes.end(of_b), Some(Waiting::Ledger(b, 1)));
        assert_eq!(writes.end(asked), Some(operator), "who asked is answered");
    }
}
