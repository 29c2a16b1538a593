//! What members are told: derived from the committed record, repeated at a bounded rate.
//!
//! Invariant: a *go* names the claim with which the turn is committed as *taken*; a turn that is
//! to be withdrawn is told nothing else.

use std::collections::BTreeSet;

use baton_types::member::Prepared;
use baton_types::{ClaimId, NodeId};
use baton_wire::{Terms, TurnId, TurnMessage, TurnStep};

use crate::limits::RESEND_SLOW;
use crate::rollout::{Rollout, RolloutState, Turn, TurnState};
use crate::rules::{budget, order};
use crate::state::GroupState;
use crate::view::{Liveness, View};

use super::inbox::prepared_at;
use super::{Alarm, Lead};

/// What was told last: a change is told at once, the same again only after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Prepare(baton_types::RolloutId),
    Offer(TurnId),
    Go(TurnId, ClaimId),
    Withdraw(TurnId),
}

impl Lead {
    /// Messages that are due by the committed `state`.
    pub(super) fn sends(
        &mut self,
        alarm: &mut Alarm,
        state: &GroupState,
        view: &View,
    ) -> Vec<(NodeId, TurnMessage)> {
        let mut sends = self.keep_outcomes(state);
        for (node, turn) in std::mem::take(&mut self.unknown) {
            sends.push((node, TurnMessage::Withdraw { turn }));
        }
        let Some(rollout) = state.rollout.as_deref() else {
            self.told.clear();
            return sends;
        };
        let known: BTreeSet<NodeId> = rollout.turns.iter().map(|turn| turn.node).collect();
        self.told.retain(|node, _| known.contains(node));
        for turn in &rollout.turns {
            let Some((told, quick)) = self.to_tell(state, rollout, view, turn) else {
                self.told.remove(&turn.node);
                continue;
            };
            let gone = view.members.get(&turn.node).is_none_or(|m| m.liveness.is_gone());
            let wait = if quick && !gone { self.settings.resend } else { RESEND_SLOW };
            let due = match self.told.get(&turn.node) {
                Some((before, at)) if *before == told => alarm.is_due(*at + wait),
                _ => true,
            };
            if due {
                self.told.insert(turn.node, (told, alarm.now));
                alarm.at(alarm.now + wait);
                sends.push((turn.node, message(told, rollout)));
            }
        }
        sends
    }

    /// Outcomes that members repeat are acknowledged once no committed turn waits for them.
    fn keep_outcomes(&mut self, state: &GroupState) -> Vec<(NodeId, TurnMessage)> {
        let open = |node: NodeId, id: TurnId| {
            state.rollout.as_deref().is_some_and(|rollout| {
                rollout.turn(node).is_some_and(|t| t.state.is_open() && rollout.turn_id(t) == id)
            })
        };
        let mut sends = Vec::new();
        self.owed.retain(|node, turn| {
            let waits = open(*node, *turn);
            if !waits {
                sends.push((*node, TurnMessage::OutcomeKept { turn: *turn }));
            }
            waits
        });
        sends
    }

    /// What the member of `turn` is to be told, and whether it has not yet shown that it heard.
    fn to_tell(
        &self,
        state: &GroupState,
        rollout: &Rollout,
        view: &View,
        turn: &Turn,
    ) -> Option<(Told, bool)> {
        let id = rollout.turn_id(turn);
        let step =
            self.progress.get(&turn.node).filter(|(of, _, _)| *of == id).map(|(_, r, _)| r.step);
        match turn.state {
            TurnState::Waiting if rollout.state == RolloutState::Preparing => {
                let view_member = view.members.get(&turn.node)?;
                if view_member.liveness != Liveness::Alive {
                    return None;
                }
                let prepared = prepared_at(self, rollout, view, turn.node);
                if prepared == Some(&Prepared::Ready) {
                    return None;
                }
                Some((Told::Prepare(rollout.id), prepared.is_none()))
            }
            TurnState::Offered if must_withdraw(state, rollout, view, turn, &self.lasting) => {
                Some((Told::Withdraw(id), true))
            }
            TurnState::Offered => Some((Told::Offer(id), step.is_none())),
            TurnState::Taken => {
                let claim = turn.claim?;
                let quick = step.is_none_or(|step| step < TurnStep::Stopping);
                Some((Told::Go(id, claim), quick))
            }
            _ => None,
        }
    }
}

/// Whether an offer is to be taken back: the rollout ends or turned round, its member was
/// cordoned, or a member that fell ill goes first.
pub(super) fn must_withdraw(
    state: &GroupState,
    rollout: &Rollout,
    view: &View,
    turn: &Turn,
    lasting: &BTreeSet<NodeId>,
) -> bool {
    if turn.state != TurnState::Offered {
        return false;
    }
    let turned = rollout.ending.is_some() || turn.phase < rollout.phase;
    turned || state.cordons.contains(&turn.node) || gives_way(state, rollout, view, turn, lasting)
}

/// A healthy member that may not be taken because another one is ill gives its place to that one,
/// if a turn may heal it.
fn gives_way(
    state: &GroupState,
    rollout: &Rollout,
    view: &View,
    turn: &Turn,
    lasting: &BTreeSet<NodeId>,
) -> bool {
    let healthy = |node: NodeId| view.members.get(&node).is_some_and(|member| member.is_healthy());
    if !rollout.state.offers() || !healthy(turn.node) {
        return false;
    }
    let Some(first) = order::candidates(rollout, view, lasting).first().copied() else {
        return false;
    };
    let ill = view.members.get(&first).is_some_and(|m| {
        m.liveness == Liveness::Alive && m.ever_ran() && !m.is_healthy() && !m.in_turn_elsewhere
    });
    ill && budget::blocker(state, rollout, view, first).is_some()
        && budget::blocker(state, rollout, view, turn.node).is_some()
}

/// The message that tells it.
fn message(told: Told, rollout: &Rollout) -> TurnMessage {
    match told {
        Told::Prepare(id) => TurnMessage::Prepare {
            rollout: id,
            target: rollout.target().clone(),
            depot: rollout.plan.depot.clone(),
        },
        Told::Offer(turn) => TurnMessage::Offer { turn, terms: Box::new(terms(rollout)) },
        Told::Go(turn, claim) => TurnMessage::Go { turn, claim },
        Told::Withdraw(turn) => TurnMessage::Withdraw { turn },
    }
}

/// The terms of a turn of `rollout` in its phase.
fn terms(rollout: &Rollout) -> Terms {
    let policy = rollout.policy();
    Terms {
        manner: rollout.kind.manner(),
        target: rollout.target().clone(),
        baseline: rollout.from.clone(),
        depot: rollout.plan.depot.clone(),
        start_timeout: policy.start_timeout,
        monitor: policy.monitor,
        ready_timeout: policy.ready_timeout,
        on_not_ready: policy.on_not_ready,
    }
}
