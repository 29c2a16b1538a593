//! What nodes say of what they hold when a group is formed anew.
//!
//! Invariant: as of every ledger message, numbers and lists are within the limits or the whole is
//! dropped.

use baton_types::LineageId;
use serde::{Deserialize, Serialize};

use crate::ledger::{Mark, REPLACED_MAX, StateBytes, VOTERS_MAX, Voter, number};

/// What a lineage goes on from that takes the place of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reform {
    /// The lineage of the record that it goes on from.
    pub from: LineageId,
    /// The place of that record.
    pub base: Mark,
    /// The lineages that the record's lineage took the place of.
    pub before: Vec<LineageId>,
    /// The lineages that it takes the place of: who accepts gives all of them up.
    pub replaces: Vec<LineageId>,
    /// The place of its first record: after everything that those who were asked knew of.
    pub first: Mark,
    /// The content of its first record.
    pub state: StateBytes,
}

/// What a node holds, for those who look for the newest record of a group that lost its majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The record's lineage.
    pub lineage: LineageId,
    /// Its place.
    pub mark: Mark,
    /// Its voters; none for what an unfinished reform goes on from.
    pub voters: Vec<Voter>,
    /// The lineages that its lineage took the place of.
    pub replaces: Vec<LineageId>,
    /// Its content; `None` if the asking node has it.
    pub state: Option<StateBytes>,
}

impl Reform {
    /// Whether its numbers and lists are within the limits.
    pub fn is_sane(&self) -> bool {
        let place = |mark: Mark| number(mark.term.0) && number(mark.version);
        place(self.base)
            && place(self.first)
            && self.first.term.0 > 0
            && self.first.version > 0
            && self.before.len() <= REPLACED_MAX
            && self.replaces.len() <= REPLACED_MAX
            && self.replaces.contains(&self.from)
    }
}

impl Holding {
    /// Whether its numbers and lists are within the limits.
    pub fn is_sane(&self) -> bool {
        number(self.mark.term.0)
            && number(self.mark.version)
            && self.voters.len() <= VOTERS_MAX
            && self.replaces.len() <= REPLACED_MAX
    }
}
