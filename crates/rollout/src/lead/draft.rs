//! The next record while a step works on it: the changes that more than one rule makes.

use baton_types::{NodeId, Now, Target, Text};

use crate::rollout::{Ending, Rollout, RolloutKind, RolloutState, Turn, TurnState};
use crate::rules::baseline::{becomes_baseline, end_state};
use crate::state::{Ended, GroupState};

/// Notes `target` as the one that `node` was last told *go* for.
pub(super) fn set_member_target(state: &mut GroupState, node: NodeId, target: &Target) {
    if state.baseline().is_some_and(|baseline| baseline == target) {
        state.member_targets.remove(node);
    } else {
        state.member_targets.set(node, target);
    }
}

/// Lets the rollout under way end as `ending` once its open turns have ended.
pub(super) fn begin_ending(rollout: &mut Rollout, state: RolloutState, reason: &str) {
    let reason = Text::new(reason);
    rollout.reason = reason.clone();
    rollout.ending = Some(Ending { state, reason });
}

/// Plans `new`; the rollout under way, if any, is superseded by it.
pub(super) fn supersede(state: &mut GroupState, new: Rollout) {
    if let Some(rollout) = &mut state.rollout
        && rollout.ending.is_none()
    {
        let reason = format!("superseded by {} to {}", new.kind, new.to);
        begin_ending(rollout, RolloutState::Superseded, &reason);
    }
    state.next = Some(Box::new(new));
}

/// Begins the second phase: back to the baseline, for those who are not on it.
pub(super) fn begin_rollback(state: &mut GroupState, reason: &str) {
    let Some(mut rollout) = state.rollout.take() else { return };
    let Some(from) = rollout.from.clone() else {
        state.rollout = Some(rollout);
        return;
    };
    let (to, id) = (rollout.to.clone(), rollout.id);
    state.reject(&to, reason, id);
    rollout.failures_before = u32::try_from(rollout.failures()).unwrap_or(u32::MAX);
    rollout.phase = 2;
    rollout.wave = 0;
    rollout.epoch += 1;
    rollout.accepted = 0;
    rollout.prepared = true;
    rollout.paused_by_fault = false;
    rollout.state = rollout.going_state();
    rollout.reason = Text::new(reason);
    if let Some(pause) = &state.pause {
        rollout.state = rollout.paused_state();
        rollout.reason = Text::new(&format!("paused by {}; {reason}", pause.by));
    }
    for turn in rollout.turns.iter_mut().filter(|turn| !turn.state.is_open()) {
        enter_second_phase(turn, state, &from);
    }
    state.rollout = Some(rollout);
}

/// A turn of the first phase that is not open, in a rollback: again for a member that was moved.
pub(super) fn enter_second_phase(turn: &mut Turn, state: &GroupState, from: &Target) {
    let moved = state.member_targets.get(turn.node).is_some_and(|target| !target.same_as(from));
    if moved {
        *turn = Turn {
            attempts: turn.attempts,
            let_pass: turn.let_pass,
            ..Turn::waiting(turn.node, 2)
        };
    } else if turn.state == TurnState::Waiting {
        turn.state = TurnState::Skipped;
        turn.reason = Text::new("not touched before the rollback");
    }
}

/// Ends the rollout under way if nothing in it is open or waiting any more; true if it did.
pub(super) fn finish_if_over(state: &mut GroupState, now: Now) -> bool {
    let Some(rollout) = state.rollout.as_deref() else { return false };
    if rollout.open_turns().next().is_some() {
        return false;
    }
    let end = match &rollout.ending {
        Some(ending) => ending.state,
        None if rollout.state.offers() && rollout.count(TurnState::Waiting) == 0 => {
            end_state(rollout)
        }
        None => return false,
    };
    finish(state, end, now);
    true
}

fn finish(state: &mut GroupState, end: RolloutState, now: Now) {
    let Some(mut rollout) = state.rollout.take() else { return };
    let reason = rollout.ending.take().map(|ending| ending.reason);
    if let Some(reason) = reason {
        rollout.reason = reason;
    }
    give_up(state, &rollout, end);
    if becomes_baseline(&rollout, end) {
        state.set_baseline(&rollout.to);
        state.allow(&rollout.to);
    } else if end == RolloutState::RolledBack && rollout.kind != RolloutKind::Rollback {
        // Those who were not there have the baseline as their target again, by a catch-up.
        state.member_targets.clear();
    } else if end == RolloutState::CompletedWithExceptions && rollout.failures() > 0 {
        let why = format!("ended with {} failed", rollout.failures());
        if rollout.kind != RolloutKind::CatchUp {
            state.reject(&rollout.to, &why, rollout.id);
        }
    }
    rollout.state = end;
    rollout.updated_at = now.wall;
    if rollout.reason.is_empty() && end == RolloutState::CompletedWithExceptions {
        rollout.reason = Text::new(&exceptions(&rollout));
    }
    state.log(Ended {
        id: rollout.id,
        kind: rollout.kind,
        state: end,
        from: rollout.from.clone(),
        to: rollout.to.clone(),
        started_at: rollout.started_at,
        ended_at: now.wall,
        reason: rollout.reason.clone(),
        total: u32::try_from(rollout.concerned()).unwrap_or(u32::MAX),
        passed: u32::try_from(rollout.count(TurnState::Passed)).unwrap_or(u32::MAX),
        failures: rollout
            .failures_before
            .saturating_add(u32::try_from(rollout.failures()).unwrap_or(u32::MAX)),
    });
    state.last = Some(rollout);
}

/// Members that failed or were not ready get no catch-up turn by themselves; nor does anybody
/// whose catch-up was cancelled.
fn give_up(state: &mut GroupState, rollout: &Rollout, end: RolloutState) {
    let cancelled = rollout.kind == RolloutKind::CatchUp && end == RolloutState::Cancelled;
    for turn in &rollout.turns {
        let bad = matches!(turn.state, TurnState::Failed | TurnState::Skipped) && !turn.gone;
        if turn.state == TurnState::Passed {
            state.gave_up.remove(&turn.node);
        } else if (bad && turn.phase == rollout.phase) || cancelled {
            state.gave_up.insert(turn.node);
        }
    }
}

/// "1 failed, 2 absent".
fn exceptions(rollout: &Rollout) -> String {
    [TurnState::Failed, TurnState::Skipped, TurnState::Absent]
        .into_iter()
        .map(|state| (state, rollout.turns.iter().filter(|turn| turn.state == state).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect::<Vec<_>>()
        .join(", ")
}
