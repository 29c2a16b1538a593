//! Which notice each line about a committed record is.

use baton_rollout::{About, RolloutState, TurnState};

use crate::notice::Notice;

pub(super) const fn of(about: About) -> Notice {
    match about {
        About::UnderWay => Notice::RolloutUnderWay,
        About::Begins => Notice::RolloutBegins,
        About::State { before, now } => of_state(before, now),
        About::Ending => Notice::RolloutEnding,
        About::Turn(state) => of_turn(state),
        About::Paused => Notice::GroupPaused,
        About::Resumed => Notice::GroupResumed,
        About::Cordoned => Notice::MemberCordoned,
        About::Uncordoned => Notice::MemberUncordoned,
        About::Baseline => Notice::BaselineChanged,
        About::Rejected => Notice::TargetRejected,
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

const fn of_state(before: Option<RolloutState>, now: RolloutState) -> Notice {
    match now {
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
