//! Members that leave the ring or are forgotten, and come back.
//!
//! Who left or was forgotten is no member: no budget counts him and no order holds his place, until
//! whoever leads has heard of him again.

use std::time::Duration;

use baton_node::{NodeRef, Reply, Request};
use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::host::Host;
use crate::tally::Occurrence;
use crate::world::World;

/// What was asked at a host that makes somebody a member no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Its own leaving.
    Leave(usize),
    /// That this one is forgotten.
    Forget(usize),
}

/// How one host stands as a member of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As it came.
    #[default]
    Member,
    /// It left or was forgotten, and no leader has counted it since.
    Gone,
    /// It left or was forgotten once, and counts again since then.
    Back(u64),
}

impl World {
    /// `ring leave` is typed at this host.
    pub fn leave(&mut self, host: usize, force: bool) {
        if self.is_up(host) {
            self.hosts[host].leaves_in = Some(self.hosts[host].life);
            self.departures.insert(self.next_request + 1, Departure::Leave(host));
            self.ask(host, Request::RingLeave { force });
        }
    }

    /// `ring forget` of `other` is typed at `host`.
    pub fn forget(&mut self, host: usize, other: usize) {
        if self.is_up(host) {
            let node = NodeRef::Id(self.hosts[other].id);
            self.departures.insert(self.next_request + 1, Departure::Forget(other));
            self.ask(host, Request::RingForget(node));
        }
    }

    /// Somewhere somebody types that one is forgotten: mostly one whose daemon does not run.
    pub(crate) fn forget_some(&mut self, chance: &mut StdRng) {
        let at = chance.random_range(0..self.hosts.len());
        let down: Vec<usize> = (0..self.hosts.len()).filter(|host| !self.is_up(*host)).collect();
        let any = chance.random_range(0..self.hosts.len());
        let other = match down.is_empty() || chance.random_range(0..4) == 0 {
            true => any,
            false => down[chance.random_range(0..down.len())],
        };
        self.forget(at, other);
    }

    /// One that left, if there is any, is started again.
    pub(crate) fn come_back_to_the_ring(&mut self, chance: &mut StdRng) {
        let left: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].wants_to_leave()).collect();
        if !left.is_empty() {
            self.restart_if_left(left[chance.random_range(0..left.len())]);
        }
    }

    /// Only a new start joins again.
    pub(crate) fn restart_if_left(&mut self, host: usize) {
        if self.hosts[host].wants_to_leave() {
            self.restart_daemon(host, Duration::from_secs(1));
        }
    }

    /// What came of a request that makes somebody a member no more.
    pub(crate) fn departed(&mut self, request: u64, reply: &Reply) {
        let Some(departure) = self.departures.remove(&request) else { return };
        if !matches!(reply, Reply::Done(_)) {
            return;
        }
        let (host, what) = match departure {
            Departure::Leave(host) => (host, Occurrence::MemberLeft),
            Departure::Forget(host) if self.is_up(host) => (host, Occurrence::ForgottenAlive),
            Departure::Forget(host) => (host, Occurrence::MemberForgotten),
        };
        self.tally.count(what);
        for group in self.groups_on(host).collect::<Vec<_>>() {
            self.hosts[host].services[group].standing = Standing::Gone;
        }
    }

    /// A leader looks around: who was gone and counts for it is back; and who was asked to leave and
    /// counts for it no more is gone. The others hear of that before the one who typed it.
    pub(crate) fn look_for_those_back(&mut self, leader: usize, group: usize) {
        let stays = |host: &Host| {
            host.services[group].standing == Standing::Member && !host.wants_to_leave()
        };
        if self.hosts.iter().all(stays) || self.leader_of(group) != Some(leader) {
            return;
        }
        for host in 0..self.hosts.len() {
            let standing = self.hosts[host].services[group].standing;
            if stays(&self.hosts[host]) {
                continue;
            }
            let Some(node) = self.hosts[leader].node.as_ref() else { return };
            let counts = node.counts(&self.groups[group].name, self.hosts[host].id);
            self.hosts[host].services[group].standing = match (counts, standing) {
                (true, Standing::Gone) => {
                    self.tally.count(Occurrence::MemberReturned);
                    Standing::Back(self.now)
                }
                (true, as_before) => as_before,
                (false, _) => Standing::Gone,
            };
        }
    }

    /// Since when `host` counts as a member of a group; `None` while it does not.
    pub(crate) fn counts_since(&self, host: usize, group: usize) -> Option<u64> {
        match self.hosts[host].services[group].standing {
            Standing::Member => Some(0),
            Standing::Gone => None,
            Standing::Back(since) => Some(since),
        }
    }
}
