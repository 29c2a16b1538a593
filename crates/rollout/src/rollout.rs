//! One rolling update: what it brings, under which policy, and everybody's turn in it.
//!
//! Invariant: frozen at its start are target, policy and order; only turns, state and reason
//! change, and only by a committed record.

use std::fmt;

use baton_types::policy::{Policy, Strategy};
use baton_types::{ClaimId, Name, NodeId, RolloutId, Target, Text, WallTime};
use baton_wire::{Manner, TurnId};
use serde::{Deserialize, Serialize};

/// One rolling update of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// Identity.
    pub id: RolloutId,
    /// What it is for.
    pub kind: RolloutKind,
    /// Where it stands.
    pub state: RolloutState,
    /// Why it is in that state, where a reason is needed.
    pub reason: Text,
    /// Whether a failure, a timeout or an environment fault paused it (a typed pause is the
    /// group's).
    pub paused_by_fault: bool,
    /// The baseline that it started from; `None` in a group's first rollout.
    pub from: Option<Target>,
    /// What it brings.
    pub to: Target,
    /// What was frozen at its start.
    pub plan: Plan,
    /// When it was committed, for people.
    pub started_at: WallTime,
    /// When its last record was made, for people.
    pub updated_at: WallTime,
    /// 1, or 2 in a rollback.
    pub phase: u8,
    /// Whether every member has fetched the target.
    pub prepared: bool,
    /// Rises at each resume, retry and new phase: clocks that such a command restarts count from
    /// the note of it.
    pub epoch: u32,
    /// Members at its start; thresholds are shares of it.
    pub total: u32,
    /// Members of the whole group at its start; the budget is a share of it.
    pub group_size: u32,
    /// Failures of this phase that an operator accepted by `resume`.
    pub accepted: u32,
    /// Failures of the phase before, for the history.
    pub failures_before: u32,
    /// Which wave is under way, from 0.
    pub wave: u32,
    /// Set while it ends but turns under way must end first.
    pub ending: Option<Ending>,
    /// Everybody's turn, in order.
    pub turns: Vec<Turn>,
}

/// What the leader's file said at the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Policy of phase 1.
    pub update: Policy,
    /// Policy of phase 2.
    pub rollback: Policy,
    /// How the target reaches the group.
    pub strategy: Strategy,
    /// Where the target comes from.
    pub depot: String,
    /// The channel that was followed.
    pub channel: Name,
    /// The promotion that started it or that made its target a head; `None` for a target that no
    /// channel listed, so that no demotion concerns it.
    pub promotion: Option<u64>,
}

/// How a rollout is going to end once the turns under way have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `Cancelled` or `Superseded`.
    pub state: RolloutState,
    /// Why.
    pub reason: Text,
}

/// One member's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Whose.
    pub node: NodeId,
    /// Where it stands.
    pub state: TurnState,
    /// The phase that it belongs to.
    pub phase: u8,
    /// Offers so far.
    pub attempts: u32,
    /// The claim that was answered last.
    pub claim: Option<ClaimId>,
    /// Failed, but the rollout went on: no longer counted as unavailable.
    pub let_pass: bool,
    /// Skipped or absent because the member was not there: its turn comes when it is back.
    pub gone: bool,
    /// Why it failed, was skipped or is absent.
    pub reason: Text,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TurnState {
    /// Not yet.
    Waiting,
    /// May prepare itself; holds a place in the budget.
    Offered,
    /// May stop its old release.
    Taken,
    /// Was healthy first, must stay so.
    Monitoring,
    /// Good.
    Passed,
    /// Not good.
    Failed,
    /// Left out on the way.
    Skipped,
    /// Was not there.
    Absent,
}

/// What a rollout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutKind {
    /// A release.
    Update,
    /// A configuration revision.
    Config,
    /// Back to something that completed before.
    Rollback,
    /// The same again.
    Restart,
    /// The same again, machine included.
    Reboot,
    /// Members that joined, returned or were absent.
    CatchUp,
}

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RolloutState {
    /// Members fetch the target.
    Preparing,
    /// Turns go on.
    Running,
    /// No new turn.
    Paused,
    /// Ended well.
    Completed,
    /// Ended with failed, skipped or absent members.
    CompletedWithExceptions,
    /// Ended by an operator or a demotion.
    Cancelled,
    /// Ended by a newer target.
    Superseded,
    /// Going back.
    RollingBack,
    /// Going back, but no new turn.
    RollbackPaused,
    /// Ended back where it came from.
    RolledBack,
}

impl Rollout {
    /// How many members it is about: those of its start; on the way back those that were moved.
    pub fn concerned(&self) -> usize {
        match self.phase >= 2 && self.kind != RolloutKind::Rollback {
            true => self.turns.iter().filter(|turn| turn.phase >= 2).count(),
            false => self.total as usize,
        }
    }

    /// "update to redis/2", "restart on redis/2": what the phase under way is, in words.
    pub fn title(&self) -> String {
        self.kind.title(self.target())
    }

    /// As [`Rollout::title`], where it does not matter what kind of target it is.
    pub fn words(&self) -> String {
        match self.kind.keeps() {
            true => self.title(),
            false => format!("rollout to {}", self.target()),
        }
    }

    /// The policy of the phase under way.
    pub fn policy(&self) -> &Policy {
        if self.phase >= 2 { &self.plan.rollback } else { &self.plan.update }
    }

    /// What the phase under way moves members to.
    pub fn target(&self) -> &Target {
        self.target_of_phase(self.phase)
    }

    /// What turns of `phase` move members to.
    pub fn target_of_phase(&self, phase: u8) -> &Target {
        match &self.from {
            Some(from) if phase >= 2 && self.kind != RolloutKind::Rollback => from,
            _ => &self.to,
        }
    }

    /// Whether this is a group's first: nothing to go back to, and nothing to disrupt.
    pub fn is_first(&self) -> bool {
        self.from.is_none()
    }

    /// The state in which it goes on, as far as it has come.
    pub fn going_state(&self) -> RolloutState {
        match (self.prepared, self.phase) {
            (false, _) => RolloutState::Preparing,
            (true, ..=1) => RolloutState::Running,
            (true, _) => RolloutState::RollingBack,
        }
    }

    /// The state in which it waits for an operator.
    pub fn paused_state(&self) -> RolloutState {
        if self.phase >= 2 { RolloutState::RollbackPaused } else { RolloutState::Paused }
    }

    /// Waits for an operator, because of `reason`.
    pub(crate) fn pause_by_fault(&mut self, reason: &str) {
        self.state = self.paused_state();
        self.paused_by_fault = true;
        self.reason = Text::new(reason);
    }

    /// The turn of `node`.
    pub fn turn(&self, node: NodeId) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.node == node)
    }

    /// The turn of `node`, which stands at place `at` in another record of this rollout. Turns keep
    /// their places, so that a thousand of them are compared without a search for each.
    pub fn turn_near(&self, at: usize, node: NodeId) -> Option<&Turn> {
        self.turns.get(at).filter(|turn| turn.node == node).or_else(|| self.turn(node))
    }

    /// The turn of `node`, to change it.
    pub fn turn_mut(&mut self, node: NodeId) -> Option<&mut Turn> {
        self.turns.iter_mut().find(|turn| turn.node == node)
    }

    /// How messages name the turn under way of `turn`'s member.
    pub fn turn_id(&self, turn: &Turn) -> TurnId {
        TurnId { rollout: self.id, phase: turn.phase, attempt: turn.attempts }
    }

    /// Turns that hold a place in the budget.
    pub fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.state.is_open())
    }

    /// Turns of the phase under way in `state`.
    pub fn count(&self, state: TurnState) -> usize {
        self.turns.iter().filter(|turn| turn.phase == self.phase && turn.state == state).count()
    }

    /// Distinct members that failed in the phase under way.
    pub fn failures(&self) -> usize {
        self.count(TurnState::Failed)
    }
}

impl Turn {
    /// A turn that has not begun.
    pub fn waiting(node: NodeId, phase: u8) -> Self {
        Self {
            node,
            state: TurnState::Waiting,
            phase,
            attempts: 0,
            claim: None,
            let_pass: false,
            gone: false,
            reason: Text::default(),
        }
    }
}

impl TurnState {
    /// Offered, taken or monitoring.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Offered | Self::Taken | Self::Monitoring)
    }

    /// The word in status answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Offered => "offered",
            Self::Taken => "taken",
            Self::Monitoring => "monitoring",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Absent => "absent",
        }
    }
}

impl RolloutKind {
    /// The word in status answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Config => "config",
            Self::Rollback => "rollback",
            Self::Restart => "restart",
            Self::Reboot => "reboot",
            Self::CatchUp => "catch-up",
        }
    }

    /// Whether members keep what they run: nothing is fetched, no target changes.
    pub const fn keeps(self) -> bool {
        matches!(self, Self::Restart | Self::Reboot)
    }

    /// Whether it moves the whole group to a target, so that channels, `rollback` and `retry` are
    /// about it. The others leave the group's target as it is.
    pub const fn is_step(self) -> bool {
        matches!(self, Self::Update | Self::Config | Self::Rollback)
    }

    /// What becomes of a member in its turn.
    pub const fn manner(self) -> Manner {
        match self {
            Self::Restart => Manner::Restart,
            Self::Reboot => Manner::Reboot,
            _ => Manner::Bring,
        }
    }

    /// "update to redis/2", "restart on redis/2".
    pub fn title(self, target: &Target) -> String {
        let way = if self.keeps() { "on" } else { "to" };
        format!("{} {way} {target}", self.word())
    }
}

impl RolloutState {
    /// The word in status answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::CompletedWithExceptions => "completed_with_exceptions",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::RollingBack => "rolling_back",
            Self::RollbackPaused => "rollback_paused",
            Self::RolledBack => "rolled_back",
        }
    }

    /// Whether offers go out in this state.
    pub const fn offers(self) -> bool {
        matches!(self, Self::Running | Self::RollingBack)
    }

    /// Whether it waits for an operator.
    pub const fn is_paused(self) -> bool {
        matches!(self, Self::Paused | Self::RollbackPaused)
    }

    /// Whether nothing changes it any more.
    pub const fn has_ended(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::CompletedWithExceptions
                | Self::Cancelled
                | Self::Superseded
                | Self::RolledBack
        )
    }
}

impl fmt::Display for TurnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for RolloutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
