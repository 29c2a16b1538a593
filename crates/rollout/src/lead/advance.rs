//! What follows by itself: absent members, elapsed times, too many failures, the next offers, the
//! end, and what comes after it.

use std::collections::BTreeSet;

use baton_types::policy::{Approve, OnFailure};
use baton_types::{NodeId, Now, Text};

use crate::rollout::{Rollout, RolloutKind, RolloutState, Turn, TurnState};
use crate::rules::{budget, failures, order, start, zones};
use crate::state::GroupState;
use crate::view::{Liveness, MemberView, View};

use super::draft::{begin_rollback, finish_if_over};
use super::inbox::{close, prepared_at};
use super::notes::Note;
use super::{Alarm, Lead, wait};
use baton_types::member::Prepared;
use baton_wire::Manner;

impl Lead {
    /// Brings `draft` to where nothing more follows at this moment.
    pub(super) fn advance(
        &mut self,
        now: Now,
        alarm: &mut Alarm,
        draft: &mut GroupState,
        view: &View,
    ) {
        // One rollout ends and the next begins within one record; more is not possible.
        for _ in 0..2 {
            self.launch_next(now, alarm, draft, view);
            self.follow_illness(alarm, draft, view);
            follow_members(draft, view);
            self.judge_turns(alarm, draft, view);
            judge_failures(draft, view);
            self.judge_times(now, alarm, draft, view);
            self.judge_environment(draft, view);
            self.end_preparing(draft, view);
            self.next_wave(alarm, draft, view);
            self.offer(alarm, draft, view);
            if !finish_if_over(draft, now) {
                break;
            }
        }
    }

    fn launch_next(&mut self, now: Now, alarm: &mut Alarm, draft: &mut GroupState, view: &View) {
        if draft.rollout.is_some() {
            self.strays.clear();
            return;
        }
        let planned = match draft.next.take() {
            Some(next) => Some(*next),
            None => self.catch_up(now, alarm, draft, view),
        };
        let Some(planned) = planned else { return };
        if planned.kind.is_step() {
            draft.gave_up.clear();
        }
        let rollout = start::launch(planned, draft, view, now);
        draft.last = None;
        draft.rollout = Some(Box::new(rollout));
    }

    /// A rollout for members that have not what the ledger wants them to have, once that has been
    /// seen for a while: gossip about the last turn may be on its way.
    fn catch_up(
        &mut self,
        now: Now,
        alarm: &mut Alarm,
        draft: &GroupState,
        view: &View,
    ) -> Option<Rollout> {
        if draft.pause.is_some() || !view.held.is_empty() {
            self.strays.clear();
            return None;
        }
        let strays: Vec<NodeId> = view
            .members
            .keys()
            .filter(|node| start::wants_catch_up(draft, view, **node).is_some())
            .copied()
            .collect();
        self.strays.retain(|node, _| strays.contains(node));
        for node in strays {
            let since = *self.strays.entry(node).or_insert(now.moment);
            if !alarm.is_due(since + CATCH_UP_SETTLE) {
                continue;
            }
            if let Some(target) = start::wants_catch_up(draft, view, node).cloned() {
                return Some(self.plan(now, view, RolloutKind::CatchUp, target, None));
            }
        }
        None
    }

    /// Who has been ill for longer than a start may take, and will not heal by itself. How long one was
    /// away says nothing of how it is when it is back.
    fn follow_illness(&mut self, alarm: &mut Alarm, draft: &GroupState, view: &View) {
        let patience = draft
            .rollout
            .as_deref()
            .map_or(view.settings.update.start_timeout, |r| r.plan.update.start_timeout);
        let ill = |node: &NodeId| {
            view.members.get(node).is_some_and(|member| {
                member.liveness == Liveness::Alive && member.ever_ran() && !member.is_healthy()
            })
        };
        self.ill.retain(|node, _| ill(node));
        self.lasting.clear();
        for node in view.members.keys().filter(|node| ill(node)) {
            let since = *self.ill.entry(*node).or_insert(alarm.now);
            if alarm.is_due(since + patience) {
                self.lasting.insert(*node);
            }
        }
    }

    /// Turns that took too long. Only the leader judges that, from its own note.
    fn judge_turns(&mut self, alarm: &mut Alarm, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref() else { return };
        // A state that is not committed yet has no clock yet.
        let Some(stands) = self.notes.stands(rollout) else { return };
        let mut late = Vec::new();
        for turn in rollout.open_turns() {
            let offered = turn.state == TurnState::Offered;
            if offered && rollout.state.is_paused() && rollout.ending.is_none() {
                continue;
            }
            let opened = Note::Open(rollout.id, turn.phase, turn.node, turn.attempts);
            let Some(since) = self.notes.since(opened) else { continue };
            // What was paused, resumed or turned round since is given its time anew.
            let since = since.max(stands);
            let timeout = rollout.policy().turn_timeout.max(rollout.plan.update.turn_timeout);
            if alarm.is_due(since + timeout + self.settings.claim_window) {
                let withdrawn =
                    super::sends::must_withdraw(draft, rollout, view, turn, &self.lasting);
                late.push((turn.node, offered && withdrawn, timeout));
            }
        }
        for (node, withdrawn, timeout) in late {
            let Some(rollout) = draft.rollout.as_deref_mut() else { return };
            let last = self.last_words(node, view, rollout.kind.manner());
            let Some(turn) = rollout.turn_mut(node) else { continue };
            let took = baton_types::exact_duration(timeout);
            turn.reason = Text::new(&format!("not done within {took}{last}"));
            let state = if withdrawn { TurnState::Skipped } else { TurnState::Failed };
            // Nobody knows whether it acted on its *go*.
            close(draft, node, state, true);
        }
    }

    /// ": monitoring: last output", as far as anything is known.
    fn last_words(&self, node: NodeId, view: &View, manner: Manner) -> String {
        match (self.progress.get(&node), view.members.get(&node)) {
            (_, Some(member)) if member.liveness != Liveness::Alive => {
                format!(": {} {}", member.name, member.complaint())
            }
            (Some((_, reported, _)), _) if reported.text.is_empty() => {
                format!(": {}", reported.step.word_in(manner))
            }
            (Some((_, reported, _)), _) => {
                format!(": {}: {}", reported.step.word_in(manner), reported.text)
            }
            _ => String::new(),
        }
    }

    /// `prepare_timeout` and `progress_timeout`.
    fn judge_times(&mut self, now: Now, alarm: &mut Alarm, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref().filter(|r| r.ending.is_none()) else { return };
        let (since, timeout, what) = match rollout.state {
            RolloutState::Preparing => (
                self.notes.stands(rollout),
                rollout.policy().prepare_timeout,
                "not every member could prepare",
            ),
            // A wave that waits for its approval or its soak is no lack of progress; one that has
            // soaked and is not well is.
            RolloutState::Running | RolloutState::RollingBack if wave_is_done(rollout) => {
                let policy = rollout.policy();
                let soaked = self.notes.ended(rollout).map(|at| at + policy.wave_soak);
                if policy.approve == Approve::Manual || !soaked.is_some_and(|at| alarm.is_due(at)) {
                    return;
                }
                let since = soaked.max(self.notes.progress(rollout));
                (since, policy.progress_timeout, "the wave that ended was not all well")
            }
            RolloutState::Running | RolloutState::RollingBack => (
                self.notes.progress(rollout),
                rollout.policy().progress_timeout,
                "no member passed",
            ),
            _ => return,
        };
        let Some(since) = since else { return };
        if !alarm.is_due(since + timeout) {
            return;
        }
        let blocker = wait::rollout_waits_for(self, now, draft, view, rollout);
        let took = baton_types::exact_duration(timeout);
        if let Some(rollout) = draft.rollout.as_deref_mut() {
            rollout.pause_by_fault(&format!("{what} within {took}: {blocker}"));
        }
    }

    /// A depot or a disk that fails before anything was stopped is no failure: it is named.
    fn judge_environment(&mut self, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref_mut() else { return };
        if !rollout.state.offers() || rollout.ending.is_some() {
            return;
        }
        let fault = rollout.open_turns().find_map(|turn| {
            let (id, reported, _) = self.progress.get(&turn.node)?;
            let now_so = *id == rollout.turn_id(turn) && reported.environment;
            now_so.then(|| {
                format!("{}: {}: {}", view.name(turn.node), reported.step.word(), reported.text)
            })
        });
        if let Some(fault) = fault {
            rollout.pause_by_fault(&format!("environment fault, nothing was stopped: {fault}"));
            // Said once: after `resume` the member has to say it again.
            self.progress.retain(|_, (_, reported, _)| !reported.environment);
        }
    }

    fn end_preparing(&mut self, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref() else { return };
        if rollout.state != RolloutState::Preparing || rollout.ending.is_some() {
            return;
        }
        let is_ready =
            |turn: &Turn| prepared_at(self, rollout, view, turn.node) == Some(&Prepared::Ready);
        let mut waiting = rollout.turns.iter().filter(|turn| turn.state == TurnState::Waiting);
        // What members have is not fetched.
        if !rollout.kind.keeps() && !waiting.all(is_ready) {
            return;
        }
        if let Some(rollout) = draft.rollout.as_deref_mut() {
            rollout.prepared = true;
            rollout.state = rollout.going_state();
        }
    }

    /// After a wave: soak, or wait for an approval.
    fn next_wave(&mut self, alarm: &mut Alarm, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref().filter(|r| r.state.offers()) else { return };
        let policy = rollout.policy();
        if !wave_is_done(rollout) || policy.approve == Approve::Manual {
            return;
        }
        let soaked =
            self.notes.ended(rollout).is_some_and(|at| alarm.is_due(at + policy.wave_soak));
        let well = ill_of_wave(draft, rollout, view).is_none();
        if (soaked && well)
            && let Some(rollout) = draft.rollout.as_deref_mut()
        {
            rollout.wave += 1;
            rollout.epoch += 1;
        }
    }

    fn offer(&mut self, alarm: &mut Alarm, draft: &mut GroupState, view: &View) {
        let Some(rollout) = draft.rollout.as_deref() else { return };
        if !rollout.state.offers() || rollout.ending.is_some() {
            return;
        }
        let delay = rollout.policy().delay;
        let ended = rollout.count(TurnState::Passed) + rollout.count(TurnState::Failed) > 0;
        if ended && !delay.is_zero() {
            let rested = self.notes.ended(rollout).is_some_and(|at| alarm.is_due(at + delay));
            if !rested {
                return;
            }
        }
        let mut full = false;
        for node in order::candidates(rollout, view, &self.lasting) {
            let Some(rollout) = draft.rollout.as_deref() else { return };
            let well = view.members.get(&node).is_some_and(|member| member.is_healthy());
            // What keeps one healthy member back keeps all others back: no need to count again.
            if full && well {
                continue;
            }
            let blocked = !in_wave(rollout)
                || zones::other_is_open(rollout, view, node)
                || zones::earlier_waits(rollout, view, node).is_some()
                || budget::blocker(draft, rollout, view, node).is_some();
            if blocked {
                let elsewhere = view.members.get(&node).is_some_and(|m| m.in_turn_elsewhere);
                full |= well && !elsewhere;
                continue;
            }
            if let Some(turn) = draft.rollout.as_deref_mut().and_then(|r| r.turn_mut(node)) {
                turn.state = TurnState::Offered;
                turn.attempts += 1;
                turn.claim = None;
                turn.reason = Text::default();
            }
        }
    }
}

/// Members that came, went, came back, or were cordoned while they wait.
fn follow_members(draft: &mut GroupState, view: &View) {
    let cordons = draft.cordons.clone();
    let Some(rollout) = draft.rollout.as_deref_mut().filter(|r| r.ending.is_none()) else { return };
    let fresh = rollout.turns.iter().all(|turn| turn.attempts == 0) && !rollout.prepared;
    let phase = rollout.phase;
    for turn in rollout.turns.iter_mut().filter(|turn| turn.phase == phase) {
        let away = match view.members.get(&turn.node) {
            _ if cordons.contains(&turn.node) => Some("cordoned".to_owned()),
            Some(member) if member.liveness.is_gone() || member.stopped_by_operator => {
                Some(format!("{} {}", member.name, member.complaint()))
            }
            Some(_) => None,
            None => Some("not known to the ring any more".to_owned()),
        };
        match (turn.state, away) {
            (TurnState::Waiting, Some(why)) => {
                turn.state = if fresh { TurnState::Absent } else { TurnState::Skipped };
                turn.gone = true;
                turn.reason = Text::new(&why);
            }
            (TurnState::Skipped | TurnState::Absent, None) if turn.gone => {
                *turn = Turn { attempts: turn.attempts, ..Turn::waiting(turn.node, phase) };
            }
            _ => {}
        }
    }
    let takes_newcomers = phase == 1 && rollout.kind.is_step();
    if !takes_newcomers || fresh {
        return;
    }
    let there = |node: &NodeId| {
        view.members.get(node).is_some_and(|member| member.liveness == Liveness::Alive)
            && !cordons.contains(node)
    };
    let known: BTreeSet<NodeId> = rollout.turns.iter().map(|turn| turn.node).collect();
    let is_new = |node: &NodeId| !known.contains(node) && there(node);
    if !view.members.keys().any(is_new) {
        return;
    }
    let new: Vec<NodeId> = order::order(view, false).into_iter().filter(is_new).collect();
    let room = baton_types::limits::GROUP_MAX_MEMBERS.saturating_sub(rollout.turns.len());
    rollout.turns.extend(new.into_iter().take(room).map(|node| Turn::waiting(node, phase)));
}

/// What too many failures do; and members that failed within what is tolerated no longer count as
/// unavailable.
fn judge_failures(draft: &mut GroupState, view: &View) {
    let Some(rollout) = draft.rollout.as_deref_mut().filter(|r| r.ending.is_none()) else { return };
    if rollout.paused_by_fault {
        return;
    }
    let exceeded = failures::exceeded(rollout);
    let consequence = failures::consequence(rollout);
    if exceeded && consequence != OnFailure::Continue {
        let mut reason = failure_text(rollout, view);
        if rollout.kind.keeps() && rollout.policy().on_failure == OnFailure::Rollback {
            reason += &format!("; a {} has no way back, so it is paused", rollout.kind);
        }
        match consequence {
            OnFailure::Rollback => begin_rollback(draft, &reason),
            _ => rollout.pause_by_fault(&reason),
        }
        return;
    }
    let phase = rollout.phase;
    for turn in rollout.turns.iter_mut().filter(|turn| turn.phase == phase) {
        turn.let_pass |= turn.state == TurnState::Failed;
    }
}

/// "n3 failed: exited within 5s".
fn failure_text(rollout: &Rollout, view: &View) -> String {
    let failed: Vec<&Turn> = rollout
        .turns
        .iter()
        .filter(|turn| {
            turn.phase == rollout.phase && turn.state == TurnState::Failed && !turn.let_pass
        })
        .collect();
    match failed.as_slice() {
        [] => "too many members failed".to_owned(),
        [turn] => format!("{} failed: {}", view.name(turn.node), turn.reason),
        [turn, ..] => {
            format!("{} members failed; {}: {}", failed.len(), view.name(turn.node), turn.reason)
        }
    }
}

/// Members that had their turn, of the phase under way.
fn had_turn(rollout: &Rollout) -> usize {
    let concerned = rollout.turns.iter().filter(|turn| turn.phase == rollout.phase);
    concerned.filter(|turn| turn.state != TurnState::Waiting).count()
}

/// Whether another member may be offered a turn before the wave under way ends.
fn in_wave(rollout: &Rollout) -> bool {
    match rollout.policy().waves.get(rollout.wave as usize) {
        Some(wave) => had_turn(rollout) < wave.wave_end(rollout.concerned()),
        None => true,
    }
}

/// Whether every member of the wave under way has had its turn.
pub(super) fn wave_is_done(rollout: &Rollout) -> bool {
    let wave = rollout.policy().waves.get(rollout.wave as usize);
    wave.is_some() && !in_wave(rollout) && rollout.open_turns().next().is_none()
}

/// A member that passed and is not well, which holds the next wave up. One that is gone for good or
/// that an operator leaves out holds up nobody.
pub(super) fn ill_of_wave<'a>(
    state: &GroupState,
    rollout: &Rollout,
    view: &'a View,
) -> Option<&'a MemberView> {
    let passed = rollout.turns.iter().filter(|turn| turn.state == TurnState::Passed);
    let counted = passed.filter(|turn| !state.cordons.contains(&turn.node));
    let mut members = counted.filter_map(|turn| view.members.get(&turn.node));
    members.find(|member| member.liveness != Liveness::Left && !member.is_healthy())
}

/// How long gossip may take to tell what a member runs since its turn ended.
const CATCH_UP_SETTLE: std::time::Duration = std::time::Duration::from_secs(3);
