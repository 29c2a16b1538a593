//! What becomes of a group's state when its ledger is formed anew from the newest record that is
//! left.
//!
//! Invariant: targets, baselines, history, cordons and the ids of commands stay as they are, and
//! nothing is decided: what is under way is paused as by hand, and a turn that was open stays open,
//! with its place in the budget, until its member or its time has ended it.

use baton_types::{CommandAnswer, CommandId, CommandResult, NodeName, Text, WallTime};

use crate::state::{GroupState, Pause};

impl GroupState {
    /// Pauses the group because `by` formed it anew, and keeps the answer to that command.
    pub fn reformed(&mut self, by: &NodeName, at: WallTime, id: CommandId, message: &str) {
        let why = Text::new(WHY);
        self.pause = Some(Pause { by: by.clone(), at, why });
        if let Some(rollout) = self.rollout.as_deref_mut()
            && rollout.ending.is_none()
            && !rollout.paused_by_fault
        {
            rollout.state = rollout.paused_state();
            rollout.reason = Text::new(&format!("paused by {by}: {WHY}"));
        }
        let message = Text::new(message);
        let rollout = self.rollout.as_ref().map(|rollout| rollout.id);
        self.remember(id, CommandAnswer { result: CommandResult::Done, message, rollout });
        self.fit();
    }
}

const WHY: &str = "reform: a majority of the group's voters was lost, and the group was formed \
                   anew from the newest record that was left";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::{RolloutState, TurnState};
    use crate::rules::start::tests::rollout;
    use crate::view::tests::{node, target, view};

    #[test]
    fn everything_stays_but_the_pause() {
        let by = NodeName::new("n1").expect("a name");
        let mut state = GroupState::default();
        state.set_baseline(&target(1));
        let mut under_way = rollout(&view(&["n1", "n2", "n3"], "n1"));
        under_way.state = RolloutState::Running;
        under_way.turn_mut(node("n2")).expect("a turn").state = TurnState::Taken;
        state.rollout = Some(Box::new(under_way));
        let before = state.clone();
        state.reformed(&by, WallTime(5), CommandId::from_random(1), "formed anew");
        let under_way = state.rollout.as_deref().expect("it goes on later");
        assert_eq!(under_way.state, RolloutState::Paused);
        assert!(!under_way.paused_by_fault && under_way.reason.as_str().contains("reform"));
        assert_eq!(under_way.turn(node("n2")).map(|turn| turn.state), Some(TurnState::Taken));
        assert_eq!(state.baselines, before.baselines);
        let answer = state.answer_to(CommandId::from_random(1)).expect("remembered");
        assert_eq!(answer.rollout, Some(under_way.id));
        assert!(state.pause.is_some_and(|pause| pause.because().contains("formed anew")));
    }
}
