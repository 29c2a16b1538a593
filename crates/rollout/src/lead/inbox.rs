//! What members say.
//!
//! Invariant: a message changes a turn only if it names the open attempt of that turn. A claim
//! turns *offered* into *taken* only while the rollout offers.

use baton_types::member::Prepared;
use baton_types::{ClaimId, NodeId, Now, Text};
use baton_wire::{TurnId, TurnMessage, TurnOutcome, TurnStep};

use crate::rollout::{Rollout, Turn, TurnState};
use crate::rules::budget;
use crate::state::GroupState;
use crate::view::View;

use super::draft::{enter_second_phase, set_member_target};
use super::sends::must_withdraw;
use super::{Lead, Reported};

impl Lead {
    /// Takes one message of `node` into account: what it changes goes into `draft`, what is only
    /// remembered stays here.
    pub(super) fn heard(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        node: NodeId,
        message: TurnMessage,
    ) {
        match message {
            TurnMessage::PrepareReport { rollout, digest, prepared } => {
                let current = draft.rollout.as_deref();
                if current.is_some_and(|r| r.id == rollout && r.turn(node).is_some()) {
                    self.prepared.insert(node, (rollout, digest, prepared));
                }
            }
            TurnMessage::Progress { turn, step, text, environment } => {
                self.progressed(now, draft, node, turn, Reported { step, text, environment });
            }
            TurnMessage::Claim { turn, claim } => {
                let reported = Reported {
                    step: TurnStep::Claiming,
                    text: Text::default(),
                    environment: false,
                };
                self.progressed(now, draft, node, turn, reported);
                self.claimed(draft, view, node, turn, claim);
            }
            TurnMessage::Outcome { turn, outcome, begun, reason } => {
                self.owed.insert(node, turn);
                ended(draft, node, turn, Verdict { outcome, begun, reason });
            }
            TurnMessage::Withdrawn { turn } => withdrawn(draft, node, turn),
            // A leader's own kinds of messages: from a node that believes that it leads. Its
            // ledger will tell it.
            TurnMessage::Prepare { .. }
            | TurnMessage::Offer { .. }
            | TurnMessage::Go { .. }
            | TurnMessage::OutcomeKept { .. }
            | TurnMessage::Withdraw { .. } => {}
        }
    }

    fn progressed(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        node: NodeId,
        id: TurnId,
        reported: Reported,
    ) {
        let Some((_, turn)) = open_turn(draft, node, id) else { return };
        let monitored = reported.step == TurnStep::Monitoring && turn.state == TurnState::Taken;
        if monitored {
            turn.state = TurnState::Monitoring;
        }
        let since = match self.progress.get(&node) {
            Some((known, before, since)) if *known == id && before.step == reported.step => *since,
            _ => now.moment,
        };
        self.progress.insert(node, (id, reported, since));
    }

    fn claimed(
        &mut self,
        draft: &mut GroupState,
        view: &View,
        node: NodeId,
        id: TurnId,
        claim: ClaimId,
    ) {
        let Some(rollout) = draft.rollout.as_deref() else {
            self.unknown.insert(node, id);
            return;
        };
        let Some(turn) =
            rollout.turn(node).filter(|t| t.state.is_open() && rollout.turn_id(t) == id)
        else {
            self.unknown.insert(node, id);
            return;
        };
        let may_take = match turn.state {
            TurnState::Offered => {
                rollout.state.offers()
                    && !must_withdraw(draft, rollout, view, turn, &self.lasting)
                    && budget::blocker(draft, rollout, view, node).is_none()
            }
            // Not begun, or it would not claim: the new id replaces the old one. Members may have
            // fallen ill since then, so the budget is asked as for the first claim.
            TurnState::Taken => {
                turn.claim != Some(claim) && budget::blocker(draft, rollout, view, node).is_none()
            }
            _ => false,
        };
        if !may_take {
            return;
        }
        if let Some((_, turn)) = open_turn(draft, node, id) {
            turn.state = TurnState::Taken;
            turn.claim = Some(claim);
        }
    }
}

/// How a member says that its turn ended.
struct Verdict {
    outcome: TurnOutcome,
    begun: bool,
    reason: Text,
}

fn ended(draft: &mut GroupState, node: NodeId, id: TurnId, verdict: Verdict) {
    if let Some(turn) = lost_turn(draft, node, id) {
        (turn.attempts, turn.state) = (id.attempt, TurnState::Taken);
    }
    let Some((_, turn)) = open_turn(draft, node, id) else {
        heard_late(draft, node, id, verdict.outcome);
        return;
    };
    let state = match verdict.outcome {
        TurnOutcome::Passed => TurnState::Passed,
        TurnOutcome::Failed => TurnState::Failed,
        TurnOutcome::Skipped => TurnState::Skipped,
    };
    turn.reason = verdict.reason;
    close(draft, node, state, verdict.begun);
}

/// A later attempt than the record knows of: the one that gave it was lost with a majority of the
/// voters, and the group was formed anew.
fn lost_turn(draft: &mut GroupState, node: NodeId, id: TurnId) -> Option<&mut Turn> {
    let rollout = draft.rollout.as_deref_mut().filter(|rollout| rollout.id == id.rollout)?;
    let turn = rollout.turn_mut(node).filter(|turn| turn.phase == id.phase)?;
    let is_new = id.attempt > turn.attempts && id.attempt <= ATTEMPTS_MAX;
    let is_free = matches!(turn.state, TurnState::Waiting | TurnState::Offered);
    (is_new && is_free).then_some(turn)
}

/// The open turn of `node` ends in `state`. If its member may have acted on its *go* (`begun`), the
/// target of the turn is the member's from now on, unless it kept what it has.
pub(super) fn close(draft: &mut GroupState, node: NodeId, state: TurnState, begun: bool) {
    let Some(mut rollout) = draft.rollout.take() else { return };
    let (phase, ending, from) = (rollout.phase, rollout.ending.is_some(), rollout.from.clone());
    let keeps = rollout.kind.keeps();
    let given = rollout.turn(node).map(|turn| rollout.target_of_phase(turn.phase).clone());
    if let Some(turn) = rollout.turn_mut(node) {
        let taken = turn.state != TurnState::Offered || state == TurnState::Passed;
        if let Some(given) = given.filter(|_| taken && begun && !keeps) {
            set_member_target(draft, node, &given);
        }
        turn.state = state;
        turn.gone = false;
        turn.claim = None;
        if state == TurnState::Passed {
            turn.let_pass = false;
            turn.reason = Text::default();
        }
        if let Some(from) = from
            && turn.phase < phase
            && !ending
        {
            enter_second_phase(turn, draft, &from);
        }
    }
    draft.rollout = Some(rollout);
}

fn withdrawn(draft: &mut GroupState, node: NodeId, id: TurnId) {
    let Some((_, turn)) = open_turn(draft, node, id) else { return };
    if turn.state == TurnState::Monitoring {
        return;
    }
    turn.state = TurnState::Waiting;
    turn.claim = None;
    let Some(mut rollout) = draft.rollout.take() else { return };
    let (phase, from) = (rollout.phase, rollout.from.clone());
    if let (Some(turn), Some(from)) = (rollout.turn_mut(node), from)
        && turn.phase < phase
    {
        enter_second_phase(turn, draft, &from);
    }
    draft.rollout = Some(rollout);
}

/// A verdict that stands is not changed by an outcome that comes after it, but a person may know.
fn heard_late(draft: &mut GroupState, node: NodeId, id: TurnId, outcome: TurnOutcome) {
    let Some(rollout) = draft.rollout.as_deref_mut().filter(|r| r.id == id.rollout) else { return };
    let Some(turn) = rollout.turn_mut(node) else { return };
    let judged =
        turn.state == TurnState::Failed && (turn.phase, turn.attempts) == (id.phase, id.attempt);
    if judged && outcome == TurnOutcome::Passed && !turn.reason.as_str().ends_with(LATE) {
        turn.reason = Text::new(&format!("{}; {LATE}", turn.reason));
    }
}

/// The open turn of `node` if `id` names its open attempt.
pub(super) fn open_turn(
    draft: &mut GroupState,
    node: NodeId,
    id: TurnId,
) -> Option<(u8, &mut Turn)> {
    let rollout: &mut Rollout = draft.rollout.as_deref_mut()?;
    let phase = rollout.phase;
    if rollout.id != id.rollout {
        return None;
    }
    let turn = rollout.turn_mut(node)?;
    let same = (turn.phase, turn.attempts) == (id.phase, id.attempt);
    (turn.state.is_open() && same).then_some((phase, turn))
}

/// How far the fetch of `rollout`'s target is at `node`: by its own report, else by gossip.
pub(super) fn prepared_at<'a>(
    lead: &'a Lead,
    rollout: &Rollout,
    view: &'a View,
    node: NodeId,
) -> Option<&'a Prepared> {
    let digest = rollout.target().key();
    let reported = lead
        .prepared
        .get(&node)
        .filter(|(id, of, _)| *id == rollout.id && *of == digest)
        .map(|(_, _, prepared)| prepared);
    let seen = || {
        let (of, prepared) = view.members.get(&node)?.prepared.as_ref()?;
        (*of == digest).then_some(prepared)
    };
    reported.or_else(seen)
}

/// More attempts than any member gets; counting on from what it says must not overflow.
const ATTEMPTS_MAX: u32 = 1 << 20;

const LATE: &str = "it reported success later";
