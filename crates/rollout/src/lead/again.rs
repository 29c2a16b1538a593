//! `rollout restart` and `rollout reboot`: every member stops and starts what it runs, one after the
//! other; in the second its machine reboots between the two.
//!
//! Invariant: nothing that the ledger wants of anybody changes: not the baseline, not a member's
//! target, not what is rejected.

use baton_types::Now;

use crate::rollout::RolloutKind;
use crate::state::GroupState;
use crate::view::View;

use super::Lead;
use super::commands::held;
use super::draft::supersede;

impl Lead {
    /// Starts a rollout that leaves every member on what it runs.
    ///
    /// # Errors
    ///
    /// The sentence for the operator: another one is under way, or the group has no baseline yet.
    pub(super) fn again(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        kind: RolloutKind,
    ) -> Result<String, String> {
        let group = view.group();
        // A catch-up starts by itself and gives way; it comes back afterwards.
        let under_way = draft.next.as_deref().or(draft.rollout.as_deref());
        if let Some(other) = under_way.filter(|other| other.kind != RolloutKind::CatchUp) {
            let title = other.title();
            return Err(match &other.ending {
                Some(ending) => format!(
                    "the {title} is ending ({}): type this again when it has ended",
                    ending.reason
                ),
                None => format!(
                    "a {kind} starts only while nothing else is under way: the {title} is {}; wait \
                     for its end, or `baton rollout cancel {group}` ends it where it stands",
                    other.state
                ),
            });
        }
        let Some(baseline) = draft.baseline().cloned() else {
            return Err(format!(
                "no rollout of {group} has completed yet, so there is no baseline to {kind} on; \
                 `baton service restart {group}` restarts the service on the node where it is typed"
            ));
        };
        let everybody = draft.member_targets.is_empty();
        let on = match everybody {
            true => format!("on {baseline}"),
            false => format!("on what it runs (not all have the baseline {baseline})"),
        };
        let new = self.plan(now, view, kind, baseline, None);
        supersede(draft, new);
        let paused = held(draft, &group);
        Ok(match kind {
            RolloutKind::Reboot => format!(
                "reboot of every member's machine starts, one after the other; each member starts \
                 again {on}{paused}"
            ),
            _ => format!("{kind} of every member starts, one after the other, each {on}{paused}"),
        })
    }
}
