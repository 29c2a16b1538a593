//! Which notice each line about a committed record is.
//!
//! Invariant: decided from the two records that the lines were made of, never from their words. The
//! lines come in the order of [`narrate`](baton_rollout::narrate): the group's, then those of the
//! rollout that ended unseen, then the shown rollout's.

use std::collections::VecDeque;

use baton_rollout::{GroupState, Line, Rollout, RolloutState, TurnState};

use crate::notice::Notice;

/// The notices of what `new` says that `old` did not.
pub(super) struct Notices<'a> {
    new: &'a GroupState,
    /// Those of the group that concern no member.
    group: VecDeque<Notice>,
    /// Those of the shown rollout that concern no member.
    rollout: VecDeque<Notice>,
}

impl<'a> Notices<'a> {
    pub(super) fn between(old: Option<&GroupState>, new: &'a GroupState) -> Self {
        let (mut group, mut rollout) = (VecDeque::new(), VecDeque::new());
        match old {
            Some(old) => {
                of_group(old, new, &mut group);
                if let Some(shown) = new.shown_rollout() {
                    let before = old.shown_rollout().filter(|before| before.id == shown.id);
                    of_rollout(before, shown, &mut rollout);
                }
            }
            None => rollout.push_back(Notice::RolloutUnderWay),
        }
        Self { new, group, rollout }
    }

    /// Of the next line.
    pub(super) fn of(&mut self, line: &Line) -> Notice {
        let shown = self.new.shown_rollout();
        let notice = match (line.rollout, line.member) {
            (None, Some(node)) if self.new.cordons.contains(&node) => Some(Notice::MemberCordoned),
            (None, Some(_)) => Some(Notice::MemberUncordoned),
            (None, None) => self.group.pop_front(),
            (Some(_), Some(node)) => {
                shown.and_then(|shown| shown.turn(node)).map(|turn| of_turn(turn.state))
            }
            (Some(id), None) if shown.is_some_and(|shown| shown.id == id) => {
                self.rollout.pop_front()
            }
            (Some(id), None) => {
                let ended = self.new.history.iter().rev().find(|ended| ended.id == id);
                ended.map(|ended| of_state(None, ended.state))
            }
        };
        notice.unwrap_or(Notice::RecordChanged)
    }
}

fn of_group(old: &GroupState, new: &GroupState, notices: &mut VecDeque<Notice>) {
    match (&old.pause, &new.pause) {
        (None, Some(_)) => notices.push_back(Notice::GroupPaused),
        (Some(_), None) => notices.push_back(Notice::GroupResumed),
        _ => {}
    }
    if new.baseline().is_some_and(|baseline| Some(baseline) != old.baseline()) {
        notices.push_back(Notice::BaselineChanged);
    }
    let rejected = new.rejected.iter().filter(|rejected| !old.rejected.contains(rejected));
    notices.extend(rejected.map(|_| Notice::TargetRejected));
}

fn of_rollout(old: Option<&Rollout>, new: &Rollout, notices: &mut VecDeque<Notice>) {
    if old.is_none() {
        notices.push_back(Notice::RolloutBegins);
    }
    let before = old.map(|old| old.state);
    let begins = matches!(new.state, RolloutState::Preparing | RolloutState::Running);
    if before != Some(new.state) && (old.is_some() || !begins) {
        notices.push_back(of_state(before, new.state));
    }
    if new.ending.is_some() && old.is_some_and(|old| old.ending.is_none()) {
        notices.push_back(Notice::RolloutEnding);
    }
}

const fn of_turn(state: TurnState) -> Notice {
    match state {
        TurnState::Waiting => Notice::TurnGivenBack,
        TurnState::Offered => Notice::TurnOffered,
        TurnState::Taken => Notice::TurnTaken,
        TurnState::Monitoring => Notice::TurnMonitoring,
        TurnState::Passed => Notice::TurnPassed,
        TurnState::Failed => Notice::TurnFailed,
        TurnState::Skipped => Notice::TurnSkipped,
        TurnState::Absent => Notice::TurnAbsent,
    }
}

const fn of_state(before: Option<RolloutState>, state: RolloutState) -> Notice {
    match state {
        RolloutState::Preparing => Notice::RolloutPreparing,
        RolloutState::Running if matches!(before, Some(RolloutState::Preparing)) => {
            Notice::RolloutTurnsBegin
        }
        RolloutState::Running => Notice::RolloutGoesOn,
        RolloutState::Paused => Notice::RolloutPaused,
        RolloutState::RollingBack => Notice::RolloutRollsBack,
        RolloutState::RollbackPaused => Notice::RolloutRollbackPaused,
        RolloutState::Completed => Notice::RolloutCompleted,
        RolloutState::CompletedWithExceptions => Notice::RolloutCompletedWithExceptions,
        RolloutState::Cancelled => Notice::RolloutCancelled,
        RolloutState::Superseded => Notice::RolloutSuperseded,
        RolloutState::RolledBack => Notice::RolloutRolledBack,
    }
}
