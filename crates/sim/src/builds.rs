//! Builds N and N+1 in one world. There is no N+1 yet, so it is played at the edge of its host: the
//! node is the same, and says that it speaks one version more.
//!
//! In the version that N speaks, too, N+1 adds what rules allow a newer build to add: bytes at the end
//! of messages, messages of unknown kinds, words about itself in its member record. What it says in its
//! own version has another layout, of which N can read the head alone.
//!
//! Invariant: in a world without them nothing here draws from chance or changes a byte.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_rollout::GroupState;
use baton_types::{BootNonce, LineageId, NodeId};
use baton_wire::envelope::{Opened, pack, unpack};
use baton_wire::ring::MemberRecord;
use baton_wire::{Envelope, Message, Record, RingMessage, Versions, codec};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::net::chance;
use crate::tally::Occurrence;
use crate::world::World;

/// What a host's daemon was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// This source.
    Now,
    /// One that is to be.
    Next,
}

impl Build {
    /// What it speaks.
    pub(crate) fn versions(self) -> Versions {
        let ours = Versions::OURS;
        match self {
            Self::Now => ours,
            Self::Next => Versions::new(ours.oldest(), NEXT).unwrap_or(ours),
        }
    }
}

/// What a world with two builds has beside its hosts.
pub(crate) struct Builds {
    rng: StdRng,
    /// Which start of a host another one has heard itself, and in which of its own lives.
    heard: BTreeMap<(usize, usize), (u64, BootNonce)>,
    /// The version that the newest committed record of each group's lineages is written in.
    written: BTreeMap<(usize, LineageId), u8>,
}

/// An envelope on its way.
#[derive(Clone)]
pub(crate) enum Parcel {
    /// As its sender has it.
    Plain(Envelope),
    /// As the build of its sender wrote it.
    Written(Vec<u8>),
}

impl World {
    /// From now on hosts may run either build; of a thousand hosts, `next` run the next one at first.
    pub(crate) fn mix_builds(&mut self, seed: u64, next: u32) {
        let mut rng = StdRng::seed_from_u64(seed);
        for host in &mut self.hosts {
            host.wanted = if chance(&mut rng, next) { Build::Next } else { Build::Now };
        }
        self.builds = Some(Builds { rng, heard: BTreeMap::new(), written: BTreeMap::new() });
    }

    /// The daemon of a host is stopped, in good order or not, and the other build is started `after`.
    pub(crate) fn change_build(&mut self, host: usize, in_order: bool, after: Duration) {
        self.hosts[host].wanted = match self.hosts[host].wanted {
            Build::Now => Build::Next,
            Build::Next if !self.may_go_back(host) => return,
            Build::Next => Build::Now,
        };
        match in_order {
            true => self.restart_daemon(host, after),
            false => self.bounce_daemon(host, after),
        }
    }

    /// As the page on the wire has it: one after the other, the leader last, so that it can write the
    /// record again. All at once would leave nobody who reads it.
    fn may_go_back(&self, host: usize) -> bool {
        let Some(builds) = &self.builds else { return false };
        self.groups_on(host).all(|group| {
            let lineage = self.groups[group].checks.lineage_on(host);
            let written = lineage.and_then(|lineage| builds.written.get(&(group, lineage)));
            let leader = self.leader_with(group, host);
            written != Some(&NEXT)
                || leader.is_some_and(|leader| leader != host && self.hosts[leader].is_next())
        })
    }

    /// A daemon starts, perhaps from another build than before.
    pub(crate) fn take_build(&mut self, host: usize) {
        let (before, wanted) = (self.hosts[host].build, self.hosts[host].wanted);
        self.hosts[host].build = wanted;
        let rolls_out = self.state().is_some_and(|state| state.rollout.is_some());
        if before == wanted || self.hosts[host].life == 0 {
            return;
        }
        self.say(host, &format!("its build is the {wanted:?} one from here on"));
        if rolls_out {
            self.tally.count(match wanted {
                Build::Next => Occurrence::BuildUpgraded,
                Build::Now => Occurrence::BuildDowngraded,
            });
        }
    }

    /// An envelope as the build of its sender writes it.
    pub(crate) fn write_envelope(&mut self, from: usize, to: usize, envelope: Envelope) -> Parcel {
        let Some(mut builds) = self.builds.take() else { return Parcel::Plain(envelope) };
        self.check_version(&builds, from, to, &envelope);
        self.check_passed_on(from, &envelope);
        let bytes = match self.hosts[from].build {
            Build::Now => envelope.encode(),
            Build::Next => write_next(&mut builds.rng, envelope),
        };
        self.builds = Some(builds);
        Parcel::Written(bytes.unwrap_or_else(|cause| {
            self.violate("codec", cause.to_string());
            Vec::new()
        }))
    }

    /// What the build of a host makes of what arrives.
    pub(crate) fn read_envelope(&mut self, to: usize, parcel: Parcel) -> Option<Envelope> {
        let bytes = match parcel {
            Parcel::Plain(envelope) => return Some(envelope),
            Parcel::Written(bytes) => bytes,
        };
        let build = self.hosts[to].build;
        let opened = match build {
            Build::Now => Envelope::decode(&bytes, build.versions()),
            Build::Next => read_next(&bytes, self.hosts[to].id),
        };
        let Opened { envelope, skipped } = match opened {
            Ok(opened) => opened,
            Err(cause) => {
                self.violate("codec", cause.to_string());
                return None;
            }
        };
        let head = envelope.head;
        if let (Some(from), Some(builds)) = (self.ids.get(&head.sender), &mut self.builds) {
            builds.heard.insert((to, *from), (self.hosts[to].life, head.boot));
        }
        let is_understood = build.versions().speaks(head.version);
        if skipped > 0 {
            self.tally.count(Occurrence::MessageSkipped);
        }
        if !is_understood {
            self.tally.count(Occurrence::VersionUnknown);
        } else if head.versions != build.versions() {
            self.tally.count(Occurrence::BuildsMet);
        } else if head.version == NEXT {
            self.tally.count(Occurrence::NextVersionSpoken);
        }
        Some(envelope)
    }

    /// Counts the version that a record is committed in.
    pub(crate) fn count_written(&mut self, group: usize, record: &Record) {
        let Some(builds) = &mut self.builds else { return };
        let Some(version) = GroupState::version_of(record.state.as_slice()) else { return };
        let before = builds.written.insert((group, record.lineage), version);
        if version == NEXT {
            self.tally.count(Occurrence::WrittenInNext);
        } else if before == Some(NEXT) {
            self.tally.count(Occurrence::WrittenBack);
        }
    }

    /// Whoever heard a peer's present start itself says nothing in a version that it does not speak.
    fn check_version(&mut self, builds: &Builds, from: usize, to: usize, envelope: &Envelope) {
        let version = envelope.head.version;
        let (sender, peer) = (&self.hosts[from], &self.hosts[to]);
        let knew = peer.node.is_some()
            && builds.heard.get(&(from, to)) == Some(&(sender.life, peer.nonce));
        if !sender.build.versions().speaks(version)
            || (knew && !peer.build.versions().speaks(version))
        {
            let what = format!(
                "{} says something in version {version} to {}, which speaks {}",
                sender.name,
                peer.name,
                peer.build.versions()
            );
            self.violate("versions", what);
        }
    }

    /// What a node of the next build says of itself is in every record of that start of it.
    fn check_passed_on(&mut self, from: usize, envelope: &Envelope) {
        let lost = envelope.messages.iter().flat_map(records).find_map(|record| {
            let of = &self.hosts[*self.ids.get(&record.node)?];
            let is_lost = of.is_next() && of.nonce == record.boot && record.more != MORE;
            (is_lost && record.node != self.hosts[from].id).then(|| of.name.clone())
        });
        if let Some(name) = lost {
            let sender = &self.hosts[from].name;
            let what = format!("{sender} passes on a record of {name} without all that it had");
            self.violate("passed on", what);
        }
    }
}

fn records(message: &Message) -> &[MemberRecord] {
    match message {
        Message::Ring(RingMessage::Member(record) | RingMessage::Join(record)) => {
            std::slice::from_ref(record)
        }
        Message::Ring(RingMessage::State { members, .. }) => members,
        _ => &[],
    }
}

fn write_next(rng: &mut StdRng, envelope: Envelope) -> Result<Vec<u8>, codec::CodecError> {
    let Envelope { head, mut messages } = envelope;
    let mut frames = Vec::new();
    for message in &mut messages {
        play_next(message, head.sender);
        let mut frame = codec::encode(message)?;
        if head.version == NEXT {
            shift(&mut frame);
        } else {
            if chance(rng, ADDED) {
                frames.push(unknown(rng));
            }
            if chance(rng, GROWN) {
                frame.extend((0..rng.random_range(1..9)).map(|_| rng.random::<u8>()));
            }
        }
        frames.push(frame);
    }
    pack(&head, &frames)
}

fn read_next(bytes: &[u8], me: NodeId) -> Result<Opened, codec::CodecError> {
    let (head, frames) = unpack(bytes)?;
    let frames: Result<Vec<_>, _> = frames.map(|frame| frame.map(<[u8]>::to_vec)).collect();
    let mut frames = frames?;
    if head.version == NEXT {
        frames.iter_mut().for_each(|frame| shift_back(frame));
    }
    let mut opened = Envelope::decode(&pack(&head, &frames)?, Build::Next.versions())?;
    for message in &mut opened.envelope.messages {
        if let Message::Relayed(relayed) = message
            && (relayed.to, relayed.version) == (me, NEXT)
        {
            shift_back(&mut relayed.message);
        }
    }
    Ok(opened)
}

/// What the next build says otherwise than this one.
fn play_next(message: &mut Message, me: NodeId) {
    match message {
        Message::Relayed(relayed) if (relayed.from, relayed.version) == (me, NEXT) => {
            shift(&mut relayed.message);
        }
        Message::Ring(RingMessage::Member(record) | RingMessage::Join(record)) => {
            add_more(record, me);
        }
        Message::Ring(RingMessage::State { members, .. }) => {
            members.iter_mut().for_each(|record| add_more(record, me));
        }
        _ => {}
    }
}

fn add_more(record: &mut MemberRecord, me: NodeId) {
    if record.node == me {
        record.more = MORE.to_vec();
    }
}

/// A message that N does not know: of a new protocol, or a new one of an old protocol.
fn unknown(rng: &mut StdRng) -> Vec<u8> {
    let kind = [vec![90], vec![0, 90]][rng.random_range(0..2)].clone();
    let rest = (0..rng.random_range(0..20)).map(|_| rng.random());
    kind.into_iter().chain(rest).collect()
}

/// The layout of the next version: every byte is another one, and none is where it was.
fn shift(bytes: &mut [u8]) {
    bytes.reverse();
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(101));
}

fn shift_back(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_sub(101));
    bytes.reverse();
}

/// The newest version of the next build.
const NEXT: u8 = Versions::OURS.newest() + 1;

/// What it says of itself to its like.
const MORE: &[u8] = b"\x01of the next build";

/// Messages of a thousand that have an unknown one in front.
const ADDED: u32 = 60;

/// Messages of a thousand that have grown at their end.
const GROWN: u32 = 300;

#[cfg(test)]
mod tests {
    use baton_types::Incarnation;
    use baton_wire::ring::MemberState;

    use super::*;
    use crate::program::Behaviour;
    use crate::settings::Setup;

    /// Three hosts that run; the first is of the next build, and all have heard each other.
    fn world() -> World {
        let mut world = World::new(Setup::of(1, 3));
        world.mix_builds(1, 0);
        world.hosts[0].wanted = Build::Next;
        (0..3).for_each(|host| world.start(host));
        world.run_for(Duration::from_secs(20));
        assert!(world.violation.is_none(), "{:?}", world.violation);
        world
    }

    fn envelope(world: &mut World, from: usize, version: u8, message: Message) -> Envelope {
        let head = world.hosts[from].stamp(version, false);
        Envelope { head, messages: vec![message] }
    }

    fn nack() -> Message {
        Message::Ring(RingMessage::Nack { number: 1 })
    }

    /// What the observer says when `from` sends that to `to`.
    fn blame(world: &mut World, from: usize, to: usize, envelope: Envelope) -> Option<String> {
        world.write_envelope(from, to, envelope);
        world.violation.take().map(|violation| violation.what)
    }

    #[test]
    fn a_version_that_is_not_spoken_is_blamed_on_who_could_know() {
        let mut world = world();
        for (from, to, what) in [
            (0, 1, Some("n1 says something in version 2 to n2, which speaks 1")),
            (1, 0, Some("n2 says something in version 2 to n1, which speaks 1-2")),
        ] {
            let envelope = envelope(&mut world, from, NEXT, nack());
            assert_eq!(blame(&mut world, from, to, envelope).as_deref(), what);
        }
        for (from, to) in [(0, 1), (1, 0), (1, 2)] {
            let envelope = envelope(&mut world, from, 1, nack());
            assert_eq!(blame(&mut world, from, to, envelope), None);
        }
        // A start of the peer that it has not heard yet.
        world.hosts[1].nonce = BootNonce::from_random(77);
        let envelope = envelope(&mut world, 0, NEXT, nack());
        assert_eq!(blame(&mut world, 0, 1, envelope), None);
    }

    #[test]
    fn a_record_without_what_a_newer_build_had_in_it_is_blamed() {
        let mut world = world();
        let of = &world.hosts[0];
        let mut record = MemberRecord {
            node: of.id,
            name: "n1".parse().expect("a name"),
            addr: of.addr,
            boot: of.nonce,
            version: "0.2.0".into(),
            incarnation: Incarnation(1),
            state: MemberState::Suspect,
            accusers: Vec::new(),
            age_secs: 0,
            versions: Build::Next.versions(),
            more: MORE.to_vec(),
        };
        let whole = Message::Ring(RingMessage::Join(record.clone()));
        record.more.clear();
        let cut = Message::Ring(RingMessage::Member(record));
        for (message, is_blamed) in [(whole, false), (cut, true)] {
            let envelope = envelope(&mut world, 1, 1, message);
            assert_eq!(blame(&mut world, 1, 2, envelope).is_some(), is_blamed);
        }
    }

    #[test]
    fn each_build_reads_what_the_rules_say() {
        let mut world = world();
        world.hosts[2].build = Build::Next;
        for (version, to, is_read) in
            [(1, 1, true), (NEXT, 1, false), (1, 2, true), (NEXT, 2, true)]
        {
            for _ in 0..200 {
                let envelope = envelope(&mut world, 0, version, nack());
                let parcel = world.write_envelope(0, to, envelope.clone());
                world.violation = None;
                let read = world.read_envelope(to, parcel).expect("a head");
                assert_eq!(read.head, envelope.head);
                assert_eq!(read.messages, if is_read { vec![nack()] } else { vec![] }, "{version}");
            }
        }
        assert!(world.tally.of(Occurrence::MessageSkipped) > 0);
        assert_eq!(world.tally.of(Occurrence::VersionUnknown), 200);
        let inner = Message::Relayed(
            baton_wire::Relayed::new(world.hosts[0].id, world.hosts[2].id, NEXT, &nack())
                .expect("encodes"),
        );
        // By way of one that can read the outside alone.
        let envelope = envelope(&mut world, 0, 1, inner.clone());
        let parcel = world.write_envelope(0, 1, envelope);
        let passed = world.read_envelope(1, parcel).expect("a head").messages.remove(0);
        assert_ne!(passed, inner);
        let envelope = self::envelope(&mut world, 1, 1, passed);
        let parcel = world.write_envelope(1, 2, envelope);
        let read = world.read_envelope(2, parcel).expect("a head");
        assert_eq!(read.messages, [inner]);
    }

    #[test]
    fn the_record_is_written_again_for_one_that_went_back() {
        let mut world = World::new(Setup::of(7, 3));
        world.mix_builds(1, 1_000);
        (0..3).for_each(|host| world.start(host));
        world.promote("1", Behaviour::healthy());
        world.run_until("done", Duration::from_secs(60), |world| world.run("1") == 3);
        world.run_for(Duration::from_secs(20));
        let (next, back) = (Occurrence::WrittenInNext, Occurrence::WrittenBack);
        assert!(world.tally.of(next) > 0 && world.tally.of(back) == 0);
        let leader = world.leader().expect("a leader");
        world.change_build((leader + 1) % 3, true, Duration::from_millis(100));
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.tally.of(back), 1, "{}", world.story());
        assert_eq!(world.leader(), Some(leader));
    }

    /// One node after the other, under a rollout each time.
    #[test]
    fn a_group_goes_to_the_next_build_and_back() {
        let mut setup = Setup::of(5, 3);
        setup.trace_lines = 200;
        let mut world = World::new(setup);
        world.mix_builds(1, 0);
        (0..3).for_each(|host| world.start(host));
        let rounds = [("1", Build::Next), ("2", Build::Now), ("3", Build::Next)];
        for (version, all) in rounds {
            world.promote(version, Behaviour::healthy());
            let limit = Duration::from_secs(60);
            world.run_until("it begins", limit, |world| {
                world.state().is_some_and(|state| state.rollout.is_some())
            });
            let leader = world.leader().expect("a leader");
            for host in [(leader + 1) % 3, (leader + 2) % 3, leader] {
                world.change_build(host, all == Build::Now, Duration::from_millis(500));
                world.run_for(Duration::from_secs(10));
            }
            let of = world.hosts.iter().filter(|host| host.build == all).count();
            assert_eq!(of, 3, "{}", world.story());
            world.run_until("done", Duration::from_secs(300), |world| world.run(version) == 3);
        }
        assert!(world.violation.is_none());
        assert!(world.tally.of(Occurrence::WrittenInNext) > 0);
        assert!(world.tally.of(Occurrence::WrittenBack) > 0);
    }
}
