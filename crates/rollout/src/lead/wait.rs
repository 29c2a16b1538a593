//! What a group waits for: on which node, since when, with the last output.

use baton_types::member::Prepared;
use baton_types::policy::Approve;
use baton_types::{Moment, Now, exact_duration, format_duration};

use crate::rollout::{Rollout, RolloutState, Turn, TurnState};
use crate::rules::{budget, order, start, zones};
use crate::state::GroupState;
use crate::view::{Liveness, View};

use super::advance::{ill_of_wave, wave_is_done};
use super::inbox::prepared_at;
use super::notes::Note;
use super::{Lead, Reported};

/// One line about the whole group.
pub(super) fn group_waits_for(lead: &Lead, now: Now, state: &GroupState, view: &View) -> String {
    if let Some(rollout) = state.rollout.as_deref() {
        return rollout_waits_for(lead, now, state, view, rollout);
    }
    if let Some(pause) = &state.pause {
        return format!(
            "paused by {} at {}{}: `baton rollout resume {}`",
            pause.by,
            pause.at,
            pause.because(),
            view.group()
        );
    }
    match lead.pending(state, view) {
        Some((_, why)) => why,
        None => String::new(),
    }
}

/// One line about the rollout under way.
pub(super) fn rollout_waits_for(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    rollout: &Rollout,
) -> String {
    if let Some(ending) = &rollout.ending {
        let open = turns_under_way(lead, now, state, view, rollout);
        return match open.is_empty() {
            true => format!("{}; waits for its end to be committed", ending.reason),
            false => format!("{}; waits for {}", ending.reason, open.join("; ")),
        };
    }
    if rollout.state.is_paused() {
        let open = turns_under_way(lead, now, state, view, rollout);
        let mut line = format!("an operator: `baton rollout resume {}`", view.group());
        if rollout.paused_by_fault {
            line += if rollout.kind.keeps() { " or `retry`" } else { ", `retry` or `rollback`" };
        }
        if !open.is_empty() {
            line += &format!("; under way: {}", open.join("; "));
        }
        return line;
    }
    if rollout.state == RolloutState::Preparing {
        return preparing(lead, now, view, rollout);
    }
    let open = turns_under_way(lead, now, state, view, rollout);
    if !open.is_empty() {
        return open.join("; ");
    }
    if wave_is_done(rollout) {
        return wave_waits_for(state, view, rollout);
    }
    let first = order::candidates(rollout, view, &lead.lasting).into_iter().next();
    let waiting = rollout.turns.iter().find(|turn| turn.state == TurnState::Waiting);
    let Some(node) = first.or(waiting.map(|turn| turn.node)) else {
        return "the end to be committed".to_owned();
    };
    let since = lead.notes.progress(rollout).map(|at| ago(now, at)).unwrap_or_default();
    let earlier =
        zones::earlier_waits(rollout, view, node).and_then(|node| view.members.get(&node));
    match (budget::blocker(state, rollout, view, node), earlier.or(view.members.get(&node))) {
        (Some(blocker), _) => {
            format!("{blocker}; {} waits for its turn{since}", view.name(node))
        }
        (None, Some(member)) if first.is_none() || earlier.is_some() => {
            format!("{} {}; it is given time to heal{since}", member.name, member.complaint())
        }
        _ => format!("the next turn, of {}{since}", view.name(node)),
    }
}

/// "n2: monitoring, healthy for 4s of 30s".
fn turns_under_way(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    rollout: &Rollout,
) -> Vec<String> {
    let open = rollout.open_turns().take(SHOWN_MAX);
    open.map(|turn| turn_waits_for(lead, now, state, view, rollout, turn)).collect()
}

/// What lets the next wave go.
fn wave_waits_for(state: &GroupState, view: &View, rollout: &Rollout) -> String {
    let wave = rollout.wave + 1;
    if rollout.policy().approve == Approve::Manual {
        let group = view.group();
        return format!(
            "wave {wave} has ended: `baton rollout approve {group}` starts the next one"
        );
    }
    match ill_of_wave(state, rollout, view) {
        Some(member) => {
            format!("wave {wave} has ended, but {} {}", member.name, member.complaint())
        }
        None => {
            let soak = exact_duration(rollout.policy().wave_soak);
            format!("wave {wave} has ended and must stay healthy for {soak}")
        }
    }
}

/// What one open turn waits for.
pub(super) fn turn_waits_for(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    rollout: &Rollout,
    turn: &Turn,
) -> String {
    let name = view.name(turn.node);
    let id = rollout.turn_id(turn);
    let (phase, node, attempt) = (turn.phase, turn.node, turn.attempts);
    let member = view.members.get(&node);
    let away = match member {
        Some(member) if member.liveness != Liveness::Alive => format!(" ({})", member.complaint()),
        Some(_) => String::new(),
        None => " (not known to the ring)".to_owned(),
    };
    if turn.state == TurnState::Monitoring {
        let since = lead.notes.since(Note::Monitoring(rollout.id, phase, node, attempt));
        let healthy = since.map_or_else(String::new, |at| {
            let of = exact_duration(rollout.policy().monitor);
            format!(", healthy for {} of {of}", format_duration(now.moment.since(at)))
        });
        return format!("{name}: monitoring{healthy}{away}");
    }
    let known = lead.progress.get(&node).filter(|(of, _, _)| *of == id);
    let (step, text, since) = match known {
        Some((_, Reported { step, text, .. }, at)) => {
            (step.word_in(rollout.kind.manner()).to_owned(), text.to_string(), Some(*at))
        }
        None => {
            let phase_text = member.map(|member| member.phase.to_string()).unwrap_or_default();
            let opened = Note::Open(rollout.id, phase, node, attempt);
            (turn.state.to_string(), phase_text, lead.notes.since(opened))
        }
    };
    let since = since.map(|at| ago(now, at)).unwrap_or_default();
    let text = if text.is_empty() { text } else { format!(": {text}") };
    let held = match turn.state {
        TurnState::Offered if rollout.state.offers() => budget::blocker(state, rollout, view, node)
            .map(|blocker| format!("; may not be taken: {blocker}"))
            .unwrap_or_default(),
        _ => String::new(),
    };
    format!("{name}: {step}{since}{text}{away}{held}")
}

/// Who has not fetched the target yet.
fn preparing(lead: &Lead, now: Now, view: &View, rollout: &Rollout) -> String {
    let since = lead.notes.stands(rollout).map(|at| ago(now, at)).unwrap_or_default();
    let lines: Vec<String> = rollout
        .turns
        .iter()
        .filter(|turn| turn.state == TurnState::Waiting)
        .filter_map(|turn| {
            let name = view.name(turn.node);
            match prepared_at(lead, rollout, view, turn.node) {
                Some(Prepared::Ready) => None,
                Some(Prepared::Failed(why)) => {
                    Some(format!("{name} cannot prepare {}: {why}", rollout.target()))
                }
                Some(Prepared::Fetching) => Some(format!("{name} fetches {}", rollout.target())),
                None => match view.members.get(&turn.node) {
                    Some(member) if member.liveness != Liveness::Alive => {
                        Some(format!("{name} {}", member.complaint()))
                    }
                    _ => Some(format!(
                        "{name} has not said yet that it fetches {}",
                        rollout.target()
                    )),
                },
            }
        })
        .collect();
    if lines.is_empty() {
        return format!("the first turn{since}: every member is prepared");
    }
    // Who says why it cannot comes before who is merely slow.
    let (mut bad, slow): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.contains(" cannot "));
    bad.extend(slow);
    let more = bad.len().saturating_sub(SHOWN_MAX);
    bad.truncate(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("preparing{since}: {}{more}", bad.join("; "))
}

impl Lead {
    /// A target of the channel that waits, and why.
    pub(crate) fn pending(&self, state: &GroupState, view: &View) -> Option<(String, String)> {
        let reading = self.channel.as_ref()?;
        match start::head(state, reading, view.settings.strategy, &view.held) {
            start::Head::Pending(target, why) => Some((target.to_string(), why)),
            _ => None,
        }
    }
}

/// ", for 4s".
fn ago(now: Now, since: Moment) -> String {
    format!(", for {}", format_duration(now.moment.since(since)))
}

/// Members named in one line.
const SHOWN_MAX: usize = 3;
