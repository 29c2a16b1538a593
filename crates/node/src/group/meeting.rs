//! Lineages of one group that were formed apart and meet: two rings that first booted without each
//! other.
//!
//! Invariant: while another lineage is met, this leader offers nothing new. It gives way only with no
//! turn open, to one whose committed record says that it absorbs this one; and nothing is absorbed
//! by itself where the baselines differ.

use std::collections::BTreeMap;

use baton_types::member::LedgerFact;
use baton_types::status::LineageStatus;
use baton_types::{CommandAnswer, CommandId, CommandResult, Digest, LineageId, NodeId, Now, Text};

use super::Group;
use crate::effect::{Level, Line};
use crate::notice::Notice;
use crate::shared::Shared;

/// Another lineage of the group, by the facts of its living voters.
struct Met {
    lineage: LineageId,
    nodes: Vec<NodeId>,
    /// Its leader with what that one says.
    leader: Option<(NodeId, LedgerFact)>,
    baseline: Option<(Digest, Text)>,
}

impl Met {
    /// Whether its leader says, by a committed record, that it absorbs that one.
    fn absorbs(&self, lineage: LineageId) -> bool {
        self.leader.as_ref().is_some_and(|(_, fact)| fact.absorbs.contains(&lineage))
    }
}

impl Group {
    /// Lineages that the own one took the place of, for this node at least.
    pub(super) fn replaced_lineages(&self) -> Vec<LineageId> {
        let view = self.ledger.view();
        let Some(record) = view.committed else { return Vec::new() };
        let mut replaced = record.replaces.clone();
        // While a reform is under way the record that is shown is the one that is given up.
        if view.lineage == Some(record.lineage) {
            let more = view.given_up.iter().filter(|lineage| !record.replaces.contains(lineage));
            replaced.extend(more.filter(|lineage| **lineage != record.lineage));
        }
        replaced
    }

    pub(super) fn baseline_fact(&self) -> Option<(Digest, Text)> {
        self.state.baseline().map(|target| (target.key(), Text::new(&target.to_string())))
    }

    /// Why nothing new is offered, if another lineage is met.
    pub(super) fn held_by_meeting(&self, shared: &Shared) -> String {
        match (self.met(shared).first(), self.ledger.view().lineage) {
            (Some(met), Some(own)) => format!(
                "two histories of the group have met, {} and {}: one of them must give way first",
                short(own),
                short(met.lineage)
            ),
            _ => String::new(),
        }
    }

    /// Whether another lineage is met.
    pub(crate) fn has_met(&self, shared: &Shared) -> bool {
        !self.met(shared).is_empty()
    }

    /// What the status shows of other lineages.
    pub(super) fn met_status(&self, shared: &Shared) -> Vec<LineageStatus> {
        let show = |met: Met| LineageStatus {
            lineage: met.lineage.to_string(),
            leader: met.leader.map(|(node, _)| shared.name_of(node)),
            baseline: met.baseline.map(|(_, name)| name.to_string()).unwrap_or_default(),
            nodes: met.nodes.iter().map(|node| shared.name_of(*node)).collect(),
        };
        self.met(shared).into_iter().map(show).collect()
    }

    /// The next record that a meeting asks for, if this leader has one to make.
    pub(super) fn settle_meeting(&mut self, now: Now, shared: &mut Shared) -> bool {
        let view = self.ledger.view();
        let Some(record) = view.committed else { return false };
        let own = record.lineage;
        let absorbs = record.absorbs.clone();
        let mets = self.met(shared);
        self.tell_met(shared, own, &mets);
        // One of those who gave up says so, in this lineage.
        let gave_way = absorbs.iter().copied().find(|other| {
            let says = |(_, fact): (NodeId, &LedgerFact)| {
                fact.lineage == own && fact.replaces.contains(other)
            };
            shared.directory.ledgers(&self.name).any(says)
        });
        if let Some(other) = gave_way {
            return self.ledger.absorbed(now.moment, other).is_ok();
        }
        if let Some(met) = mets.iter().find(|met| met.lineage > own && met.absorbs(own)) {
            self.answer_adoptions(shared, &goes(own, met.lineage));
        }
        let is_adopted = !self.adoptions.is_empty();
        let mine = self.baseline_fact().map(|(digest, _)| digest);
        for met in &mets {
            let theirs = met.baseline.as_ref().map(|(digest, _)| *digest);
            // What gives way to the own one is to find somebody there: of three that each gave way
            // to the next, none would be left.
            let takes_all = || {
                let others = mets.iter().map(|other| other.lineage);
                let mut others = others.filter(|other| absorbs.contains(other));
                others.all(|other| other == met.lineage || met.absorbs(other))
            };
            if met.absorbs(own) && !self.has_open_turn() && takes_all() {
                if self.ledger.give_way(now.moment, met.lineage).is_ok() {
                    return true;
                }
            } else if !absorbs.contains(&met.lineage)
                && (is_adopted || (mine == theirs && own > met.lineage))
            {
                let said = self.ledger.absorb(now.moment, met.lineage);
                let waiting = mets.iter().filter(|other| !absorbs.contains(&other.lineage));
                return match waiting.count() {
                    1 => self.promise_adoptions(said.ok(), own),
                    // One record for each.
                    _ => said.is_ok(),
                };
            }
        }
        // Everything that was met is to give way already, or there is nothing.
        self.answer_adoptions(shared, &stays(own));
        false
    }

    fn answer_adoptions(&mut self, shared: &mut Shared, answer: &CommandAnswer) {
        for id in std::mem::take(&mut self.adoptions) {
            self.give(shared, id, answer.clone());
        }
    }

    /// Whether `adopt` with this beginning of a lineage means the own one.
    pub(super) fn is_meant(&self, lineage: &str) -> bool {
        let own = self.ledger.view().committed.map(|record| record.lineage);
        own.is_some_and(|own| own.to_string().starts_with(lineage))
    }

    /// Whoever typed `adopt` is answered once the record of that version is committed.
    fn promise_adoptions(&mut self, version: Option<u64>, own: LineageId) -> bool {
        let Some(version) = version else { return false };
        let ids: Vec<CommandId> = std::mem::take(&mut self.adoptions);
        let answers = ids.into_iter().map(|id| (id, stays(own))).collect();
        self.promised = Some((version, answers));
        true
    }

    /// One line whenever what is met has changed.
    fn tell_met(&mut self, shared: &mut Shared, own: LineageId, mets: &[Met]) {
        let named = |baseline: &Option<(Digest, Text)>| match baseline {
            Some((_, name)) => format!("baseline {name}"),
            None => "no baseline".to_owned(),
        };
        let others: Vec<String> =
            mets.iter().map(|met| format!("{} ({})", met.lineage, named(&met.baseline))).collect();
        let mine = self.baseline_fact();
        let text = match others.is_empty() {
            true => String::new(),
            false => format!(
                "lineage {own} ({}) has met lineage {}: nothing new is offered until one gives way",
                named(&mine),
                others.join(", ")
            ),
        };
        if text != self.told_met && !text.is_empty() {
            shared.log(Line::new(Notice::LineagesMet, Level::Warning, text.clone()).of(&self.name));
        }
        self.told_met = text;
    }

    /// Lineages that reachable members speak of, that are not the own one and that neither it nor
    /// anybody else took the place of.
    fn met(&self, shared: &Shared) -> Vec<Met> {
        let view = self.ledger.view();
        let Some(own) = view.committed.map(|record| record.lineage) else { return Vec::new() };
        if view.lineage != Some(own) {
            return Vec::new();
        }
        let replaced = self.replaced_lineages();
        let is_over = |lineage: LineageId| {
            replaced.contains(&lineage)
                || shared
                    .directory
                    .ledgers(&self.name)
                    .any(|(_, fact)| fact.replaces.contains(&lineage))
        };
        let mut found: BTreeMap<LineageId, Met> = BTreeMap::new();
        for (node, fact) in shared.directory.ledgers(&self.name) {
            let is_there =
                shared.ring.member(node).is_some_and(|member| member.state.is_reachable());
            if !is_there || fact.lineage == own || is_over(fact.lineage) {
                continue;
            }
            let met = found.entry(fact.lineage).or_insert_with(|| Met {
                lineage: fact.lineage,
                nodes: Vec::new(),
                leader: None,
                baseline: fact.baseline.clone(),
            });
            met.nodes.push(node);
            if fact.leader == Some(node) {
                met.leader = Some((node, fact.clone()));
                met.baseline.clone_from(&fact.baseline);
            }
        }
        found.into_values().collect()
    }
}

/// The lineages of a group that its members speak of and that nobody took the place of, each with
/// the leader that says so itself.
pub(crate) fn lineages(
    shared: &Shared,
    group: &baton_types::GroupName,
) -> BTreeMap<LineageId, Option<NodeId>> {
    let facts: Vec<(NodeId, &LedgerFact)> = shared.directory.ledgers(group).collect();
    let mut found: BTreeMap<LineageId, Option<NodeId>> = BTreeMap::new();
    for (node, fact) in &facts {
        let is_there = *node == shared.me
            || shared.ring.member(*node).is_some_and(|member| member.state.is_reachable());
        if is_there && !facts.iter().any(|(_, other)| other.replaces.contains(&fact.lineage)) {
            let leader = found.entry(fact.lineage).or_default();
            *leader = leader.or(fact.leader.filter(|leader| leader == node));
        }
    }
    found
}

fn stays(own: LineageId) -> CommandAnswer {
    let message = format!(
        "lineage {own} stays; every other one gives way to it once its open turns have ended (resume \
         or cancel what is paused there), and its members get what this one has, one at a time"
    );
    CommandAnswer { result: CommandResult::Done, message: Text::new(&message), rollout: None }
}

fn goes(own: LineageId, other: LineageId) -> CommandAnswer {
    let message = format!(
        "lineage {other}, the larger one, has said before that it stays: lineage {own} gives way \
         to it; nothing was done"
    );
    CommandAnswer { result: CommandResult::Refused, message: Text::new(&message), rollout: None }
}

/// Enough of a lineage for a sentence.
fn short(lineage: LineageId) -> String {
    lineage.to_string().chars().take(SHORT_CHARS).collect()
}

const SHORT_CHARS: usize = 10;
