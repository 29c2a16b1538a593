//! Configuration revisions: fetched before the release that they come with, looked at by the leader
//! before it rolls one out, shown to operators.
//!
//! Invariant: a target counts as fetched only when both its revision and its release are on this
//! machine and verified.

use std::sync::Arc;

use baton_rollout::{LeadInput, MemberInput};
use baton_types::status::RevisionContent;
use baton_types::{
    Command, CommandAction, CommandAnswer, CommandResult, Digest, GroupName, Now, Release,
    Revision, Target, Text,
};

use super::Group;
use super::turns::fault_result;
use crate::effect::Effect;
use crate::event::DepotFault;
use crate::limits::FETCHES_MAX;
use crate::shared::Shared;

/// A target on its way to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) target: Target,
    depot: String,
}

impl Group {
    /// Fetches a target: first its revision, then its release. One that is here is looked at all the
    /// same, which asks nothing of the depot: with today's keys, and today's environment for the
    /// names in its files.
    pub(super) fn fetch(&mut self, shared: &mut Shared, target: Target, depot: String) {
        let release = target.release.clone();
        let revision = target.config.digest;
        let fetch = Fetch { target, depot: depot.clone() };
        if !self.fetches.contains(&fetch) {
            self.fetches.push(fetch);
            let surplus = self.fetches.len().saturating_sub(FETCHES_MAX);
            self.fetches.drain(..surplus);
        }
        let group = self.name.clone();
        shared.effects.push(match revision {
            Some(digest) => Effect::FetchRevision { group, depot, digest },
            None => Effect::Fetch { group, depot, release },
        });
    }

    /// The targets for which a fetch of `release` was the last thing to wait for.
    pub(super) fn fetched_targets(&mut self, shared: &Shared, release: &Release) -> Vec<Target> {
        let here = |digest: Option<Digest>| {
            digest.is_none_or(|digest| shared.revisions.contains_key(&digest))
        };
        let (ended, others) =
            std::mem::take(&mut self.fetches).into_iter().partition(|Fetch { target, .. }| {
                target.release.digest == release.digest && here(target.config.digest)
            });
        self.fetches = others;
        let ended: Vec<Fetch> = ended;
        ended.into_iter().map(|fetch| fetch.target).collect()
    }

    /// The depot has given a revision, or not: one that an operator handed in is in none, and a depot
    /// may be out of reach. Then the other members are asked.
    pub(crate) fn revision_fetched(
        &mut self,
        now: Now,
        shared: &mut Shared,
        digest: Digest,
        result: &Result<Arc<Revision>, DepotFault>,
    ) {
        match result {
            Err(fault) if fault.environment => {
                if self.seeking.insert(digest, fault.clone()).is_none() {
                    let by = |command: &&Command| revision_of(command) == Some(digest);
                    let applied = self.applications.iter().find(by);
                    let askers = applied.and_then(|command| self.owed.get(&command.id));
                    let from = askers.into_iter().flatten().flatten().next().copied();
                    shared.sought.push((self.name.clone(), digest, from));
                }
            }
            result => self.revision_settled(now, shared, digest, result),
        }
    }

    /// What another member had of a revision was verified and kept, or not.
    pub(crate) fn revision_taken(
        &mut self,
        now: Now,
        shared: &mut Shared,
        digest: Digest,
        result: &Result<Arc<Revision>, DepotFault>,
    ) {
        self.revision_settled(now, shared, digest, result);
    }

    /// No member that was asked has the revision either.
    pub(crate) fn revision_not_found(&mut self, now: Now, shared: &mut Shared, digest: Digest) {
        if let Some(fault) = self.seeking.get(&digest).cloned() {
            self.revision_settled(now, shared, digest, &Err(fault));
        }
    }

    fn revision_settled(
        &mut self,
        now: Now,
        shared: &mut Shared,
        digest: Digest,
        result: &Result<Arc<Revision>, DepotFault>,
    ) {
        self.seeking.remove(&digest);
        self.settle_applications(now, shared, digest, result.as_ref().err());
        let waiting: Vec<Fetch> = self
            .fetches
            .iter()
            .filter(|fetch| fetch.target.config.digest == Some(digest))
            .cloned()
            .collect();
        for fetch in waiting {
            match result {
                Ok(_) => shared.effects.push(Effect::Fetch {
                    group: self.name.clone(),
                    depot: fetch.depot,
                    release: fetch.target.release,
                }),
                Err(fault) => {
                    self.fetches.retain(|other| *other != fetch);
                    self.restore_without_revision(now, shared, &fetch.target, fault);
                    let result = fault_result(fault.clone());
                    let digest = fetch.target.key();
                    self.member.input(now, MemberInput::Fetched { digest, result });
                }
            }
        }
    }

    /// A `config apply` goes on once this leader itself has fetched and verified the revision, so
    /// that a wrong key or a damaged file starts no rollout.
    pub(super) fn look_at_revision(&mut self, shared: &mut Shared, command: Command) {
        let Some(digest) = revision_of(&command) else { return };
        self.applications.push(command);
        self.keep_releases(shared);
        let (group, depot) = (self.name.clone(), self.settings.depot.clone());
        shared.effects.push(Effect::FetchRevision { group, depot, digest });
    }

    fn settle_applications(
        &mut self,
        now: Now,
        shared: &mut Shared,
        digest: Digest,
        fault: Option<&DepotFault>,
    ) {
        let (settled, others) = std::mem::take(&mut self.applications)
            .into_iter()
            .partition(|command: &Command| revision_of(command) == Some(digest));
        self.applications = others;
        for command in settled {
            match fault {
                None => self.inputs.push(LeadInput::Command { command, found: None }),
                Some(fault) => {
                    let message =
                        Text::new(&format!("{} cannot use it: {}", shared.name, fault.text));
                    let result = CommandResult::Refused;
                    let answer = CommandAnswer { result, message, rollout: None };
                    self.give(shared, command.id, answer);
                }
            }
        }
        self.drive_lead(now, shared);
    }
}

/// The revision that a command is to roll out.
pub(super) fn revision_of(command: &Command) -> Option<Digest> {
    match &command.action {
        CommandAction::ApplyConfig { digest } => Some(*digest),
        _ => None,
    }
}

/// `RevisionContent` as JSON; `null` for a revision that is not on this node.
pub(crate) fn revision_json(shared: &Shared, group: &GroupName, digest: Digest) -> String {
    let content = shared.revisions.get(&digest).map(|revision| RevisionContent {
        group: group.to_string(),
        digest: digest.to_string(),
        content: Revision::clone(revision),
    });
    // Strings and numbers alone cannot fail.
    serde_json::to_string(&content).unwrap_or_default()
}
