//! Where one rollout stands, look by look, until it has ended.
//!
//! Invariant: pure; decides by the rollout's id alone. Another rollout in its place means that ours
//! is found in the history, or is not known here yet.

use std::time::{Duration, Instant};

use baton_types::status::{GroupStatus, HistoryStatus};

use super::render::what;
use crate::exit::code_of_state;

/// One rollout that is followed.
#[derive(Debug)]
pub(crate) struct Follow {
    id: String,
    /// A paused state may be from before the command that is waited for, as a node's own copy of
    /// the status may be: it counts only once it has lasted, or after another state was seen.
    stale_until: Stale,
    missing_since: Option<Instant>,
}

/// Until when a paused state is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stale {
    No,
    /// From the first look on.
    ForAWhile,
    Until(Instant),
}

/// What one look says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to do but to look again.
    GoesOn,
    /// It has ended, or is paused.
    Ended(End),
    /// It is not in the status: the history is to be asked.
    LookUp,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The exit code.
    pub(crate) code: u8,
    /// For people.
    pub(crate) sentence: String,
}

impl Follow {
    /// Follows the rollout `id`.
    pub(crate) fn new(id: String, after_command: bool) -> Self {
        let stale_until = if after_command { Stale::ForAWhile } else { Stale::No };
        Self { id, stale_until, missing_since: None }
    }

    /// Which.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// One look at the group.
    pub(crate) fn see(&mut self, now: Instant, status: &GroupStatus) -> Step {
        let Some(rollout) = status.rollout.as_ref().filter(|rollout| rollout.id == self.id) else {
            self.missing_since.get_or_insert(now);
            return Step::LookUp;
        };
        self.missing_since = None;
        let Some(code) = code_of_state(&rollout.state) else {
            self.stale_until = Stale::No;
            return Step::GoesOn;
        };
        if rollout.state.ends_with("paused") && self.may_be_stale(now) {
            return Step::GoesOn;
        }
        let what = what(&rollout.kind, rollout.from.as_ref(), &rollout.to);
        let counts = (rollout.passed, rollout.total);
        Step::Ended(end(code, &rollout.state, &what, counts, &rollout.reason))
    }

    /// What the history says.
    pub(crate) fn look_up(&self, history: &[HistoryStatus]) -> Option<End> {
        let entry = history.iter().find(|entry| entry.id == self.id)?;
        let code = code_of_state(&entry.state)?;
        let what = what(&entry.kind, entry.from.as_ref(), &entry.to);
        let counts = (entry.passed, entry.total);
        Some(end(code, &entry.state, &what, counts, &entry.reason))
    }

    /// How long it has been neither under way nor the last one.
    pub(crate) fn is_missing_for(&self, now: Instant) -> Duration {
        self.missing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn may_be_stale(&mut self, now: Instant) -> bool {
        match self.stale_until {
            Stale::No => false,
            Stale::ForAWhile => {
                self.stale_until = Stale::Until(now + SETTLE);
                true
            }
            Stale::Until(until) => now < until,
        }
    }
}

/// `completed: update redis/1 → redis/2, 3 of 3 members passed`.
fn end(code: u8, state: &str, what: &str, (passed, total): (usize, usize), reason: &str) -> End {
    let state = state.replace('_', " ");
    let mut sentence = format!("{state}: {what}, {passed} of {total} passed");
    if !reason.is_empty() {
        sentence.push_str(&format!("; {reason}"));
    }
    End { code, sentence }
}

/// A leader's answer replaces a node's own copy well within this.
const SETTLE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::render::tests::{rollout, running};

    fn with_state(state: &str) -> GroupStatus {
        let mut status = running();
        rollout(&mut status).state = state.to_owned();
        status
    }

    fn follow(after_command: bool) -> Follow {
        let id = running().rollout.expect("a rollout").id;
        Follow::new(id, after_command)
    }

    fn code(step: &Step) -> Option<u8> {
        match step {
            Step::Ended(end) => Some(end.code),
            _ => None,
        }
    }

    #[test]
    fn it_ends_with_the_code_of_its_state() {
        let now = Instant::now();
        for (state, expected) in [
            ("preparing", None),
            ("running", None),
            ("rolling_back", None),
            ("completed", Some(0)),
            ("rolled_back", Some(10)),
            ("paused", Some(11)),
            ("cancelled", Some(12)),
            ("superseded", Some(13)),
            ("completed_with_exceptions", Some(14)),
        ] {
            assert_eq!(code(&follow(false).see(now, &with_state(state))), expected, "{state}");
        }
        let mut status = with_state("rolled_back");
        rollout(&mut status).reason = "n2 failed".to_owned();
        let Step::Ended(end) = follow(false).see(now, &status) else { panic!("not ended") };
        let expected = "rolled back: update redis/1 → redis/2, 1 of 3 passed; n2 failed";
        assert_eq!(end.sentence, expected);
    }

    #[test]
    fn a_pause_from_before_the_command_is_not_believed_at_once() {
        let start = Instant::now();
        let mut one = follow(true);
        assert_eq!(one.see(start, &with_state("paused")), Step::GoesOn);
        assert_eq!(one.see(start + SETTLE / 2, &with_state("paused")), Step::GoesOn);
        assert_eq!(code(&one.see(start + SETTLE, &with_state("paused"))), Some(11));
        let mut other = follow(true);
        assert_eq!(other.see(start, &with_state("running")), Step::GoesOn);
        assert_eq!(code(&other.see(start, &with_state("paused"))), Some(11));
        assert_eq!(code(&follow(true).see(start, &with_state("completed"))), Some(0));
    }

    #[test]
    fn another_rollout_in_its_place_sends_to_the_history() {
        let start = Instant::now();
        let mut one = follow(false);
        let mut status = running();
        rollout(&mut status).id = "another".to_owned();
        assert_eq!(one.see(start, &status), Step::LookUp);
        assert_eq!(one.is_missing_for(start + SETTLE), SETTLE);
        let entry = HistoryStatus {
            id: one.id().to_owned(),
            kind: "update".to_owned(),
            state: "superseded".to_owned(),
            ..HistoryStatus::default()
        };
        assert_eq!(one.look_up(&[]), None);
        assert_eq!(one.look_up(&[HistoryStatus::default(), entry]).map(|end| end.code), Some(13));
        assert_eq!(one.see(start, &running()), Step::GoesOn);
        assert_eq!(one.is_missing_for(start + SETTLE), Duration::ZERO);
    }
}
