//! What a world is made of: how many nodes, which policy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::manifest::HealthTiming;
use baton_types::policy::{Limit, Policy, Strategy};
use baton_types::service::{Runner, ServiceSettings};
use baton_types::timing::{Profile, RingTiming};
use baton_types::{GroupName, Name};

/// How a world begins.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Nodes, all of them members of the first group.
    pub hosts: usize,
    /// Members that the group starts with.
    pub expect: u32,
    /// Ring and ledger timings.
    pub timing: RingTiming,
    /// How a new target reaches the group.
    pub strategy: Strategy,
    /// Policy of the first phase.
    pub update: Policy,
    /// Policy of a rollback.
    pub rollback: Policy,
    /// Further groups, which some of the hosts carry besides.
    pub others: Vec<GroupSetup>,
    /// Labels that hosts carry: their zone, their place in the order.
    pub labels: BTreeMap<usize, BTreeMap<String, String>>,
    /// Every envelope is encoded and decoded on its way.
    pub through_codec: bool,
    /// The command that plays it again, for people.
    pub replay: String,
    /// Lines of the trace that are kept in words.
    pub trace_lines: usize,
}

/// A group beside the first one, with a policy of its own.
#[derive(Clone, Debug)]
pub struct GroupSetup {
    /// The name of its release and of its service.
    pub release: Name,
    /// Who carries it.
    pub hosts: BTreeSet<usize>,
    /// Policy of the first phase.
    pub update: Policy,
    /// Policy of a rollback.
    pub rollback: Policy,
}

impl GroupSetup {
    /// A group with short times and otherwise the defaults.
    ///
    /// # Panics
    ///
    /// The release's name is none.
    pub fn of(release: &str, hosts: impl IntoIterator<Item = usize>) -> Self {
        Self {
            release: Name::new(release).expect("a name"),
            hosts: hosts.into_iter().collect(),
            update: short_policy(),
            rollback: short_policy(),
        }
    }
}

impl Setup {
    /// A group of `hosts` with short times and otherwise the defaults.
    pub fn of(seed: u64, hosts: usize) -> Self {
        Self {
            seed,
            hosts,
            expect: u32::try_from(hosts).unwrap_or(u32::MAX),
            timing: Profile::Lan.timing(),
            strategy: Strategy::Rolling,
            update: short_policy(),
            rollback: short_policy(),
            others: Vec::new(),
            labels: BTreeMap::new(),
            through_codec: seed.is_multiple_of(20),
            replay: format!("baton sim --seed {seed}"),
            trace_lines: 40,
        }
    }

    /// Of ten seeds, two have waves and two have zones. The seed's number decides that, so that the
    /// others play the life that they had before.
    pub(crate) fn cut_into_waves_or_zones(&mut self) {
        let soak = Duration::from_secs(if self.seed.is_multiple_of(2) { 0 } else { 3 });
        let zoned = self.seed % 5 == 2;
        for policy in [&mut self.update, &mut self.rollback] {
            if self.seed % 5 == 1 {
                policy.waves = vec![Limit::Count(1), Limit::Percent(60), Limit::Percent(100)];
                policy.wave_soak = soak;
            }
            policy.zone_label = zoned.then(|| ZONE_LABEL.to_owned());
        }
        if zoned {
            (0..self.hosts)
                .for_each(|host| self.label(host, ZONE_LABEL, ["east", "west"][host % 2]));
        }
    }

    /// Of ten seeds two more have labels of order.
    pub(crate) fn put_in_order(&mut self) {
        if self.seed % 5 == 3 {
            (0..self.hosts)
                .for_each(|host| self.label(host, ORDER_LABEL, ["1", "-1", "0"][host % 3]));
        }
    }

    /// A host carries a label.
    pub fn label(&mut self, host: usize, name: &str, value: &str) {
        let labels = self.labels.entry(host).or_default();
        labels.insert(name.to_owned(), value.to_owned());
    }

    /// Names of the releases of all groups, which name the groups, too: the first one's first.
    pub(crate) fn releases(&self) -> Vec<Name> {
        let first = Name::new(FIRST_RELEASE).expect("a name");
        let others = self.others.iter().map(|other| other.release.clone());
        std::iter::once(first).chain(others).collect()
    }

    /// Whether a host carries a group.
    pub(crate) fn carries(&self, host: usize, group: usize) -> bool {
        self.other(group).is_none_or(|other| other.hosts.contains(&host))
    }

    /// The hosts that carry a group.
    pub(crate) fn carriers(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts).filter(move |host| self.carries(*host, group))
    }

    /// The policies of a group, of both phases.
    fn policies(&self, group: usize) -> (&Policy, &Policy) {
        match self.other(group) {
            Some(other) => (&other.update, &other.rollback),
            None => (&self.update, &self.rollback),
        }
    }

    fn other(&self, group: usize) -> Option<&GroupSetup> {
        self.others.get(group.checked_sub(1)?)
    }

    /// Where a host stands, by the label that makes a group's zones.
    pub(crate) fn zone(&self, host: usize, group: usize) -> Option<&String> {
        let label = self.policies(group).0.zone_label.as_ref()?;
        self.labels.get(&host)?.get(label)
    }

    /// The place of a host in the order, if it has a label of it.
    pub(crate) fn place(&self, host: usize) -> Option<i32> {
        self.labels.get(&host)?.get(ORDER_LABEL)?.parse().ok()
    }

    /// The settings of the services on a host.
    pub(crate) fn services(&self, host: usize) -> Vec<ServiceSettings> {
        let all = self.releases().into_iter().enumerate();
        let here = all.filter(|(group, _)| self.carries(host, *group));
        here.map(|(group, release)| self.service(host, group, release)).collect()
    }

    fn service(&self, host: usize, group: usize, release: Name) -> ServiceSettings {
        let (update, rollback) = self.policies(group);
        let members = u32::try_from(self.carriers(group).count()).unwrap_or(u32::MAX);
        ServiceSettings {
            name: group_of(&release),
            depot: "file:///depot".to_owned(),
            release,
            channel: Name::new("stable").expect("a name"),
            poll: Duration::from_secs(5),
            trusted_keys: Vec::new(),
            strategy: self.strategy,
            runner: Runner::Process,
            expect: if group == 0 { self.expect } else { members },
            run_as: None,
            keep_releases: 3,
            env: BTreeMap::new(),
            health: HealthTiming::default(),
            update: update.clone(),
            rollback: rollback.clone(),
            order: self.place(host).unwrap_or(0),
        }
    }
}

/// The label that makes zones in campaigns.
const ZONE_LABEL: &str = "zone";

/// The label of a node's place in the order.
pub(crate) const ORDER_LABEL: &str = "order";

/// The release of the first group.
pub(crate) const FIRST_RELEASE: &str = "app";

/// The group that runs releases of that name.
pub(crate) fn group_of(release: &Name) -> GroupName {
    format!("{release}.main").parse().expect("a group")
}

/// A policy whose times fit virtual minutes.
pub fn short_policy() -> Policy {
    let seconds = Duration::from_secs;
    Policy {
        start_timeout: seconds(10),
        monitor: seconds(5),
        prepare_timeout: seconds(60),
        ready_timeout: seconds(30),
        turn_timeout: seconds(90),
        progress_timeout: seconds(120),
        ..Policy::default()
    }
}
