//! The leader's side: from the committed record, the view and what came in, the next record.
//!
//! Invariants: nothing is sent to a member but what the committed record says. A *go* is sent only
//! for a claim that is committed as *taken*. What is remembered here beside the record (clocks,
//! repeats, reports, the channel) is volatile, and rebuilt after a failover.

use std::time::Duration;

use baton_types::{Command, CommandAnswer, CommandId, Moment, NodeId, Now, Release, Text};
use baton_wire::TurnMessage;

use crate::state::GroupState;
use crate::view::View;

/// Timings of the leader's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadSettings {
    /// The members' claim window: an unanswered turn holds its place that much longer.
    pub claim_window: Duration,
    /// From one repeat of an unacknowledged message to the next.
    pub resend: Duration,
}

/// Something that a step takes into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadInput {
    /// An operator's command. For `Start`, and for it only, the node has looked into the depot
    /// first: `found` is what the version (or the channel's head) is, or why there is none.
    Command {
        /// The command.
        command: Command,
        /// What `Start` names.
        found: Option<Result<Found, Text>>,
    },
    /// The channel was read.
    Channel(Result<ChannelReading, Text>),
    /// A member says something.
    FromMember(NodeId, TurnMessage),
}

/// What a `start` names, as the depot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The release.
    pub release: Release,
    /// Its promotion in the group's channel, if it is listed there.
    pub promotion: Option<u64>,
    /// The depot's id.
    pub depot: Text,
}

/// A verified reading of the group's channel, for the group's release name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelReading {
    /// The depot's id.
    pub depot: Text,
    /// What is listed, in order of promotion: the last entry is the head.
    pub entries: Vec<ChannelEntry>,
}

/// One promoted release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEntry {
    /// The release.
    pub release: Release,
    /// The index sequence at which it was promoted.
    pub promotion: u64,
    /// Promoted with `--again`: allowed even if it was rejected.
    pub again: bool,
}

/// What a step decided.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The next record; `None`: the committed one stays.
    pub next: Option<GroupState>,
    /// Valid when `next` is committed; at once if there is none. Thrown away if the proposal
    /// fails: the asker repeats the command under its id.
    pub answers: Vec<(CommandId, CommandAnswer)>,
    /// To members, now: derived from the committed record.
    pub sends: Vec<(NodeId, TurnMessage)>,
    /// The node shall read the channel now and say [`LeadInput::Channel`].
    pub read_channel: bool,
    /// Call again at this moment, even if nothing comes in.
    pub wake: Option<Moment>,
}

/// The leader's side of one group. Lives on every voter; acts only on the leader.
#[derive(Debug)]
pub struct Lead {
    settings: LeadSettings,
}

impl Lead {
    /// A leader's side that has noted nothing yet.
    pub fn new(settings: LeadSettings, me: NodeId, seed: u64) -> Self {
        let _ = (me, seed);
        Self { settings }
    }

    /// Every voter, at every commit: notes by its own clock when it first held a state.
    pub fn committed(&mut self, now: Now, state: &GroupState) {
        let _ = (now, state);
    }

    /// The leader only, and only while no proposal is in flight: decides. Call it at once after
    /// each commit, when something came in, and at [`Step::wake`].
    pub fn step(
        &mut self,
        now: Now,
        state: &GroupState,
        view: &View,
        inputs: Vec<LeadInput>,
    ) -> Step {
        let _ = (now, state, view, inputs, self.settings);
        Step::default()
    }

    /// The node is leader no more (or not yet): what only a leader remembers is forgotten.
    pub fn step_down(&mut self) {}

    /// What the group waits for, on which node, since when, with the last output: one line.
    pub fn waiting_for(&self, now: Now, state: &GroupState, view: &View) -> String {
        let _ = (now, state, view);
        String::new()
    }

    /// The long form of [`Lead::waiting_for`], for `explain`.
    pub fn explain(&self, now: Now, state: &GroupState, view: &View) -> Vec<String> {
        vec![self.waiting_for(now, state, view)]
    }
}
