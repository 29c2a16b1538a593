//! Histories of the first group that begin apart and meet, and one that loses its majority for good.
//!
//! Invariant: a group is formed anew only while the majority that is taken for lost is off, and that
//! comes back only where it hears of it: more is not promised.

use std::time::Duration;

use baton_types::{CommandAction, CommandId, LineageId, Text};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use crate::check::PROGRESS;
use crate::group::FIRST;
use crate::net::Weather;
use crate::world::World;

/// What becomes of the first group's lineages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// One lineage, for ever.
    One,
    /// These hosts and the others form the group each for themselves.
    Apart(Vec<usize>),
    /// Its majority is lost for good, once.
    Lost,
}

impl Fate {
    /// Of eight seeds one begins apart, if there are enough hosts, and one loses a majority.
    pub(crate) fn draw(chance: &mut StdRng, hosts: usize) -> Self {
        match chance.random_range(0..8) {
            0 if hosts >= 2 * SIDE_MIN => {
                // Each side has one of the two hosts that everybody joins by.
                let mut others: Vec<usize> = (2..hosts).collect();
                others.shuffle(chance);
                others.truncate(chance.random_range(SIDE_MIN - 1..=hosts - SIDE_MIN - 1));
                others.push(0);
                Self::Apart(others)
            }
            1 => Self::Lost,
            _ => Self::One,
        }
    }
}

impl World {
    /// The hosts that vote in the first group, as its leader has it.
    fn voting(&self) -> Vec<usize> {
        let leader = self.leader().and_then(|host| self.hosts[host].node.as_ref());
        let seen = leader.and_then(|node| node.observe(&self.groups[FIRST].name));
        let voters = seen.map(|seen| seen.ledger().voters).unwrap_or_default();
        voters.iter().filter_map(|voter| self.ids.get(&voter.node).copied()).collect()
    }

    /// All is well for once; then the power of most voters fails for good, somebody forms the group
    /// anew, and the lost ones come back after all. Whether it came so far; meanwhile nothing else
    /// happens.
    pub(crate) fn lose_a_majority(&mut self, chance: &mut StdRng) -> bool {
        let (faults, weather) = (self.faults, self.net.weather);
        (self.faults.dies_at_write, self.faults.write_fails) = (0, 0);
        self.set_weather(Weather::CALM);
        self.all_well();
        self.run_for(HEARD);
        let lost = self.lose_most_voters(chance);
        let is_lost = !lost.is_empty();
        if is_lost {
            if chance.random::<bool>() {
                self.set_weather(weather);
            }
            self.form_anew(chance);
            self.set_weather(Weather::CALM);
            self.come_back_at_last(chance, lost);
        }
        self.faults = faults;
        self.set_weather(weather);
        is_lost
    }

    /// Every link carries, everybody runs.
    pub(crate) fn all_well(&mut self) {
        self.heal();
        for host in 0..self.hosts.len() {
            self.go_on(host);
            self.start(host);
            self.restart_if_left(host);
        }
    }

    fn lose_most_voters(&mut self, chance: &mut StdRng) -> Vec<usize> {
        let mut lost = self.voting();
        if lost.len() < VOTERS_MIN || self.violation.is_some() {
            return Vec::new();
        }
        let majority = lost.len() / 2 + 1;
        // Who comes back finds the others by one of the two hosts that everybody joins by.
        let kept = chance.random_range(0..2);
        lost.retain(|host| *host != kept);
        lost.shuffle(chance);
        lost.truncate(majority);
        lost.iter().for_each(|host| self.power_off(*host));
        lost
    }

    fn form_anew(&mut self, chance: &mut StdRng) {
        self.run_for(Duration::from_secs(chance.random_range(15..=40)));
        let before = self.lineages_going_on();
        let left: Vec<usize> = (0..self.hosts.len()).filter(|host| self.is_up(*host)).collect();
        for _ in 0..REFORMS {
            let host = left[chance.random_range(0..left.len())];
            let id = CommandId::from_random(chance.random());
            self.type_in(FIRST, host, CommandAction::Reform, Some(id));
            self.run_for(Duration::from_secs(20));
            if self.lineages_going_on() != before {
                break;
            }
        }
        if self.violation.is_none() && self.lineages_going_on() == before {
            self.violate(PROGRESS, "nothing came of `reform`, with all links sound".to_owned());
        }
    }

    /// Those that were taken for lost come back, where they hear of what was done without them.
    fn come_back_at_last(&mut self, chance: &mut StdRng, lost: Vec<usize>) {
        let at_once = chance.random::<bool>();
        for host in lost {
            self.start(host);
            if !at_once {
                self.run_for(Duration::from_secs(chance.random_range(1..=30)));
            }
        }
        self.follow_one_lineage();
    }

    /// Everybody hears of the lineage that goes on.
    fn follow_one_lineage(&mut self) {
        let end = self.now() + FOLLOWED;
        while self.violation.is_none() {
            let going_on = self.lineages_going_on();
            let astray = self.setup.carriers(FIRST).find(|host| {
                let lineage = self.lineage_of(*host);
                lineage.is_none_or(|lineage| !going_on.contains(&lineage))
            });
            let Some(astray) = astray else { return };
            if self.now() >= end {
                let name = &self.hosts[astray].name;
                self.violate(PROGRESS, format!("{name} does not hear of the lineage that goes on"));
            }
            self.run_for(Duration::from_secs(1));
        }
    }

    /// The lineage that a host's daemon is in.
    fn lineage_of(&self, host: usize) -> Option<LineageId> {
        let node = self.hosts[host].node.as_ref()?;
        node.observe(&self.groups[FIRST].name)?.ledger().lineage
    }

    /// Lineages of the first group that decide, for all that is known.
    pub(crate) fn lineages_going_on(&self) -> Vec<LineageId> {
        self.groups[FIRST].checks.going_on()
    }

    /// Somebody says which of several lineages stays.
    pub(crate) fn adopt_some(&mut self, chance: &mut StdRng) {
        let lineages = self.lineages_going_on();
        if lineages.len() > 1 {
            let lineage = lineages[chance.random_range(0..lineages.len())];
            let lineage = Text::new(&lineage.to_string());
            let host = chance.random_range(0..self.hosts.len());
            let id = CommandId::from_random(chance.random());
            self.type_in(FIRST, host, CommandAction::Adopt { lineage }, Some(id));
        }
    }

    /// In peace: several lineages become one, by themselves or, where their baselines differ, because
    /// somebody says which one stays; and somebody lets end what is under way.
    pub(crate) fn become_one_lineage(&mut self, chance: &mut StdRng) {
        for _ in 0..ADOPTIONS {
            if self.lineages_going_on().len() < 2 || self.violation.is_some() {
                return;
            }
            self.run_for(Duration::from_secs(60));
            let leaders: Vec<usize> = self.leaders(FIRST).map(|(_, host)| host).collect();
            for host in leaders {
                let id = CommandId::from_random(chance.random());
                self.type_in(FIRST, host, CommandAction::Resume, Some(id));
            }
            self.run_for(Duration::from_secs(60));
            // Those that have one baseline need nobody's word: left alone, they are one in the end,
            // or the world does not come to rest.
            if self.groups[FIRST].checks.baselines_differ() {
                self.adopt_some(chance);
            }
        }
    }
}

/// A side of fewer loses its group with one host.
pub(crate) const SIDE_MIN: usize = 2;

/// Of two voters one is lost with half of the votes.
const VOTERS_MIN: usize = 3;

/// Who runs for so long has heard what the others know.
const HEARD: Duration = Duration::from_secs(20);

/// How often `reform` is typed until it is done.
const REFORMS: usize = 4;

/// Within it everybody follows a lineage that took the place of his.
const FOLLOWED: Duration = Duration::from_secs(180);

/// How often somebody says which lineage stays.
const ADOPTIONS: usize = 4;
