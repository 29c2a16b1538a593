//! The lineages of one group: what was committed in each, held against what was committed there before.
//!
//! Invariant: records of two lineages are never compared with each other, but for the first one of a
//! lineage that was formed anew: it goes on from what is known of the one that it replaces.

use std::collections::BTreeSet;

use baton_rollout::GroupState;
use baton_types::{LineageId, NodeId, RolloutId, Target};

use super::{
    BASELINE, BaselineCheck, BudgetCheck, COUNT, Checks, CountCheck, Disruption, EFFECT,
    EffectCheck, HALT, HaltCheck, Known, ORDER, OUTCOME, OrderCheck, OutcomeCheck, Stop, Truth,
    Typed,
};

/// One lineage.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage {
    /// Its newest committed record.
    truth: Option<Truth>,
    /// It is a group that was formed anew, and nothing was committed in it yet.
    anew: bool,
    count: CountCheck,
    baseline: BaselineCheck,
    effect: EffectCheck,
    pub(super) budget: BudgetCheck,
}

/// What each checker says.
pub(super) type Verdicts = Vec<(&'static str, Result<(), String>)>;

impl Lineage {
    pub(super) fn state(&self) -> Option<&GroupState> {
        self.truth.as_ref().map(|truth| &truth.state)
    }

    /// A record is committed: what was wrong with it.
    pub(super) fn record(
        &mut self,
        now: u64,
        truth: Truth,
        known: &Known,
        commands: &Typed,
    ) -> Verdicts {
        let before = self.truth.take();
        let old = before.as_ref().map(|truth| &truth.state);
        let new = &truth.state;
        // What is open in the first record of a group that is formed anew was offered before it.
        let (order, effect) = match std::mem::take(&mut self.anew) {
            true => (Ok(()), self.effect.formed_anew(new, commands)),
            false => {
                let order = OrderCheck.record(old, new, known);
                (order, self.effect.record(old, new, commands))
            }
        };
        let verdicts = vec![
            (ORDER, OrderCheck.begins(old, new, known).map(|_| ())),
            (ORDER, order),
            (COUNT, self.count.record(old, new)),
            (HALT, HaltCheck.record(old, new)),
            (BASELINE, self.baseline.record(old, new)),
            (EFFECT, effect),
            (OUTCOME, OutcomeCheck.record(old, new)),
        ];
        self.budget.record(now, new);
        self.truth = Some(truth);
        verdicts
    }
}

impl Checks {
    /// The newest committed record of the lineage that goes on; of several the one in which
    /// something was committed last.
    pub(crate) fn truth(&self) -> Option<&Truth> {
        let newest = self.newest?;
        let of = |lineage: LineageId| self.lineages.get(&lineage)?.truth.as_ref();
        of(self.ledger.successor(newest)).or_else(|| of(newest))
    }

    /// Lineages in which something was committed and that none took the place of.
    pub(crate) fn going_on(&self) -> Vec<LineageId> {
        // Most groups have one, and this is asked after every event.
        if self.lineages.len() < 2 {
            return self.lineages.keys().copied().collect();
        }
        let all = self.lineages.keys().copied();
        all.filter(|lineage| self.ledger.successor(*lineage) == *lineage).collect()
    }

    /// Whether the lineages that go on have come to different baselines.
    pub(crate) fn baselines_differ(&self) -> bool {
        let going_on = self.going_on();
        let states = going_on.iter().filter_map(|lineage| self.lineages.get(lineage)?.state());
        let baselines = states.map(|state| state.baseline().map(Target::key));
        baselines.collect::<BTreeSet<_>>().len() > 1
    }

    /// The state of the lineage that a host is in: the only one that goes on, or the one of its ledger
    /// file. Who has left its lineage owes it nothing.
    pub(super) fn state_for(&self, host: usize) -> Option<&GroupState> {
        let lineage = match self.going_on().as_slice() {
            [only] => *only,
            _ => self.ledger.lineage_of(host)?,
        };
        self.lineages.get(&lineage)?.state()
    }

    /// The lineage of the ledger file that a host has on its disk.
    pub(crate) fn lineage_on(&self, host: usize) -> Option<LineageId> {
        self.ledger.lineage_on(host)
    }

    /// The lineage of a record that was committed in it; a first record takes along what is known of
    /// the lineage that it replaces.
    pub(super) fn lineage(&mut self, lineage: LineageId, replaces: &[LineageId]) -> &mut Lineage {
        self.newest = Some(lineage);
        if !self.lineages.contains_key(&lineage) {
            let replaced = replaces.iter().filter_map(|old| self.lineages.get(old));
            let base = replaced.max_by_key(|old| old.truth.as_ref().map(|truth| truth.mark));
            let new = base.map(|old| Lineage { truth: None, anew: true, ..old.clone() });
            self.lineages.insert(lineage, new.unwrap_or_default());
        }
        self.lineages.entry(lineage).or_default()
    }

    /// Whether there ever were several lineages.
    pub(crate) fn is_joined(&self) -> bool {
        self.lineages.len() > 1
    }

    /// The states of all lineages that ever were.
    pub(super) fn all_states(&self) -> impl Iterator<Item = &GroupState> {
        self.lineages.values().filter_map(Lineage::state)
    }

    /// Whether two hosts are in one lineage, as far as that is known: while several go on, each counts
    /// its own members.
    pub(crate) fn are_together(&self, host: usize, other: usize) -> bool {
        let [one, other] = [host, other].map(|host| self.ledger.lineage_of(host));
        one.is_none() || other.is_none() || one == other
    }

    /// A turn stops a member that is well: held against the lineage that gave the turn.
    pub(super) fn disrupts(
        &mut self,
        stop: Stop,
        others: &[Disruption],
    ) -> Result<(), Vec<NodeId>> {
        let (rollout, _) = stop.turn;
        let lineage = self.lineage_with(rollout).and_then(|id| self.lineages.get_mut(&id));
        let Some(lineage) = lineage else { return Err(Vec::new()) };
        let state = lineage.truth.as_ref().map(|truth| &truth.state);
        lineage.budget.disrupts(stop, others, state)
    }

    /// The lineage that knows of a rollout: one that goes on, if there is one.
    pub(super) fn lineage_with(&self, rollout: RolloutId) -> Option<LineageId> {
        let knows = |lineage: &LineageId| self.lineages[lineage].budget.knows(rollout);
        let over = self.lineages.keys().copied();
        self.going_on().into_iter().chain(over).find(knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{node, running, with};
    use baton_ledger::LedgerFile;
    use baton_rollout::TurnState;
    use baton_types::{CommandAction, CommandAnswer, CommandId, CommandResult, FileId, Term, Text};
    use baton_wire::ledger::{Mark, Record, StateBytes};

    const fn lineage(number: u8) -> LineageId {
        LineageId { members: 3, random: [number; 16] }
    }

    /// What is wrong with that record, as the next one of its lineage.
    fn wrong(checks: &mut Checks, number: u8, replaces: &[LineageId], state: &GroupState) -> usize {
        let version = checks.truth().map_or(1, |truth| truth.mark.version + 1);
        let mark = Mark { term: Term(1), version };
        let truth = Truth { lineage: lineage(number), mark, state: state.clone() };
        let commands = checks.commands.clone();
        let known = Known { well: (1..=3).map(node).collect(), ..Known::default() };
        let of = checks.lineage(lineage(number), replaces);
        let verdicts = of.record(0, truth, &known, &commands);
        verdicts.iter().filter(|(_, verdict)| verdict.is_err()).count()
    }

    /// A group whose baseline was made by a line of its history, with one turn there.
    fn group(state: TurnState) -> GroupState {
        GroupState { baselines: Vec::new(), ..with(&running(), 1, state) }
    }

    #[test]
    fn records_are_compared_within_their_lineage_alone() {
        let mut checks = Checks::new(3);
        let (passed, failed) = (group(TurnState::Passed), group(TurnState::Failed));
        assert_eq!(wrong(&mut checks, 1, &[], &passed), 0);
        assert_eq!(wrong(&mut checks.clone(), 1, &[], &failed), 1, "an outcome changes");
        assert_eq!(wrong(&mut checks, 2, &[], &failed), 0, "another history");
        assert_eq!(checks.truth().map(|truth| truth.lineage), Some(lineage(2)));
        assert_eq!(wrong(&mut checks, 1, &[], &failed), 1);
    }

    #[test]
    fn who_has_left_its_lineage_owes_it_nothing() {
        let mut checks = Checks::new(2);
        let state = group(TurnState::Taken);
        assert_eq!(wrong(&mut checks, 1, &[], &state), 0);
        assert_eq!(checks.state_for(0), Some(&state), "there is no other one");
        assert_eq!(wrong(&mut checks, 2, &[], &group(TurnState::Passed)), 0);
        assert_eq!(checks.state_for(0), None);
        let mut file = LedgerFile::new(FileId::from_random(7), false);
        file.record = Some(Record {
            lineage: lineage(1),
            term: Term(1),
            version: 1,
            voters: Vec::new(),
            absorbed_by: None,
            absorbs: Vec::new(),
            replaces: Vec::new(),
            state: StateBytes::new(Vec::new()).expect("small"),
        });
        checks.ledger.written(0, NodeId::from_random(1), "n1", &file).expect("fits");
        assert_eq!(checks.state_for(0), Some(&state));
    }

    #[test]
    fn a_group_that_is_formed_anew_goes_on_from_what_was_known_and_needs_the_command() {
        let mut checks = Checks::new(3);
        assert_eq!(wrong(&mut checks, 1, &[], &group(TurnState::Passed)), 0);
        // Offered to the second one while the first one was not well.
        let offered = with(&running(), 2, TurnState::Offered);
        let mut anew = GroupState { baselines: Vec::new(), ..offered };
        assert_eq!(wrong(&mut checks.clone(), 2, &[], &anew), 1, "as a new offer");
        assert_eq!(wrong(&mut checks.clone(), 2, &[lineage(1)], &anew), 1, "nobody typed that");
        let id = CommandId::from_random(7);
        let answer =
            CommandAnswer { result: CommandResult::Done, message: Text::default(), rollout: None };
        anew.commands.push((id, answer));
        checks.typed(id, &CommandAction::Reform);
        assert_eq!(wrong(&mut checks, 2, &[lineage(1)], &anew), 0, "the base may be older");
    }
}
