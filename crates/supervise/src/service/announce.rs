//! When others hear of a change.
//!
//! Invariant: every change of what others act on is announced at the end of the call that made it.
//! A change of the text alone waits for [`TEXT_ANNOUNCE_INTERVAL`], and in health `ok` nobody needs it.

use std::sync::Arc;

use baton_types::member::{Desired, Health, ProcessState};
use baton_types::{Moment, Text};

use crate::launch::Launch;
use crate::limits::TEXT_ANNOUNCE_INTERVAL;
use crate::state::ServiceState;

/// What was announced last, and when.
#[derive(Debug)]
pub(super) struct Announcer {
    facts: Facts,
    text: Text,
    at: Moment,
    /// A changed text is to be announced then.
    due: Option<Moment>,
}

#[derive(Debug, PartialEq)]
struct Facts {
    desired: Desired,
    process: ProcessState,
    pid: Option<u32>,
    health: Health,
    restarts: u32,
    launch: Option<Arc<Launch>>,
}

impl Announcer {
    pub(super) fn new(state: &ServiceState, now: Moment) -> Self {
        Self { facts: Facts::of(state), text: state.health_text.clone(), at: now, due: None }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Whether `state` is to be announced now; if so it counts as announced.
    pub(super) fn is_news(&mut self, state: &ServiceState, now: Moment) -> bool {
        let facts = Facts::of(state);
        self.due = None;
        if facts == self.facts {
            if state.health_text == self.text || state.health == Health::Ok {
                return false;
            }
            let due = self.at + TEXT_ANNOUNCE_INTERVAL;
            if due > now {
                self.due = Some(due);
                return false;
            }
        }
        *self = Self { facts, ..Self::new(state, now) };
        true
    }
}

impl Facts {
    fn of(state: &ServiceState) -> Self {
        Self {
            desired: state.desired,
            process: state.process,
            pid: state.pid,
            health: state.health,
            restarts: state.restarts,
            launch: state.launch.clone(),
        }
    }
}
