//! After the faults: what a world without them must come to.
//!
//! Invariant: looking changes nothing; waiting has an end.

use std::time::Duration;

use crate::campaign::Report;
use crate::check::{PROGRESS, Violation};
use crate::world::World;

impl World {
    /// What the run came to, now that it has ended.
    pub(crate) fn into_report(self) -> Result<Report, Box<Violation>> {
        let truths = || self.groups.iter().filter_map(|group| group.checks.truth());
        let rollouts = truths().map(|truth| truth.state.history.len()).sum();
        let version = truths().map(|truth| truth.mark.version).sum();
        match self.violation {
            Some(violation) => Err(Box::new(violation)),
            None => Ok(Report {
                hash: self.trace.hash(),
                events: self.trace.events(),
                rollouts,
                version,
                hosts: self.hosts.len(),
                chaos: Duration::ZERO,
                lived: Duration::from_micros(self.now),
                tally: self.tally,
            }),
        }
    }

    /// Runs on until nothing is left to do; that it does not is a violation.
    pub(crate) fn come_to_rest(&mut self) {
        self.run_for(Duration::from_secs(20));
        let end = self.now() + PEACE_BOUND;
        let mut restless = self.restless();
        while restless.is_some() && self.now() < end && self.violation.is_none() {
            self.run_for(Duration::from_secs(5));
            restless = self.restless();
        }
        if let Some((invariant, what)) = restless {
            self.violate(invariant, what);
        }
    }

    /// What keeps a world without faults from being at rest, and which promise says it should be.
    pub fn restless(&self) -> Option<(&'static str, String)> {
        self.all_groups().find_map(|group| {
            let (invariant, what) = self.restless_in(group)?;
            Some((invariant, format!("{}{what}", self.of_group(group))))
        })
    }

    fn restless_in(&self, group: usize) -> Option<(&'static str, String)> {
        let Some(truth) = self.groups[group].checks.truth() else {
            return Some((PROGRESS, "no record was ever committed".to_owned()));
        };
        if self.leaders(group).count() != 1 {
            return Some((PROGRESS, "there is no single leader".to_owned()));
        }
        let members = self.setup.carriers(group).count().min(VOTERS_MAX);
        let voters = self.voters_of(group);
        if voters < members {
            return Some((PROGRESS, format!("{voters} vote, of {members} that could")));
        }
        let state = &truth.state;
        if let Some(rollout) = &state.rollout {
            if !rollout.state.is_paused() || rollout.reason.is_empty() {
                let what =
                    format!("rollout {:?} is {}: {}", rollout.id, rollout.state, rollout.reason);
                return Some((PROGRESS, what));
            }
            // One that was offered its turn before waits with it; one that has taken it ends it.
            if rollout.open_turns().any(|turn| turn.state != baton_rollout::TurnState::Offered) {
                return Some((PROGRESS, "a taken turn does not end".to_owned()));
            }
        }
        let diverges = |host| self.diverges(host, group);
        self.setup.carriers(group).find_map(diverges).map(|what| (CONVERGENCE, what))
    }

    /// How a member differs from what the ledger has for it, if it should not.
    fn diverges(&self, host: usize, group: usize) -> Option<String> {
        let state = self.state_of(group)?;
        let depot = &self.groups[group].depot;
        let machine = &self.hosts[host];
        let node = machine.node.as_ref()?;
        if state.cordons.contains(&machine.id) || state.gave_up.contains(&machine.id) {
            return None;
        }
        // Everybody waits for an operator, members that returned among them.
        let halted = state.pause.is_some() || state.rollout.is_some();
        let wants = state.target_of(machine.id).map(|target| target.release.digest);
        let seen = node.observe(&self.groups[group].name)?;
        let has = seen.member().running.as_ref().map(|target| target.release.digest);
        // A lineage that has no target leaves those who came from another one what they have.
        let keeps = wants.is_none() && self.groups[group].checks.is_joined();
        if wants != has && !halted && !keeps {
            let name = |digest: Option<baton_types::Digest>| {
                digest.map_or("nothing".to_owned(), |digest| depot.version(&digest))
            };
            return Some(format!("{} has {}, the ledger {}", machine.name, name(has), name(wants)));
        }
        let good = has.and_then(|digest| depot.behaviour(host, &digest)).is_some_and(|b| {
            b.healthy_after.is_some() && b.ill_after.is_none() && b.exits_after.is_none()
        });
        let process = machine.services[group].process.as_ref();
        let runs = process.map(|process| process.digest);
        if good && (runs != has || !self.is_well(host, group)) {
            return Some(format!("{} is not well on what it has", machine.name));
        }
        None
    }
}

/// Within it a group in peace comes to rest: an election, the rest of a rollout of seven members
/// and its catch-up, each turn with a timeout at worst, and the timeouts that end in a pause.
const PEACE_BOUND: Duration = Duration::from_secs(900);

/// The most that vote in a group.
const VOTERS_MAX: usize = 7;

const CONVERGENCE: &str = "invariant 8 (convergence)";
