//! When this voter first held a state, by its own clock.
//!
//! Invariant: a note is made at a commit and lasts as long as what it is about; moments of other
//! nodes never enter, so a new leader counts a deadline from its own note.

use std::collections::BTreeMap;

use baton_types::{Moment, NodeId, RolloutId};

use crate::rollout::{Rollout, RolloutState};
use crate::state::GroupState;

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Note {
    /// The rollout has been in this phase, epoch and state.
    Stands(RolloutId, u8, u32, RolloutState),
    /// This many turns of the phase have passed; an operator's `resume` counts anew.
    Passed(RolloutId, u8, u32, usize),
    /// This many turns have ended; for the delay between turns.
    Ended(RolloutId, u8, usize),
    /// The turn of this member, attempt by attempt, is open.
    Open(RolloutId, u8, NodeId, u32),
    /// The turn is taken.
    Taken(RolloutId, u8, NodeId, u32),
    /// The turn is being monitored.
    Monitoring(RolloutId, u8, NodeId, u32),
}

/// All notes of this voter.
#[derive(Debug, Default)]
pub(crate) struct Notes(BTreeMap<Note, Moment>);

impl Notes {
    /// Notes what `state` holds, and forgets what it does not hold any more.
    pub(crate) fn observe(&mut self, now: Moment, state: &GroupState) {
        let mut held = BTreeMap::new();
        if let Some(rollout) = state.rollout.as_deref() {
            for note in notes_of(rollout) {
                held.insert(note, self.0.get(&note).copied().unwrap_or(now));
            }
        }
        self.0 = held;
    }

    /// Since when, if it holds.
    pub(crate) fn since(&self, note: Note) -> Option<Moment> {
        self.0.get(&note).copied()
    }

    /// Since when the rollout has stood as it stands.
    pub(crate) fn stands(&self, rollout: &Rollout) -> Option<Moment> {
        self.since(Note::Stands(rollout.id, rollout.phase, rollout.epoch, rollout.state))
    }

    /// Since when nothing has passed; `None` when a turn has passed that is not yet committed.
    pub(crate) fn progress(&self, rollout: &Rollout) -> Option<Moment> {
        let passed = self.since(passed(rollout))?;
        Some(self.stands(rollout).map_or(passed, |stands| passed.max(stands)))
    }

    /// Since when no turn has ended.
    pub(crate) fn ended(&self, rollout: &Rollout) -> Option<Moment> {
        self.since(ended(rollout))
    }
}

fn notes_of(rollout: &Rollout) -> Vec<Note> {
    let mut notes = vec![
        Note::Stands(rollout.id, rollout.phase, rollout.epoch, rollout.state),
        passed(rollout),
        ended(rollout),
    ];
    for turn in rollout.open_turns() {
        let (phase, node, attempt) = (turn.phase, turn.node, turn.attempts);
        notes.push(Note::Open(rollout.id, phase, node, attempt));
        match turn.state {
            crate::rollout::TurnState::Taken => {
                notes.push(Note::Taken(rollout.id, phase, node, attempt));
            }
            crate::rollout::TurnState::Monitoring => {
                notes.push(Note::Monitoring(rollout.id, phase, node, attempt));
            }
            _ => {}
        }
    }
    notes
}

fn passed(rollout: &Rollout) -> Note {
    let passed = rollout.count(crate::rollout::TurnState::Passed);
    Note::Passed(rollout.id, rollout.phase, rollout.epoch, passed)
}

fn ended(rollout: &Rollout) -> Note {
    use crate::rollout::TurnState::{Failed, Passed};
    let ended = rollout.count(Passed) + rollout.count(Failed);
    Note::Ended(rollout.id, rollout.phase, ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::start::tests::rollout;
    use crate::view::tests::{node, view};

    #[test]
    fn a_note_lasts_as_long_as_what_it_is_about() {
        let mut notes = Notes::default();
        let mut rollout = rollout(&view(&["n1", "n2"], "n1"));
        let observe = |notes: &mut Notes, at: u64, rollout: &Rollout| {
            let state =
                GroupState { rollout: Some(Box::new(rollout.clone())), ..GroupState::default() };
            notes.observe(Moment(at), &state);
        };
        observe(&mut notes, 1, &rollout);
        let turn = rollout.turn_mut(node("n1")).expect("a turn");
        turn.state = crate::rollout::TurnState::Offered;
        turn.attempts = 1;
        observe(&mut notes, 5, &rollout);
        observe(&mut notes, 9, &rollout);
        let open = Note::Open(rollout.id, 1, node("n1"), 1);
        assert_eq!(notes.since(open), Some(Moment(5)));
        assert_eq!(notes.stands(&rollout), Some(Moment(1)));
        rollout.turn_mut(node("n1")).expect("a turn").state = crate::rollout::TurnState::Passed;
        observe(&mut notes, 12, &rollout);
        assert_eq!(notes.since(open), None);
        // The next pass, while its record is being made: no timeout is counted over it.
        let mut draft = rollout.clone();
        draft.turn_mut(node("n2")).expect("a turn").state = crate::rollout::TurnState::Passed;
        assert_eq!(notes.progress(&draft), None);
        assert_eq!(notes.progress(&rollout), Some(Moment(12)));
        rollout.epoch += 1;
        observe(&mut notes, 20, &rollout);
        assert_eq!(notes.progress(&rollout), Some(Moment(20)));
    }
}
