//! What operators type: each command by its id exactly once, each answer a sentence.
//!
//! Invariant: an answer is kept in the same record as its effect, so a repeat gets the first
//! result and changes nothing.

use baton_types::{
    Command, CommandAction, CommandAnswer, CommandResult, NodeId, NodeName, Now, RolloutId, Target,
    Text, Version,
};

use crate::rollout::{Rollout, RolloutKind, RolloutState, TurnState};
use crate::rules::baseline::{Back, last_ended, rollback_of_ended};
use crate::rules::start::planned;
use crate::state::{Acted, GroupState, Pause};
use crate::view::View;

use super::apply::Applied;
use super::draft::{begin_ending, begin_rollback, supersede};
use super::{Found, Lead};

/// What a command comes to: the sentence, or the sentence why not.
type Reply = Result<String, String>;

impl Lead {
    /// Carries `command` out in `draft`, unless it was before, and answers.
    pub(super) fn command(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        command: &Command,
        found: Option<Result<Found, Text>>,
    ) -> CommandAnswer {
        if let Some(answer) = draft.answer_to(command.id) {
            return answer.clone();
        }
        let group = view.group();
        let reply = match &command.action {
            CommandAction::Start { version } => {
                self.start(now, draft, view, version.as_ref(), found)
            }
            CommandAction::Pause => pause(now, draft, view, &command.by),
            CommandAction::Resume => resume(draft, &group),
            CommandAction::Cancel => cancel(draft, view, &command.by),
            CommandAction::Rollback { to } => {
                self.rollback(now, draft, view, to.as_ref(), &command.by)
            }
            CommandAction::Retry => self.retry(now, draft, view),
            CommandAction::Approve => approve(draft),
            CommandAction::Cordon { node } => cordon(draft, view, *node),
            CommandAction::Adopt { .. } => {
                Err("lineages are the ledger's: this command is not for the rollout".to_owned())
            }
            CommandAction::Reform => Err(format!(
                "{group} has a leader: `reform` is for a group whose majority of voters is lost \
                 for good"
            )),
            CommandAction::Uncordon { node } => uncordon(draft, view, *node),
            CommandAction::ApplyConfig { digest } => {
                match self.apply(now, draft, view, *digest, &command.by) {
                    Ok(Applied::Starts(message)) => Ok(message),
                    Ok(Applied::Already(message, rollout)) => {
                        return answer(CommandResult::Done, &message, rollout);
                    }
                    Err(message) => Err(message),
                }
            }
            CommandAction::ReadChannel => {
                self.read_channel = true;
                return answer(CommandResult::Done, "the channel is read now", shown(draft));
            }
            CommandAction::Restart => self.again(now, draft, view, RolloutKind::Restart),
            CommandAction::Reboot => self.again(now, draft, view, RolloutKind::Reboot),
            CommandAction::RemoveVoter { .. } => {
                Err("voters are the ledger's: this command is not for the rollout".to_owned())
            }
        };
        if reply.is_ok() && command.action == CommandAction::Resume {
            // Whoever waits for the end of what starts now must be told its id, not the last one's.
            self.follow_channel(now, draft, view);
        }
        let answer = match reply {
            Ok(message) => answer(CommandResult::Done, &message, shown(draft)),
            Err(message) => answer(CommandResult::Refused, &message, shown(draft)),
        };
        // A refusal changes nothing, so it is not worth a record: asked again it may succeed.
        if answer.result == CommandResult::Done {
            draft.remember(command.id, answer.clone());
        }
        answer
    }

    /// A planned rollout under a fresh id.
    pub(super) fn plan(
        &mut self,
        now: Now,
        view: &View,
        kind: RolloutKind,
        to: Target,
        promotion: Option<u64>,
    ) -> Rollout {
        planned(self.fresh_id(), kind, to, promotion, &view.settings, now)
    }

    fn start(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        version: Option<&Version>,
        found: Option<Result<Found, Text>>,
    ) -> Reply {
        let group = view.group();
        let found = match found {
            Some(Ok(found)) => found,
            Some(Err(why)) => return Err(why.to_string()),
            None => return Err("the depot was not asked for the release; type it again".to_owned()),
        };
        let target = Target { release: found.release, config: draft.config_in_force() };
        if let Some(rollout) = draft.next.as_deref().or(draft.rollout.as_deref())
            && rollout.ending.is_none()
            && rollout.phase == 1
            && rollout.kind.is_step()
            && rollout.to.same_as(&target)
        {
            let hint = match rollout.state {
                RolloutState::Paused => format!(
                    ", paused: `baton rollout resume {group}` goes on, `baton rollout retry \
                     {group}` gives failed members a new attempt"
                ),
                _ => format!(": `baton rollout status {group}` shows it"),
            };
            return Err(format!("a rollout to {target} is under way{hint}"));
        }
        if version.is_none()
            && let Some(rejected) = draft.rejection(&target)
        {
            return Err(format!(
                "{target} was rejected ({}): `baton rollout retry {group}` or `baton rollout \
                 start {group} --release {}` allows it again",
                rejected.why, target.release.id.version
            ));
        }
        if draft.is_uniform() && draft.baseline().is_some_and(|baseline| baseline.same_as(&target))
        {
            return Err(format!("{target} is the baseline already; every member has it"));
        }
        draft.allow(&target);
        if let Some(promotion) = found.promotion {
            note_acted(draft, &found.depot, promotion);
        }
        let old = draft.rollout.as_deref().map(superseded);
        let new = self.plan(now, view, RolloutKind::Update, target.clone(), found.promotion);
        supersede(draft, new);
        let paused = held(draft, &group);
        Ok(match old {
            Some(old) => format!("{target} supersedes {old}; turns under way end first{paused}"),
            None => format!("rollout to {target} starts{paused}"),
        })
    }

    fn rollback(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        to: Option<&Version>,
        by: &NodeName,
    ) -> Reply {
        let group = view.group();
        if let Some(rollout) = draft.rollout.as_deref()
            && rollout.kind.is_step()
            && rollout.ending.is_none()
        {
            if rollout.phase >= 2 {
                return Err(format!(
                    "a rollback to {} is under way ({}): `baton rollout resume {group}` or \
                     `baton rollout retry {group}` if it is paused, `baton rollout start {group}` \
                     for another release",
                    rollout.target(),
                    rollout.state
                ));
            }
            let Some(from) = rollout.from.clone() else {
                return Err(format!(
                    "this is the group's first rollout: there is nothing to roll back to; `baton \
                     rollout cancel {group}` ends it, `baton rollout start {group} --release V` \
                     tries another release"
                ));
            };
            let elsewhere = to.is_some_and(|version| from.release.id.version != *version);
            if !elsewhere {
                begin_rollback(draft, &format!("rollback typed at {by}"));
                return Ok(format!(
                    "rolling back to {from}; turns under way end first{}",
                    held(draft, &group)
                ));
            }
        }
        let under_way = draft.rollout.as_deref().map(|rollout| rollout.to.clone());
        // What is being cancelled is not over yet, but it is what is gone back from.
        let unfinished = draft.rollout.as_deref().filter(|r| r.kind.is_step());
        let back = match (unfinished.and_then(|rollout| rollout.from.clone()), to) {
            (Some(from), None) => Back { to: from, left: None },
            _ => rollback_of_ended(draft, to)?,
        };
        let rollout = self.plan(now, view, RolloutKind::Rollback, back.to.clone(), None);
        for left in [back.left, under_way].into_iter().flatten() {
            if !left.same_as(&back.to) {
                draft.reject(&left, &format!("rolled back at {by}"), rollout.id);
            }
        }
        draft.allow(&back.to);
        supersede(draft, rollout);
        Ok(format!("rolling back to {}{}", back.to, held(draft, &group)))
    }

    fn retry(&mut self, now: Now, draft: &mut GroupState, view: &View) -> Reply {
        let group = view.group();
        if draft.rollout.is_some() {
            return retry_members(draft, view);
        }
        let Some(last) = last_ended(draft).cloned() else {
            return Err("no rollout of this group has ended: there is nothing to retry".to_owned());
        };
        let target = left_by(draft, last.id).unwrap_or_else(|| last.to.clone());
        let rejected = draft.rejection(&target).is_some();
        let again = rejected || last.state == RolloutState::Cancelled;
        let is_baseline = draft.baseline().is_some_and(|baseline| baseline.same_as(&target));
        if again && !is_baseline {
            draft.allow(&target);
            let promotion = None;
            let kind = match last.kind {
                RolloutKind::Config => RolloutKind::Config,
                _ => RolloutKind::Update,
            };
            let new = self.plan(now, view, kind, target.clone(), promotion);
            supersede(draft, new);
            return Ok(format!("{target} is tried again{}", held(draft, &group)));
        }
        if draft.gave_up.is_empty()
            && let Some(ended) = draft.history.last().filter(|line| line.kind.keeps())
        {
            return Err(format!(
                "the {kind} that ended last is not tried again: `baton rollout {kind} {group}` \
                 starts another one for every member",
                kind = ended.kind
            ));
        }
        if draft.gave_up.is_empty() {
            return Err(format!(
                "the last rollout ended {}: there is nothing to retry; `baton rollout start \
                 {group}` starts one",
                last.state
            ));
        }
        draft.gave_up.clear();
        Ok(format!("members without their target get a new turn{}", held(draft, &group)))
    }
}

/// The target that this ended rollout left as bad: its own, or the one that it went back from.
fn left_by(draft: &GroupState, rollout: RolloutId) -> Option<Target> {
    let rejected = draft.rejected.iter().rev().find(|rejected| rejected.rollout == rollout)?;
    let known = draft.history.iter().rev().flat_map(|ended| [Some(&ended.to), ended.from.as_ref()]);
    known.flatten().find(|target| target.key() == rejected.digest).cloned()
}

fn retry_members(draft: &mut GroupState, view: &View) -> Reply {
    let group = view.group();
    // One that is gone gets its turn when it is back, and none before.
    let is_there = |node: &NodeId| view.members.get(node).is_some_and(|m| !m.liveness.is_gone());
    let pause = draft.pause.clone();
    let Some(rollout) = draft.rollout.as_deref_mut() else {
        return Err("no rollout is under way".to_owned());
    };
    if let Some(ending) = &rollout.ending {
        return Err(format!("the rollout is ending: {}", ending.reason));
    }
    let phase = rollout.phase;
    let mut again = 0;
    for turn in rollout.turns.iter_mut().filter(|turn| turn.phase == phase) {
        if matches!(turn.state, TurnState::Failed | TurnState::Skipped) && is_there(&turn.node) {
            turn.state = TurnState::Waiting;
            turn.let_pass = false;
            turn.gone = false;
            turn.reason = Text::default();
            again += 1;
        }
    }
    if again == 0 && !rollout.paused_by_fault {
        return Err(format!(
            "no member of this rollout has failed; `baton rollout status {group}` shows it"
        ));
    }
    rollout.accepted = 0;
    rollout.epoch += 1;
    rollout.paused_by_fault = false;
    rollout.reason = Text::default();
    rollout.state = rollout.going_state();
    if let Some(pause) = pause {
        rollout.state = rollout.paused_state();
        rollout.reason = Text::new(&format!("paused by {}", pause.by));
    }
    let target = rollout.to.clone();
    if phase == 1 {
        draft.allow(&target);
    }
    Ok(format!("{again} failed members get a new attempt, failures at 0{}", held(draft, &group)))
}

fn pause(now: Now, draft: &mut GroupState, view: &View, by: &NodeName) -> Reply {
    let group = view.group();
    if let Some(pause) = &draft.pause {
        return Err(format!(
            "paused already by {} at {}{}; `baton rollout resume {group}` goes on",
            pause.by,
            pause.at,
            pause.because()
        ));
    }
    draft.pause = Some(Pause { by: by.clone(), at: now.wall, why: Text::default() });
    let Some(rollout) = draft.rollout.as_deref_mut() else {
        return Ok(format!("paused: new targets wait until `baton rollout resume {group}`"));
    };
    if rollout.ending.is_none() && !rollout.paused_by_fault {
        rollout.state = rollout.paused_state();
        rollout.reason = Text::new(&format!("paused by {by}"));
    }
    let names = |state: &[TurnState]| {
        let turns = rollout.turns.iter().filter(|turn| state.contains(&turn.state));
        turns.map(|turn| view.name(turn.node)).collect::<Vec<_>>().join(", ")
    };
    let taken = names(&[TurnState::Taken, TurnState::Monitoring]);
    let offered = names(&[TurnState::Offered]);
    let mut message = "paused: no further turn is taken".to_owned();
    if !taken.is_empty() {
        message += &format!("; {taken} ends its turn");
    }
    if !offered.is_empty() {
        message += &format!("; {offered} may finish its install hook and then waits");
    }
    Ok(message)
}

fn resume(draft: &mut GroupState, group: &str) -> Reply {
    let typed = draft.pause.take();
    let Some(rollout) = draft.rollout.as_deref_mut().filter(|r| r.ending.is_none()) else {
        return match typed {
            Some(_) => Ok("resumed: new targets start by themselves again".to_owned()),
            None => {
                Err(format!("nothing is paused; `baton rollout status {group}` shows the group"))
            }
        };
    };
    if typed.is_none() && !rollout.state.is_paused() {
        return Err(format!("the rollout is not paused: it is {}", rollout.state));
    }
    let phase = rollout.phase;
    let failures = rollout.failures();
    rollout.accepted = u32::try_from(failures).unwrap_or(u32::MAX);
    rollout.epoch += 1;
    rollout.paused_by_fault = false;
    rollout.reason = Text::default();
    rollout.state = rollout.going_state();
    for turn in rollout.turns.iter_mut().filter(|turn| turn.phase == phase) {
        turn.let_pass |= turn.state == TurnState::Failed;
    }
    let accepted = match failures {
        0 => String::new(),
        1 => "; the failure so far is accepted".to_owned(),
        failures => format!("; the {failures} failures so far are accepted"),
    };
    Ok(format!("resumed: the {} goes on{accepted}", rollout.words()))
}

fn cancel(draft: &mut GroupState, view: &View, by: &NodeName) -> Reply {
    let next = draft.next.take();
    let Some(rollout) = draft.rollout.as_deref_mut() else {
        return match next {
            Some(next) => Ok(format!("cancelled: the {} does not start", next.words())),
            None => Err("no rollout is under way: there is nothing to cancel".to_owned()),
        };
    };
    begin_ending(rollout, RolloutState::Cancelled, &format!("cancelled at {by}"));
    let taken: Vec<String> = rollout.open_turns().map(|turn| view.name(turn.node)).collect();
    Ok(match taken.is_empty() {
        true => format!("cancelled: the {} ends where it stands", rollout.words()),
        false => format!(
            "cancelled: no further turn is taken; ends when {} has ended its turn or given it back",
            taken.join(", ")
        ),
    })
}

fn approve(draft: &mut GroupState) -> Reply {
    let waves = draft.rollout.as_deref().map_or(0, |rollout| rollout.policy().waves.len());
    let Some(rollout) = draft.rollout.as_deref_mut().filter(|r| (r.wave as usize) < waves) else {
        return Err("no wave waits for an approval".to_owned());
    };
    if !super::advance::wave_is_done(rollout) {
        return Err("the wave under way has not ended yet: approve it when it has".to_owned());
    }
    rollout.wave += 1;
    rollout.epoch += 1;
    Ok("approved: the next wave starts".to_owned())
}

fn cordon(draft: &mut GroupState, view: &View, node: NodeId) -> Reply {
    let name = view.name(node);
    if !draft.cordons.insert(node) {
        return Err(format!("{name} is cordoned already"));
    }
    let open = draft
        .rollout
        .as_deref()
        .and_then(|rollout| rollout.turn(node))
        .filter(|turn| turn.state.is_open())
        .map(|turn| turn.state);
    Ok(match open {
        Some(TurnState::Offered) => format!("{name} is cordoned; its offer is taken back"),
        Some(_) => format!("{name} is cordoned; the turn that it is in ends first"),
        None => format!("{name} is cordoned: rollouts leave it out"),
    })
}

fn uncordon(draft: &mut GroupState, view: &View, node: NodeId) -> Reply {
    let name = view.name(node);
    if !draft.cordons.remove(&node) {
        return Err(format!("{name} is not cordoned"));
    }
    draft.gave_up.remove(&node);
    Ok(format!("{name} takes part again; it gets its target by a turn"))
}

/// Raises the promotion acted on.
pub(super) fn note_acted(draft: &mut GroupState, depot: &Text, promotion: u64) {
    let before = draft.acted.as_ref().filter(|acted| acted.depot == *depot);
    let promotion = before.map_or(promotion, |acted| acted.promotion.max(promotion));
    draft.acted = Some(Acted { depot: depot.clone(), promotion });
}

/// What follows a sentence while a typed pause holds.
pub(super) fn held(draft: &GroupState, group: &str) -> String {
    match &draft.pause {
        Some(pause) => {
            format!(", but the group is paused by {}: `baton rollout resume {group}`", pause.by)
        }
        None => String::new(),
    }
}

/// What a new target supersedes.
pub(super) fn superseded(rollout: &Rollout) -> String {
    match rollout.kind.keeps() {
        true => format!("the {}", rollout.title()),
        false => rollout.to.to_string(),
    }
}

/// What is under way after a command. One that has ended is nothing to wait for: its result would
/// pass for that of the command.
fn shown(draft: &GroupState) -> Option<RolloutId> {
    draft.next.as_deref().or(draft.rollout.as_deref()).map(|rollout| rollout.id)
}

fn answer(result: CommandResult, message: &str, rollout: Option<RolloutId>) -> CommandAnswer {
    CommandAnswer { result, message: Text::new(message), rollout }
}
