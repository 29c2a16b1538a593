//! What the leader says.
//!
//! Invariant: only a *go* that answers the claim in memory, within its window, begins a turn; no
//! message ends, withdraws or displaces one that has begun.

use baton_types::{ClaimId, NodeId, Now, Text};
use baton_wire::turn::DEPOT_MAX_BYTES;
use baton_wire::{Terms, TurnId, TurnMessage, TurnOutcome};

use super::file::{Stage, TurnFile};
use super::{Doing, Kept, Member, MemberOutput};

impl Member {
    /// A message of the group's leader. Which node sent it does not matter: a *go* is proof by
    /// its claim, everything else does no harm.
    pub fn receive(&mut self, now: Now, _from: NodeId, message: TurnMessage) {
        match message {
            TurnMessage::Prepare { rollout, target, depot } if depot.len() <= DEPOT_MAX_BYTES => {
                self.prepare(rollout, target, depot);
            }
            TurnMessage::Offer { turn, terms } if terms.depot.len() <= DEPOT_MAX_BYTES => {
                self.offered(now, turn, *terms);
            }
            TurnMessage::Go { turn, claim } => self.told_go(now, turn, claim),
            TurnMessage::OutcomeKept { turn } => self.outcome_kept(now, turn),
            TurnMessage::Withdraw { turn } => self.withdraw(now, turn),
            _ => {}
        }
    }

    fn offered(&mut self, now: Now, id: TurnId, terms: Terms) {
        let had = |turn: TurnId| {
            turn.rollout == id.rollout && (id.phase, id.attempt) <= (turn.phase, turn.attempt)
        };
        if let Some(Kept { turn, outcome, begun, reason }) =
            self.kept.clone().filter(|kept| had(kept.turn))
        {
            let message = TurnMessage::Outcome { turn, outcome, begun, reason };
            self.outputs.push_back(MemberOutput::Send(message));
            return;
        }
        if let Some(turn) = &self.file.turn {
            match &turn.stage {
                Stage::Ended { .. } => return self.send_outcome(now),
                _ if turn.turn == id => return self.say_progress(now),
                stage if stage.is_disrupting() => return,
                _ => {}
            }
        }
        let mut terms = terms;
        let mut stage = Stage::Offered;
        if terms.manner.keeps() {
            match &self.file.running {
                Some(running) => terms.target.clone_from(running),
                None => {
                    let reason = Text::new("it runs nothing yet");
                    let outcome = TurnOutcome::Skipped;
                    stage = Stage::Ended { outcome, begun: false, reason };
                }
            }
        }
        if terms.baseline.is_some() {
            self.file.baseline.clone_from(&terms.baseline);
        }
        self.file.turn =
            Some(TurnFile { turn: id, terms, stage, boot: self.boot, boots: 0, since: now.moment });
        self.forget_turn_memory();
        self.save();
    }

    fn told_go(&mut self, now: Now, id: TurnId, claim: ClaimId) {
        let Some(claimed) = self.claim.filter(|claimed| claimed.id == claim) else { return };
        let in_window = now.moment.since(claimed.at) <= self.settings.claim_window;
        let keeps = self.file.running.clone();
        let healthy = self.healthy;
        let Some(turn) = self.file.turn.as_mut().filter(|turn| turn.turn == id) else { return };
        if self.doing != Doing::Claiming || !in_window || turn.stage != Stage::Installed {
            return;
        }
        let runs_it = keeps.is_some_and(|running| running.same_as(&turn.terms.target));
        let stays = runs_it && healthy && !turn.terms.manner.keeps();
        turn.stage = if stays { Stage::Monitoring } else { Stage::Begun };
        turn.since = now.moment;
        self.doing = Doing::Idle;
        self.note = Text::default();
        self.save();
    }

    fn outcome_kept(&mut self, now: Now, id: TurnId) {
        let Some(turn) = self.file.turn.as_ref().filter(|turn| turn.turn == id) else { return };
        let Stage::Ended { outcome, begun, reason } = turn.stage.clone() else { return };
        self.kept = Some(Kept { turn: id, outcome, begun, reason });
        self.file.turn = None;
        self.forget_turn_memory();
        self.save();
        self.show_phase(now);
    }

    fn withdraw(&mut self, now: Now, id: TurnId) {
        match self.file.turn.as_ref().filter(|turn| turn.turn == id) {
            Some(turn) if turn.stage.is_before_begun() => {
                self.file.turn = None;
                self.forget_turn_memory();
                self.withdrawn = Some(id);
                self.save();
                self.show_phase(now);
            }
            Some(turn) if matches!(turn.stage, Stage::Ended { .. }) => self.send_outcome(now),
            Some(_) => self.say_progress(now),
            None if self.withdrawn == Some(id) => {}
            None => self.outputs.push_back(MemberOutput::Send(TurnMessage::Withdrawn { turn: id })),
        }
    }

    /// What was remembered of a turn beside its record.
    pub(super) fn forget_turn_memory(&mut self) {
        self.doing = Doing::Idle;
        self.claim = None;
        self.faults = 0;
        self.note = Text::default();
        self.environment = false;
        self.withdrawn = None;
        self.sent = None;
    }
}
