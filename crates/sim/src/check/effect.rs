//! Invariant 9: each accepted command takes effect exactly once.
//!
//! A record names the commands that it carried out. So one that it names for the first time must
//! show its effect there, one that was named before must never come again, and what only commands
//! do must not be done without one.

use std::collections::{BTreeMap, BTreeSet};

use baton_rollout::{GroupState, RolloutKind, RolloutState};
use baton_types::{CommandAction, CommandId, RolloutId};

/// Every command that took effect.
#[derive(Clone, Debug, Default)]
pub struct EffectCheck {
    done: BTreeSet<CommandId>,
}

/// What operators typed, by id. Nodes make ids of their own for cordons.
pub type Typed = BTreeMap<CommandId, CommandAction>;

impl EffectCheck {
    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// A command took effect twice or not at all, or its effect is there without it.
    pub fn record(
        &mut self,
        old: Option<&GroupState>,
        new: &GroupState,
        typed: &Typed,
    ) -> Result<(), String> {
        let nothing = GroupState::default();
        let old = old.unwrap_or(&nothing);
        let before: BTreeSet<CommandId> = old.commands.iter().map(|(id, _)| *id).collect();
        let mut fresh = Vec::new();
        for (id, _) in new.commands.iter().filter(|(id, _)| !before.contains(id)) {
            if !self.done.insert(*id) {
                return Err(format!("{id:?} took effect a second time"));
            }
            fresh.push(typed.get(id));
        }
        let actions: Vec<&CommandAction> = fresh.iter().copied().flatten().collect();
        unasked(old, new, &actions)?;
        // Of several in one record, one may have undone what another did.
        match fresh.as_slice() {
            [Some(action)] => effect(old, new, action),
            _ => Ok(()),
        }
    }
}

impl EffectCheck {
    /// The first record of a lineage that was formed anew: it may be older than what a lost majority
    /// had committed, so what took effect there may be done again. Its pause is that of the command.
    ///
    /// # Errors
    ///
    /// Nobody typed that.
    pub fn formed_anew(&mut self, new: &GroupState, typed: &Typed) -> Result<(), String> {
        self.done = new.commands.iter().map(|(id, _)| *id).collect();
        let asked = self.done.iter().any(|id| typed.get(id) == Some(&CommandAction::Reform));
        match asked {
            true => Ok(()),
            false => Err("the group was formed anew and nobody typed that".to_owned()),
        }
    }
}

/// What only commands do was not done without one.
fn unasked(old: &GroupState, new: &GroupState, actions: &[&CommandAction]) -> Result<(), String> {
    let count = |of: fn(&CommandAction) -> bool| actions.iter().filter(|a| of(a)).count();
    let pauses = count(|action| matches!(action, CommandAction::Pause));
    let resumes = count(|action| matches!(action, CommandAction::Resume));
    let rollbacks = count(|action| matches!(action, CommandAction::Rollback { .. }));
    if new.pause.is_some() && old.pause != new.pause && pauses == 0 {
        return Err("the group is paused and nobody typed that".to_owned());
    }
    if old.pause.is_some() && new.pause.is_none() && resumes == 0 {
        return Err("the group is no longer paused and nobody typed that".to_owned());
    }
    if let (Some(was), Some(is)) = (old.rollout.as_deref(), new.rollout.as_deref())
        && (was.id, was.phase) == (is.id, is.phase)
        && was.accepted < is.accepted
        && resumes == 0
    {
        return Err(format!("failures of {:?} are accepted and nobody typed that", is.id));
    }
    let known = ids(old);
    let ways_back = ids(new).into_iter().filter(|(id, kind)| {
        *kind == RolloutKind::Rollback && !known.iter().any(|(known, _)| known == id)
    });
    let ways_back = ways_back.count();
    match ways_back > rollbacks {
        true => Err(format!("{ways_back} rollbacks begin, {rollbacks} were typed")),
        false => Ok(()),
    }
}

/// The only command of a record shows in it.
fn effect(old: &GroupState, new: &GroupState, action: &CommandAction) -> Result<(), String> {
    let known = ids(old);
    let begins = || ids(new).into_iter().any(|(id, _)| !known.iter().any(|(k, _)| *k == id));
    let under_way = old.rollout.as_deref();
    let goes_on = new.rollout.as_deref().filter(|now| under_way.is_some_and(|r| r.id == now.id));
    let shows = match action {
        CommandAction::Pause => new.pause.is_some(),
        CommandAction::Resume => new.pause.is_none(),
        CommandAction::Cancel => {
            // What the channel has next may be planned in the same record.
            let planned = old.next.as_deref().map(|next| next.id);
            let starts = planned.is_some() && planned == new.next.as_deref().map(|next| next.id);
            !starts && goes_on.is_none_or(|now| now.ending.is_some())
        }
        CommandAction::Start { .. } => begins(),
        CommandAction::Rollback { .. } => {
            let turned = under_way.zip(goes_on).is_some_and(|(was, now)| was.phase < now.phase);
            let over = under_way.is_some_and(|was| {
                let line = new.history.iter().find(|line| line.id == was.id);
                line.is_some_and(|line| line.state == RolloutState::RolledBack)
            });
            begins() || turned || over
        }
        CommandAction::Retry => {
            let again = under_way.zip(goes_on).is_some_and(|(was, now)| was.epoch < now.epoch);
            // Who gets a new attempt may be gone, and the rollout over, in the same record.
            let over = under_way.is_some() && goes_on.is_none();
            begins() || again || over || old.gave_up != new.gave_up
        }
        _ => true,
    };
    match shows {
        true => Ok(()),
        false => Err(format!("{action:?} is acknowledged and its record shows no effect")),
    }
}

/// Every rollout that a record knows of.
fn ids(state: &GroupState) -> Vec<(RolloutId, RolloutKind)> {
    let whole = [&state.rollout, &state.next, &state.last].into_iter().flatten();
    let whole = whole.map(|rollout| (rollout.id, rollout.kind));
    let mut ids: Vec<_> = whole.chain(state.history.iter().map(|l| (l.id, l.kind))).collect();
    ids.sort_by_key(|(id, _)| *id);
    ids.dedup_by_key(|(id, _)| *id);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{rollout, running};
    use baton_rollout::state::Pause;
    use baton_types::{CommandAnswer, CommandResult, NodeName, Text, WallTime};

    fn id(number: u128) -> CommandId {
        CommandId::from_random(number)
    }

    /// `state` after the command with that number.
    fn after(state: &GroupState, number: u128) -> GroupState {
        let mut state = state.clone();
        let message = Text::default();
        let answer = CommandAnswer { result: CommandResult::Done, message, rollout: None };
        state.commands.push((id(number), answer));
        state
    }

    fn paused(state: &GroupState) -> GroupState {
        let by = NodeName::new("n1").expect("a name");
        GroupState {
            pause: Some(Pause { by, at: WallTime(1), why: Text::default() }),
            ..state.clone()
        }
    }

    fn with_id(state: &GroupState, number: u128, kind: RolloutKind) -> GroupState {
        let mut state = state.clone();
        (rollout(&mut state).id, rollout(&mut state).kind) = (RolloutId::from_random(number), kind);
        state
    }

    fn check(old: &GroupState, new: &GroupState, action: CommandAction) -> Result<(), String> {
        EffectCheck::default().record(Some(old), new, &Typed::from([(id(1), action)]))
    }

    #[test]
    fn a_group_is_formed_anew_only_by_its_command() {
        let mut check = EffectCheck::default();
        let was = after(&GroupState::default(), 1);
        let typed = Typed::from([(id(1), CommandAction::Pause), (id(2), CommandAction::Reform)]);
        assert!(check.formed_anew(&was, &typed).is_err());
        assert_eq!(check.formed_anew(&after(&was, 2), &typed), Ok(()));
    }

    #[test]
    fn a_command_that_comes_again_is_seen() {
        let (old, typed) = (running(), Typed::new());
        let mut check = EffectCheck::default();
        assert_eq!(check.record(Some(&old), &after(&old, 1), &typed), Ok(()));
        assert_eq!(check.record(Some(&after(&old, 1)), &after(&old, 2), &typed), Ok(()));
        let again = check.record(Some(&after(&old, 2)), &after(&old, 1), &typed);
        assert!(again.is_err_and(|what| what.contains("second time")));
    }

    #[test]
    fn a_command_without_its_effect_is_seen() {
        let old = running();
        let new = after(&old, 1);
        assert!(check(&old, &new, CommandAction::Pause).is_err());
        assert_eq!(check(&old, &paused(&new), CommandAction::Pause), Ok(()));
        assert!(check(&paused(&old), &paused(&new), CommandAction::Resume).is_err());
        assert_eq!(check(&paused(&old), &new, CommandAction::Resume), Ok(()));
        assert!(check(&old, &new, CommandAction::Cancel).is_err());
        assert!(check(&old, &new, CommandAction::Retry).is_err());
        assert!(check(&old, &new, CommandAction::Start { version: None }).is_err());
        assert!(check(&old, &new, CommandAction::Rollback { to: None }).is_err());
        let other = with_id(&new, 9, RolloutKind::Update);
        assert_eq!(check(&old, &other, CommandAction::Start { version: None }), Ok(()));
        let mut turned = new.clone();
        rollout(&mut turned).phase = 2;
        assert_eq!(check(&old, &turned, CommandAction::Rollback { to: None }), Ok(()));
        let mut again = new.clone();
        rollout(&mut again).epoch += 1;
        assert_eq!(check(&old, &again, CommandAction::Retry), Ok(()));
    }

    #[test]
    fn a_cancelled_plan_that_starts_all_the_same_is_seen() {
        use baton_rollout::rollout::Ending;
        let planned = |number| with_id(&running(), number, RolloutKind::Update).rollout;
        let old = GroupState { next: planned(8), ..running() };
        let mut new = after(&old, 1);
        rollout(&mut new).ending =
            Some(Ending { state: RolloutState::Cancelled, reason: Text::default() });
        assert!(check(&old, &new, CommandAction::Cancel).is_err());
        new.next = planned(9);
        assert_eq!(check(&old, &new, CommandAction::Cancel), Ok(()), "the channel had another");
        new.next = None;
        assert_eq!(check(&old, &new, CommandAction::Cancel), Ok(()));
        new.rollout = None;
        assert_eq!(check(&old, &new, CommandAction::Cancel), Ok(()), "it is over at once");
        assert_eq!(check(&old, &new, CommandAction::Retry), Ok(()), "nobody was left to try");
    }

    #[test]
    fn an_effect_without_its_command_is_seen() {
        let (old, nobody) = (running(), Typed::new());
        let mut accepted = old.clone();
        rollout(&mut accepted).accepted = 1;
        for (was, is, what) in [
            (old.clone(), paused(&old), "paused"),
            (paused(&old), old.clone(), "no longer paused"),
            (old.clone(), accepted, "accepted"),
            (old.clone(), with_id(&old, 9, RolloutKind::Rollback), "1 rollbacks begin"),
        ] {
            let found = EffectCheck::default().record(Some(&was), &is, &nobody);
            assert!(found.is_err_and(|found| found.contains(what)), "{what}");
        }
        let both = with_id(&after(&old, 1), 9, RolloutKind::Rollback);
        assert_eq!(check(&old, &both, CommandAction::Rollback { to: None }), Ok(()));
    }
}
