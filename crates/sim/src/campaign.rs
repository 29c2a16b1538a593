//! One seed's life: a group under faults and operators, then peace, in which it must come to rest.

use std::time::Duration;

use baton_types::policy::{Limit, OnDemote, OnFailure, OnNotReady, Policy};
use baton_types::{CommandAction, CommandId};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::check::Violation;
use crate::course::{Course, Generation};
use crate::faults::Fault;
use crate::group::FIRST;
use crate::lineages::{Fate, SIDE_MIN};
use crate::net::Weather;
use crate::operator::Operator;
use crate::settings::{GroupSetup, Setup};
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
    /// One for each group.
    operators: Vec<Operator>,
    chaos: Duration,
    /// Chance of the faults of later generations, each apart from the world's: without them a seed
    /// plays as it did before.
    second: Option<StdRng>,
    third: Option<StdRng>,
    fourth: Option<StdRng>,
    fifth: Option<StdRng>,
    fate: Fate,
}

impl Campaign {
    /// The campaign of that seed, with every fault.
    pub fn new(seed: u64, trace_lines: usize) -> Self {
        Self::of(Generation::NEWEST, seed, trace_lines)
    }

    /// The campaign of that seed with the faults of that generation and those before it: seeds that
    /// broke a promise before the later ones came play the same life again.
    pub fn of(generation: Generation, seed: u64, last_events: usize) -> Self {
        Self::on(&Course { generation, last_events, ..Course::of(seed) })
    }

    /// The campaign of that course.
    pub fn on(course: &Course) -> Self {
        let mut fifth = (course.generation >= Generation::Fifth)
            .then(|| StdRng::seed_from_u64(course.seed ^ 0x6709_5555));
        let mut campaign = Self::first_generation(course, fifth.as_mut());
        if course.generation >= Generation::Second {
            campaign.world.setup.cut_into_waves_or_zones();
            let mut chance = StdRng::seed_from_u64(course.seed ^ 0xfa17_fa17);
            campaign.world.faults.write_fails = [0, 0, 2, 20][chance.random_range(0..4)];
            campaign.second = Some(chance);
        }
        if course.generation >= Generation::Third {
            campaign.world.faults.failed_stays = 500;
            campaign.third = Some(StdRng::seed_from_u64(course.seed ^ 0x7412_d111));
        }
        if course.generation >= Generation::Fourth {
            let mut chance = StdRng::seed_from_u64(course.seed ^ 0xb1d5_b1d5);
            let next = [0, 300, 700, 1_000][chance.random_range(0..4)];
            campaign.world.mix_builds(chance.random(), next);
            campaign.fourth = Some(chance);
        }
        campaign.fifth = fifth;
        campaign
    }

    /// What every course has. Everything is drawn, also what the course fixes, so that the rest
    /// stays the same.
    fn first_generation(course: &Course, fifth: Option<&mut StdRng>) -> Self {
        let mut rng = StdRng::seed_from_u64(course.seed ^ 0xca11_ab1e);
        let drawn = rng.random_range(3..=7);
        let mut setup = Setup::of(course.seed, course.hosts.unwrap_or(drawn));
        setup.trace_lines = course.last_events;
        setup.replay = course.command();
        draw_policy(&mut rng, &mut setup.update, &mut setup.rollback);
        let drawn = Duration::from_secs(rng.random_range(60..=CHAOS_MAX_SECONDS));
        let chaos = course.chaos.unwrap_or(drawn);
        let mut fate = Fate::One;
        if let Some(chance) = fifth {
            setup.put_in_order();
            draw_groups(chance, &mut setup);
            fate = Fate::draw(chance, setup.hosts);
        }
        if let Fate::Apart(_) = fate {
            setup.expect = SIDE_MIN as u32;
        }
        let mut world = World::new(setup);
        world.net.weather = weather(&mut rng);
        world.faults.write_max = Duration::from_millis(rng.random_range(1..=30));
        world.faults.dies_at_write = [0, 0, 1, 4][rng.random_range(0..4)];
        let operators = world.all_groups().map(Operator::of).collect();
        Self { world, operators, chaos, second: None, third: None, fourth: None, fifth: None, fate }
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
        if let Fate::Apart(side) = &self.fate {
            world.let_form_apart(side);
        }
        self.operators.iter_mut().for_each(|operator| operator.promote(world));
        for host in 0..world.hosts.len() {
            let mut after = world.between(0, 5_000);
            if self.second.as_mut().is_some_and(|chance| chance.random_range(0..10) == 0) {
                after += 60_000_000;
                world.tally.count(Occurrence::JoinedLate);
            }
            let plan = world.hosts[host].plan;
            world.later(after, What::Fault(Fault::Start { host, plan }));
        }
    }

    /// Both sides form the group, and get releases: the same ones, or each its own.
    fn live_apart(&mut self) {
        let (Fate::Apart(side), Some(chance)) = (&self.fate, self.fifth.as_mut()) else { return };
        let world = &mut self.world;
        world.run_for(Duration::from_secs(chance.random_range(15..=45)));
        if chance.random::<bool>() {
            world.lose_depot(side);
            self.operators[FIRST].promote(world);
            world.run_for(Duration::from_secs(chance.random_range(10..=60)));
        }
        world.heal();
    }

    fn chaos(&mut self) {
        self.live_apart();
        let end = self.world.now() + self.chaos;
        while self.world.now() < end && self.world.violation.is_none() {
            let pause = self.world.between(200, 8_000);
            self.world.run_for(Duration::from_micros(pause));
            self.strike();
            self.strike_second();
            self.strike_third();
            self.strike_fourth();
            self.strike_fifth();
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
            _ => self.operators[FIRST].act(world),
        }
    }

    /// One of the second generation's faults, sometimes.
    fn strike_second(&mut self) {
        let Some(chance) = self.second.as_mut() else { return };
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

    /// One of the third generation's, sometimes.
    fn strike_third(&mut self) {
        let Some(chance) = self.third.as_mut() else { return };
        let world = &mut self.world;
        match chance.random_range(0..100) {
            0..=3 => {
                let host = chance.random_range(0..world.hosts.len());
                world.leave(host, chance.random_range(0..4) == 0);
            }
            4..=8 => world.come_back_to_the_ring(chance),
            9..=11 => {
                let host = chance.random_range(0..world.hosts.len());
                let back = Duration::from_secs(chance.random_range(20..=90));
                world.power_cycle(host, back);
            }
            12..=24 => world.forget_some(chance),
            25..=27 => {
                let host = chance.random_range(0..world.hosts.len());
                let back = Duration::from_secs(chance.random_range(2..=30));
                world.power_cycle(host, back);
                world.readdress(host, chance.random_range(0..3) == 0);
            }
            28..=31 => {
                let host = chance.random_range(0..world.hosts.len());
                if world.may_lose_a_file(host) {
                    world.lose_last_write(host, true);
                    let back = Duration::from_secs(chance.random_range(2..=20));
                    world.come_back_in(host, back);
                }
            }
            32..=43 => {
                let host = chance.random_range(0..world.hosts.len());
                self.lose_a_write(host);
            }
            _ => {}
        }
    }

    /// The fourth generation's, sometimes.
    fn strike_fourth(&mut self) {
        let Some(chance) = self.fourth.as_mut() else { return };
        if chance.random_range(0..100) < 14 {
            let host = chance.random_range(0..self.world.hosts.len());
            let after = Duration::from_millis(chance.random_range(20..=4_000));
            self.world.change_build(host, chance.random(), after);
        }
    }

    /// What the fifth generation has beside: somebody types for a further group, or its program ends.
    fn strike_fifth(&mut self) {
        let Some(chance) = self.fifth.as_mut() else { return };
        match self.fate {
            Fate::Apart(_) if chance.random_range(0..10) == 0 => self.world.adopt_some(chance),
            Fate::Lost if chance.random_range(0..8) == 0 && self.world.lose_a_majority(chance) => {
                self.fate = Fate::One;
            }
            _ => {}
        }
        let further = self.world.groups.len() - 1;
        for operator in self.operators.iter_mut().skip(1) {
            if chance.random_range(0..5) < 2 {
                operator.act(&mut self.world);
            }
        }
        if further > 0 && chance.random_range(0..10) == 0 {
            let host = chance.random_range(0..self.world.hosts.len());
            self.world.crash(host, chance.random_range(1..=further));
        }
    }

    /// A disk loses its last write, which nobody can see but by what peers heard: that is promised
    /// only where these peers run on and answer. So for a while nothing else happens.
    fn lose_a_write(&mut self, host: usize) {
        let world = &mut self.world;
        let others = (0..world.hosts.len()).filter(|other| *other != host);
        let heard = others.into_iter().all(|other| world.runs_for(other, HEARD));
        if !heard || !world.net.is_open() || !world.may_lose_a_file(host) {
            return;
        }
        let dies_at_write = std::mem::take(&mut world.faults.dies_at_write);
        if world.lose_last_write(host, false).is_some() {
            world.run_for(Duration::from_secs(2));
            world.start(host);
            world.run_for(HEARD);
        } else {
            world.start(host);
        }
        world.faults.dies_at_write = dies_at_write;
    }

    /// Faults stop. Within a bound every rollout has ended or waits for somebody, with a reason, a
    /// leader is there, and everybody runs what the ledger has for him.
    fn peace(&mut self) {
        let world = &mut self.world;
        if world.violation.is_some() {
            return;
        }
        world.set_weather(Weather::CALM);
        world.faults.dies_at_write = 0;
        world.faults.write_fails = 0;
        world.all_well();
        if let Some(chance) = self.fifth.as_mut() {
            world.become_one_lineage(chance);
        }
        world.come_to_rest();
        // Somebody says that it may go on: what waited for him must come to rest, too.
        for action in [CommandAction::Resume, CommandAction::Retry] {
            for group in world.all_groups() {
                let state = world.state_of(group);
                let waits = state.is_some_and(|s| s.pause.is_some() || s.rollout.is_some());
                if waits && world.violation.is_none() {
                    let host = world.rng.random_range(0..world.hosts.len());
                    let id = CommandId::from_random(world.rng.random());
                    world.type_in(group, host, action.clone(), Some(id));
                    world.come_to_rest();
                }
            }
        }
    }
}

/// Hosts carry one to three groups: of ten seeds, five have further ones.
fn draw_groups(chance: &mut StdRng, setup: &mut Setup) {
    let further = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2][chance.random_range(0..10)];
    for release in ["web", "db"].into_iter().take(further) {
        let mut hosts: Vec<usize> = (0..setup.hosts).collect();
        let carriers = chance.random_range(2..=setup.hosts);
        while hosts.len() > carriers {
            hosts.remove(chance.random_range(0..hosts.len()));
        }
        let mut group = GroupSetup::of(release, hosts);
        draw_policy(chance, &mut group.update, &mut group.rollback);
        if chance.random_range(0..5) == 0 {
            group.update.waves = vec![Limit::Count(1), Limit::Percent(100)];
        }
        setup.others.push(group);
    }
}

fn draw_policy(rng: &mut StdRng, policy: &mut Policy, rollback: &mut Policy) {
    let any = |rng: &mut StdRng, limits: &[Limit]| limits[rng.random_range(0..limits.len())];
    let one = Limit::Count(1);
    policy.max_unavailable = any(rng, &[one, one, Limit::Count(2), Limit::Percent(40)]);
    policy.max_failures = any(rng, &[Limit::Count(0), one, Limit::Percent(25)]);
    policy.on_failure =
        [OnFailure::Pause, OnFailure::Rollback, OnFailure::Continue][rng.random_range(0..3)];
    policy.on_demote =
        [OnDemote::Cancel, OnDemote::Rollback, OnDemote::Ignore][rng.random_range(0..3)];
    policy.on_not_ready =
        [OnNotReady::Fail, OnNotReady::Skip, OnNotReady::Force][rng.random_range(0..3)];
    rollback.max_unavailable = any(rng, &[one, Limit::Count(2)]);
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

/// Peers that have run for so long have heard what a voter has on its disk; and a voter that starts
/// has heard them.
const HEARD: Duration = Duration::from_secs(15);

/// How far a clock steps, in milliseconds.
const YEAR_MILLIS: i64 = 365 * 86_400_000;
