//! The group, its rollout and its history as the control API shows them.
//!
//! Invariant: reading changes nothing, and every node can answer from its own record and view; only
//! what members said to the leader alone is missing elsewhere.

use std::collections::BTreeMap;

use baton_types::status::{
    GroupStatus, HistoryStatus, LineageStatus, MemberStatus, PendingStatus, RevisionStatus,
    RolloutStatus, TargetStatus,
};
use baton_types::{ConfigRevision, NodeId, Now, Target};

use crate::lead::Lead;
use crate::rollout::{Rollout, Turn, TurnState};
use crate::state::{GroupState, KnownRevision};
use crate::view::View;

/// What the ledger adds to a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerInfo {
    /// The leader, if one is known.
    pub leader: Option<NodeId>,
    /// The ledger's term.
    pub term: u64,
    /// The committed record's version.
    pub version: u64,
    /// Whether a majority of the voters answers.
    pub quorum: bool,
    /// Why not, or that the group is forming.
    pub quorum_reason: String,
    /// The voters.
    pub voters: Vec<NodeId>,
    /// The lineage, as people write it; empty before formation.
    pub lineage: String,
    /// Further lineages, formed apart, that were met.
    pub met: Vec<LineageStatus>,
}

/// `baton rollout status G`.
pub fn status(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    ledger: &LedgerInfo,
) -> GroupStatus {
    let rollout = state.shown_rollout();
    let mut voters: Vec<String> = ledger.voters.iter().map(|node| view.name(*node)).collect();
    voters.sort_unstable();
    GroupStatus {
        group: view.group(),
        leader: ledger.leader.map(|node| view.name(node)),
        term: ledger.term,
        version: ledger.version,
        quorum: ledger.quorum,
        quorum_reason: ledger.quorum_reason.clone(),
        voters,
        lineage: ledger.lineage.clone(),
        met: ledger.met.clone(),
        baseline: state.baseline().map(target_status),
        paused_by: state
            .pause
            .as_ref()
            .map(|pause| format!("{} at {}{}", pause.by, pause.at, pause.because())),
        pending: pending(lead, state, view),
        rollout: rollout.map(|rollout| rollout_status(lead, now, state, view, rollout)),
        members: members(state, view),
        differing_files: differing_files(ledger, view),
        cordoned: state.cordons.iter().map(|node| view.name(*node)).collect(),
        channel_error: lead.channel_error().to_owned(),
        depot: view.settings.depot.clone(),
        config: in_force(state),
        revisions: state.revisions.iter().map(known_revision).collect(),
    }
}

/// `baton rollout history G`, newest first.
pub fn history(state: &GroupState) -> Vec<HistoryStatus> {
    state
        .history
        .iter()
        .rev()
        .map(|line| HistoryStatus {
            id: line.id.to_string(),
            kind: line.kind.to_string(),
            state: line.state.to_string(),
            from: line.from.as_ref().map(target_status),
            to: target_status(&line.to),
            started_at: line.started_at.to_string(),
            ended_at: line.ended_at.to_string(),
            reason: line.reason.to_string(),
            total: line.total as usize,
            passed: line.passed as usize,
            failures: line.failures as usize,
        })
        .collect()
}

fn rollout_status(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    rollout: &Rollout,
) -> RolloutStatus {
    let waiting_for = match rollout.state.has_ended() {
        true => String::new(),
        false => lead.waiting_for(now, state, view),
    };
    RolloutStatus {
        id: rollout.id.to_string(),
        kind: rollout.kind.to_string(),
        state: rollout.state.to_string(),
        reason: rollout.reason.to_string(),
        from: rollout.from.as_ref().map(target_status),
        to: target_status(&rollout.to),
        started_at: rollout.started_at.to_string(),
        updated_at: rollout.updated_at.to_string(),
        failures: rollout.failures(),
        max_failures: rollout.policy().max_failures.to_string(),
        total: rollout.concerned(),
        passed: rollout.count(TurnState::Passed),
        waiting_for,
        members: rollout
            .turns
            .iter()
            .map(|turn| turn_status(lead, now, state, view, rollout, turn))
            .collect(),
    }
}

fn turn_status(
    lead: &Lead,
    now: Now,
    state: &GroupState,
    view: &View,
    rollout: &Rollout,
    turn: &Turn,
) -> MemberStatus {
    let reason = match turn.state.is_open() {
        true => lead.turn_waits_for(now, state, view, rollout, turn),
        false => turn.reason.to_string(),
    };
    MemberStatus {
        turn: turn.state.to_string(),
        phase: turn.phase,
        attempts: turn.attempts,
        reason,
        ..member_status(state, view, turn.node)
    }
}

fn members(state: &GroupState, view: &View) -> Vec<MemberStatus> {
    let mut by_name: BTreeMap<(String, NodeId), MemberStatus> = BTreeMap::new();
    for (node, member) in &view.members {
        let mut shown = member_status(state, view, *node);
        shown.reason = member.phase.to_string();
        by_name.insert((member.name.to_string(), *node), shown);
    }
    by_name.into_values().collect()
}

fn member_status(state: &GroupState, view: &View, node: NodeId) -> MemberStatus {
    let mut shown = MemberStatus {
        name: view.name(node),
        node: node.to_string(),
        cordoned: state.cordons.contains(&node),
        health: "unknown".to_owned(),
        ring: "left".to_owned(),
        ..MemberStatus::default()
    };
    if let Some(member) = view.members.get(&node) {
        shown.release = member.running.as_ref().map(|t| t.release.to_string()).unwrap_or_default();
        shown.config = member.running.as_ref().map_or(0, |target| target.config.number);
        shown.health = member.health.to_string();
        shown.health_text = member.health_text.to_string();
        shown.ring = member.liveness.word().to_owned();
    }
    shown
}

/// Members whose file says something else than the leader's.
fn differing_files(ledger: &LedgerInfo, view: &View) -> Vec<String> {
    let reference = ledger.leader.unwrap_or(view.me);
    let Some(digest) = view.members.get(&reference).map(|member| member.file_digest) else {
        return Vec::new();
    };
    let differs =
        view.members.values().filter(|m| !m.liveness.is_gone() && m.file_digest != digest);
    differs.map(|member| member.name.to_string()).collect()
}

fn pending(lead: &Lead, state: &GroupState, view: &View) -> Option<PendingStatus> {
    if let Some(next) = &state.next {
        let reason = "starts when the rollout before it has ended its turns".to_owned();
        return Some(PendingStatus { release: next.to.to_string(), reason });
    }
    let (release, reason) = lead.pending(state, view)?;
    Some(PendingStatus { release, reason })
}

/// The revision that the members have: not the one that a rollout under way brings.
fn in_force(state: &GroupState) -> Option<RevisionStatus> {
    let config = state.baseline().map_or(state.first_config, |baseline| baseline.config);
    let digest = config.digest?;
    let known = state.revisions.iter().find(|known| known.revision == config).map(known_revision);
    Some(known.unwrap_or_else(|| RevisionStatus {
        number: config.number,
        digest: digest.to_string(),
        ..RevisionStatus::default()
    }))
}

fn known_revision(known: &KnownRevision) -> RevisionStatus {
    RevisionStatus {
        number: known.revision.number,
        digest: digest_text(&known.revision),
        by: known.by.to_string(),
        at: known.at.to_string(),
    }
}

fn digest_text(config: &ConfigRevision) -> String {
    config.digest.map(|digest| digest.to_string()).unwrap_or_default()
}

fn target_status(target: &Target) -> TargetStatus {
    TargetStatus {
        release: target.release.to_string(),
        config: target.config.number,
        digest: target.release.digest.to_string(),
        config_digest: digest_text(&target.config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    #[test]
    fn a_status_shows_everybody_and_what_is_waited_for() {
        let mut world = World::new(3);
        world.promote(2);
        world.run_until(|world| world.turn("n2") == TurnState::Monitoring);
        world.run(2_000);
        let ledger = LedgerInfo { leader: Some(world.leader), term: 3, ..LedgerInfo::default() };
        let lead = &world.leads[&world.leader];
        let shown = status(lead, world.now(), &world.state, &world.view, &ledger);
        assert_eq!((shown.group.as_str(), shown.leader.as_deref()), ("redis.default", Some("n1")));
        let rollout = shown.rollout.expect("a rollout");
        assert_eq!((rollout.state.as_str(), rollout.kind.as_str()), ("running", "update"));
        assert_eq!((rollout.total, rollout.passed, rollout.max_failures.as_str()), (3, 0, "0"));
        assert_eq!(rollout.waiting_for, "n2: monitoring, healthy for 2s of 5s");
        let turns: Vec<_> =
            rollout.members.iter().map(|m| (m.name.as_str(), m.turn.as_str())).collect();
        assert_eq!(turns, [("n2", "monitoring"), ("n3", "waiting"), ("n1", "waiting")]);
        assert_eq!(rollout.members[0].release, "redis/2");
        assert_eq!(shown.members.len(), 3);
        world.settle();
        assert_eq!(history(&world.state)[0].state, "completed");
        assert_eq!(history(&world.state)[0].passed, 3);
    }
}
