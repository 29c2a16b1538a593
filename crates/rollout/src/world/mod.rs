//! A small world for tests: one perfect ledger, a leader's side per node, members with fake
//! services, a network that may lose and repeat, and a virtual clock.

mod checks;
mod host;
mod random;
mod scenarios_basic;
mod scenarios_commands;
mod scenarios_config;
mod scenarios_faults;
mod scenarios_reboot;
mod scenarios_restart;
mod scenarios_waves;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use baton_types::member::Health;
use baton_types::{
    Command, CommandAction, CommandAnswer, CommandId, Moment, NodeId, NodeName, Now, Text, WallTime,
};
use baton_wire::{TurnMessage, Versions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::lead::{ChannelEntry, ChannelReading, Found, Lead, LeadInput, LeadSettings};
use crate::member::MemberSettings;
use crate::rollout::{Rollout, RolloutState, TurnState};
use crate::state::GroupState;
use crate::view::tests::{member, node, target, view};
use crate::view::{Liveness, View};

use self::checks::Checks;
use self::host::Host;

pub(crate) struct World {
    pub(crate) at: u64,
    pub(crate) state: GroupState,
    pub(crate) leads: BTreeMap<NodeId, Lead>,
    pub(crate) leader: NodeId,
    pub(crate) view: View,
    pub(crate) hosts: BTreeMap<NodeId, Host>,
    pub(crate) depot_up: bool,
    pub(crate) channel: Vec<ChannelEntry>,
    pub(crate) sequence: u64,
    /// Per mille of messages that are lost, and that are delivered again later.
    pub(crate) loss: u32,
    pub(crate) repeats: u32,
    pub(crate) checks: Checks,
    /// Every message that a member sent, for tests that deliver one again.
    pub(crate) sent: Vec<(NodeId, TurnMessage)>,
    inputs: Vec<LeadInput>,
    wire: VecDeque<(u64, bool, NodeId, TurnMessage)>,
    answers: BTreeMap<CommandId, CommandAnswer>,
    wake: Option<Moment>,
    rng: StdRng,
    commands: u128,
}

impl World {
    /// `count` members n1, n2, …, all on r1, which is the baseline; n1 leads.
    pub(crate) fn new(count: usize) -> Self {
        let mut world = Self::empty(count);
        world.state.set_baseline(&target(1));
        for host in world.hosts.values_mut() {
            host.give(&target(1));
        }
        world.promote(1);
        world.run(5_000);
        world
    }

    /// `count` members that never ran anything.
    pub(crate) fn empty(count: usize) -> Self {
        let names: Vec<String> = (1..=count).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut view = view(&names, "n1");
        let policy = &mut view.settings.update;
        policy.start_timeout = Duration::from_secs(5);
        policy.monitor = Duration::from_secs(5);
        policy.ready_timeout = Duration::from_secs(30);
        policy.prepare_timeout = Duration::from_secs(60);
        policy.turn_timeout = Duration::from_secs(120);
        policy.progress_timeout = Duration::from_secs(90);
        view.settings.rollback = policy.clone();
        let settings = LeadSettings {
            claim_window: Duration::from_secs(5),
            resend: Duration::from_millis(500),
        };
        let hosts = names.iter().map(|name| (node(name), Host::new(node(name))));
        Self {
            at: 1_000,
            state: GroupState::default(),
            leads: names.iter().map(|n| (node(n), Lead::new(settings, node(n), 1))).collect(),
            leader: node("n1"),
            hosts: hosts.collect(),
            view,
            depot_up: true,
            channel: Vec::new(),
            sequence: 0,
            loss: 0,
            repeats: 0,
            checks: Checks::default(),
            sent: Vec::new(),
            inputs: Vec::new(),
            wire: VecDeque::new(),
            answers: BTreeMap::new(),
            wake: Some(Moment(0)),
            rng: StdRng::seed_from_u64(7),
            commands: 0,
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            moment: Moment::from_millis(self.at),
            wall: WallTime(i64::try_from(self.at).unwrap_or(0)),
        }
    }

    pub(crate) fn promote(&mut self, version: u8) {
        self.promote_with(version, false);
    }

    pub(crate) fn promote_with(&mut self, version: u8, again: bool) {
        self.sequence += 1;
        self.channel.retain(|entry| entry.release != target(version).release);
        let release = target(version).release;
        self.channel.push(ChannelEntry { release, promotion: self.sequence, again });
        self.read_channel();
    }

    pub(crate) fn demote(&mut self, version: u8) {
        self.sequence += 1;
        self.channel.retain(|entry| entry.release != target(version).release);
        self.read_channel();
    }

    fn read_channel(&mut self) {
        let reading = if self.depot_up {
            Ok(ChannelReading {
                depot: Text::new("d1"),
                sequence: self.sequence,
                entries: self.channel.clone(),
            })
        } else {
            Err(Text::new("connection refused"))
        };
        self.inputs.push(LeadInput::Channel(reading));
    }

    /// Types a command at n3 and waits for its answer.
    pub(crate) fn command(&mut self, action: CommandAction) -> CommandAnswer {
        self.commands += 1;
        let id = CommandId::from_random(self.commands);
        self.command_as(id, action)
    }

    pub(crate) fn command_as(&mut self, id: CommandId, action: CommandAction) -> CommandAnswer {
        let found = match &action {
            CommandAction::Start { version: None } => self.channel.last().cloned(),
            CommandAction::Start { version: Some(version) } => {
                let version: u8 = version.as_str().parse().expect("a test version");
                let release = target(version).release;
                let listed = self.channel.iter().find(|entry| entry.release == release).cloned();
                listed.or(Some(ChannelEntry { release, promotion: 0, again: false }))
            }
            _ => None,
        };
        let found = found.map(|entry| {
            Ok(Found {
                release: entry.release,
                promotion: (entry.promotion > 0).then_some(entry.promotion),
                depot: Text::new("d1"),
            })
        });
        let by = NodeName::new("n3").expect("a name");
        let group = self.view.settings.name.clone();
        self.answers.remove(&id);
        self.inputs.push(LeadInput::Command { command: Command { id, group, by, action }, found });
        for _ in 0..1_000 {
            self.turn_the_wheel();
            if let Some(answer) = self.answers.get(&id) {
                return answer.clone();
            }
        }
        panic!("no answer");
    }

    /// Another node leads from now on.
    pub(crate) fn failover(&mut self, to: &str) {
        if let Some(lead) = self.leads.get_mut(&self.leader) {
            lead.step_down();
        }
        self.leader = node(to);
        self.view.me = node(to);
        self.inputs.clear();
        self.wake = Some(Moment(0));
        self.read_channel();
    }

    pub(crate) fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.get_mut(&node(name)).expect("a host")
    }

    /// Kills the daemon and the machine.
    pub(crate) fn kill(&mut self, name: &str) {
        self.host(name).up = false;
        self.refresh_view();
    }

    /// A machine boots again.
    pub(crate) fn boot(&mut self, name: &str) {
        let now = self.now();
        self.host(name).boot(now);
        self.refresh_view();
    }

    /// Delivers a message to the leader, as if it had been under way for long.
    pub(crate) fn deliver_late(&mut self, from: NodeId, message: TurnMessage) {
        self.inputs.push(LeadInput::FromMember(from, message));
    }

    pub(crate) fn rollout(&self) -> &Rollout {
        self.state.shown_rollout().expect("a rollout")
    }

    pub(crate) fn rollout_state(&self) -> RolloutState {
        self.rollout().state
    }

    /// Where a member's turn stands; waiting before there is a rollout.
    pub(crate) fn turn(&self, name: &str) -> TurnState {
        let rollout = self.state.shown_rollout();
        rollout.map_or(TurnState::Waiting, |r| r.turn(node(name)).expect("a turn").state)
    }

    /// How many members run this version.
    pub(crate) fn on(&self, version: u8) -> usize {
        let runs = |host: &&Host| host.member.file().running.as_ref() == Some(&target(version));
        self.hosts.values().filter(runs).count()
    }

    pub(crate) fn baseline(&self) -> Option<u8> {
        self.state.baseline().map(|target| target.release.digest.0[0])
    }

    pub(crate) fn waits_for(&self) -> String {
        self.leads[&self.leader].waiting_for(self.now(), &self.state, &self.view)
    }

    /// Runs for `millis`.
    pub(crate) fn run(&mut self, millis: u64) {
        let end = self.at + millis;
        while self.at < end {
            let left = end - self.at;
            self.pass_time(left);
            self.turn_the_wheel();
        }
    }

    /// Runs until `when` holds; fails after an hour.
    pub(crate) fn run_until(&mut self, when: impl Fn(&Self) -> bool) {
        let end = self.at + 3_600_000;
        while !when(self) {
            assert!(self.at < end, "never came: {} / {:#?}", self.waits_for(), self.state);
            self.pass_time(1_000);
            self.turn_the_wheel();
        }
    }

    /// Runs until a rollout is there and has ended or is paused.
    pub(crate) fn settle(&mut self) -> RolloutState {
        self.come_to_rest();
        self.rollout_state()
    }

    /// Runs until no rollout is under way, or it waits for a person.
    pub(crate) fn come_to_rest(&mut self) {
        self.run(200);
        self.run_until(|world| {
            world.inputs.is_empty()
                && world.state.next.is_none()
                && world.state.rollout.as_deref().is_none_or(|r| {
                    let halted = r.open_turns().all(|turn| turn.state == TurnState::Offered);
                    r.state.is_paused() && halted && r.ending.is_none()
                })
        });
    }

    /// Runs until the rollout is paused, whether turns are open or not.
    pub(crate) fn settle_open(&mut self) -> RolloutState {
        self.run_until(|world| {
            world.state.rollout.as_deref().is_some_and(|rollout| rollout.state.is_paused())
        });
        self.rollout_state()
    }

    fn pass_time(&mut self, at_most: u64) {
        let now = self.now().moment;
        let wire = self.wire.iter().map(|(at, ..)| Moment::from_millis(*at)).min();
        let hosts = self.hosts.values().filter_map(Host::next_event).min();
        let next = [self.wake, wire, hosts].into_iter().flatten().min();
        let step = match next {
            _ if !self.inputs.is_empty() => 1,
            Some(next) if next > now => (next.since(now).as_micros() as u64).div_ceil(1_000),
            Some(_) => 1,
            None => at_most,
        };
        self.at += step.clamp(1, at_most.max(1));
    }

    fn turn_the_wheel(&mut self) {
        let now = self.now();
        let due: Vec<_> = self.wire.iter().filter(|(at, ..)| *at <= self.at).cloned().collect();
        self.wire.retain(|(at, ..)| *at > self.at);
        for (_, to_leader, node, message) in due {
            if to_leader {
                self.inputs.push(LeadInput::FromMember(node, message));
            } else if let Some(host) = self.hosts.get_mut(&node)
                && host.up
            {
                host.member.receive(now, self.leader, message);
            }
        }
        let mut sends = Vec::new();
        let depot_up = self.depot_up;
        for host in self.hosts.values_mut().filter(|host| host.up) {
            host.run(now, depot_up);
            sends.extend(host.outbox.drain(..).map(|message| (true, host.id, message)));
        }
        self.refresh_view();
        // As a node does it: again at once after each commit.
        for round in 0.. {
            assert!(round < 20, "a step that never comes to rest");
            let inputs = std::mem::take(&mut self.inputs);
            let lead = self.leads.get_mut(&self.leader).expect("a lead");
            let step = lead.step(now, &self.state, &self.view, inputs);
            sends.extend(step.sends.into_iter().map(|(node, message)| (false, node, message)));
            self.wake = step.wake;
            self.answers.extend(step.answers);
            if step.read_channel {
                self.read_channel();
            }
            let more = step.next.is_some();
            if let Some(next) = step.next {
                self.commit(now, next);
            }
            if !more && self.inputs.is_empty() {
                break;
            }
        }
        for (to_leader, node, message) in sends {
            self.send(to_leader, node, message);
        }
        self.checks.disruption(&self.state, &self.hosts, &self.view);
    }

    fn commit(&mut self, now: Now, next: GroupState) {
        let bytes = next.encode(Versions::OURS.newest()).expect("encodes");
        let read = GroupState::decode(&bytes, Versions::OURS).expect("decodes");
        assert_eq!(read, next, "reads back");
        self.checks.commit(&self.state, &next);
        let name_of = |node| self.view.name(node);
        let lines = crate::narrate(Some(&self.state), &next, &name_of);
        self.checks.narrated.extend(lines);
        self.state = next;
        for lead in self.leads.values_mut() {
            lead.committed(now, &self.state);
        }
    }

    fn send(&mut self, to_leader: bool, node: NodeId, message: TurnMessage) {
        if to_leader {
            self.sent.push((node, message.clone()));
        }
        if self.rng.random_range(0..1_000) >= self.loss {
            self.wire.push_back((self.at + 1, to_leader, node, message.clone()));
        }
        if self.rng.random_range(0..1_000) < self.repeats {
            let late = self.at + self.rng.random_range(1..5_000);
            self.wire.push_back((late, to_leader, node, message));
        }
    }

    pub(crate) fn refresh_view(&mut self) {
        for (id, host) in &self.hosts {
            let seen = self.view.members.entry(*id).or_insert_with(|| member("new"));
            seen.liveness = if host.up { Liveness::Alive } else { Liveness::Dead };
            seen.running = host.member.file().running.clone();
            seen.health = match (host.healthy, host.running.is_some()) {
                (true, _) => Health::Ok,
                (false, true) => Health::Critical,
                (false, false) => Health::Unknown,
            };
            seen.health_text = host.health_text.clone();
        }
    }
}

pub(crate) const MEMBER_SETTINGS: MemberSettings =
    MemberSettings { claim_window: Duration::from_secs(5), resend: Duration::from_millis(500) };
