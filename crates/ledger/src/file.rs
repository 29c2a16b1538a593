//! What a ledger keeps on disk.
//!
//! Invariant: everything that a node promised to its peers (a vote, an acceptance, an
//! acknowledgement, a refusal) can be read from here. The whole of it is written at once, so a
//! crash leaves either all of a change or nothing.

use std::collections::BTreeMap;

use baton_types::{FileId, LineageId, NodeId, Term};
use baton_wire::ledger::{Heard, Mark, Proposal, REPLACED_MAX, Record, Voter};
use serde::{Deserialize, Serialize};

/// The durable state of one group's ledger on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerFile {
    /// Made with the file, at random.
    pub file: FileId,
    /// The newest term that this node knows of.
    pub term: Term,
    /// Whom it voted for in that term.
    pub voted_for: Option<NodeId>,
    /// The newest record it holds, committed or not.
    pub record: Option<Record>,
    /// Where it stands in the formation of a lineage.
    pub formation: FormationFile,
    /// How far its peers were when it last heard them, as of the last write.
    pub heard: BTreeMap<NodeId, Heard>,
}

/// The durable part of formation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormationFile {
    /// The one lineage that this node accepted (or proposed) and did not refuse since.
    pub accepted: Option<Proposal>,
    /// Lineages that it will never hold a record of.
    pub refused: Vec<LineageId>,
    /// The lineage that took this node in, until it holds a record of it.
    pub joined: Option<LineageId>,
    /// A lineage of the group that exists elsewhere, while this node belongs to none: after a
    /// restart among others that belong to none either it must not form another one.
    pub heard_of: Option<LineageId>,
    /// The file replaces one that was damaged or rolled back, so this node knows that it belonged
    /// to a lineage: it waits to be let in again and forms none.
    pub barred: bool,
    /// Lineages that this node gave up for another one that took their place: it takes part in
    /// none of them again, with whatever file.
    pub replaced: Vec<LineageId>,
}

impl LedgerFile {
    /// A new file.
    pub fn new(file: FileId, barred: bool) -> Self {
        Self {
            file,
            term: Term::default(),
            voted_for: None,
            record: None,
            formation: FormationFile { barred, ..FormationFile::default() },
            heard: BTreeMap::new(),
        }
    }

    /// The lineage it belongs to: that of its record, else the one it was taken into or accepted.
    pub fn lineage(&self) -> Option<LineageId> {
        let accepted = self.formation.accepted.as_ref().map(|proposal| proposal.lineage);
        let record = self.record.as_ref().map(|record| record.lineage);
        record.or(self.formation.joined).or(accepted)
    }

    /// Whether it refused that lineage for good.
    pub fn has_refused(&self, lineage: LineageId) -> bool {
        self.formation.refused.contains(&lineage)
    }

    /// Whether it gave that lineage up for the one that took its place.
    pub fn has_given_up(&self, lineage: LineageId) -> bool {
        self.formation.replaced.contains(&lineage)
    }

    /// Notes lineages that are given up; the oldest ones are forgotten.
    pub(crate) fn give_up(&mut self, lineages: &[LineageId]) {
        let replaced = &mut self.formation.replaced;
        replaced.retain(|known| !lineages.contains(known));
        replaced.extend(lineages);
        replaced.drain(..replaced.len().saturating_sub(REPLACED_MAX));
    }

    /// The place of its record.
    pub fn mark(&self) -> Mark {
        self.record.as_ref().map(Record::mark).unwrap_or_default()
    }

    /// The voters of its record, none without one.
    pub fn voters(&self) -> &[Voter] {
        self.record.as_ref().map_or(&[], |record| &record.voters)
    }

    /// Whether the file's numbers and lists are within the limits; one that is not, is damaged.
    pub fn is_sane(&self) -> bool {
        self.term.0 <= u64::MAX >> 8
            && self
                .record
                .as_ref()
                .is_none_or(|record| record.is_sane() && record.term <= self.term)
            && self.formation.accepted.as_ref().is_none_or(Proposal::is_sane)
            && self.formation.refused.len() <= REFUSED_MAX
            && self.formation.replaced.len() <= REPLACED_MAX
            && self.heard.len() <= HEARD_MAX
    }
}

/// Lineages that one node may refuse in its life. Each takes a proposer that died while the group
/// formed, so this is generous; a node that has refused so many refuses no more and waits.
pub const REFUSED_MAX: usize = 64;

/// Peers whose last words are kept: more than voters, because voters change.
pub const HEARD_MAX: usize = 64;
