//! A rollout as the demo shows it: on a terminal one row per member, in place; else one plain line
//! per step.
//!
//! Invariant: each step is told once, in the words of the daemons, beside what the services
//! themselves answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_types::status::{GroupStatus, MemberStatus, RolloutStatus};

use super::ground::NodePlace;
use super::observer::Seen;
use crate::exit::Failure;
use crate::live::Live;
use crate::output::Output;

/// What was told so far of one rollout.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    rollout: String,
    state: String,
    turns: BTreeMap<String, (u8, String)>,
    live: Option<Live>,
}

impl Progress {
    /// Of what begins now, after what is known of an earlier rollout.
    pub(crate) fn after(known: Option<&RolloutStatus>) -> Self {
        let mut progress = Self {
            began: Instant::now(),
            rollout: String::new(),
            state: String::new(),
            turns: BTreeMap::new(),
            live: None,
        };
        if let Some(known) = known {
            progress.news(known);
        }
        progress
    }

    /// How long ago it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows what is new.
    pub(crate) fn show(
        &mut self,
        output: &mut Output,
        nodes: &[NodePlace],
        status: &GroupStatus,
        seen: &Seen,
    ) -> Result<(), Failure> {
        let Some(rollout) = &status.rollout else { return Ok(()) };
        if output.is_terminal() {
            let live = self.live.get_or_insert_with(Live::new);
            live.draw(&picture(nodes, status, seen));
            return Ok(());
        }
        let at = format!("   {:>5.1}s  ", self.began.elapsed().as_secs_f64());
        for line in self.news(rollout) {
            output.lines(wrapped(&line, &at, "                "))?;
        }
        Ok(())
    }

    /// One line for each step that was not known yet.
    fn news(&mut self, rollout: &RolloutStatus) -> Vec<String> {
        if self.rollout != rollout.id {
            self.rollout.clone_from(&rollout.id);
            self.state.clear();
            self.turns.clear();
        }
        let mut lines = Vec::new();
        for member in &rollout.members {
            let turn = (member.phase, member.turn.clone());
            if self.turns.get(&member.name) != Some(&turn) {
                self.turns.insert(member.name.clone(), turn);
                let passed = self.turns.values().filter(|(_, turn)| turn == "passed").count();
                if let Some(step) = step(member, rollout, passed) {
                    lines.push(format!("{} {step}", member.name));
                }
            }
        }
        if self.state != rollout.state {
            self.state.clone_from(&rollout.state);
            lines.push(state_line(rollout));
        }
        lines
    }

    /// Leaves the picture standing, so that something can be said below it.
    pub(crate) fn pause(&mut self, output: &mut Output) -> Result<(), Failure> {
        self.live.take().map_or(Ok(()), |live| live.finish(output))
    }
}

/// The rows of a terminal.
fn picture(nodes: &[NodePlace], status: &GroupStatus, seen: &Seen) -> Vec<String> {
    let mut rows = Vec::new();
    for (node, watched) in nodes.iter().zip(seen.members()) {
        let named = |members: &[MemberStatus]| {
            members.iter().find(|member| member.name == node.name).cloned()
        };
        let turn = status.rollout.as_ref().and_then(|rollout| named(&rollout.members));
        let member = named(&status.members).or_else(|| turn.clone()).unwrap_or_default();
        let turn = turn.map_or_else(String::new, |turn| match turn.phase {
            2 => format!("{} (back)", turn.turn),
            _ => turn.turn,
        });
        let answers = watched.answers.as_deref().map_or_else(
            || "does not answer".to_owned(),
            |version| format!("answers \"{version}\""),
        );
        let (name, release, health) = (&node.name, &member.release, &member.health);
        rows.push(format!("   {name:<4} {turn:<17} {release:<7} {health:<9} {answers}"));
    }
    let Some(rollout) = &status.rollout else { return rows };
    rows.push(match rollout.waiting_for.as_str() {
        "" => format!("   {}", state_line(rollout)),
        waits => format!("   {}; {waits}", rollout.state.replace('_', " ")),
    });
    rows.iter().map(|row| fit(row)).collect()
}

/// One step of a member, in a sentence.
fn step(member: &MemberStatus, rollout: &RolloutStatus, passed: usize) -> Option<String> {
    let back = member.phase == 2;
    let (from, to) = match &rollout.from {
        Some(from) if back => (Some(&rollout.to), &from.release),
        from => (from.as_ref(), &rollout.to.release),
    };
    let reason = |words: &str| match member.reason.as_str() {
        "" => words.to_owned(),
        reason => format!("{words}: {reason}"),
    };
    Some(match member.turn.as_str() {
        "offered" => "is offered its turn; nothing is stopped yet".to_owned(),
        "taken" => match from {
            // A turn of a member that was away: what it runs is no longer the group's.
            Some(from) if from.release == *to => format!("may go: stops what it has, starts {to}"),
            Some(from) => format!("may go: stops {}, starts {to}", from.release),
            None => format!("may go: starts {to}"),
        },
        "monitoring" => format!("is healthy on {to}; now it is watched for 2s"),
        "passed" => format!("passed on {to} ({passed} of {})", rollout.total),
        "failed" => reason("FAILED"),
        // What was not touched has no way back.
        "skipped" if !back && rollout.state.starts_with("roll") => return None,
        "skipped" => reason("skipped"),
        "absent" => reason("absent"),
        _ => return None,
    })
}

fn state_line(rollout: &RolloutStatus) -> String {
    let RolloutStatus { state, passed, total, failures, reason, .. } = rollout;
    let state = state.replace('_', " ");
    match (reason.as_str(), *failures) {
        (_, 0) => format!("rollout {state}: {passed} of {total} passed"),
        ("", failures) => format!("rollout {state}: {passed} of {total} passed, {failures} failed"),
        (reason, _) => format!("rollout {state}: {reason}"),
    }
}

/// `text` in lines of at most 80 columns, the first one after `first`, the others after `next`.
pub(crate) fn wrapped(text: &str, first: &str, next: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut bare = true;
    for word in text.split(' ') {
        if !bare && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            bare = true;
        }
        if !bare {
            line.push(' ');
        }
        line.push_str(word);
        bare = false;
    }
    lines.push(line);
    lines
}

/// A line of a usual terminal.
pub(crate) fn fit(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    let kept: String = line.chars().take(COLUMNS - 1).collect();
    format!("{}…", kept.trim_end())
}

const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use baton_types::status::TargetStatus;

    use super::*;

    #[test]
    fn each_turn_is_a_sentence() {
        let target = |release: &str| TargetStatus { release: release.into(), ..Default::default() };
        let update = RolloutStatus {
            from: Some(target("web/1")),
            to: target("web/2"),
            ..RolloutStatus::default()
        };
        for (turn, phase, expected) in [
            ("waiting", 1, None),
            ("taken", 1, Some("may go: stops web/1, starts web/2")),
            ("taken", 2, Some("may go: stops web/2, starts web/1")),
            ("failed", 1, Some("FAILED: exited with 1")),
        ] {
            let reason = if turn == "failed" { "exited with 1" } else { "" };
            let (turn, reason) = (turn.to_owned(), reason.to_owned());
            let member = MemberStatus { turn, phase, reason, ..MemberStatus::default() };
            assert_eq!(step(&member, &update, 0).as_deref(), expected);
        }
        let first = RolloutStatus { to: target("web/1"), ..RolloutStatus::default() };
        let member = MemberStatus { turn: "taken".into(), ..MemberStatus::default() };
        assert_eq!(step(&member, &first, 0).as_deref(), Some("may go: starts web/1"));
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("a  b", "   ✓ ", "     "), ["   ✓ a  b"]);
        let lines = wrapped(&"word ".repeat(40), " - ", "   ");
        assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= COLUMNS));
        assert!(lines[0].starts_with(" - word") && lines[1].starts_with("   word"));
    }

    #[test]
    fn each_step_is_told_once() {
        let member = |turn: &str| MemberStatus {
            name: "n1".to_owned(),
            turn: turn.to_owned(),
            phase: 1,
            ..MemberStatus::default()
        };
        let rollout = |id: &str, state: &str, turn: &str| RolloutStatus {
            id: id.to_owned(),
            state: state.to_owned(),
            total: 1,
            members: vec![member(turn)],
            ..RolloutStatus::default()
        };
        let mut progress = Progress::after(Some(&rollout("a", "completed", "passed")));
        assert_eq!(progress.news(&rollout("a", "completed", "passed")), [""; 0]);
        let news = progress.news(&rollout("b", "running", "offered"));
        assert_eq!(news.len(), 2, "{news:?}");
        assert_eq!(progress.news(&rollout("b", "running", "offered")), [""; 0]);
        assert_eq!(progress.news(&rollout("b", "running", "passed")), ["n1 passed on  (1 of 1)"]);
    }

    #[test]
    fn a_long_line_fits_80_columns() {
        assert_eq!(fit("short"), "short");
        let long = fit(&"ä".repeat(100));
        assert_eq!((long.chars().count(), long.ends_with('…')), (80, true));
    }
}
