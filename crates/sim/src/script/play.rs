//! A scenario is played: each step at its time, each expectation waited for.

use std::time::Duration;

use baton_types::CommandId;
use rand::RngExt as _;

use super::Script;
use super::step::{Deed, Expectation, Step, host_names};
use crate::campaign::Report;
use crate::check::Violation;
use crate::trace::Story;
use crate::world::World;

impl Script {
    /// Plays it.
    ///
    /// # Errors
    ///
    /// The first promise that was broken, or the first expectation that was not met.
    pub fn play(self) -> Result<Report, Box<Violation>> {
        let mut world = World::begin(self.setup);
        world.play_steps(self.steps);
        world.into_report()
    }

    /// Plays it, and tells it.
    pub fn tell(self) -> Telling {
        let mut world = World::new(self.setup);
        world.trace.listen();
        for host in world.all() {
            world.start(host);
        }
        world.play_steps(self.steps);
        let story = world.trace.take_story();
        Telling { story, end: world.into_report() }
    }
}

/// A scenario that was played, for people.
#[derive(Clone, Debug)]
pub struct Telling {
    /// What happened.
    pub story: Story,
    /// How it came out.
    pub end: Result<Report, Box<Violation>>,
}

impl World {
    fn play_steps(&mut self, steps: Vec<Step>) {
        for (number, step) in steps.into_iter().enumerate() {
            self.run_for(step.at.saturating_sub(self.now()));
            if self.violation().is_some() {
                break;
            }
            self.carry_out_step(number + 1, step.deed);
        }
    }
}

impl World {
    fn carry_out_step(&mut self, number: usize, deed: Deed) {
        if let Deed::Leave { host } | Deed::Forget { host, .. } = deed
            && !self.is_up(host)
        {
            let what = format!("step {number}: no daemon runs on n{}", host + 1);
            self.violate(SCENARIO, what);
            return;
        }
        match deed {
            Deed::Promote { release, behaviour } => self.promote(&release, behaviour),
            Deed::Demote { release } => self.demote(&release),
            Deed::Kill { host, back: None } => self.kill_daemon(host),
            Deed::Kill { host, back: Some(back) } => self.bounce_daemon(host, back),
            Deed::PowerOff { host, back: None } => self.power_off(host),
            Deed::PowerOff { host, back: Some(back) } => self.power_cycle(host, back),
            Deed::Start { host } => self.start(host),
            Deed::Suspend { host, span } => self.suspend(host, span),
            Deed::Stop { host, span } => self.stop_for(host, span),
            Deed::Clock { host, by } => self.step_clock(host, by),
            Deed::Cut { from, to } => self.cut(from, to),
            Deed::Partition { hosts } => self.partition(&hosts),
            Deed::LoseDepot { hosts } => self.lose_depot(&hosts),
            Deed::Heal => self.heal(),
            Deed::Leave { host } => self.leave(host, false),
            Deed::Forget { host, member } => self.forget(host, member),
            Deed::Type { host, action } => {
                let id = CommandId::from_random(self.rng.random());
                if self.type_with_id(host, action, Some(id)).is_none() {
                    let what = format!("step {number}: no daemon runs on n{}", host + 1);
                    self.violate(SCENARIO, what);
                }
            }
            Deed::Expect(expected) => self.await_expected(number, &expected),
        }
    }

    fn await_expected(&mut self, number: usize, expected: &Expectation) {
        let end = self.now() + expected.within;
        while let Some(found) = self.differs(expected) {
            if self.violation().is_some() {
                return;
            }
            if self.now() >= end {
                self.violate(SCENARIO, format!("step {number}: {found}"));
                return;
            }
            self.run_for(LOOK);
        }
        let now = self.now;
        self.trace.tell(now, "test", &format!("step {number} is as expected: {expected}"));
    }

    /// What is not as expected, if anything is.
    fn differs(&self, expected: &Expectation) -> Option<String> {
        let shown = self.rollout();
        if let Some(state) = expected.state {
            let found = shown.map(|rollout| rollout.state);
            if found != Some(state) {
                let found = found.map_or("none".to_owned(), |state| state.to_string());
                return Some(format!("expected a rollout that is {state}, found {found}"));
            }
        }
        if let Some(release) = &expected.release {
            let found = shown.map(|rollout| rollout.to.release.id.version.to_string());
            if found.as_ref() != Some(release) {
                let found = found.unwrap_or_else(|| "none".to_owned());
                return Some(format!("expected a rollout to {release}, found {found}"));
            }
            let running = self.run(release);
            if let Some(wanted) = expected.running.filter(|wanted| *wanted != running) {
                return Some(format!("expected {wanted} members on {release}, found {running}"));
            }
            let on = self.all().filter(|host| self.running(*host) == *release).collect();
            if let Some(wanted) = expected.hosts.as_ref().filter(|wanted| **wanted != on) {
                let [wanted, found] = [wanted, &on].map(host_names);
                return Some(format!("expected {release} on {wanted}, found it on {found}"));
            }
        }
        let baseline = self.baseline();
        let wanted = expected.baseline.as_ref().filter(|wanted| **wanted != baseline)?;
        Some(format!("expected the baseline {wanted}, found {baseline:?}"))
    }
}

const SCENARIO: &str = "expectation of the scenario";

/// How often an expectation is looked at.
const LOOK: Duration = Duration::from_millis(20);
