//! Who is in the group, kept on disk: the ring's facts are in memory alone, and a member that is
//! down when every daemon that knows it starts anew must count in the budget all the same.
//!
//! Invariant: whoever once said that it has the service is in it until it takes that back, leaves,
//! is forgotten, or the ring has given it up after a long time.

use std::collections::BTreeMap;

use baton_ring::MemberState;
use baton_types::{Moment, NodeId, NodeName};
use serde::{Deserialize, Serialize};

use crate::boot::Boot;
use crate::directory::News;
use crate::files::{self, Waiting};
use crate::group::Group;
use crate::limits::UNHEARD_PATIENCE;
use crate::shared::Shared;

/// The other members, as they were last heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Roster {
    members: BTreeMap<NodeId, Known>,
    /// Since when a member lives in the ring without a word about its service.
    #[serde(skip)]
    silent: BTreeMap<NodeId, Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    name: NodeName,
    /// Whether it ever ran a release of this group.
    ran: bool,
}

impl Roster {
    /// What was found on disk. A damaged file costs the memory of members that are down.
    pub(super) fn open(boot: &mut Boot, shared: &mut Shared, group: &super::GroupName) -> Self {
        super::found(boot, shared, group, files::roster(group))
    }

    /// Names and whether they ever ran a release.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeName, bool)> {
        self.members.iter().map(|(node, known)| (*node, &known.name, known.ran))
    }
}

impl Group {
    /// A member has taken its service back, left, or the ring knows it no longer.
    pub(crate) fn strike(&mut self, node: NodeId) {
        self.roster.silent.remove(&node);
        self.roster_kept &= self.roster.members.remove(&node).is_none();
        self.take_news(node, News::Gone);
    }

    /// Brings the roster up to what the facts say and keeps it on disk; answers when to look again
    /// at members that live and have not said yet whether they still have the service.
    pub(super) fn update_roster(&mut self, now: Moment, shared: &mut Shared) -> Option<Moment> {
        if self.unloading {
            return None;
        }
        for (node, fact) in shared.directory.members(&self.name) {
            let Some(member) = shared.ring.member(node).filter(|_| node != shared.me) else {
                continue;
            };
            let known = self.roster.members.get(&node);
            let ran = fact.running.is_some();
            if known.is_none_or(|known| known.name != member.name || known.ran != ran) {
                self.roster.members.insert(node, Known { name: member.name.clone(), ran });
                self.roster_kept = false;
            }
        }
        let next = self.strike_the_silent(now, shared);
        if !self.roster_kept {
            let waiting = Waiting::Roster(self.name.clone());
            self.roster_kept = true;
            shared.write(files::roster(&self.name), &self.roster, waiting);
        }
        next
    }

    /// Drops who has left, was forgotten, or lives and has had time to say that it still has the
    /// service; answers when the next one will have had it.
    fn strike_the_silent(&mut self, now: Moment, shared: &Shared) -> Option<Moment> {
        let mut next: Option<Moment> = None;
        let heard = |node: &NodeId| shared.directory.member(&self.name, *node).is_some();
        let mut gone = Vec::new();
        for node in self.roster.members.keys().filter(|node| !heard(node)).copied() {
            let state = shared.ring.member(node).map(|member| member.state);
            if !matches!(state, Some(MemberState::Alive | MemberState::Suspect)) {
                self.roster.silent.remove(&node);
                if state == Some(MemberState::Left) || shared.forgotten.contains(&node) {
                    gone.push(node);
                }
                continue;
            }
            let due = *self.roster.silent.entry(node).or_insert(now) + UNHEARD_PATIENCE;
            match now < due {
                true => next = Some(next.map_or(due, |next| next.min(due))),
                false => gone.push(node),
            }
        }
        self.roster.silent.retain(|node, _| !heard(node));
        gone.into_iter().for_each(|node| self.strike(node));
        next
    }

    /// Whether `node` was a member when it was last heard of.
    pub(crate) fn remembers(&self, node: NodeId) -> bool {
        self.roster.members.contains_key(&node)
    }

    /// A write of the roster has ended; one that failed is made again with the next change.
    pub(crate) fn roster_written(&mut self, ok: bool) {
        self.roster_kept &= ok;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_version_1() {
        crate::tests::golden::check::<Roster>("members");
    }
}
