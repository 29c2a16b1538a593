//! What the control API shows of a group.

use baton_rollout::{LedgerInfo, history, status};
use baton_types::status::{GroupStatus, MemberStatus};
use baton_types::{GroupName, Now};

use super::Group;
use crate::shared::Shared;

impl Group {
    /// `GroupStatus` as JSON, from this node's copy.
    pub(crate) fn status_json(&self, now: Now, shared: &Shared) -> String {
        let view = self.ledger.view();
        let quorum_reason = match self.has_left {
            true => {
                "this node has left the ring; a restart of its daemon joins it again".to_owned()
            }
            false => view.quorum_reason.clone(),
        };
        let info = LedgerInfo {
            leader: self.leader(),
            term: view.term.0.max(self.term.0),
            version: self.version,
            quorum: view.quorum && !self.has_left,
            quorum_reason: self.quorum_reason(shared, quorum_reason),
            voters: view.voters.iter().map(|voter| voter.node).collect(),
            lineage: view.lineage.map(|lineage| lineage.to_string()).unwrap_or_default(),
            met: self.met_status(shared),
        };
        let mut status = status(&self.lead, now, &self.state, &self.view(shared), &info);
        status.channel_error.clone_from(&self.channel_error);
        // Only numbers and strings: this cannot fail.
        serde_json::to_string(&status).unwrap_or_default()
    }

    /// The ledger names nodes by id; people know them by name.
    pub(super) fn quorum_reason(&self, shared: &Shared, mut reason: String) -> String {
        if reason.is_empty() {
            return reason;
        }
        for (node, _) in shared.directory.members(&self.name) {
            let (name, short) = (shared.name_of(node), format!("{node:?}"));
            reason = reason.replace(&node.to_string(), &name).replace(&short, &name);
        }
        reason
    }

    /// A list of `HistoryStatus` as JSON, newest first.
    pub(crate) fn history_json(&self) -> String {
        serde_json::to_string(&history(&self.state)).unwrap_or_default()
    }

    /// What is waited for, for a place that shows nothing else of the rollout: a paused one says
    /// why.
    pub(super) fn waiting_for(&self, now: Now, shared: &Shared) -> String {
        let waiting = self.lead.waiting_for(now, &self.state, &self.view(shared));
        match self.state.rollout.as_deref() {
            Some(rollout) if rollout.state.is_paused() => format!("{}; {waiting}", rollout.reason),
            _ => waiting,
        }
    }

    /// One line for the service manager.
    pub(crate) fn summary(&self, now: Now, shared: &Shared) -> String {
        let running = match &self.member.file().running {
            Some(target) => format!("{target} {}", self.service.status().health),
            None => "no release yet".to_owned(),
        };
        let rollout = match &self.state.rollout {
            Some(rollout) if self.leading => {
                format!(", rollout {}: {}", rollout.state, self.waiting_for(now, shared))
            }
            Some(rollout) => format!(", rollout {}", rollout.state),
            None => String::new(),
        };
        format!("{}: {running}{rollout}", self.name)
    }
}

/// The status of a group that this node has no part in and whose leader does not answer: what the
/// members' facts say.
pub(crate) fn copy_of_nothing(shared: &Shared, group: &GroupName) -> String {
    let members = shared.directory.members(group).map(|(node, fact)| MemberStatus {
        name: shared.name_of(node),
        node: node.to_string(),
        release: fact.running.as_ref().map(|t| t.release.to_string()).unwrap_or_default(),
        config: fact.running.as_ref().map_or(0, |target| target.config.number),
        health: fact.health.to_string(),
        health_text: fact.health_text.to_string(),
        ring: shared.ring.member(node).map(|m| m.state.to_string()).unwrap_or_default(),
        ..MemberStatus::default()
    });
    let mut status = GroupStatus {
        group: group.to_string(),
        quorum_reason: "this node is no member of the group, and no leader of it answers".into(),
        members: members.collect(),
        ..GroupStatus::default()
    };
    status.members.sort_by(|a, b| a.name.cmp(&b.name));
    serde_json::to_string(&status).unwrap_or_default()
}
