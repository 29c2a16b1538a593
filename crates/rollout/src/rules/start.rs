//! What starts a rollout, and what one looks like at its start.
//!
//! Invariant: a channel starts something only by a promotion with a higher number than every one
//! acted on before; a target is compared by digest. A release comes with the configuration revision
//! in force.

use baton_types::policy::Strategy;
use baton_types::service::ServiceSettings;
use baton_types::{Now, RolloutId, Target, Text};

use crate::lead::{ChannelEntry, ChannelReading};
use crate::rollout::{Plan, Rollout, RolloutKind, RolloutState, Turn};
use crate::rules::order::order;
use crate::state::GroupState;
use crate::view::View;

/// What the head of the channel means now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// Nothing to do and nothing to say.
    Nothing,
    /// It is noted as acted on, but starts nothing.
    Noted,
    /// It waits; why, and what to type.
    Pending(Target, String),
    /// It starts a rollout.
    Starts(Target, u64),
}

/// Decides about the head of the channel; `held` says why nothing starts at all, if so.
pub fn head(state: &GroupState, reading: &ChannelReading, strategy: Strategy, held: &str) -> Head {
    let Some(ChannelEntry { release, promotion, again }) = reading.entries.last() else {
        return Head::Nothing;
    };
    let target = Target { release: release.clone(), config: state.config_in_force() };
    let acted = state.acted.as_ref().filter(|acted| acted.depot == reading.depot);
    let new = acted.is_none_or(|acted| *promotion > acted.promotion);
    let under_way = state.next.as_deref().or(state.rollout.as_deref());
    let same = match under_way {
        Some(rollout) if rollout.kind.is_step() && rollout.phase == 1 => {
            rollout.ending.is_none() && rollout.to.same_as(&target)
        }
        _ => state.baseline().is_some_and(|baseline| baseline.same_as(&target)),
    };
    if same {
        return if new { Head::Noted } else { Head::Nothing };
    }
    if let Some(rejected) = state.rejection(&target)
        && !(new && *again)
    {
        let why = format!(
            "{target} was rejected ({}); `retry` or `start --release {}` allows it again",
            rejected.why, target.release.id.version
        );
        return Head::Pending(target, why);
    }
    if !new {
        return Head::Nothing;
    }
    if let Some(pause) = &state.pause {
        let why = format!("paused by {} at {}; `resume` lets it start", pause.by, pause.at);
        return Head::Pending(target, why);
    }
    if !held.is_empty() {
        return Head::Pending(target, held.to_owned());
    }
    if strategy == Strategy::None {
        let why = "strategy is none: `start` starts it".to_owned();
        return Head::Pending(target, why);
    }
    Head::Starts(target, *promotion)
}

/// Whether the target of the rollout under way was demoted.
pub fn demoted(rollout: &Rollout, reading: &ChannelReading) -> bool {
    rollout.plan.promotion.is_some_and(|promotion| {
        reading.sequence >= promotion
            && !reading.entries.iter().any(|e| e.release.digest == rollout.to.release.digest)
    })
}

/// A rollout that has not been launched: without turns.
pub fn planned(
    id: RolloutId,
    kind: RolloutKind,
    to: Target,
    promotion: Option<u64>,
    settings: &ServiceSettings,
    now: Now,
) -> Rollout {
    // Where a new release may take all at once, nobody who types `restart` has that in mind.
    let rolling = !kind.is_step() || settings.strategy == Strategy::None;
    Rollout {
        id,
        kind,
        state: RolloutState::Preparing,
        reason: Text::default(),
        paused_by_fault: false,
        from: None,
        to,
        plan: Plan {
            update: settings.update.clone(),
            rollback: settings.rollback.clone(),
            strategy: if rolling { Strategy::Rolling } else { settings.strategy },
            depot: settings.depot.clone(),
            channel: settings.channel.clone(),
            promotion,
        },
        started_at: now.wall,
        updated_at: now.wall,
        phase: if kind == RolloutKind::Rollback { 2 } else { 1 },
        prepared: false,
        epoch: 0,
        total: 0,
        group_size: 0,
        accepted: 0,
        failures_before: 0,
        wave: 0,
        ending: None,
        turns: Vec::new(),
    }
}

/// Gives a planned rollout its baseline, order and turns.
pub fn launch(mut rollout: Rollout, state: &GroupState, view: &View, now: Now) -> Rollout {
    let zones = rollout.policy().zone_label.is_some();
    let members = order(view, zones);
    rollout.from = state.baseline().cloned();
    rollout.group_size = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut nodes = members;
    match rollout.kind {
        RolloutKind::CatchUp => {
            let to = rollout.to.clone();
            nodes.retain(|node| wants_catch_up(state, view, *node).is_some_and(|t| t.same_as(&to)));
        }
        // Who runs nothing yet gets its first release by a catch-up.
        RolloutKind::Restart | RolloutKind::Reboot => {
            nodes.retain(|node| view.members.get(node).is_some_and(|member| member.ever_ran()));
        }
        RolloutKind::Rollback => {
            let to = rollout.to.clone();
            nodes.retain(|node| !state.target_of(*node).is_some_and(|t| t.same_as(&to)));
        }
        RolloutKind::Update | RolloutKind::Config => {}
    }
    rollout.total = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    rollout.turns = nodes.into_iter().map(|node| Turn::waiting(node, rollout.phase)).collect();
    rollout.started_at = now.wall;
    rollout.updated_at = now.wall;
    rollout.state = match &state.pause {
        Some(_) if rollout.phase >= 2 => RolloutState::RollbackPaused,
        Some(_) => RolloutState::Paused,
        None => RolloutState::Preparing,
    };
    if let Some(pause) = &state.pause {
        rollout.reason = Text::new(&format!("paused by {}", pause.by));
    }
    rollout
}

/// The target that `node` should run by the ledger, runs not, and may be given now.
pub fn wants_catch_up<'a>(
    state: &'a GroupState,
    view: &View,
    node: baton_types::NodeId,
) -> Option<&'a Target> {
    let member = view.members.get(&node)?;
    let there = member.liveness == crate::view::Liveness::Alive
        && !member.stopped_by_operator
        && !state.cordons.contains(&node)
        && !state.gave_up.contains(&node);
    let target = state.target_of(node).filter(|_| there)?;
    let runs_it = member.running.as_ref().is_some_and(|running| running.same_as(target));
    (!runs_it).then_some(target)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::view::tests::{node, target, view};

    /// A running update of the whole group from r1 to r2.
    pub(crate) fn rollout(view: &View) -> Rollout {
        let mut state = GroupState::default();
        state.set_baseline(&target(1));
        let now = Now::default();
        let id = RolloutId::from_random(2);
        let planned = planned(id, RolloutKind::Update, target(2), None, &view.settings, now);
        let mut rollout = launch(planned, &state, view, now);
        rollout.state = RolloutState::Running;
        rollout.prepared = true;
        rollout
    }

    fn reading(entries: &[(u8, u64, bool)]) -> ChannelReading {
        ChannelReading {
            depot: Text::new("d1"),
            sequence: 100,
            entries: entries
                .iter()
                .map(|(version, promotion, again)| ChannelEntry {
                    release: target(*version).release,
                    promotion: *promotion,
                    again: *again,
                })
                .collect(),
        }
    }

    #[test]
    fn what_a_head_does() {
        let group = view(&["n1", "n2"], "n1");
        let check = |what: &str,
                     change: fn(&mut GroupState, &View),
                     head_entry: (u8, u64, bool),
                     strategy: Strategy,
                     want: &str| {
            let mut state = GroupState::default();
            state.set_baseline(&target(1));
            state.acted = Some(crate::state::Acted { depot: Text::new("d1"), promotion: 5 });
            change(&mut state, &group);
            let found = match head(&state, &reading(&[(1, 1, false), head_entry]), strategy, "") {
                Head::Nothing => "nothing".to_owned(),
                Head::Noted => "noted".to_owned(),
                Head::Pending(_, why) => why,
                Head::Starts(target, promotion) => format!("starts {target} {promotion}"),
            };
            assert!(found.starts_with(want), "{what}: {found}");
        };
        let rolling = Strategy::Rolling;
        check("new", |_, _| (), (2, 6, false), rolling, "starts redis/2 6");
        check("at once", |_, _| (), (2, 6, false), Strategy::AtOnce, "starts redis/2 6");
        check("revealed", |_, _| (), (2, 5, false), rolling, "nothing");
        check("baseline", |_, _| (), (1, 6, false), rolling, "noted");
        check("none", |_, _| (), (2, 6, false), Strategy::None, "strategy is none");
        let reject: fn(&mut GroupState, &View) =
            |s, _| s.reject(&target(2), "failed", RolloutId::from_random(1));
        check("rejected", reject, (2, 6, false), rolling, "redis/2 was rejected (failed)");
        check("rejected, acted on", reject, (2, 5, false), rolling, "redis/2 was rejected");
        check("rejected, again", reject, (2, 6, true), rolling, "starts redis/2 6");
        check("rejected, again but old", reject, (2, 5, true), rolling, "redis/2 was rejected");
        let running: fn(&mut GroupState, &View) = |s, v| s.rollout = Some(Box::new(rollout(v)));
        check("same as under way", running, (2, 6, false), rolling, "noted");
        check("another while under way", running, (3, 6, false), rolling, "starts redis/3 6");
        let pause: fn(&mut GroupState, &View) = |s, _| {
            s.pause = Some(crate::state::Pause {
                by: baton_types::NodeName::new("n2").expect("a name"),
                at: baton_types::WallTime(0),
                why: baton_types::Text::default(),
            });
        };
        check("paused", pause, (2, 6, false), rolling, "paused by n2");
    }

    #[test]
    fn a_demotion_is_one_of_a_promoted_target_in_a_newer_index() {
        let mut rollout = rollout(&view(&["n1"], "n1"));
        let without = reading(&[(1, 1, false)]);
        assert!(!demoted(&rollout, &without), "never promoted");
        rollout.plan.promotion = Some(7);
        assert!(demoted(&rollout, &without));
        assert!(!demoted(&rollout, &reading(&[(1, 1, false), (2, 7, false)])));
        let old = ChannelReading { sequence: 6, ..without };
        assert!(!demoted(&rollout, &old), "an index from before the promotion");
    }

    #[test]
    fn a_rollback_is_launched_for_those_who_are_not_there() {
        let view = view(&["n1", "n2", "n3"], "n1");
        let mut state = GroupState::default();
        state.set_baseline(&target(1));
        state.member_targets.set(node("n2"), &target(2));
        let id = RolloutId::from_random(3);
        let now = Now::default();
        let plan = planned(id, RolloutKind::Rollback, target(1), None, &view.settings, now);
        let rollout = launch(plan, &state, &view, now);
        assert_eq!(rollout.turns.iter().map(|t| t.node).collect::<Vec<_>>(), [node("n2")]);
        assert_eq!((rollout.phase, rollout.total, rollout.group_size), (2, 1, 3));
    }
}
