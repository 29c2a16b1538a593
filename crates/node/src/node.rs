//! The node: every event enters here, and what follows from it is handed around until nothing
//! moves.

mod goodbye;
mod joins;
mod messages;
mod questions;
mod requests;
mod ring_side;
mod tables;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_ring::{Me, Ring, RingOutput, SavedRing};
use baton_supervise::ServiceInput;
use baton_types::manifest::Manifest;
use baton_types::service::ServiceSettings;
use baton_types::{Digest, GroupName, Incarnation, Moment, NodeId, Now};
use baton_wire::ask::AnswerContent;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::asks::{Asks, Gatherings};
use crate::boot::Boot;
use crate::directory::Directory;
use crate::effect::{Effect, Level, Line};
use crate::event::Event;
use crate::files::{self, Waiting, Writes};
use crate::group::Group;
use crate::limits::{READY_PATIENCE, RESOLVE_INTERVAL, ROUNDS_MAX};
use crate::notice::Notice;
use crate::peers::Peers;
use crate::relays::Relays;
use crate::request::{Reply, Why};
use crate::shared::{Shared, boot_bytes};

use goodbye::Goodbye;

/// One node of the ring.
pub struct Node {
    shared: Shared,
    groups: BTreeMap<GroupName, Group>,
    boot: Boot,
    /// Ring outputs behind a save that is not durable yet.
    held: VecDeque<RingOutput>,
    /// The write that they wait for.
    saving: Option<u64>,
    /// Under which incarnation the services were last told of.
    incarnation: Incarnation,
    has_seeds: bool,
    resolve_at: Option<Moment>,
    goodbye: Option<Goodbye>,
    /// The request that waits for the end of `ring leave`.
    leaving: Option<u64>,
    /// Operators who wait for what comes of `ring join`.
    joins: Vec<joins::Joining>,
    /// It has left the ring; only a new start joins again.
    has_left: bool,
    /// Until then the ring is looked for; `None`: it was long enough.
    ready_at: Option<Moment>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.shared.name)
    }
}

impl Node {
    /// A node at its start, on a machine that is up. What it wants done is in
    /// [`Node::take_effects`] already.
    pub fn new(boot: Boot, now: Now) -> Self {
        Self::start(boot, now, false)
    }

    /// A node on a machine whose boot is not complete yet: it runs what it has, but begins no turn
    /// and passes none until [`Event::BootComplete`].
    pub fn while_booting(boot: Boot, now: Now) -> Self {
        Self::start(boot, now, true)
    }

    fn start(boot: Boot, now: Now, is_booting: bool) -> Self {
        let mut rng = StdRng::seed_from_u64(boot.seed);
        let mut notes = Vec::new();
        let saved = match files::read::<SavedRing>(boot.files.get(files::RING)) {
            Ok(saved) => saved.unwrap_or_default(),
            Err(cause) => {
                let text = format!(
                    "the file {} is damaged ({cause}) and was moved aside; peers know the members",
                    files::RING
                );
                notes.push(Effect::Log(Line::new(Notice::FileDamaged, Level::Error, text)));
                SavedRing::default()
            }
        };
        let me = Me {
            node: boot.node,
            name: boot.name.clone(),
            addr: boot.addr,
            boot: boot.nonce,
            version: boot.version.clone(),
            versions: boot.versions,
        };
        let forgotten = saved.forgotten.iter().map(|record| record.node).collect();
        let ring = Ring::new(me, boot.timing.clone(), saved, rng.random(), now.moment);
        let mut peers = Peers::new(boot.versions);
        ring.missing().for_each(|record| peers.recorded(record.addr, record.versions));
        ring.members().for_each(|member| peers.recorded(member.addr, member.versions));
        let shared = Shared {
            me: boot.node,
            name: boot.name.clone(),
            machine_boot: boot_bytes(&boot.machine_boot),
            is_booting,
            timing: boot.timing.clone(),
            labels: boot.labels.clone(),
            ring,
            forgotten,
            directory: Directory::default(),
            manifests: boot.manifests.clone(),
            revisions: boot.revisions.clone(),
            unpacked: boot.unpacked.clone(),
            keep_due: None,
            opened: 0,
            writes: Writes::default(),
            asks: Asks::new(&boot.timing),
            relays: Relays::new(boot.timing.heartbeat),
            peers,
            gatherings: Gatherings::default(),
            gathered: Vec::new(),
            sought: Vec::new(),
            inbox: VecDeque::new(),
            rng,
            moment: now.moment,
            effects: notes,
        };
        let mut node = Self {
            incarnation: shared.ring.incarnation(),
            shared,
            groups: BTreeMap::new(),
            has_seeds: boot.has_seeds,
            resolve_at: boot.has_seeds.then_some(now.moment),
            boot,
            held: VecDeque::new(),
            saving: None,
            goodbye: None,
            leaving: None,
            joins: Vec::new(),
            has_left: false,
            ready_at: Some(now.moment + READY_PATIENCE),
        };
        for settings in node.boot.services.clone() {
            node.open_group(now, settings);
        }
        node.settle(now);
        node
    }

    /// Takes one event; what it leads to is in [`Node::take_effects`].
    pub fn handle(&mut self, now: Now, event: Event) {
        self.shared.moment = now.moment;
        for group in self.groups.values_mut() {
            group.notice_late(now, &mut self.shared);
        }
        match event {
            Event::Tick => {}
            Event::Packet { from, envelope } => self.packet(now, from, envelope),
            Event::Written { write, result } => self.written(now, write, result),
            Event::Seeds(addrs) => self.shared.ring.set_seeds(now.moment, addrs),
            Event::Fetched { group, release, result } => {
                if let Ok(manifest) = &result {
                    self.shared.manifests.insert(release.digest, Manifest::clone(manifest));
                }
                self.with(&group, |group, shared| group.fetched(now, shared, &release, result));
            }
            Event::RevisionFetched { group, digest, result } => {
                if let Ok(revision) = &result {
                    self.shared.revisions.insert(digest, Arc::clone(revision));
                }
                self.with(&group, |group, shared| {
                    group.revision_fetched(now, shared, digest, &result);
                });
            }
            Event::RevisionTaken { group, digest, result } => {
                if let Ok(revision) = &result {
                    self.shared.revisions.insert(digest, Arc::clone(revision));
                }
                self.with(&group, |group, shared| {
                    group.revision_taken(now, shared, digest, &result);
                });
            }
            Event::RevisionRead { to, id, sealed } => {
                self.shared.answer(Some(to), id, AnswerContent::Sealed(sealed));
            }
            Event::Unpacked { group, release, result } => {
                if result.is_ok() {
                    self.shared.unpacked.insert(release.digest);
                }
                self.with(&group, |group, shared| group.unpacked(now, shared, &release, result));
            }
            Event::Channel { group, result } => {
                self.with(&group, |group, shared| group.channel(now, shared, result));
            }
            Event::Launched { group, run, pid } => {
                self.service_input(now, &group, ServiceInput::Launched { run, pid });
            }
            Event::LaunchFailed { group, run, reason } => {
                self.service_input(now, &group, ServiceInput::LaunchFailed { run, reason });
            }
            Event::Exited { group, pid, how, last_output } => {
                self.service_input(now, &group, ServiceInput::Exited { pid, how, last_output });
            }
            Event::Halted { group, run } => {
                self.service_input(now, &group, ServiceInput::Halted { run });
            }
            Event::HookDone { group, hook, result } => {
                self.service_input(now, &group, ServiceInput::HookDone { hook, result });
            }
            Event::Checked { group, check, result } => {
                self.service_input(now, &group, ServiceInput::Checked { check, result });
            }
            Event::Notified { group, ready, status } => {
                self.service_input(now, &group, ServiceInput::Notified { ready, status });
            }
            Event::Request { request, what } => self.request(now, request, what),
            Event::Services(services) => self.set_services(now, services),
            Event::BootComplete => self.boot_complete(now),
            Event::Goodbye { stop_services } => self.begin_goodbye(now, stop_services),
        }
        self.tick(now);
        self.settle(now);
    }

    /// When [`Event::Tick`] is due, if nothing else comes first.
    pub fn next_tick(&self) -> Moment {
        let mut next = self.shared.ring.next_tick();
        let optional = [
            self.shared.asks.next_tick(),
            self.resolve_at,
            self.ready_at,
            self.next_join(),
            self.goodbye.as_ref().map(Goodbye::deadline),
        ];
        for moment in optional.into_iter().flatten() {
            next = next.min(moment);
        }
        self.groups.values().map(Group::next_tick).fold(next, Moment::min)
    }

    /// What is to be done, in order. To be emptied after every call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.shared.effects)
    }

    /// Whether the ring is joined, or found to be this node alone: the service manager is told
    /// READY then, or when nobody answered for a while.
    pub fn is_ready(&self) -> bool {
        self.shared.ring.is_joined() || !self.has_seeds || self.ready_at.is_none()
    }

    /// One line of what the node does.
    pub fn summary(&self, now: Now) -> String {
        self.summary_line(now)
    }

    /// This node.
    pub fn id(&self) -> NodeId {
        self.shared.me
    }

    /// The number of this node's newest record about itself.
    #[cfg(test)]
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.shared.ring.incarnation()
    }

    pub(crate) fn group(&self, name: &GroupName) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Releases that the services of this node must keep.
    fn kept_releases(&self) -> Vec<Digest> {
        let mut kept: Vec<Digest> =
            self.groups.values().flat_map(|group| group.kept().iter().copied()).collect();
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    fn tick(&mut self, now: Now) {
        if self.shared.ring.next_tick() <= now.moment {
            self.shared.ring.tick(now.moment);
        }
        if self.resolve_at.is_some_and(|due| due <= now.moment) {
            self.shared.effects.push(Effect::ResolveSeeds);
            self.resolve_at = Some(now.moment + RESOLVE_INTERVAL);
        }
        if self.ready_at.is_some_and(|due| due <= now.moment) {
            self.stop_waiting_for_the_ring();
        }
        for group in self.groups.values_mut() {
            group.tick(now, &mut self.shared);
        }
        self.drive_goodbye(now);
    }

    /// Hands things around until nothing moves.
    fn settle(&mut self, now: Now) {
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.drive_ring(now);
            moved |= self.drive_inbox(now);
            for group in self.groups.values_mut() {
                moved |= group.drive(now, &mut self.shared);
            }
            moved |= self.drive_questions(now);
            moved |= self.drive_gathered(now);
            if !moved {
                break;
            }
        }
        self.drive_joins(now);
        for group in self.groups.values_mut() {
            group.follow_members(now, &mut self.shared);
        }
        self.drop_releases();
    }

    /// Tells the shell which releases stay, once it is known of every service: the store is one.
    fn drop_releases(&mut self) {
        if !self.groups.values().all(|group| group.knows_kept(&self.shared)) {
            return;
        }
        if let Some(group) = self.shared.keep_due.take() {
            let keep = self.kept_releases();
            // What goes must be brought back before it runs again.
            self.shared.unpacked.retain(|digest| keep.contains(digest));
            self.shared.manifests.retain(|digest, _| keep.contains(digest));
            self.shared.revisions.retain(|digest, _| keep.contains(digest));
            self.shared.effects.push(Effect::KeepReleases { group, keep });
        }
    }

    fn with(&mut self, group: &GroupName, act: impl FnOnce(&mut Group, &mut Shared)) {
        // A group that was unloaded meanwhile: its late answers are of no use to anybody.
        if let Some(group) = self.groups.get_mut(group) {
            act(group, &mut self.shared);
        }
    }

    fn service_input(&mut self, now: Now, group: &GroupName, input: ServiceInput) {
        self.with(group, |group, _| group.service_input(now, input));
    }

    fn written(&mut self, now: Now, write: u64, result: Result<(), baton_types::Text>) {
        let ok = result.is_ok();
        if let Err(cause) = &result {
            let text = format!("degraded: {cause}");
            self.shared.log(Line::new(Notice::WriteFailed, Level::Error, text));
        }
        match self.shared.writes.end(write) {
            Some(Waiting::Ring) if self.saving == Some(write) => self.saving = None,
            Some(Waiting::Ledger(group, token)) => {
                self.with(&group, |group, _| group.ledger_written(now, token, ok));
            }
            Some(Waiting::Turn(group, token)) => {
                self.with(&group, |group, _| group.turn_written(now, token, ok));
            }
            Some(Waiting::Desired(group)) => {
                self.with(&group, |group, _| group.file_written(ok));
            }
            Some(Waiting::Roster(group)) => {
                self.with(&group, |group, _| group.roster_written(ok));
            }
            Some(Waiting::Operator(group, request, said)) => {
                self.with(&group, |group, _| group.file_written(ok));
                match result {
                    Ok(()) => self.shared.reply(request, Reply::Done(said)),
                    Err(cause) => {
                        let text = format!(
                            "{said}, but a restart of the daemon will not know of it: {cause}"
                        );
                        self.shared.refuse(request, Why::State, text);
                    }
                }
            }
            _ => {}
        }
    }

    fn open_group(&mut self, now: Now, settings: ServiceSettings) {
        let name = settings.name.clone();
        let mut group = Group::open(settings, &mut self.boot, &mut self.shared, now);
        if self.has_left {
            group.leave(&mut self.shared);
        }
        self.groups.insert(name, group);
    }

    fn boot_complete(&mut self, now: Now) {
        if std::mem::take(&mut self.shared.is_booting) {
            let text = "the boot of this machine is complete: turns are taken";
            self.shared.log(Line::new(Notice::BootComplete, Level::Info, text));
            for group in self.groups.values_mut() {
                group.boot_complete(now, &mut self.shared);
            }
        }
    }

    /// The configuration's services changed.
    fn set_services(&mut self, now: Now, services: Vec<ServiceSettings>) {
        for settings in services {
            match self.groups.get_mut(&settings.name) {
                // Until its program is down; the next reading of the configuration has it anew.
                Some(group) if group.unloading => {}
                Some(group) => group.set_settings(now, &mut self.shared, settings),
                None => {
                    let text = "the service is loaded";
                    self.shared.log(
                        Line::new(Notice::ServiceLoaded, Level::Info, text).of(&settings.name),
                    );
                    self.open_group(now, settings);
                }
            }
        }
    }
}
