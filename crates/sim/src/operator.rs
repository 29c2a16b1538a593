//! Operators: what is typed at nodes, and what they are told.

use baton_node::{NodeRef, Reply, Request};
use baton_types::{CommandAction, CommandId, Version};
use rand::RngExt as _;

use crate::group::FIRST;
use crate::net::chance;
use crate::program::Behaviour;
use crate::world::World;

/// Types what comes to mind, and promotes what comes out of the workshop.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Of which group.
    group: usize,
    releases: u32,
    last: Option<(CommandAction, CommandId)>,
}

impl Operator {
    /// One who types for that group.
    pub(crate) fn of(group: usize) -> Self {
        Self { group, ..Self::default() }
    }

    /// One deed at a random node.
    pub fn act(&mut self, world: &mut World) {
        let host = world.rng.random_range(0..world.hosts.len());
        match world.rng.random_range(0..100) {
            0..=24 => self.promote(world),
            25..=29 => self.demote(world),
            30..=36 => self.repeat(world, host),
            37..=47 => self.command(world, host, CommandAction::Resume),
            48..=57 => self.command(world, host, CommandAction::Retry),
            58..=67 => self.command(world, host, CommandAction::Pause),
            68..=73 => self.command(world, host, CommandAction::Cancel),
            74..=81 => self.command(world, host, CommandAction::Rollback { to: None }),
            82..=83 => self.start_some(world, host),
            84 => {
                let reboots = world.rng.random_bool(0.5);
                let action = if reboots { CommandAction::Reboot } else { CommandAction::Restart };
                self.command(world, host, action);
            }
            85..=89 => self.cordon(world, host, true),
            90..=97 => self.cordon(world, host, false),
            _ => world.crash(host, self.group),
        }
    }

    /// A new release at the channel's head: good or bad in one of the known ways.
    pub fn promote(&mut self, world: &mut World) {
        self.releases += 1;
        let version = self.releases.to_string();
        let seconds = std::time::Duration::from_secs;
        let good = self.releases == 1 || chance(&mut world.rng, 600);
        let behaviour = match world.rng.random_range(0..5) {
            _ if good => Behaviour::healthy(),
            0 => Behaviour::never_healthy(),
            1 => Behaviour::exits(seconds(3)),
            2 => Behaviour::falls_ill(seconds(2)),
            3 => Behaviour::healthy().verify(crate::Play::No),
            _ => Behaviour::exits(std::time::Duration::from_millis(20)),
        };
        let behaviour = match world.rng.random_range(0..6) {
            0 => behaviour.ready(crate::Play::NotYetFor(seconds(6))),
            1 => behaviour.install(crate::Play::Yes),
            2 => behaviour.install(crate::Play::Reboots(1)),
            3 => behaviour.verify(crate::Play::Yes),
            _ => behaviour,
        };
        let of = world.of_group(self.group);
        world.trace.say(world.now, "depot", &format!("{of}release {version}: {behaviour:?}"));
        let depot = &mut world.groups[self.group].depot;
        depot.publish(&version, behaviour);
        depot.promote(&version, false);
    }

    fn demote(&mut self, world: &mut World) {
        let depot = &world.groups[self.group].depot;
        let head = depot.head().map(|release| release.id.version.to_string());
        if let Some(version) = head.filter(|version| version != "1") {
            let of = world.of_group(self.group);
            world.trace.say(world.now, "depot", &format!("{of}demotes {version}"));
            world.groups[self.group].depot.demote(&version);
        }
    }

    /// The same command under its id, perhaps at another node: an answer was lost.
    fn repeat(&mut self, world: &mut World, host: usize) {
        if let Some((action, id)) = self.last.clone() {
            world.tally.count(crate::Occurrence::CommandRepeated);
            world.type_in(self.group, host, action, Some(id));
        }
    }

    fn command(&mut self, world: &mut World, host: usize, action: CommandAction) {
        let id = CommandId::from_random(world.rng.random());
        self.last = Some((action.clone(), id));
        world.type_in(self.group, host, action, Some(id));
    }

    fn start_some(&mut self, world: &mut World, host: usize) {
        let version = world.rng.random_range(1..=self.releases.max(1)).to_string();
        let version = Version::new(version).ok();
        self.command(world, host, CommandAction::Start { version });
    }

    fn cordon(&mut self, world: &mut World, host: usize, on: bool) {
        let other = world.rng.random_range(0..world.hosts.len());
        let node = Some(NodeRef::Id(world.hosts[other].id));
        if world.is_up(host) {
            world.ask(host, if on { Request::Cordon(node) } else { Request::Uncordon(node) });
        }
    }
}

impl World {
    /// Types a command for the first group at a node, under this id; nothing happens where no daemon
    /// runs.
    pub fn type_with_id(
        &mut self,
        host: usize,
        action: CommandAction,
        id: Option<CommandId>,
    ) -> Option<u64> {
        self.type_in(FIRST, host, action, id)
    }

    /// The same for any group.
    pub(crate) fn type_in(
        &mut self,
        group: usize,
        host: usize,
        action: CommandAction,
        id: Option<CommandId>,
    ) -> Option<u64> {
        let of = &mut self.groups[group];
        let group = of.name.clone();
        if let Some(id) = id {
            of.checks.typed(id, &action);
        }
        self.is_up(host).then(|| self.ask(host, Request::Command { group, action, id }))
    }
}

/// A request in words.
pub(crate) fn words(what: &Request) -> String {
    match what {
        Request::Command { action, id, .. } => format!("{action:?} as {id:?}"),
        other => format!("{other:?}"),
    }
}

/// A reply in words.
pub(crate) fn reply_words(reply: &Reply) -> String {
    match reply {
        Reply::Json(json) => format!("{} bytes of JSON", json.len()),
        Reply::Command { id, answer } => {
            format!("{:?} for {id:?}: {}", answer.result, answer.message)
        }
        Reply::Done(text) => format!("done: {text}"),
        Reply::Refused { why, text } => format!("refused, {why:?}: {text}"),
    }
}
