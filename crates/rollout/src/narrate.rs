//! What changed between two records, in words: one line per step of a rollout, for the journal of
//! every node.
//!
//! Invariant: two equal records say nothing, so a re-written record is silent.

use baton_types::{NodeId, ReleaseId, RolloutId};

use crate::rollout::{Rollout, RolloutKind, RolloutState, Turn, TurnState};
use crate::state::GroupState;

/// One line for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub about: About,
    /// How loud.
    pub level: Level,
    /// What happened.
    pub text: String,
    /// In which rollout.
    pub rollout: Option<RolloutId>,
    /// On which member.
    pub member: Option<NodeId>,
    /// Which release it is about.
    pub release: Option<ReleaseId>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The rollout that is under way, where there is no earlier record to compare with.
    UnderWay,
    /// A rollout begins.
    Begins,
    /// A rollout is in another state.
    State {
        /// The one before, if it was seen.
        before: Option<RolloutState>,
        /// The one that it is in.
        now: RolloutState,
    },
    /// A rollout is to end once its open turns have ended.
    Ending,
    /// The turn of a member is in another state.
    Turn(TurnState),
    /// A person paused the group.
    Paused,
    /// A person ended that.
    Resumed,
    /// A member is kept out of rollouts.
    Cordoned,
    /// A member takes part again.
    Uncordoned,
    /// The group has another baseline.
    Baseline,
    /// A target is rejected.
    Rejected,
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Info,
    /// A person should look.
    Warning,
}

/// What `new` says that `old` did not; without an `old` record only what is under way. Only those of
/// whom something is said are asked for their names.
pub fn narrate(
    old: Option<&GroupState>,
    new: &GroupState,
    name_of: &dyn Fn(NodeId) -> String,
) -> Vec<Line> {
    let mut lines = Vec::new();
    match old {
        Some(old) => group_lines(old, new, name_of, &mut lines),
        None => {
            if let Some(rollout) = new.rollout.as_deref() {
                let text = format!("{} is {}", rollout.kind.title(&rollout.to), rollout.state);
                lines.push(line(rollout, About::UnderWay, Level::Info, None, text));
            }
            return lines;
        }
    }
    let before = |id: RolloutId| {
        let known = old.and_then(|old| old.shown_rollout());
        known.filter(|rollout| rollout.id == id)
    };
    // The one that ended comes before the one that began in the same record.
    let ended_unseen = old
        .and_then(|old| old.rollout.as_deref())
        .filter(|rollout| new.shown_rollout().is_none_or(|shown| shown.id != rollout.id));
    if let Some(gone) = ended_unseen {
        let end = new.history.iter().rev().find(|line| line.id == gone.id);
        if let Some(end) = end {
            let text = state_text(gone, None, end.state, end.reason.as_str(), end.passed as usize);
            let about = About::State { before: None, now: end.state };
            lines.push(line(gone, about, loudness(end.state), None, text));
        }
    }
    if let Some(rollout) = new.shown_rollout() {
        rollout_lines(before(rollout.id), rollout, name_of, &mut lines);
    }
    lines
}

fn group_lines(
    old: &GroupState,
    new: &GroupState,
    name_of: &dyn Fn(NodeId) -> String,
    lines: &mut Vec<Line>,
) {
    let mut say = |about: About, text: String, member: Option<NodeId>| {
        lines.push(Line { about, level: Level::Info, text, rollout: None, member, release: None });
    };
    match (&old.pause, &new.pause) {
        (None, Some(pause)) => {
            let because = pause.because();
            let text = format!("paused by {}{because}: no further turn starts", pause.by);
            say(About::Paused, text, None);
        }
        (Some(_), None) => say(About::Resumed, "resumed".to_owned(), None),
        _ => {}
    }
    for node in new.cordons.difference(&old.cordons) {
        say(About::Cordoned, format!("{} is cordoned", name_of(*node)), Some(*node));
    }
    for node in old.cordons.difference(&new.cordons) {
        say(About::Uncordoned, format!("{} is no longer cordoned", name_of(*node)), Some(*node));
    }
    if let Some(baseline) = new.baseline().filter(|target| Some(*target) != old.baseline()) {
        say(About::Baseline, format!("the baseline is {baseline}"), None);
    }
    for rejected in new.rejected.iter().filter(|rejected| !old.rejected.contains(rejected)) {
        let config = match rejected.config {
            0 => String::new(),
            number => format!(" config {number}"),
        };
        let text = format!("{}{config} is rejected: {}", rejected.release, rejected.why);
        say(About::Rejected, text, None);
    }
}

fn rollout_lines(
    old: Option<&Rollout>,
    new: &Rollout,
    name_of: &dyn Fn(NodeId) -> String,
    lines: &mut Vec<Line>,
) {
    if old.is_none() {
        let from = new.from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
        let order: Vec<String> =
            new.turns.iter().take(ORDER_SHOWN).map(|turn| name_of(turn.node)).collect();
        let more = if new.turns.len() > ORDER_SHOWN { ", …" } else { "" };
        let what = match new.kind.keeps() {
            true => new.title(),
            false => format!("{}{from} to {}", new.kind, new.target()),
        };
        let text = format!("{what} begins for {} members: {}{more}", new.total, order.join(", "));
        lines.push(line(new, About::Begins, Level::Info, None, text));
    }
    for (at, turn) in new.turns.iter().enumerate() {
        let before = old.and_then(|old| old.turn_near(at, turn.node));
        if before.is_some_and(|before| stands_like(before, turn)) {
            continue;
        }
        if let Some((level, text)) = turn_text(before, turn, new, &name_of(turn.node)) {
            lines.push(line(new, About::Turn(turn.state), level, Some(turn.node), text));
        }
    }
    let before = old.map(|old| old.state);
    // Where nothing is prepared, its turns begin at once.
    let begins = matches!(new.state, RolloutState::Preparing | RolloutState::Running);
    if before != Some(new.state) && (old.is_some() || !begins) {
        let passed = new.count(TurnState::Passed);
        let text = state_text(new, before, new.state, new.reason.as_str(), passed);
        let about = About::State { before, now: new.state };
        lines.push(line(new, about, loudness(new.state), None, text));
    }
    if let Some(ending) = &new.ending
        && old.is_some_and(|old| old.ending.is_none())
    {
        let text = format!("{}: turns under way end first", ending.reason);
        lines.push(line(new, About::Ending, Level::Info, None, text));
    }
}

fn stands_like(old: &Turn, turn: &Turn) -> bool {
    (old.state, old.attempts, old.phase) == (turn.state, turn.attempts, turn.phase)
}

fn turn_text(
    old: Option<&Turn>,
    turn: &Turn,
    rollout: &Rollout,
    name: &str,
) -> Option<(Level, String)> {
    let target = rollout.target();
    let done = rollout.count(TurnState::Passed);
    let keeps = rollout.kind.keeps();
    let text = match turn.state {
        TurnState::Waiting => match old {
            Some(old) if old.state.is_open() => format!("{name} gave its turn back"),
            Some(old) if old.gone => format!("{name} is back and waits for its turn"),
            _ => return None,
        },
        TurnState::Offered if keeps => format!("{name} is offered its turn to {}", rollout.kind),
        TurnState::Offered => format!("{name} is offered its turn to {target}"),
        TurnState::Taken if rollout.kind == RolloutKind::Reboot => {
            format!("{name} goes: stops what it runs, reboots and starts it again")
        }
        TurnState::Taken if keeps => format!("{name} goes: stops what it runs and starts it again"),
        TurnState::Taken if rollout.from.is_none() => format!("{name} goes: starts {target}"),
        TurnState::Taken => format!("{name} goes: stops what it runs and starts {target}"),
        TurnState::Monitoring if keeps => format!("{name} is healthy again, being monitored"),
        TurnState::Monitoring => format!("{name} is healthy on {target}, being monitored"),
        TurnState::Passed if keeps => {
            format!("{name} passed its {} ({done} of {})", rollout.kind, rollout.concerned())
        }
        TurnState::Passed => {
            format!("{name} passed on {target} ({done} of {})", rollout.concerned())
        }
        TurnState::Failed if keeps => {
            let text = format!("{name} failed its {}: {}", rollout.kind, turn.reason);
            return Some((Level::Warning, text));
        }
        TurnState::Failed => {
            return Some((Level::Warning, format!("{name} failed on {target}: {}", turn.reason)));
        }
        // Not touched, so it has no way back; in a large group that would be a page of lines.
        TurnState::Skipped if turn.phase < rollout.phase => return None,
        TurnState::Skipped => format!("{name} is skipped: {}", turn.reason),
        TurnState::Absent => format!("{name} is absent: {}", turn.reason),
    };
    Some((Level::Info, text))
}

/// What `state` means for a rollout that was `before` in another one.
fn state_text(
    rollout: &Rollout,
    before: Option<RolloutState>,
    state: RolloutState,
    reason: &str,
    passed: usize,
) -> String {
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let to = rollout.target();
    match state {
        RolloutState::Preparing => format!("members fetch {to}{because}"),
        RolloutState::Running if before == Some(RolloutState::Preparing) => {
            format!("{to} is prepared: the turns begin")
        }
        RolloutState::Running => format!("the {} goes on", rollout.title()),
        RolloutState::RollingBack => format!("rolling back to {to}{because}"),
        RolloutState::Paused | RolloutState::RollbackPaused => {
            format!("the {} is paused{because}", rollout.title())
        }
        ended => format!(
            "the {} ended {ended}, {passed} of {} passed{because}",
            rollout.kind.title(&rollout.to),
            rollout.concerned()
        ),
    }
}

const fn loudness(state: RolloutState) -> Level {
    match state {
        RolloutState::Paused
        | RolloutState::RollbackPaused
        | RolloutState::RollingBack
        | RolloutState::CompletedWithExceptions => Level::Warning,
        _ => Level::Info,
    }
}

fn line(
    rollout: &Rollout,
    about: About,
    level: Level,
    member: Option<NodeId>,
    text: String,
) -> Line {
    let release = Some(rollout.target().release.id.clone());
    Line { about, level, text, rollout: Some(rollout.id), member, release }
}

/// Names of the order in the first line; more would not be read.
const ORDER_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;
    use baton_types::CommandAction;

    fn texts(world: &World) -> Vec<&str> {
        world.checks.narrated.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn one_line_per_step() {
        let mut world = World::new(2);
        world.promote(2);
        world.settle();
        let want = [
            "update from redis/1 to redis/2 begins for 2 members: n2, n1",
            "n2 is offered its turn to redis/2",
            "redis/2 is prepared: the turns begin",
            "n2 goes: stops what it runs and starts redis/2",
            "n2 is healthy on redis/2, being monitored",
            "n2 passed on redis/2 (1 of 2)",
            "n1 is offered its turn to redis/2",
            "n1 goes: stops what it runs and starts redis/2",
            "n1 is healthy on redis/2, being monitored",
            "the baseline is redis/2",
            "n1 passed on redis/2 (2 of 2)",
            "the update to redis/2 ended completed, 2 of 2 passed",
        ];
        assert_eq!(texts(&world), want);
        assert!(
            narrate(Some(&world.state), &world.state, &|node| world.view.name(node)).is_empty()
        );
    }

    #[test]
    fn a_failure_is_a_warning_with_its_reason() {
        let mut world = World::new(2);
        world.host("n2").behave(2, |behavior| behavior.verifies = false);
        world.promote(2);
        world.settle();
        let warned: Vec<_> =
            world.checks.narrated.iter().filter(|line| line.level == Level::Warning).collect();
        assert_eq!(warned[0].text, "n2 failed on redis/2: verify said no: cluster_state fail");
        assert_eq!(
            warned[1].text,
            "the update to redis/2 is paused: n2 failed: verify said no: cluster_state fail"
        );
    }

    #[test]
    fn a_way_back_is_counted_by_those_that_were_moved() {
        let mut world = World::new(3);
        world.host("n2").behave(2, |behavior| behavior.verifies = false);
        world.promote(2);
        world.settle();
        world.command(CommandAction::Rollback { to: None });
        assert_eq!(world.settle(), RolloutState::RolledBack);
        let told = texts(&world);
        let end = "the update to redis/2 ended rolled_back, 1 of 1 passed: rollback typed at n3";
        assert!(told.contains(&end), "{told:?}");
        assert!(told.iter().all(|line| !line.contains("skipped")), "{told:?}");
        assert_eq!(world.state.history.last().map(|line| (line.passed, line.total)), Some((1, 1)));
    }
}
