//! Invariants that hold after every commit and at every instant of every test.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::policy::Strategy;
use baton_types::{NodeId, RolloutId};
use baton_wire::TurnId;

use super::host::Host;
use crate::narrate::Line;
use crate::rollout::{RolloutKind, RolloutState, TurnState};
use crate::state::GroupState;
use crate::view::View;

#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Distinct failed outcomes as an observer counts them.
    failed: BTreeSet<(RolloutId, u8, NodeId)>,
    /// Turns that are over for the leader.
    judged: BTreeSet<(NodeId, TurnId)>,
    /// Most members that were disrupted at once since it was reset.
    pub(crate) most_disrupted: usize,
    /// In which order members were first disrupted.
    pub(crate) touched: Vec<NodeId>,
    pub(crate) narrated: Vec<Line>,
}

impl Checks {
    pub(crate) fn commit(&mut self, old: &GroupState, new: &GroupState) {
        self.halt(old, new);
        self.count(new);
        self.baseline(old, new);
        self.judge(old, new);
    }

    /// After an acknowledged pause or cancel no turn is taken.
    fn halt(&self, old: &GroupState, new: &GroupState) {
        let (Some(before), Some(after)) = (old.rollout.as_deref(), new.rollout.as_deref()) else {
            return;
        };
        let paused = old.pause.is_some() && old.pause == new.pause;
        if before.id != after.id || !(paused || before.ending.is_some()) {
            return;
        }
        for turn in &after.turns {
            let was = before.turn(turn.node).map(|turn| turn.state);
            let taken = was == Some(TurnState::Offered)
                && matches!(turn.state, TurnState::Taken | TurnState::Monitoring);
            assert!(!taken, "taken while halted: {:?}", turn.node);
            let offered = was == Some(TurnState::Waiting) && turn.state == TurnState::Offered;
            assert!(!offered, "offered while halted: {:?}", turn.node);
        }
    }

    /// Failures are distinct (rollout, phase, member).
    fn count(&mut self, new: &GroupState) {
        for rollout in [&new.rollout, &new.last].into_iter().filter_map(Option::as_deref) {
            for turn in &rollout.turns {
                let key = (rollout.id, turn.phase, turn.node);
                match turn.state {
                    TurnState::Failed => self.failed.insert(key),
                    // A retry gives a new attempt and counts from 0.
                    TurnState::Waiting
                    | TurnState::Offered
                    | TurnState::Skipped
                    | TurnState::Absent => self.failed.remove(&key),
                    _ => false,
                };
            }
            let counted = self
                .failed
                .iter()
                .filter(|(id, phase, _)| *id == rollout.id && *phase == rollout.phase)
                .count();
            if rollout.turns.iter().all(|turn| turn.phase == rollout.phase) {
                assert_eq!(rollout.failures(), counted, "failures are counted once each");
            }
        }
    }

    /// Only the end of a rollout changes the baseline, and only by the rule.
    fn baseline(&self, old: &GroupState, new: &GroupState) {
        if old.baseline() == new.baseline() {
            return;
        }
        let ended = new.history.last().expect("a rollout that ended");
        assert_ne!(Some(ended.id), old.history.last().map(|line| line.id));
        assert_eq!(Some(&ended.to), new.baseline());
        let by_rule = match ended.state {
            RolloutState::Completed => ended.failures == 0,
            RolloutState::CompletedWithExceptions => ended.passed > 0,
            RolloutState::RolledBack => {
                ended.kind == RolloutKind::Rollback && old.completed.contains(&ended.to)
            }
            _ => false,
        };
        assert!(by_rule, "{ended:?}");
    }

    /// Turns disrupt no more members than the budget allows.
    pub(crate) fn disruption(
        &mut self,
        state: &GroupState,
        hosts: &BTreeMap<NodeId, Host>,
        view: &View,
    ) {
        let disrupted: Vec<NodeId> =
            hosts.values().filter(|host| host.member.is_disrupting()).map(|host| host.id).collect();
        self.most_disrupted = self.most_disrupted.max(disrupted.len());
        for node in &disrupted {
            if !self.touched.contains(node) {
                self.touched.push(*node);
            }
        }
        let Some(rollout) = state.rollout.as_deref() else { return };
        let mut in_turn = 0;
        for node in &disrupted {
            let Some(file) = hosts[node].member.file().turn.as_ref() else { continue };
            let given = rollout
                .turn(*node)
                .is_some_and(|turn| turn.state.is_open() && rollout.turn_id(turn) == file.turn);
            in_turn += usize::from(given);
            let judged = self.judged.contains(&(*node, file.turn));
            assert!(given || judged, "a turn that nobody gave: {}", view.name(*node));
        }
        if rollout.plan.strategy != Strategy::AtOnce && !rollout.is_first() {
            let budget = rollout.policy().max_unavailable.budget(rollout.group_size as usize);
            assert!(in_turn <= budget, "{in_turn} disrupted of {budget}");
        }
    }

    /// Turns whose verdict is committed: their members may still be at it.
    fn judge(&mut self, old: &GroupState, new: &GroupState) {
        let Some(before) = old.rollout.as_deref() else { return };
        for turn in before.open_turns() {
            let id = before.turn_id(turn);
            let still = new.rollout.as_deref().is_some_and(|after| {
                after.turn(turn.node).is_some_and(|t| t.state.is_open() && after.turn_id(t) == id)
            });
            if !still {
                self.judged.insert((turn.node, id));
            }
        }
    }
}
