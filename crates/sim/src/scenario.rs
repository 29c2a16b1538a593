//! A world as a scripted test wants it: say what happens, wait for what must come of it.
//!
//! Invariant: nothing here is left to chance beyond the seed; a script that waits in vain fails
//! with the trace.

use std::time::Duration;

use baton_node::{NodeRef, Reply, Request};
use baton_rollout::{Rollout, RolloutState, TurnState};
use baton_types::status::GroupStatus;
use baton_types::{CommandAction, CommandAnswer, CommandId, CommandResult, Digest, Term};
use baton_wire::Versions;
use rand::RngExt as _;

use crate::group::FIRST;
use crate::program::Behaviour;
use crate::settings::Setup;
use crate::traffic::Traffic;
use crate::world::World;

impl World {
    /// A calm group of so many hosts, all switched on, nothing promoted.
    pub fn group(hosts: usize) -> Self {
        Self::begin(Setup::of(1, hosts))
    }

    /// A calm world of this setup, all switched on, nothing promoted.
    pub fn begin(setup: Setup) -> Self {
        let mut world = Self::new(setup);
        for host in 0..world.hosts.len() {
            world.start(host);
        }
        world
    }

    /// A calm world in which these hosts and the others boot without each other, so that each side
    /// forms the group for itself.
    pub fn apart(setup: Setup, side: &[usize]) -> Self {
        let mut world = Self::new(setup);
        world.let_form_apart(side);
        for host in 0..world.hosts.len() {
            world.start(host);
        }
        world
    }

    pub(crate) fn let_form_apart(&mut self, side: &[usize]) {
        self.groups[FIRST].checks.let_form_apart();
        self.partition(side);
    }

    /// The same, with release 1 rolled out everywhere: the baseline of most scenarios.
    pub fn on_release_1(setup: Setup, behaviour: Behaviour) -> Self {
        let mut world = Self::begin(setup);
        world.promote("1", behaviour);
        world.run_until("release 1 is the baseline", MINUTE * 2, |world| {
            world.baseline() == "1" && world.rollout_ended()
        });
        world
    }

    /// Publishes a release of the first group and puts it at the head of the channel.
    pub fn promote(&mut self, version: &str, behaviour: Behaviour) {
        self.promote_in(FIRST, version, behaviour);
    }

    /// The same for any group, by its place in the world.
    pub fn promote_in(&mut self, group: usize, version: &str, behaviour: Behaviour) {
        let of = self.of_group(group);
        self.trace.say(self.now, "depot", &format!("{of}promotes {version}"));
        let depot = &mut self.groups[group].depot;
        depot.publish(version, behaviour);
        depot.promote(version, false);
    }

    /// Takes a release out of the channel.
    pub fn demote(&mut self, version: &str) {
        self.trace.say(self.now, "depot", &format!("demotes {version}"));
        self.depot().demote(version);
    }

    /// Runs until `done`.
    ///
    /// # Panics
    ///
    /// A promise is broken, or `limit` passes first.
    #[track_caller]
    pub fn run_until(&mut self, what: &str, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now() + limit;
        while !done(self) {
            if self.now() >= end {
                panic!("not within {limit:?}: {what}\n{}", self.story());
            }
            self.run_for(STEP);
            self.stay_well();
        }
    }

    /// Runs for `span`.
    ///
    /// # Panics
    ///
    /// A promise is broken.
    #[track_caller]
    pub fn pass(&mut self, span: Duration) {
        self.run_for(span);
        self.stay_well();
    }

    #[track_caller]
    fn stay_well(&self) {
        if let Some(violation) = self.violation() {
            panic!("{violation}");
        }
    }

    /// The trace's last lines.
    pub fn story(&self) -> String {
        self.trace.recent().collect::<Vec<_>>().join("\n")
    }

    /// What was sent so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Size of the newest committed record's content; 0 before the first.
    pub fn record_bytes(&self) -> usize {
        self.state()
            .and_then(|state| state.encode(Versions::OURS.newest()).ok())
            .map_or(0, |bytes| bytes.len())
    }

    /// How many vote, as the leader has it; 0 without one.
    pub fn voters(&self) -> usize {
        self.voters_of(FIRST)
    }

    /// The same of any group.
    pub(crate) fn voters_of(&self, group: usize) -> usize {
        let leader = self.leader_of(group).and_then(|host| self.hosts[host].node.as_ref());
        let seen = leader.and_then(|node| node.observe(&self.groups[group].name));
        seen.map_or(0, |seen| seen.ledger().voters.len())
    }

    /// The host that decides for the group; the newest, if an older one has not noticed yet.
    pub fn leader(&self) -> Option<usize> {
        self.leader_of(FIRST)
    }

    /// The same of any group.
    pub(crate) fn leader_of(&self, group: usize) -> Option<usize> {
        self.leaders(group).max().map(at)
    }

    /// Hosts that decide for a group, with their terms.
    pub(crate) fn leaders(&self, group: usize) -> impl Iterator<Item = (Term, usize)> + '_ {
        let name = &self.groups[group].name;
        (0..self.hosts.len()).filter_map(move |host| {
            let seen = self.hosts[host].node.as_ref()?.observe(name)?;
            seen.is_leading().then(|| (seen.ledger().term, host))
        })
    }

    /// The host that decides for the group's lineage in which that host is.
    pub(crate) fn leader_with(&self, group: usize, host: usize) -> Option<usize> {
        let checks = &self.groups[group].checks;
        self.leaders(group).filter(|(_, leader)| checks.are_together(*leader, host)).max().map(at)
    }

    /// A host that runs and does not lead.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn follower(&self) -> usize {
        let leader = self.leader();
        (0..self.hosts.len())
            .find(|host| Some(*host) != leader && self.is_up(*host))
            .expect("a follower")
    }

    /// Types a command; its request.
    pub fn type_at(&mut self, host: usize, action: CommandAction) -> u64 {
        let id = CommandId::from_random(self.rng.random());
        self.type_with_id(host, action, Some(id)).expect("a daemon that runs")
    }

    /// Types a command and waits for the answer.
    ///
    /// # Panics
    ///
    /// There is none within a minute.
    #[track_caller]
    pub fn order(&mut self, host: usize, action: CommandAction) -> CommandAnswer {
        let request = self.type_at(host, action);
        self.answer_to(request)
    }

    /// Types a command, waits, and wants it done.
    ///
    /// # Panics
    ///
    /// It is not.
    #[track_caller]
    pub fn must(&mut self, host: usize, action: CommandAction) -> CommandAnswer {
        let answer = self.order(host, action.clone());
        assert_eq!(answer.result, CommandResult::Done, "{action:?}: {}", answer.message);
        answer
    }

    /// Waits for the answer to a request.
    ///
    /// # Panics
    ///
    /// There is none within a minute.
    #[track_caller]
    pub fn answer_to(&mut self, request: u64) -> CommandAnswer {
        self.run_until("an answer", MINUTE, |world| world.reply(request).is_some());
        match self.reply(request) {
            Some(Reply::Command { answer, .. }) => answer.clone(),
            other => panic!("no answer to a command: {other:?}"),
        }
    }

    /// Keeps `node` out of rollouts, or lets it take part again; typed at `host`.
    ///
    /// # Panics
    ///
    /// It is refused.
    #[track_caller]
    pub fn cordon(&mut self, host: usize, node: usize, on: bool) {
        let node = Some(NodeRef::Id(self.hosts[node].id));
        let request =
            self.ask(host, if on { Request::Cordon(node) } else { Request::Uncordon(node) });
        self.run_until("the cordon", MINUTE, |world| world.reply(request).is_some());
        assert!(matches!(self.reply(request), Some(Reply::Done(_))), "{:?}", self.reply(request));
    }

    /// `rollout status`, asked at `host`.
    ///
    /// # Panics
    ///
    /// There is no answer within a minute.
    #[track_caller]
    pub fn status(&mut self, host: usize) -> GroupStatus {
        let request = self.ask(host, Request::Status(self.groups[FIRST].name.clone()));
        self.run_until("the status", MINUTE, |world| world.reply(request).is_some());
        match self.reply(request) {
            Some(Reply::Json(json)) => serde_json::from_str(json).expect("a status"),
            other => panic!("no status: {other:?}"),
        }
    }

    /// The rollout under way or the last one.
    pub fn rollout(&self) -> Option<&Rollout> {
        self.state().and_then(|state| state.shown_rollout())
    }

    /// Whether none is under way.
    pub fn rollout_ended(&self) -> bool {
        self.state().is_some_and(|state| state.rollout.is_none())
    }

    /// Whether the rollout under way or the last one brings that release and stands there.
    pub fn is(&self, version: &str, state: RolloutState) -> bool {
        self.rollout().is_some_and(|rollout| {
            rollout.to.release.id.version.as_str() == version && rollout.state == state
        })
    }

    /// Runs until the rollout to that release stands there.
    ///
    /// # Panics
    ///
    /// It does not within ten minutes.
    #[track_caller]
    pub fn run_until_is(&mut self, version: &str, state: RolloutState) {
        self.run_until(&format!("{version} is {state}"), MINUTE * 10, |w| w.is(version, state));
    }

    /// The baseline's version; empty without one.
    pub fn baseline(&self) -> String {
        let baseline = self.state().and_then(|state| state.baseline());
        baseline.map(|target| target.release.id.version.to_string()).unwrap_or_default()
    }

    /// Where the turn of `host` stands in the rollout under way or the last one.
    pub fn turn(&self, host: usize) -> Option<TurnState> {
        self.rollout()?.turn(self.hosts[host].id).map(|turn| turn.state)
    }

    /// The host whose turn stands there, if one does.
    pub fn in_turn(&self, state: TurnState) -> Option<usize> {
        (0..self.hosts.len()).find(|host| self.turn(*host) == Some(state))
    }

    /// How many turns stand there.
    pub fn turns(&self, state: TurnState) -> usize {
        (0..self.hosts.len()).filter(|host| self.turn(*host) == Some(state)).count()
    }

    /// The version that runs on `host`; empty if none does.
    pub fn running(&self, host: usize) -> String {
        self.running_in(FIRST, host)
    }

    /// The same of any group.
    pub fn running_in(&self, group: usize, host: usize) -> String {
        let process = self.hosts[host].services[group].process.as_ref();
        let depot = &self.groups[group].depot;
        process.map(|process| depot.version(&process.digest)).unwrap_or_default()
    }

    /// How many hosts run that version.
    pub fn run(&self, version: &str) -> usize {
        (0..self.hosts.len()).filter(|host| self.running(*host) == version).count()
    }

    /// Hosts on which that version was started, in the order of the first start.
    pub fn touched(&self, version: &str) -> Vec<usize> {
        let mut touched = Vec::new();
        let group = &self.groups[FIRST];
        for (host, digest) in &group.launches {
            if group.depot.version(digest) == version && !touched.contains(host) {
                touched.push(*host);
            }
        }
        touched
    }

    /// How often that version was started on `host`.
    pub fn starts(&self, version: &str, host: usize) -> usize {
        let group = &self.groups[FIRST];
        let is_it = |digest: &Digest| group.depot.version(digest) == version;
        group.launches.iter().filter(|(on, digest)| *on == host && is_it(digest)).count()
    }

    /// How often the machine of `host` has booted.
    pub fn boots(&self, host: usize) -> u64 {
        self.hosts[host].machine_boot
    }

    /// Whether the service on `host` serves.
    pub fn serves(&self, host: usize) -> bool {
        self.is_well(host, FIRST)
    }

    /// How many hosts do not serve.
    pub fn down(&self) -> usize {
        (0..self.hosts.len()).filter(|host| !self.serves(*host)).count()
    }

    /// The hosts, for scripts that look at all of them.
    pub fn all(&self) -> std::ops::Range<usize> {
        0..self.hosts.len()
    }
}

fn at((_, host): (Term, usize)) -> usize {
    host
}

/// The unit of a script's patience.
pub const MINUTE: Duration = Duration::from_secs(60);

/// How often a script looks.
const STEP: Duration = Duration::from_millis(20);
