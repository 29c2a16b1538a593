//! One node of the small world: a member, its disk, a fake service and fake hooks.

use std::collections::BTreeMap;

use baton_types::manifest::HookKind;
use baton_types::{Moment, NodeId, Now, Target, Text};
use baton_wire::TurnMessage;

use super::MEMBER_SETTINGS;
use crate::member::file::MemberFile;
use crate::member::{FetchResult, HookVerdict, Member, MemberInput, MemberOutput, ServiceNote};

/// How a release behaves on this host.
#[derive(Clone, Debug)]
pub(crate) struct Behavior {
    /// From start to healthy; `None` = never.
    pub(crate) healthy_after: Option<u64>,
    /// From start to its exit, again and again.
    pub(crate) exits_after: Option<u64>,
    /// Whether `verify` says yes.
    pub(crate) verifies: bool,
    /// How often `install` asks for a reboot first.
    pub(crate) reboots: u32,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { healthy_after: Some(300), exits_after: None, verifies: true, reboots: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: NodeId,
    pub(crate) up: bool,
    pub(crate) member: Member,
    pub(crate) disk: MemberFile,
    pub(crate) disk_works: bool,
    pub(crate) fetch_works: bool,
    pub(crate) behaviors: BTreeMap<u8, Behavior>,
    /// `ready` says "not yet" until then.
    pub(crate) ready_from: u64,
    pub(crate) running: Option<Target>,
    pub(crate) healthy: bool,
    pub(crate) health_text: Text,
    pub(crate) starts: u32,
    pub(crate) stops: u32,
    /// From the stop of a program to its end.
    pub(crate) stop_takes: u64,
    pub(crate) outbox: Vec<TurnMessage>,
    pub(crate) boots: u8,
    /// Whether the machine obeys when it is told to reboot.
    pub(crate) reboot_works: bool,
    events: Vec<(Moment, u32, MemberInput)>,
    /// Which start of the program an event is about.
    generation: u32,
    fetched: Vec<Target>,
}

impl Host {
    pub(crate) fn new(id: NodeId) -> Self {
        let disk = MemberFile::default();
        Self {
            id,
            up: true,
            member: Member::open(MEMBER_SETTINGS, id, [0; 16], disk.clone(), 1, Now::default()),
            disk,
            disk_works: true,
            fetch_works: true,
            behaviors: BTreeMap::new(),
            ready_from: 0,
            running: None,
            healthy: false,
            health_text: Text::default(),
            starts: 0,
            stops: 0,
            stop_takes: 50,
            outbox: Vec::new(),
            boots: 0,
            reboot_works: true,
            events: Vec::new(),
            generation: 0,
            fetched: Vec::new(),
        }
    }

    /// It has run `target` for ever.
    pub(crate) fn give(&mut self, target: &Target) {
        self.disk.running = Some(target.clone());
        let (disk, now) = (self.disk.clone(), Now::default());
        self.member = Member::open(MEMBER_SETTINGS, self.id, [self.boots; 16], disk, 1, now);
        self.running = Some(target.clone());
        self.fetched.push(target.clone());
        self.healthy = true;
        self.member.input(now, MemberInput::Service(ServiceNote::Healthy));
    }

    pub(crate) fn behave(&mut self, version: u8, change: impl Fn(&mut Behavior)) {
        change(self.behaviors.entry(version).or_default());
    }

    /// The machine starts: whatever was in memory is lost, the release that it has starts.
    pub(crate) fn boot(&mut self, now: Now) {
        self.boots += 1;
        self.events.clear();
        self.running = None;
        self.healthy = false;
        self.restart_daemon(now);
        self.up = true;
        if let Some(target) = self.member.wants_running().cloned() {
            self.start(now, target);
        }
    }

    /// The daemon starts again; the service never noticed.
    pub(crate) fn restart_daemon(&mut self, now: Now) {
        let service = |input: &MemberInput| matches!(input, MemberInput::Service(_));
        self.events.retain(|(_, _, input)| service(input));
        self.outbox.clear();
        let (disk, seed) = (self.disk.clone(), u64::from(self.boots) + now.moment.0);
        self.member = Member::open(MEMBER_SETTINGS, self.id, [self.boots; 16], disk, seed, now);
        if self.healthy {
            self.member.input(now, MemberInput::Service(ServiceNote::Healthy));
        }
    }

    /// The program dies and its supervisor starts it again.
    pub(crate) fn crash(&mut self, now: Now) {
        self.after(now, 0, MemberInput::Service(ServiceNote::Exited(Text::new("signal 11"))));
    }

    pub(crate) fn next_event(&self) -> Option<Moment> {
        if !self.up {
            return None;
        }
        self.events.iter().map(|(at, ..)| *at).chain(self.member.next_tick()).min()
    }

    /// Everything that is due now.
    pub(crate) fn run(&mut self, now: Now, depot_up: bool) {
        for _ in 0..50 {
            let due = self.events.iter().position(|(at, ..)| *at <= now.moment);
            if let Some(at) = due {
                let (_, generation, input) = self.events.remove(at);
                self.happens(now, generation, input);
            }
            if self.member.next_tick().is_some_and(|at| at <= now.moment) {
                self.member.tick(now);
            }
            let outputs = self.member.take_outputs();
            if due.is_none() && outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.carry_out(now, depot_up, output);
            }
        }
        panic!("a member that never comes to rest: {:#?}", self.member);
    }

    fn happens(&mut self, now: Now, generation: u32, input: MemberInput) {
        if let MemberInput::Service(note) = &input {
            let stopped = *note == ServiceNote::Stopped;
            if generation != self.generation && !stopped {
                return;
            }
            self.healthy = *note == ServiceNote::Healthy;
            self.health_text = match note {
                ServiceNote::Unhealthy(why) | ServiceNote::Exited(why) => why.clone(),
                _ => Text::default(),
            };
            if matches!(note, ServiceNote::Exited(_))
                && let Some(target) = self.running.clone()
            {
                self.schedule_start(now, target, 1_000);
            }
        }
        self.member.input(now, input);
    }

    fn carry_out(&mut self, now: Now, depot_up: bool, output: MemberOutput) {
        match output {
            MemberOutput::Send(message) => self.outbox.push(message),
            MemberOutput::Persist { token, file } => {
                if self.disk_works {
                    self.disk = *file;
                }
                self.after(now, 1, MemberInput::Persisted { token, ok: self.disk_works });
            }
            MemberOutput::Fetch { target, .. } => {
                let there = self.fetched.contains(&target);
                let result = match there || (depot_up && self.fetch_works) {
                    true => FetchResult::Done,
                    false if depot_up => FetchResult::Environment(Text::new("no space left")),
                    false => FetchResult::Environment(Text::new("connection refused")),
                };
                if result == FetchResult::Done && !there {
                    self.fetched.push(target.clone());
                }
                let digest = target.key();
                self.after(now, 20, MemberInput::Fetched { digest, result });
            }
            MemberOutput::Unpack { target } => {
                let digest = target.release.digest;
                self.after(now, 5, MemberInput::Unpacked { digest, result: FetchResult::Done });
            }
            MemberOutput::RunHook { kind, target } => {
                let verdict = self.hook(now, kind, &target);
                self.after(now, 10, MemberInput::HookDone { kind, verdict });
            }
            MemberOutput::StopService => {
                self.stops += 1;
                self.generation += 1;
                self.running = None;
                self.healthy = false;
                self.after(now, self.stop_takes, MemberInput::Service(ServiceNote::Stopped));
            }
            MemberOutput::StartService(target) => {
                if self.running.as_ref() == Some(&target) {
                    let note = match self.healthy {
                        true => ServiceNote::Healthy,
                        false => return,
                    };
                    self.after(now, 1, MemberInput::Service(note));
                } else {
                    self.start(now, target);
                }
            }
            MemberOutput::Reboot if self.reboot_works => self.boot(now),
            MemberOutput::Reboot => {}
            MemberOutput::Phase(_) => {}
        }
    }

    fn hook(&mut self, now: Now, kind: HookKind, target: &Target) -> HookVerdict {
        let behavior = self.behaviors.entry(target.key().0[0]).or_default();
        match kind {
            HookKind::Install if behavior.reboots > 0 => {
                behavior.reboots -= 1;
                HookVerdict::Reboot
            }
            HookKind::Ready if now.moment < Moment::from_millis(self.ready_from) => {
                HookVerdict::NotYet(Text::new("still primary"))
            }
            HookKind::Verify if !behavior.verifies => {
                HookVerdict::No(Text::new("cluster_state fail"))
            }
            _ => HookVerdict::Yes { ran: true },
        }
    }

    fn start(&mut self, now: Now, target: Target) {
        self.starts += 1;
        self.running = Some(target.clone());
        self.schedule_start(now, target, 0);
    }

    fn schedule_start(&mut self, now: Now, target: Target, delay: u64) {
        self.generation += 1;
        let behavior = self.behaviors.entry(target.key().0[0]).or_default().clone();
        match behavior.healthy_after {
            Some(after) => {
                self.after(now, delay + after, MemberInput::Service(ServiceNote::Healthy))
            }
            None => {
                let note = ServiceNote::Unhealthy(Text::new("exec exited 2: refused"));
                self.after(now, delay + 1_000, MemberInput::Service(note));
            }
        }
        if let Some(after) = behavior.exits_after {
            let note = ServiceNote::Exited(Text::new("exit status 1"));
            self.after(now, delay + after, MemberInput::Service(note));
        }
    }

    fn after(&mut self, now: Now, millis: u64, input: MemberInput) {
        let at = now.moment + std::time::Duration::from_millis(millis);
        self.events.push((at, self.generation, input));
    }
}
