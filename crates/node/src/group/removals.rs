//! Voters that ask to be removed, because their node leaves or their service is unloaded; and the silence
//! of a node that has left.
//!
//! Invariant: whoever asks is answered, with what the committed record shows or why not now.

use std::collections::BTreeSet;

use baton_ledger::NotNow;
use baton_types::{CommandAnswer, CommandId, CommandResult, Moment, NodeId, Now, Text};
use baton_wire::ledger::Record;

use super::Group;
use crate::limits::REMOVAL_PATIENCE;
use crate::shared::Shared;

/// A voter that is to be removed.
pub(super) struct Removal {
    since: Moment,
    /// Those who ask for it.
    commands: BTreeSet<CommandId>,
}

impl Group {
    /// This command asks for the removal of `node`.
    pub(super) fn ask_removal(&mut self, now: Now, node: NodeId, command: CommandId) {
        let new = || Removal { since: now.moment, commands: BTreeSet::new() };
        self.removals.entry(node).or_insert_with(new).commands.insert(command);
        self.unseen = true;
    }

    /// The node has left the ring. What runs goes on; but a vote that it kept, because it went by force,
    /// is silent from here on: members follow no leader that has left.
    pub(crate) fn leave(&mut self, shared: &mut Shared) {
        self.has_left = true;
        self.leads_no_more();
        self.end_reform(shared, "this node has left the ring");
    }

    /// Whether the ledger here says nothing and hears nothing any more.
    pub(super) const fn is_silent(&self) -> bool {
        self.unloading || self.has_left
    }

    /// Makes a record without the next voter that asked to be removed, if there is one.
    pub(super) fn remove_voters(&mut self, now: Now, shared: &mut Shared) -> bool {
        let next = self.removals.iter().find(|(node, _)| self.is_voter(**node));
        let Some((node, since)) = next.map(|(node, removal)| (*node, removal.since)) else {
            return false;
        };
        match self.ledger.remove_voter(now.moment, node) {
            // Either way nothing more is decided before the ledger has gone on.
            Ok(_) | Err(NotNow::HandsOver) => true,
            Err(NotNow::TooFewLeft) if now.moment >= since + REMOVAL_PATIENCE => {
                let message = self.too_few_left(shared, node);
                self.answer_removal(shared, node, CommandResult::Refused, &message);
                false
            }
            Err(_) => false,
        }
    }

    fn too_few_left(&self, shared: &Shared, node: NodeId) -> String {
        let is_there = |node: NodeId| {
            node == shared.me || shared.ring.member(node).is_some_and(|m| m.state.is_reachable())
        };
        let voters = self.ledger.view().voters.iter().map(|voter| voter.node);
        let away = voters.filter(|voter| *voter != node && !is_there(*voter));
        let away: Vec<String> = away.map(|voter| shared.name_of(voter)).collect();
        let away = match away.is_empty() {
            true => String::new(),
            false => format!(" ({} away)", away.join(", ")),
        };
        format!(
            "it is needed: without it too few voters of {} answer{away}; bring them back, or go with \
             `--force`",
            self.name
        )
    }

    fn answer_removal(
        &mut self,
        shared: &mut Shared,
        node: NodeId,
        result: CommandResult,
        message: &str,
    ) {
        // What it sees of that node is again what the ring says.
        self.unseen = true;
        let message = Text::new(&format!("{}: {message}", shared.name_of(node)));
        for id in self.removals.remove(&node).map(|removal| removal.commands).unwrap_or_default() {
            let message = message.clone();
            self.give(shared, id, CommandAnswer { result, message, rollout: None });
        }
    }

    /// Answers removals that the record shows, and those of nodes that had no vote anyway.
    pub(super) fn settle_removals(&mut self, shared: &mut Shared, record: &Record) {
        let is_voter = |node: &NodeId| record.voters.iter().any(|voter| voter.node == *node);
        let last = record.voters.len() == 1;
        let others = self.others(shared);
        let done: Vec<NodeId> =
            self.removals.keys().copied().filter(|node| !is_voter(node) || last).collect();
        for node in done {
            let (result, message) = match (is_voter(&node), others.is_empty()) {
                (false, _) => (
                    CommandResult::Done,
                    "it has no vote in the group's ledger any more".to_owned(),
                ),
                (true, true) => (
                    CommandResult::Done,
                    "it is the group's last member: the ledger stays on its disk".to_owned(),
                ),
                (true, false) => (
                    CommandResult::Refused,
                    format!(
                        "it is the only voter of {} now, and {} would be left without the ledger; \
                         another gets a vote within seconds, then it can go (`--force` goes at \
                         once and gives up what the group has decided)",
                        self.name,
                        others.join(", ")
                    ),
                ),
            };
            self.answer_removal(shared, node, result, &message);
        }
    }

    /// Names of the other members that the ring can reach.
    pub(crate) fn others(&self, shared: &Shared) -> Vec<String> {
        let others = shared.directory.members(&self.name).map(|(node, _)| node);
        let others = others.filter(|node| *node != shared.me);
        others
            .filter(|node| shared.ring.member(*node).is_some_and(|m| m.state.is_reachable()))
            .map(|node| shared.name_of(node))
            .collect()
    }

    /// Removals asked for since the last record.
    pub(super) fn settle_idle_removals(&mut self, shared: &mut Shared) {
        if self.leading
            && !self.removals.is_empty()
            && let Some(record) = self.ledger.view().committed.cloned()
        {
            self.settle_removals(shared, &record);
        }
    }
}
