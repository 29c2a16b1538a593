//! Records for the checkers' own tests.

use std::time::Duration;

use baton_rollout::member::file::Stage;
use baton_rollout::rollout::Plan;
use baton_rollout::{
    GroupState, MemberFile, Rollout, RolloutKind, RolloutState, Turn, TurnFile, TurnState,
};
use baton_types::policy::{OnNotReady, Policy, Strategy};
use baton_types::{Moment, Name, NodeId, RolloutId, Target, WallTime};
use baton_wire::{Manner, Terms, TurnId};

use crate::depot::release;

pub(super) fn node(number: u128) -> NodeId {
    NodeId::from_random(number << 64)
}

/// Three members on release 1; release 2 is rolled out and nobody had his turn yet.
pub(super) fn running() -> GroupState {
    let target = |version| Target::of(release(version));
    let rollout = Rollout {
        id: RolloutId::from_random(2),
        kind: RolloutKind::Update,
        state: RolloutState::Running,
        reason: "".into(),
        paused_by_fault: false,
        from: Some(target("1")),
        to: target("2"),
        plan: Plan {
            update: Policy::default(),
            rollback: Policy::default(),
            strategy: Strategy::Rolling,
            depot: "file:///depot".to_owned(),
            channel: Name::new("stable").expect("a name"),
            promotion: Some(2),
        },
        started_at: WallTime(0),
        updated_at: WallTime(0),
        phase: 1,
        prepared: true,
        epoch: 0,
        total: 3,
        group_size: 3,
        accepted: 0,
        failures_before: 0,
        wave: 0,
        ending: None,
        turns: (1..=3).map(|number| Turn::waiting(node(number), 1)).collect(),
    };
    GroupState {
        baselines: vec![target("1")],
        completed: vec![target("1")],
        rollout: Some(Box::new(rollout)),
        ..GroupState::default()
    }
}

pub(super) fn rollout(state: &mut GroupState) -> &mut Rollout {
    state.rollout.as_deref_mut().expect("a rollout")
}

pub(super) fn turn(state: &mut GroupState, number: u128) -> &mut Turn {
    rollout(state).turn_mut(node(number)).expect("a turn")
}

/// The same record with one turn in another state.
pub(super) fn with(state: &GroupState, number: u128, to: TurnState) -> GroupState {
    let mut state = state.clone();
    let turn = turn(&mut state, number);
    turn.state = to;
    turn.attempts = 1;
    state
}

/// What a member has on its disk at that stage of its turn in [`running`].
pub(super) fn member_file(stage: Stage) -> MemberFile {
    let terms = Terms {
        manner: Manner::Bring,
        target: Target::of(release("2")),
        baseline: None,
        depot: String::new(),
        start_timeout: Duration::ZERO,
        monitor: Duration::ZERO,
        ready_timeout: Duration::ZERO,
        on_not_ready: OnNotReady::Fail,
    };
    let turn = TurnFile {
        turn: TurnId { rollout: RolloutId::from_random(2), phase: 1, attempt: 1 },
        terms,
        stage,
        boot: [0; 16],
        boots: 0,
        since: Moment(0),
    };
    MemberFile { turn: Some(turn), ..MemberFile::default() }
}
