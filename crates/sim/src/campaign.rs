//! One seed's life: a group under faults and operators, then peace, in which it must come to rest.

use std::time::Duration;

use baton_types::policy::{Limit, OnDemote, OnFailure, OnNotReady};
use baton_types::{CommandAction, CommandId};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::check::Violation;
use crate::course::Course;
use crate::faults::Fault;
use crate::net::Weather;
use crate::operator::Operator;
use crate::settings::Setup;
use crate::tally::{Occurrence, Tally};
use crate::world::{What, World};

/// What one campaign came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash of the whole trace.
    pub hash: u64,
    /// Events in it.
    pub events: u64,
    /// Rollouts that ended.
    pub rollouts: usize,
    /// Commits of the group's ledger.
    pub version: u64,
    /// Members of the group.
    pub hosts: usize,
    /// How long faults and operators went on.
    pub chaos: Duration,
    /// The world's time at its end.
    pub lived: Duration,
    /// What befell it.
    pub tally: Tally,
}

/// See the module's page.
pub struct Campaign {
    world: World,
    operator: Operator,
    chaos: Duration,
    /// Chance of the faults that came later, apart from the world's: without them a seed plays as
    /// it always did.
    further: Option<StdRng>,
}

impl Campaign {
    /// The campaign of that seed, with every fault.
    pub fn new(seed: u64, trace_lines: usize) -> Self {
        Self::on(&Course { last_events: trace_lines, ..Course::of(seed) })
    }

    /// The campaign of that seed without disks that refuse a write, clocks that step, machines that
    /// stand still or members that join late: seeds that broke a promise before these came play the
    /// same life again.
    pub fn plain(seed: u64, trace_lines: usize) -> Self {
        Self::on(&Course { plain: true, last_events: trace_lines, ..Course::of(seed) })
    }

    /// The campaign of that course.
    pub fn on(course: &Course) -> Self {
        let mut campaign = Self::first_floor(course);
        if !course.plain {
            campaign.world.setup.cut_into_waves_or_zones();
            let mut further = StdRng::seed_from_u64(course.seed ^ 0xfa17_fa17);
            campaign.world.faults.write_fails = [0, 0, 2, 20][further.random_range(0..4)];
            campaign.further = Some(further);
        }
        campaign
    }

    /// What every course has. Everything is drawn, also what the course fixes, so that the rest
    /// stays the same.
    fn first_floor(course: &Course) -> Self {
        let mut rng = StdRng::seed_from_u64(course.seed ^ 0xca11_ab1e);
        let drawn = rng.random_range(3..=7);
        let mut setup = Setup::of(course.seed, course.hosts.unwrap_or(drawn));
        setup.trace_lines = course.last_events;
        setup.replay = course.command();
        draw_policy(&mut rng, &mut setup);
        let drawn = Duration::from_secs(rng.random_range(60..=CHAOS_MAX_SECONDS));
        let chaos = course.chaos.unwrap_or(drawn);
        let mut world = World::new(setup);
        world.net.weather = weather(&mut rng);
        world.faults.write_max = Duration::from_millis(rng.random_range(1..=30));
        world.faults.dies_at_write = [0, 0, 1, 4][rng.random_range(0..4)];
        Self { world, operator: Operator::default(), chaos, further: None }
    }

    /// Lives it.
    ///
    /// # Errors
    ///
    /// The first promise that was broken.
    pub fn run(mut self) -> Result<Report, Box<Violation>> {
        self.boot();
        self.chaos();
        self.peace();
        let chaos = self.chaos;
        self.world.into_report().map(|report| Report { chaos, ..report })
    }

    /// The trace's lines, for a look at a run that went well.
    pub fn lines(mut self) -> Vec<String> {
        self.boot();
        self.chaos();
        self.peace();
        self.world.trace.recent().map(str::to_owned).collect()
    }

    fn boot(&mut self) {
        let world = &mut self.world;
        self.operator.promote(world);
        for host in 0..world.hosts.len() {
            let mut after = world.between(0, 5_000);
            if self.further.as_mut().is_some_and(|chance| chance.random_range(0..10) == 0) {
                after += 60_000_000;
                world.tally.count(Occurrence::JoinedLate);
            }
            let plan = world.hosts[host].plan;
            world.later(after, What::Fault(Fault::Start { host, plan }));
        }
    }

    fn chaos(&mut self) {
        let end = self.world.now() + self.chaos;
        while self.world.now() < end && self.world.violation.is_none() {
            let pause = self.world.between(200, 8_000);
            self.world.run_for(Duration::from_micros(pause));
            self.strike();
            self.strike_further();
        }
    }

    /// Something happens that nobody wants, or somebody types something.
    fn strike(&mut self) {
        let world = &mut self.world;
        let hosts = world.hosts.len();
        let host = world.rng.random_range(0..hosts);
        let back = Duration::from_micros(world.between(100, 20_000));
        match world.rng.random_range(0..100) {
            0..=11 => world.bounce_daemon(host, back),
            12..=17 => world.power_cycle(host, back + Duration::from_secs(2)),
            18..=20 => world.restart_daemon(host, back / 10),
            21..=27 => {
                let size = world.rng.random_range(1..=hosts / 2);
                let side: Vec<usize> =
                    (0..size).map(|_| world.rng.random_range(0..hosts)).collect();
                world.partition(&side);
            }
            28..=32 => {
                let other = world.rng.random_range(0..hosts);
                if host != other {
                    world.cut(host, other);
                }
            }
            33..=49 => world.heal(),
            50..=53 => world.lose_depot(&[host]),
            54..=56 => world.crash_program(host),
            57..=60 => {
                let mut rng = StdRng::seed_from_u64(world.rng.random());
                world.set_weather(weather(&mut rng));
            }
            _ => self.operator.act(world),
        }
    }

    /// One of the faults that came later, sometimes.
    fn strike_further(&mut self) {
        let Some(chance) = self.further.as_mut() else { return };
        let world = &mut self.world;
        let host = chance.random_range(0..world.hosts.len());
        let span = Duration::from_millis(chance.random_range(50..=40_000));
        match chance.random_range(0..100) {
            0..=4 => world.suspend(host, span),
            5..=9 => world.stop_for(host, span),
            10..=12 => {
                world.step_clock(host, chance.random_range(-YEAR_MILLIS..=YEAR_MILLIS));
            }
            _ => {}
        }
    }

    /// Faults stop. Within a bound every rollout has ended or waits for somebody, with a reason, a
    /// leader is there, and everybody runs what the ledger has for him.
    fn peace(&mut self) {
        let world = &mut self.world;
        if world.violation.is_some() {
            return;
        }
        world.heal();
        world.set_weather(Weather::CALM);
        world.faults.dies_at_write = 0;
        world.faults.write_fails = 0;
        for host in 0..world.hosts.len() {
            world.go_on(host);
            world.start(host);
        }
        world.come_to_rest();
        // Somebody says that it may go on: what waited for him must come to rest, too.
        for action in [CommandAction::Resume, CommandAction::Retry] {
            let waits = world.state().is_some_and(|s| s.pause.is_some() || s.rollout.is_some());
            if waits && world.violation.is_none() {
                let host = world.rng.random_range(0..world.hosts.len());
                let id = CommandId::from_random(world.rng.random());
                world.type_with_id(host, action, Some(id));
                world.come_to_rest();
            }
        }
    }
}

impl World {
    /// What the run came to, now that it has ended.
    pub(crate) fn into_report(self) -> Result<Report, Box<Violation>> {
        let rollouts = self.state().map_or(0, |state| state.history.len());
        let version = self.checks.truth.as_ref().map_or(0, |truth| truth.mark.version);
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
    fn come_to_rest(&mut self) {
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
        let Some(truth) = &self.checks.truth else {
            return Some((PROGRESS, "no record was ever committed".to_owned()));
        };
        let leads = |node: &baton_node::Node| {
            node.observe(&self.group).is_some_and(|seen| seen.is_leading())
        };
        let leaders = self.hosts.iter().filter_map(|host| host.node.as_ref()).filter(|n| leads(n));
        if leaders.count() != 1 {
            return Some((PROGRESS, "there is no single leader".to_owned()));
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
        (0..self.hosts.len()).find_map(|host| self.diverges(host)).map(|what| (CONVERGENCE, what))
    }

    /// How a member differs from what the ledger has for it, if it should not.
    fn diverges(&self, host: usize) -> Option<String> {
        let state = self.state()?;
        let machine = &self.hosts[host];
        let node = machine.node.as_ref()?;
        if state.cordons.contains(&machine.id) || state.gave_up.contains(&machine.id) {
            return None;
        }
        // Everybody waits for an operator, members that returned among them.
        let halted = state.pause.is_some() || state.rollout.is_some();
        let wants = state.target_of(machine.id).map(|target| target.release.digest);
        let seen = node.observe(&self.group)?;
        let has = seen.member().running.as_ref().map(|target| target.release.digest);
        if wants != has && !halted {
            let name = |digest: Option<baton_types::Digest>| {
                digest.map_or("nothing".to_owned(), |digest| self.depot.version(&digest))
            };
            return Some(format!("{} has {}, the ledger {}", machine.name, name(has), name(wants)));
        }
        let good = has.and_then(|digest| self.depot.behaviour(host, &digest)).is_some_and(|b| {
            b.healthy_after.is_some() && b.ill_after.is_none() && b.exits_after.is_none()
        });
        let runs = machine.process.as_ref().map(|process| process.digest);
        if good && (runs != has || !self.is_well(host)) {
            return Some(format!("{} is not well on what it has", machine.name));
        }
        None
    }
}

fn draw_policy(rng: &mut StdRng, setup: &mut Setup) {
    let any = |rng: &mut StdRng, limits: &[Limit]| limits[rng.random_range(0..limits.len())];
    let one = Limit::Count(1);
    let policy = &mut setup.update;
    policy.max_unavailable = any(rng, &[one, one, Limit::Count(2), Limit::Percent(40)]);
    policy.max_failures = any(rng, &[Limit::Count(0), one, Limit::Percent(25)]);
    policy.on_failure =
        [OnFailure::Pause, OnFailure::Rollback, OnFailure::Continue][rng.random_range(0..3)];
    policy.on_demote =
        [OnDemote::Cancel, OnDemote::Rollback, OnDemote::Ignore][rng.random_range(0..3)];
    policy.on_not_ready =
        [OnNotReady::Fail, OnNotReady::Skip, OnNotReady::Force][rng.random_range(0..3)];
    setup.rollback.max_unavailable = any(rng, &[one, Limit::Count(2)]);
}

fn weather(rng: &mut StdRng) -> Weather {
    Weather {
        loss: [0, 10, 50, 200][rng.random_range(0..4)],
        duplication: [0, 20, 100][rng.random_range(0..3)],
        delay_min: Duration::from_micros(100),
        delay_max: Duration::from_millis([1, 10, 60][rng.random_range(0..3)]),
        strays: [0, 5, 20][rng.random_range(0..3)],
        stray_max: Duration::from_secs(2),
    }
}

/// Longest chaos, in virtual seconds: as much as fits a test's patience for some hundred seeds.
const CHAOS_MAX_SECONDS: u64 = 240;

/// How far a clock steps, in milliseconds.
const YEAR_MILLIS: i64 = 365 * 86_400_000;

/// Within it a group in peace comes to rest: an election, the rest of a rollout of seven members
/// and its catch-up, each turn with a timeout at worst, and the timeouts that end in a pause.
const PEACE_BOUND: Duration = Duration::from_secs(900);

const PROGRESS: &str = "invariant 7 (progress)";
const CONVERGENCE: &str = "invariant 8 (convergence)";
