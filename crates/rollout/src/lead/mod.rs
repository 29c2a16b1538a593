//! The leader's side: from the committed record, the view and what came in, the next record.
//!
//! Invariants: nothing is sent to a member but what the committed record says. A *go* is sent only
//! for a claim that is committed as *taken*. What is remembered here beside the record (clocks,
//! repeats, reports, the channel) is volatile, and rebuilt after a failover.

mod advance;
mod again;
mod apply;
mod channel;
mod commands;
mod draft;
mod inbox;
mod notes;
mod sends;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::member::Prepared;
use baton_types::{
    Command, CommandAnswer, CommandId, Digest, Moment, NodeId, Now, Release, RolloutId, Text,
};
use baton_wire::{TurnId, TurnMessage, TurnStep};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use self::notes::Notes;
use self::sends::Told;
use crate::limits::STEP_INPUTS_MAX;
use crate::rollout::{Rollout, Turn};
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
    /// The channel index's sequence: a target that was promoted at or before it and is not listed
    /// was demoted.
    pub sequence: u64,
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
    rng: StdRng,
    notes: Notes,
    /// How far each member's fetch is, by its own report.
    prepared: BTreeMap<NodeId, (RolloutId, Digest, Prepared)>,
    /// Where each member stands in its turn, and since when, by its own report.
    progress: BTreeMap<NodeId, (TurnId, Reported, Moment)>,
    /// Outcomes that were heard and are to be acknowledged once committed.
    owed: BTreeMap<NodeId, TurnId>,
    /// Claims for turns that nobody was given.
    unknown: BTreeMap<NodeId, TurnId>,
    /// What each member was told last, and when.
    told: BTreeMap<NodeId, (Told, Moment)>,
    /// Members without what the ledger wants them to have, and since when.
    strays: BTreeMap<NodeId, Moment>,
    /// Members that are not healthy, since when, and which of them for long.
    ill: BTreeMap<NodeId, Moment>,
    lasting: BTreeSet<NodeId>,
    channel: Option<ChannelReading>,
    channel_error: Text,
    channel_asked: Option<Moment>,
    read_channel: bool,
}

/// What a member said of its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reported {
    step: TurnStep,
    text: Text,
    environment: bool,
}

/// The moment of a step, and the next one at which something falls due.
#[derive(Debug)]
struct Alarm {
    now: Moment,
    wake: Option<Moment>,
}

impl Alarm {
    /// Whether `at` has come; if not, it is remembered as something to wake for.
    fn is_due(&mut self, at: Moment) -> bool {
        let due = at <= self.now;
        if !due {
            self.at(at);
        }
        due
    }

    /// Something falls due at `at`.
    fn at(&mut self, at: Moment) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

impl Lead {
    /// A leader's side that has noted nothing yet. `seed` draws rollout ids.
    pub fn new(settings: LeadSettings, me: NodeId, seed: u64) -> Self {
        let salt = me.as_bytes().iter().fold(0u64, |salt, b| salt.rotate_left(7) ^ u64::from(*b));
        Self {
            settings,
            rng: StdRng::seed_from_u64(seed ^ salt),
            notes: Notes::default(),
            prepared: BTreeMap::new(),
            progress: BTreeMap::new(),
            owed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            told: BTreeMap::new(),
            strays: BTreeMap::new(),
            ill: BTreeMap::new(),
            lasting: BTreeSet::new(),
            channel: None,
            channel_error: Text::default(),
            channel_asked: None,
            read_channel: false,
        }
    }

    /// Every voter, at every commit: notes by its own clock when it first held a state.
    pub fn committed(&mut self, now: Now, state: &GroupState) {
        self.notes.observe(now.moment, state);
        self.prepared.retain(|_, (id, _, _)| state.rollout.as_deref().is_some_and(|r| r.id == *id));
        let rollout = state.rollout.as_deref().into_iter();
        let open: BTreeMap<NodeId, TurnId> = rollout
            .flat_map(|rollout| rollout.open_turns().map(|t| (t.node, rollout.turn_id(t))))
            .collect();
        self.progress.retain(|node, (id, _, _)| open.get(node) == Some(id));
    }

    /// The leader only, and only while no proposal is in flight: decides. Call it at once after
    /// each commit, when something came in, when the view changed, and at [`Step::wake`].
    pub fn step(
        &mut self,
        now: Now,
        state: &GroupState,
        view: &View,
        inputs: Vec<LeadInput>,
    ) -> Step {
        self.notes.observe(now.moment, state);
        let mut alarm = Alarm { now: now.moment, wake: None };
        let mut draft = state.clone();
        let mut answers = Vec::new();
        let mut claims = Vec::new();
        for input in inputs.into_iter().take(STEP_INPUTS_MAX) {
            match input {
                LeadInput::Command { command, found } => {
                    let answer = self.command(now, &mut draft, view, &command, found);
                    answers.push((command.id, answer));
                    // Each command finds what the one before it came to.
                    self.advance(now, &mut alarm, &mut draft, view);
                }
                LeadInput::Channel(reading) => self.channel_read(now, &mut draft, view, reading),
                LeadInput::FromMember(node, message @ TurnMessage::Claim { .. }) => {
                    claims.push((node, message));
                }
                LeadInput::FromMember(node, message) => {
                    self.heard(now, &mut draft, view, node, message);
                }
            }
        }
        self.follow_channel(now, &mut draft, view);
        self.advance(now, &mut alarm, &mut draft, view);
        // Claims last: what came with them may halt the rollout or turn it round, and nobody is to be
        // stopped for a release that the same record gives up.
        if !claims.is_empty() {
            for (node, message) in claims {
                self.heard(now, &mut draft, view, node, message);
            }
            self.advance(now, &mut alarm, &mut draft, view);
        }
        if let (Some(new), Some(old)) = (draft.rollout.as_deref_mut(), state.rollout.as_deref())
            && new != old
        {
            new.updated_at = now.wall;
        }
        let sends = self.sends(&mut alarm, state, view);
        let read_channel = self.poll_channel(&mut alarm, view);
        draft.fit();
        let next = (draft != *state).then_some(draft);
        Step { next, answers, sends, read_channel, wake: alarm.wake }
    }

    /// The node is leader no more (or not yet): what only a leader remembers is forgotten; the
    /// notes stay.
    pub fn step_down(&mut self) {
        self.prepared.clear();
        self.progress.clear();
        self.owed.clear();
        self.unknown.clear();
        self.told.clear();
        self.strays.clear();
        self.ill.clear();
        self.lasting.clear();
        self.channel = None;
        self.channel_error = Text::default();
        self.channel_asked = None;
        self.read_channel = false;
    }

    /// What the group waits for, on which node, since when, with the last output: one line.
    pub fn waiting_for(&self, now: Now, state: &GroupState, view: &View) -> String {
        wait::group_waits_for(self, now, state, view)
    }

    /// What one open turn waits for.
    pub(crate) fn turn_waits_for(
        &self,
        now: Now,
        state: &GroupState,
        view: &View,
        rollout: &Rollout,
        turn: &Turn,
    ) -> String {
        wait::turn_waits_for(self, now, state, view, rollout, turn)
    }

    /// The long form of [`Lead::waiting_for`], for `explain`: the line, then one per open turn.
    pub fn explain(&self, now: Now, state: &GroupState, view: &View) -> Vec<String> {
        let mut lines = vec![self.waiting_for(now, state, view)];
        if let Some(rollout) = state.rollout.as_deref() {
            let open = rollout.open_turns();
            lines.extend(open.map(|t| wait::turn_waits_for(self, now, state, view, rollout, t)));
        }
        lines.retain(|line| !line.is_empty());
        if lines.is_empty() {
            lines.push("nothing: no rollout is under way".to_owned());
        }
        lines
    }

    /// Why the channel could not be read last, if so.
    pub fn channel_error(&self) -> &str {
        self.channel_error.as_str()
    }

    fn fresh_id(&mut self) -> RolloutId {
        RolloutId::from_random(self.rng.random())
    }
}
