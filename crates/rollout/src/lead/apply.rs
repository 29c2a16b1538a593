//! `config apply`: a configuration revision becomes the target, with the release that the group has
//! or is being brought to.
//!
//! Invariant: the digest decides equality. The same revision again is no second rollout and gets no
//! second number.

use baton_types::{Digest, NodeName, Now, RolloutId, Target};

use crate::rollout::{RolloutKind, RolloutState};
use crate::state::GroupState;
use crate::view::View;

use super::Lead;
use super::commands::held;
use super::draft::supersede;

/// What came of an application.
pub(super) enum Applied {
    /// The record changes.
    Starts(String),
    /// Nothing changes: the group has it, or is being brought to it by this rollout.
    Already(String, Option<RolloutId>),
}

impl Lead {
    /// Rolls the revision `digest` out.
    ///
    /// # Errors
    ///
    /// The sentence for the operator: why not.
    pub(super) fn apply(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        digest: Digest,
        by: &NodeName,
    ) -> Result<Applied, String> {
        if let Some(already) = already(draft, &view.group(), digest) {
            return Ok(already);
        }
        let group = view.group();
        let config = draft.number(digest, by, now.wall);
        let Some(intended) = draft.intended().cloned() else {
            draft.first_config = config;
            return Ok(Applied::Starts(format!(
                "configuration revision {} is noted: {group} has no release yet, and its first one \
                 starts with it",
                config.number
            )));
        };
        // A demotion of the release concerns this rollout as it did the one before.
        let under_way = draft.next.as_deref().or(draft.rollout.as_deref());
        let promotion = under_way
            .filter(|rollout| rollout.to.release == intended.release)
            .and_then(|rollout| rollout.plan.promotion);
        let target = Target { release: intended.release, config };
        draft.allow(&target);
        let old = draft.rollout.as_deref().map(|rollout| rollout.to.to_string());
        let new = self.plan(now, view, RolloutKind::Config, target.clone(), promotion);
        supersede(draft, new);
        let paused = held(draft, &group);
        Ok(Applied::Starts(match old {
            Some(old) => format!("{target} supersedes {old}; turns under way end first{paused}"),
            None => format!("rollout to {target} starts{paused}"),
        }))
    }
}

/// Whether the group has the revision, or is being brought to it.
fn already(draft: &GroupState, group: &str, digest: Digest) -> Option<Applied> {
    let under_way = draft.next.as_deref().or(draft.rollout.as_deref());
    if let Some(rollout) = under_way.filter(|rollout| rollout.kind != RolloutKind::CatchUp) {
        let brings = rollout.ending.is_none() && rollout.target().config.digest == Some(digest);
        let hint = match rollout.state {
            RolloutState::Paused | RolloutState::RollbackPaused => format!(
                ", paused: `baton rollout resume {group}` goes on, `baton rollout retry {group}` \
                 gives failed members a new attempt"
            ),
            _ => String::new(),
        };
        let text = format!("a rollout to {} is under way already{hint}", rollout.target());
        return brings.then_some(Applied::Already(text, Some(rollout.id)));
    }
    let Some(baseline) = draft.baseline() else {
        let noted = draft.first_config.digest == Some(digest);
        let number = draft.first_config.number;
        let text = format!("configuration revision {number} is noted already for {group}");
        return noted.then_some(Applied::Already(text, None));
    };
    let everywhere = draft.rollout.is_none() && draft.member_targets.is_empty();
    if !everywhere || baseline.config.digest != Some(digest) {
        return None;
    }
    let number = baseline.config.number;
    Some(Applied::Already(
        format!("configuration revision {number} is in force already; every member has it"),
        None,
    ))
}
