//! A node with the shell played by the test: what is asked of it is written down and answered at
//! once, as far as the test lets it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use baton_rollout::MemberFile;
use baton_types::manifest::{HealthTiming, Hooks, Manifest, Run, StopSignal};
use baton_types::member::{Desired, Health, ProcessState, ServiceFact};
use baton_types::policy::{Policy, Strategy};
use baton_types::service::{Runner, ServiceSettings};
use baton_types::timing::Profile;
use baton_types::{
    BootNonce, Digest, GroupName, Incarnation, Moment, NodeId, NodeName, Now, Release, ReleaseId,
    Target, Text, Version, WallTime,
};
use baton_wire::ring::{MemberRecord, MemberState};
use baton_wire::{Envelope, Head, Message, RingMessage, Versions, codec};

use crate::event::{ChannelContent, ChannelEntry};
use crate::{Adopted, Boot, Effect, Event, FoundFile, Line, Node, Reply, Request};

/// A node and its shell.
pub(super) struct Bench {
    pub(super) node: Node,
    pub(super) now: Now,
    /// Everything that was asked of the shell.
    pub(super) asked: Vec<Effect>,
    /// Whether a stop ends programs; otherwise they go on stopping.
    pub(super) stops: bool,
    /// Whether writes are answered.
    pub(super) writes: bool,
    pub(super) head: Option<Release>,
    /// The release that cannot be launched.
    pub(super) broken: Option<Digest>,
    next_pid: u32,
    next_request: u64,
}

impl Bench {
    pub(super) fn start(boot: Boot) -> Self {
        Self::around(Node::new(boot, START), None)
    }

    /// On a machine whose boot is not complete, with this at the head of the channel.
    pub(super) fn while_booting(boot: Boot, head: Release) -> Self {
        Self::around(Node::while_booting(boot, START), Some(head))
    }

    fn around(node: Node, head: Option<Release>) -> Self {
        let mut bench = Self {
            node,
            now: START,
            asked: Vec::new(),
            stops: true,
            writes: true,
            head,
            broken: None,
            next_pid: 100,
            next_request: 0,
        };
        bench.answer_all();
        bench
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.node.handle(self.now, event);
        self.answer_all();
    }

    /// Lets time pass, tick by tick.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now.moment + span;
        for _ in 0..100_000 {
            let next = self.node.next_tick().max(self.now.moment);
            if next > end {
                self.now.moment = end;
                return;
            }
            self.now.moment = next;
            self.handle(Event::Tick);
        }
        panic!("the node does not come to rest");
    }

    /// Asks and returns the reply, which must come within `span`.
    pub(super) fn request(&mut self, what: Request, span: Duration) -> Reply {
        let request = self.ask(what);
        self.pass(span);
        self.reply(request).expect("a reply")
    }

    pub(super) fn ask(&mut self, what: Request) -> u64 {
        self.next_request += 1;
        self.handle(Event::Request { request: self.next_request, what });
        self.next_request
    }

    pub(super) fn reply(&self, of: u64) -> Option<Reply> {
        self.asked.iter().find_map(|effect| match effect {
            Effect::Reply { request, reply } if *request == of => Some(reply.clone()),
            _ => None,
        })
    }

    /// Releases launched so far, oldest first.
    pub(super) fn launched(&self, group: &GroupName) -> Vec<Digest> {
        let launches = self.asked.iter().filter_map(|effect| match effect {
            Effect::Launch { group: of, launch, .. } if of == group => {
                Some(launch.target.release.digest)
            }
            _ => None,
        });
        launches.collect()
    }

    pub(super) fn position(&self, what: impl Fn(&Effect) -> bool) -> Option<usize> {
        self.asked.iter().position(what)
    }

    /// Every line for the journal so far.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.asked.iter().filter_map(|effect| match effect {
            Effect::Log(line) => Some(line),
            _ => None,
        })
    }

    /// What the node would find at its next start: itself with the files that it left.
    pub(super) fn left(&self, mut boot: Boot) -> Boot {
        for effect in &self.asked {
            if let Effect::Write { file, content: Some(content), .. } = effect {
                boot.files.insert(file.clone(), FoundFile::Content(content.clone()));
            }
        }
        boot
    }

    pub(super) fn has_logged(&self, text: &str) -> bool {
        self.lines().any(|line| line.text.contains(text))
    }

    fn answer_all(&mut self) {
        let mut queue: VecDeque<Effect> = self.node.take_effects().into();
        while let Some(effect) = queue.pop_front() {
            let answer = self.answer(&effect);
            self.asked.push(effect);
            if let Some(event) = answer {
                self.node.handle(self.now, event);
                queue.extend(self.node.take_effects());
            }
        }
    }

    fn answer(&mut self, effect: &Effect) -> Option<Event> {
        Some(match effect.clone() {
            Effect::Write { write, .. } if self.writes => Event::Written { write, result: Ok(()) },
            Effect::Fetch { group, release, .. } => {
                let result = Ok(Box::new(manifest(&release)));
                Event::Fetched { group, release, result }
            }
            Effect::FetchRevision { group, digest, .. } => {
                let result = Ok(std::sync::Arc::new(baton_types::Revision::default()));
                Event::RevisionFetched { group, digest, result }
            }
            Effect::Unpack { group, release } => Event::Unpacked { group, release, result: Ok(()) },
            Effect::ReadChannel { group, .. } => {
                let head = self.head.clone().map(|release| ChannelEntry {
                    // Each release of these tests is promoted once, in the order of its number.
                    promotion: release.digest.0[0].into(),
                    release,
                    again: false,
                });
                let result = Ok(ChannelContent {
                    depot_id: "depot".to_owned(),
                    sequence: 1,
                    entries: head.into_iter().collect(),
                    releases: Vec::new(),
                });
                Event::Channel { group, result }
            }
            Effect::Launch { group, run, launch }
                if self.broken == Some(launch.target.release.digest) =>
            {
                Event::LaunchFailed { group, run, reason: Text::new("bin/app: no such file") }
            }
            Effect::Launch { group, run, .. } => {
                self.next_pid += 1;
                Event::Launched { group, run, pid: self.next_pid }
            }
            Effect::Halt { group, run, .. } if self.stops => Event::Halted { group, run },
            _ => return None,
        })
    }
}

/// When every node here starts.
const START: Now = Now { moment: Moment::from_millis(10_000), wall: WallTime(0) };

/// A node alone in its ring, with these services and what each of them runs.
pub(super) fn boot(services: &[(&GroupName, Option<&Release>)]) -> Boot {
    let mut boot = Boot {
        node: NodeId::from_random(1),
        name: NodeName::new("n1").expect("a name"),
        addr: SocketAddr::from(([127, 0, 0, 1], 7117)),
        version: Text::new("0.1.0"),
        versions: Versions::OURS,
        nonce: BootNonce::from_random(1),
        machine_boot: "boot".to_owned(),
        timing: Profile::Lan.timing(),
        labels: BTreeMap::new(),
        has_seeds: false,
        services: Vec::new(),
        files: BTreeMap::new(),
        manifests: BTreeMap::new(),
        revisions: BTreeMap::new(),
        unpacked: BTreeSet::new(),
        adopted: BTreeMap::new(),
        seed: 7,
    };
    for (group, runs) in services {
        boot.services.push(settings(group));
        let Some(release) = runs else { continue };
        let running = Some(Target::of((*release).clone()));
        let file = MemberFile { running, ..MemberFile::default() };
        let bytes = codec::encode(&file).expect("encodes");
        boot.files.insert(crate::files::turn(group), FoundFile::Content(bytes));
        boot.manifests.insert(release.digest, manifest(release));
        boot.unpacked.insert(release.digest);
    }
    boot
}

pub(super) fn group(name: &str) -> GroupName {
    name.parse().expect("a group")
}

pub(super) fn release(version: u8) -> Release {
    let version_text = Version::new(version.to_string()).expect("a version");
    let id = ReleaseId { name: "app".parse().expect("a name"), version: version_text };
    Release { id, digest: Digest([version; 32]) }
}

pub(super) fn adopted(pid: u32, release: &Release) -> Adopted {
    Adopted { pid, digest: release.digest }
}

/// An envelope from the node with this number.
pub(super) fn from_peer(number: u128, messages: Vec<Message>) -> Event {
    let from = SocketAddr::from(([127, 0, 0, 2], 7117));
    let sender = NodeId::from_random(number);
    let boot = BootNonce::from_random(number);
    let (versions, version) = (Versions::OURS, Versions::OURS.newest());
    let head = Head { sender, boot, counter: 1, versions, version };
    Event::Packet { from, envelope: Envelope { head, messages } }
}

/// The news that the node with this number is in the ring.
pub(super) fn joins(number: u8) -> Event {
    let node = NodeId::from_random(number.into());
    let record = MemberRecord {
        node,
        name: NodeName::new(format!("n{number}")).expect("a name"),
        addr: addr_of(number),
        boot: BootNonce::from_random(number.into()),
        version: Text::new("0.1.0"),
        incarnation: Incarnation(1),
        state: MemberState::Alive,
        accusers: Vec::new(),
        age_secs: 0,
        versions: Versions::OURS,
        more: Vec::new(),
    };
    from_peer(number.into(), vec![Message::Ring(RingMessage::Join(record))])
}

/// What a member says of a service that runs and never had a release.
pub(crate) fn service_fact(health: Health) -> ServiceFact {
    ServiceFact {
        running: None,
        desired: Desired::Running,
        process: ProcessState::Running,
        pid: None,
        health,
        health_text: Text::default(),
        restarts: 0,
        phase: Text::default(),
        prepared: None,
        pending_edit: false,
        file_digest: 0,
        order: 0,
        zone: None,
        incarnation: Incarnation(0),
    }
}

pub(super) fn addr_of(number: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, number], 7117))
}

pub(super) fn settings(group: &GroupName) -> ServiceSettings {
    let policy = Policy { monitor: Duration::from_secs(5), ..Policy::default() };
    ServiceSettings {
        name: group.clone(),
        depot: "file:///depot".to_owned(),
        release: "app".parse().expect("a name"),
        channel: "stable".parse().expect("a name"),
        poll: Duration::from_secs(5),
        trusted_keys: Vec::new(),
        strategy: Strategy::Rolling,
        runner: Runner::Process,
        expect: 1,
        run_as: None,
        keep_releases: 3,
        env: BTreeMap::new(),
        health: HealthTiming::default(),
        update: policy.clone(),
        rollback: policy,
        order: 0,
    }
}

fn manifest(release: &Release) -> Manifest {
    Manifest {
        id: release.id.clone(),
        run: Run {
            command: vec!["bin/app".to_owned()],
            stop_signal: StopSignal::Term,
            stop_timeout: Duration::from_secs(10),
        },
        health: None,
        health_timing: HealthTiming::default(),
        hooks: Hooks::default(),
    }
}
