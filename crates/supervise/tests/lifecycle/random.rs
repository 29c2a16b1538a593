//! Random orders, answers, lies and waits: the invariants hold whatever the owner does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_supervise::{
    CheckResult, ExitKind, HookEnd, HookResult, Service, ServiceEvent, ServiceInput, ServiceOutput,
    ServiceTiming,
};
use baton_types::member::{Desired, Health, ProcessState};
use baton_types::{Moment, Text};
use proptest::prelude::*;

use crate::release::launch;

/// What happens next. Numbers choose among what is open, or name something that never was.
#[derive(Clone, Debug)]
enum Step {
    Run(u8),
    Halt,
    Restart,
    Adopt,
    Check,
    Answer(u8, u8),
    Exit(u8),
    Notify(bool),
    Lie(u8, u8),
    Wait(u16),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..4u8).prop_map(Step::Run),
        1 => Just(Step::Halt),
        1 => Just(Step::Restart),
        1 => Just(Step::Adopt),
        1 => Just(Step::Check),
        12 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Step::Answer(which, how)),
        2 => any::<u8>().prop_map(Step::Exit),
        1 => any::<bool>().prop_map(Step::Notify),
        2 => (any::<u8>(), 0..32u8).prop_map(|(which, id)| Step::Lie(which, id)),
        2 => any::<u16>().prop_map(Step::Wait),
        6 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..200)
}

/// An owner that keeps the contract, and checks that the service does.
struct Owner {
    service: Service,
    now: Moment,
    /// Launched or being launched, and not yet halted.
    runs: BTreeMap<u64, Option<u32>>,
    launching: BTreeSet<u64>,
    halting: BTreeSet<u64>,
    /// Hooks under way, and when the service may give each up.
    hooks: BTreeMap<u64, Moment>,
    checks: BTreeMap<u64, Moment>,
    numbers: BTreeSet<u64>,
    next_pid: u32,
    stopped_events: usize,
}

impl Owner {
    fn new(seed: u64) -> Self {
        let now = Moment::from_millis(1_000);
        Self {
            service: Service::new(ServiceTiming::default(), now, seed),
            now,
            runs: BTreeMap::new(),
            launching: BTreeSet::new(),
            halting: BTreeSet::new(),
            hooks: BTreeMap::new(),
            checks: BTreeMap::new(),
            numbers: BTreeSet::new(),
            next_pid: 100,
            stopped_events: 0,
        }
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Run(which) => {
                let flags: &[&str] = match which {
                    0 => &[],
                    1 => &["hooks"],
                    2 => &["nocheck", "hooks"],
                    _ => &["thrice", "slow"],
                };
                self.service.run(self.now, launch(&which.to_string(), flags));
            }
            Step::Halt => self.service.halt(self.now),
            Step::Restart => self.service.restart(self.now),
            Step::Adopt => {
                let pid = self.pid();
                if let Some(run) = self.service.adopt(self.now, launch("1", &["hooks"]), pid) {
                    self.runs.insert(run, Some(pid));
                }
            }
            Step::Check => self.service.check_now(self.now),
            Step::Answer(which, how) => {
                self.answer(usize::from(*which), *how);
            }
            Step::Exit(how) => self.exit(*how),
            Step::Notify(ready) => {
                let status = Some(Text::from("busy"));
                self.input(ServiceInput::Notified { ready: *ready, status });
            }
            Step::Lie(which, id) => self.lie(*which, u64::from(*id)),
            Step::Wait(millis) => {
                self.now = self.now + Duration::from_millis(u64::from(*millis));
                self.service.tick(self.now);
            }
            Step::Tick => {
                if let Some(next) = self.service.next_tick() {
                    self.now = next;
                    self.service.tick(self.now);
                }
            }
        }
        self.take();
    }

    fn pid(&mut self) -> u32 {
        self.next_pid += 1;
        self.next_pid
    }

    fn input(&mut self, input: ServiceInput) {
        self.service.input(self.now, input);
    }

    /// Answers one open request: `which` chooses it, `how` the answer. False if none is open.
    fn answer(&mut self, which: usize, how: u8) -> bool {
        let open: Vec<(char, u64)> = (self.launching.iter().map(|run| ('l', *run)))
            .chain(self.halting.iter().map(|run| ('h', *run)))
            .chain(self.hooks.keys().map(|hook| ('k', *hook)))
            .chain(self.checks.keys().map(|check| ('c', *check)))
            .collect();
        let Some((kind, id)) = open.get(which % open.len().max(1)).copied() else { return false };
        match kind {
            'l' => {
                self.launching.remove(&id);
                if how.is_multiple_of(8) {
                    self.runs.remove(&id);
                    self.halting.remove(&id);
                    self.input(ServiceInput::LaunchFailed { run: id, reason: Text::from("no") });
                } else {
                    let pid = self.pid();
                    self.runs.insert(id, Some(pid));
                    self.input(ServiceInput::Launched { run: id, pid });
                }
            }
            // An owner answers a halt only after the launch, which it does in order.
            'h' if self.launching.contains(&id) => {}
            'h' => {
                self.halting.remove(&id);
                self.runs.remove(&id);
                self.input(ServiceInput::Halted { run: id });
            }
            'k' => {
                self.hooks.remove(&id);
                let end = match how % 8 {
                    0 => HookEnd::TimedOut,
                    1 => HookEnd::Cancelled,
                    2 => HookEnd::NotStarted,
                    3 => HookEnd::Exited(ExitKind::Code(i32::from(how))),
                    _ => HookEnd::Exited(ExitKind::Code(0)),
                };
                let result = HookResult { end, text: Text::default() };
                self.input(ServiceInput::HookDone { hook: id, result });
            }
            _ => {
                self.checks.remove(&id);
                let health = Health::ALL[usize::from(how) % Health::ALL.len()].0;
                let result = CheckResult { health, text: Text::new(&how.to_string()) };
                self.input(ServiceInput::Checked { check: id, result });
            }
        }
        true
    }

    fn exit(&mut self, how: u8) {
        if let Some((_, pid)) = self.runs.iter().next().filter(|(_, pid)| pid.is_some()) {
            let how =
                [ExitKind::Code(0), ExitKind::Signal(9), ExitKind::Unknown][usize::from(how % 3)];
            let pid = pid.unwrap_or_default();
            self.input(ServiceInput::Exited { pid, how, last_output: Text::from("bye") });
        }
    }

    /// An answer to something that was never asked, or was answered before.
    fn lie(&mut self, which: u8, id: u64) {
        if self.is_open(id) {
            return;
        }
        let text = Text::from("lie");
        let result = HookResult { end: HookEnd::Cancelled, text: text.clone() };
        self.input(match which % 6 {
            0 => ServiceInput::Launched { run: id, pid: 1 },
            1 => ServiceInput::LaunchFailed { run: id, reason: text },
            2 => ServiceInput::Exited { pid: 1, how: ExitKind::Unknown, last_output: text },
            3 => ServiceInput::Halted { run: id },
            4 => ServiceInput::HookDone { hook: id, result },
            _ => {
                let result = CheckResult { health: Health::Ok, text };
                ServiceInput::Checked { check: id, result }
            }
        });
    }

    fn is_open(&self, id: u64) -> bool {
        self.runs.contains_key(&id) || self.hooks.contains_key(&id) || self.checks.contains_key(&id)
    }

    /// Takes the outputs and holds them against the invariants.
    fn take(&mut self) {
        let outputs = self.service.take_outputs();
        assert!(outputs.len() <= 8, "{outputs:?}");
        self.hooks.retain(|_, overdue| *overdue > self.now);
        for output in &outputs {
            match output {
                ServiceOutput::Launch { run, .. } => {
                    assert!(self.runs.is_empty(), "a second program: {:?}, then {run}", self.runs);
                    assert!(self.hooks.is_empty(), "launched beside a hook");
                    assert!(self.numbers.insert(*run));
                    self.runs.insert(*run, None);
                    self.launching.insert(*run);
                }
                ServiceOutput::Halt { run, .. } => {
                    assert!(self.runs.contains_key(run), "halt of {run}, which is gone");
                    self.halting.insert(*run);
                }
                ServiceOutput::RunHook { hook, .. } => {
                    assert!(self.numbers.insert(*hook));
                    assert!(self.hooks.is_empty(), "two hooks at once");
                    self.hooks.insert(*hook, self.now + Duration::from_secs(15));
                }
                ServiceOutput::CancelHook { hook } => {
                    let overdue = self.hooks.get_mut(hook).expect("a hook under way");
                    *overdue = self.now + Duration::from_secs(10);
                }
                ServiceOutput::Check { check, timeout, .. } => {
                    assert!(self.numbers.insert(*check));
                    assert_eq!(self.service.status().desired, Desired::Running);
                    let started = self.checks.values().max().copied().unwrap_or_default();
                    let overdue = self.now.since(started) > *timeout;
                    assert!(self.checks.is_empty() || overdue, "two checks at once");
                    self.checks = BTreeMap::from([(*check, self.now)]);
                }
                ServiceOutput::Changed => {}
                ServiceOutput::Event(ServiceEvent::Stopped) => {
                    assert!(self.runs.is_empty(), "stopped, but {:?} is left", self.runs);
                    self.stopped_events += 1;
                }
                ServiceOutput::Event(_) => {}
            }
        }
        // Answers that the service no longer waits for are dropped with what they belong to.
        if self.service.status().process != ProcessState::Running
            && self.service.status().process != ProcessState::Starting
        {
            self.checks.clear();
        }
        let next = self.service.next_tick();
        assert!(next.is_none_or(|next| next > self.now), "{next:?} at {:?}", self.now);
        let state = self.service.status();
        assert_eq!(state.healthy_since.is_some(), state.health.is_healthy(), "{state:?}");
        assert!(!state.health.is_healthy() || state.process == ProcessState::Running, "{state:?}");
    }

    /// Answers everything, and lets time go by when nothing is open, until it is stopped.
    fn settle(&mut self) {
        for round in 0..100 {
            if self.service.status().process == ProcessState::Stopped {
                return;
            }
            if self.answer(round, 7) {
                self.take();
            } else {
                self.play(&Step::Tick);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_can_be_stopped_and_started(seed: u64, steps in steps()) {
        let mut owner = Owner::new(seed);
        for step in &steps {
            owner.play(step);
        }
        owner.stopped_events = 0;
        owner.service.halt(owner.now);
        owner.take();
        owner.settle();
        prop_assert_eq!(owner.service.status().process, ProcessState::Stopped);
        prop_assert_eq!(owner.stopped_events, 1);
        prop_assert_eq!(owner.service.next_tick(), None);

        owner.service.run(owner.now, launch("9", &[]));
        owner.take();
        prop_assert_eq!(owner.launching.len(), 1);
    }

    /// An owner that never answers costs at most a handful of ticks a minute.
    #[test]
    fn silence_is_no_busy_loop(seed: u64, steps in steps()) {
        let mut owner = Owner::new(seed);
        for step in &steps {
            owner.play(step);
        }
        let start = owner.now;
        let mut ticks = 0;
        while let Some(next) = owner.service.next_tick()
            && next.since(start) < Duration::from_secs(60)
        {
            owner.play(&Step::Tick);
            ticks += 1;
            prop_assert!(ticks < 100, "{ticks} ticks in {:?}", owner.now.since(start));
        }
    }
}
