//! What a group's ledger holds about its updates.
//!
//! Invariant: encoded it fits a ledger record at 1,000 members: node ids only, no names, every
//! list with a limit, and `GroupState::fit` drops words before it drops decisions.

use std::collections::BTreeSet;

use baton_types::limits::{
    BASELINES_MAX, COMMANDS_REMEMBERED, HISTORY_MAX, REJECTED_MAX, REVISIONS_MAX,
};
use baton_types::{
    CommandAnswer, CommandId, ConfigRevision, Digest, NodeId, NodeName, ReleaseId, RolloutId,
    Target, Text, WallTime,
};
use baton_wire::Versions;
use baton_wire::codec::{self, CodecError};
use serde::{Deserialize, Serialize};

use crate::limits::{ANSWERS_KEPT, HISTORY_KEPT, REASONS_KEPT, STATE_MAX_BYTES};
use crate::rollout::{Rollout, RolloutKind, RolloutState, TurnState};
use crate::targets::MemberTargets;

/// Everything that the leader of a group must not forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Completed targets that `rollback` steps back through, oldest first; the last one is the
    /// baseline.
    pub baselines: Vec<Target>,
    /// Every target that completed, for `rollback --to`, oldest first.
    pub completed: Vec<Target>,
    /// The last *go* of each member where it differs from the baseline; of a turn under way it is
    /// noted when the turn ends, until then the turn itself says it.
    pub member_targets: MemberTargets,
    /// Nodes that are kept out of rollouts.
    pub cordons: BTreeSet<NodeId>,
    /// Members that failed or were not ready on their target: no catch-up turn by itself.
    pub gave_up: BTreeSet<NodeId>,
    /// Targets that start nothing by themselves.
    pub rejected: Vec<Rejected>,
    /// The highest promotion acted on.
    pub acted: Option<Acted>,
    /// A typed pause: of the group, not of a rollout.
    pub pause: Option<Pause>,
    /// The rollout under way.
    pub rollout: Option<Box<Rollout>>,
    /// What starts when the rollout under way has ended.
    pub next: Option<Box<Rollout>>,
    /// The rollout that ended last, while no other one is under way.
    pub last: Option<Box<Rollout>>,
    /// One line per ended rollout, oldest first.
    pub history: Vec<Ended>,
    /// The last commands with their answers, oldest first.
    pub commands: Vec<(CommandId, CommandAnswer)>,
    /// Number of the newest configuration revision.
    pub config_revision: u32,
    /// The configuration revisions applied last, in the order of their numbers.
    pub revisions: Vec<KnownRevision>,
    /// What a group without any release has been given: its first release starts with it.
    pub first_config: ConfigRevision,
}

/// A configuration revision that was applied: its number, and who applied it first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRevision {
    /// Which.
    pub revision: ConfigRevision,
    /// The node at which it was typed.
    pub by: NodeName,
    /// When, for people.
    pub at: WallTime,
}

/// The promotion acted on last. Promotion numbers of different depots are not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acted {
    /// The depot's id.
    pub depot: Text,
    /// Its promotion number.
    pub promotion: u64,
}

/// A typed pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The node at which it was typed.
    pub by: NodeName,
    /// When, for people.
    pub at: WallTime,
    /// Why, if something else than `pause` was typed.
    pub why: Text,
}

impl Pause {
    /// " (…)" with why, if that is to be said.
    pub fn because(&self) -> String {
        match self.why.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.why),
        }
    }
}

/// A target that was left as bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Which: the key of release and configuration revision together.
    pub digest: Digest,
    /// What people call its release.
    pub release: ReleaseId,
    /// Number of its configuration revision; 0 = none.
    pub config: u32,
    /// Why.
    pub why: Text,
    /// By which rollout.
    pub rollout: RolloutId,
}

/// One ended rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Identity.
    pub id: RolloutId,
    /// What it was for.
    pub kind: RolloutKind,
    /// How it ended.
    pub state: RolloutState,
    /// Where it started from.
    pub from: Option<Target>,
    /// What it brought.
    pub to: Target,
    /// For people.
    pub started_at: WallTime,
    /// For people.
    pub ended_at: WallTime,
    /// Why it ended so.
    pub reason: Text,
    /// Members at its start.
    pub total: u32,
    /// Members that passed in its last phase.
    pub passed: u32,
    /// Failed (phase, member).
    pub failures: u32,
}

impl GroupState {
    /// The last target that a rollout brought to the group successfully.
    pub fn baseline(&self) -> Option<&Target> {
        self.baselines.last()
    }

    /// What the ledger wants `node` to run.
    pub fn target_of(&self, node: NodeId) -> Option<&Target> {
        let taken = |rollout: &Rollout| {
            let turn = rollout.turn(node)?;
            let told = matches!(turn.state, TurnState::Taken | TurnState::Monitoring);
            told.then_some(turn.phase)
        };
        if let Some(rollout) = self.rollout.as_deref().filter(|rollout| !rollout.kind.keeps())
            && let Some(phase) = taken(rollout)
        {
            return Some(rollout.target_of_phase(phase));
        }
        self.member_targets.get(node).or_else(|| self.baseline())
    }

    /// Whether every member has the baseline, and nothing is about to change that.
    pub(crate) fn is_uniform(&self) -> bool {
        let moves = |rollout: &Rollout| !rollout.kind.keeps();
        !self.rollout.as_deref().is_some_and(moves) && self.member_targets.is_empty()
    }

    /// The rollout under way, else the last one that ended.
    pub fn shown_rollout(&self) -> Option<&Rollout> {
        self.rollout.as_deref().or(self.last.as_deref())
    }

    /// What the group is being brought to or has: a new release keeps its configuration revision,
    /// a new revision its release. What a failure has paused, or what is being left, is not carried
    /// on: then it is the baseline.
    pub fn intended(&self) -> Option<&Target> {
        if let Some(next) = self.next.as_deref().filter(|next| next.kind.is_step()) {
            return Some(&next.to);
        }
        let going_on = |rollout: &&Rollout| {
            let doubtful = rollout.paused_by_fault && rollout.from.is_some();
            rollout.kind.is_step() && rollout.ending.is_none() && !doubtful
        };
        let under_way = self.rollout.as_deref().filter(going_on).map(Rollout::target);
        under_way.or_else(|| self.baseline())
    }

    /// The configuration revision that a new release comes with.
    pub fn config_in_force(&self) -> ConfigRevision {
        self.intended().map_or(self.first_config, |target| target.config)
    }

    /// The revision with this digest, as the ledger numbers it; a new one gets the next number.
    pub(crate) fn number(&mut self, digest: Digest, by: &NodeName, at: WallTime) -> ConfigRevision {
        let known = self.revisions.iter().find(|known| known.revision.digest == Some(digest));
        if let Some(known) = known {
            return known.revision;
        }
        self.config_revision = self.config_revision.saturating_add(1);
        let revision = ConfigRevision { number: self.config_revision, digest: Some(digest) };
        self.revisions.push(KnownRevision { revision, by: by.clone(), at });
        keep_last(&mut self.revisions, REVISIONS_MAX);
        revision
    }

    /// The first answer to a command, if it was given before.
    pub fn answer_to(&self, id: CommandId) -> Option<&CommandAnswer> {
        self.commands.iter().find(|(known, _)| *known == id).map(|(_, answer)| answer)
    }

    /// Keeps the answer to a command, for repeats.
    pub fn remember(&mut self, id: CommandId, answer: CommandAnswer) {
        self.commands.push((id, answer));
        keep_last(&mut self.commands, COMMANDS_REMEMBERED);
    }

    /// Why `target` starts nothing by itself, if so.
    pub fn rejection(&self, target: &Target) -> Option<&Rejected> {
        self.rejected.iter().find(|rejected| rejected.digest == target.key())
    }

    /// `target` starts nothing by itself any more.
    pub fn reject(&mut self, target: &Target, why: &str, rollout: RolloutId) {
        self.allow(target);
        self.rejected.push(Rejected {
            digest: target.key(),
            release: target.release.id.clone(),
            config: target.config.number,
            why: Text::new(why),
            rollout,
        });
        keep_last(&mut self.rejected, REJECTED_MAX);
    }

    /// `target` may start again.
    pub fn allow(&mut self, target: &Target) {
        self.rejected.retain(|rejected| rejected.digest != target.key());
    }

    /// Makes `target` the baseline by the rule: a rollout ended with it.
    pub(crate) fn set_baseline(&mut self, target: &Target) {
        match self.baselines.iter().position(|known| known.same_as(target)) {
            Some(at) => self.baselines.truncate(at + 1),
            None => self.baselines.push(target.clone()),
        }
        keep_last(&mut self.baselines, BASELINES_MAX);
        self.completed.retain(|known| !known.same_as(target));
        self.completed.push(target.clone());
        keep_last(&mut self.completed, BASELINES_MAX);
        self.member_targets.clear();
    }

    /// Adds a line to the history.
    pub(crate) fn log(&mut self, line: Ended) {
        self.history.push(line);
        keep_last(&mut self.history, HISTORY_MAX);
    }

    /// The bytes for the ledger's opaque record, for members that all speak `version` of the wire: it
    /// is their first one. All versions have one layout so far.
    ///
    /// # Errors
    ///
    /// Only if the state cannot be encoded at all.
    pub fn encode(&self, version: u8) -> Result<Vec<u8>, CodecError> {
        codec::encode(&(version, self))
    }

    /// A state from the ledger's opaque record, read by a build that speaks `ours`; no bytes are the
    /// state of a new group. What a newer build has added at its end is left out.
    ///
    /// # Errors
    ///
    /// Bytes that no [`GroupState::encode`] made, or of a version that is not spoken.
    pub fn decode(bytes: &[u8], ours: Versions) -> Result<Self, CodecError> {
        let Some((version, content)) = bytes.split_first() else {
            return Ok(Self::default());
        };
        if !ours.speaks(*version) {
            let kind = "the record";
            return Err(CodecError::Version { kind, found: *version, known: ours });
        }
        codec::decode_grown(content)
    }

    /// The version that [`GroupState::encode`] was given; `None` for the state of a new group.
    pub fn version_of(bytes: &[u8]) -> Option<u8> {
        bytes.first().copied()
    }

    /// Drops words until the state fits a record: reasons beyond the first few, old answers, the
    /// turns of the last rollout, old history. Decisions stay.
    pub(crate) fn fit(&mut self) {
        for cut in [Self::cut_reasons, Self::cut_answers, Self::cut_last, Self::cut_history] {
            if codec::encoded_len(self) < STATE_MAX_BYTES {
                return;
            }
            cut(self);
        }
    }

    fn cut_reasons(&mut self) {
        for rollout in [&mut self.rollout, &mut self.next, &mut self.last].into_iter().flatten() {
            let reasons = rollout.turns.iter_mut().filter(|turn| !turn.reason.is_empty());
            reasons.skip(REASONS_KEPT).for_each(|turn| turn.reason = Text::default());
        }
    }

    fn cut_answers(&mut self) {
        let old = self.commands.len().saturating_sub(ANSWERS_KEPT);
        self.commands.iter_mut().take(old).for_each(|(_, answer)| answer.message = Text::default());
    }

    fn cut_last(&mut self) {
        self.last = None;
    }

    fn cut_history(&mut self) {
        self.rejected.iter_mut().for_each(|rejected| rejected.why = Text::default());
        keep_last(&mut self.history, HISTORY_KEPT);
    }
}

/// Drops the oldest entries until `max` are left.
fn keep_last<T>(list: &mut Vec<T>, max: usize) {
    let surplus = list.len().saturating_sub(max);
    list.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{target, view};
    use baton_types::CommandResult;

    /// The largest state that a group of 1,000 can come to.
    fn huge() -> GroupState {
        let names: Vec<String> = (0..1_000).map(|n| format!("node-{n:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut rollout = crate::rules::start::tests::rollout(&view(&names, "node-0000"));
        let mut state = GroupState::default();
        let words = Text::new(&"x".repeat(500));
        for turn in &mut rollout.turns {
            turn.state = TurnState::Failed;
            turn.reason = words.clone();
            state.member_targets.set(turn.node, &target(2));
        }
        for n in 0..64 {
            let message = words.clone();
            let answer = CommandAnswer { result: CommandResult::Done, message, rollout: None };
            state.remember(CommandId::from_random(n), answer);
        }
        for version in 0..=200 {
            state.set_baseline(&target(version));
            state.reject(&target(version), words.as_str(), rollout.id);
            state.log(Ended {
                id: rollout.id,
                kind: RolloutKind::Update,
                state: RolloutState::Cancelled,
                from: Some(target(1)),
                to: target(2),
                started_at: WallTime(0),
                ended_at: WallTime(0),
                reason: words.clone(),
                total: 1_000,
                passed: 0,
                failures: 1_000,
            });
        }
        for turn in &rollout.turns {
            state.member_targets.set(turn.node, &target(2));
        }
        state.rollout = Some(Box::new(rollout));
        state
    }

    #[test]
    fn every_list_has_its_limit() {
        let state = huge();
        assert_eq!(state.baselines.len(), BASELINES_MAX);
        assert_eq!(state.completed.len(), BASELINES_MAX);
        assert_eq!(state.rejected.len(), REJECTED_MAX);
        assert_eq!(state.history.len(), HISTORY_MAX);
        assert_eq!(state.commands.len(), COMMANDS_REMEMBERED);
        assert_eq!(state.baseline(), Some(&target(200)), "the oldest give way");
    }

    #[test]
    fn a_thousand_members_fit_a_record_and_no_decision_is_lost() {
        let mut state = huge();
        let before = state.clone();
        assert!(codec::encoded_len(&state) > STATE_MAX_BYTES);
        state.fit();
        let bytes = state.encode(1).expect("encodes");
        assert!(bytes.len() <= STATE_MAX_BYTES, "{} bytes", bytes.len());
        assert_eq!(GroupState::decode(&bytes, Versions::OURS).expect("decodes"), state);
        let decisions = |state: &GroupState| {
            let turns = state.rollout.as_deref().map(|rollout| {
                let turns = rollout.turns.iter().map(|t| (t.node, t.state, t.attempts, t.claim));
                turns.collect::<Vec<_>>()
            });
            let ids: Vec<_> =
                state.commands.iter().map(|(id, answer)| (*id, answer.result)).collect();
            (turns, ids, state.baselines.clone(), state.member_targets.clone())
        };
        assert_eq!(decisions(&state), decisions(&before));
    }

    #[test]
    fn no_bytes_are_a_new_group_and_wrong_ones_are_refused() {
        let decode = |bytes: &[u8]| GroupState::decode(bytes, Versions::OURS);
        assert_eq!(decode(&[]).expect("decodes"), GroupState::default());
        assert!(decode(&[1; 40]).is_err());
    }

    #[test]
    fn a_newer_build_s_state_is_read_as_far_as_it_is_in_a_version_that_is_spoken() {
        let state = huge();
        let mut bytes = state.encode(1).expect("encodes");
        bytes.extend([1, 2, 3]);
        assert_eq!(GroupState::decode(&bytes, Versions::OURS).expect("decodes"), state);
        let newer = state.encode(2).expect("encodes");
        assert_eq!(GroupState::version_of(&newer), Some(2));
        let unread = GroupState::decode(&newer, Versions::OURS).expect_err("not spoken");
        assert_eq!(unread.to_string(), "the record in version 2 of the wire: 1 is known here");
        let range = Versions::new(1, 2).expect("a range");
        assert_eq!(GroupState::decode(&newer, range).expect("decodes"), state);
    }

    #[test]
    fn a_baseline_that_is_set_again_drops_what_came_after_it() {
        let mut state = GroupState::default();
        for version in [1, 2, 3, 1] {
            state.set_baseline(&target(version));
        }
        assert_eq!(state.baselines, [target(1)]);
        assert_eq!(state.completed, [target(2), target(3), target(1)]);
    }
}
