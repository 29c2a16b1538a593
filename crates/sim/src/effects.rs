//! Carries out what a node wants done: later, and as the world's faults allow.

use std::net::SocketAddr;
use std::sync::Arc;

use baton_node::{DepotFault, Effect, Event, HookEnd, HookResult, Launch, Level};
use baton_types::{CommandId, Digest, GroupName, NodeId, Release, Revision, Text};
use baton_wire::{Envelope, Message};

use crate::faults::Fault;
use crate::net::chance;
use crate::tally::Occurrence;
use crate::trace_words::{envelope_words, event_kind};
use crate::world::{What, World};

/// Work of the shell whose result depends on the world at its end.
pub(crate) enum Job {
    Fetch { group: GroupName, release: Release },
    FetchRevision { group: GroupName, digest: Digest },
    TakeRevision { group: GroupName, digest: Digest, sealed: Vec<u8> },
    ReadRevision { digest: Digest, to: NodeId, id: CommandId },
    Unpack { group: GroupName, release: Release },
    ReadChannel { group: GroupName },
    Launch { group: GroupName, run: u64, launch: Arc<Launch> },
    Halt { group: GroupName, run: u64 },
    Check { group: GroupName, check: u64, digest: Digest },
    Hook { group: GroupName, hook: u64, end: HookEnd, text: &'static str },
}

impl World {
    pub(crate) fn carry_out(&mut self, host: usize, effect: Effect) {
        match effect {
            Effect::Send { to, version, messages, stream } => {
                self.send(host, to, version, messages, stream);
            }
            Effect::Write { write, file, content } => self.write(host, write, file, content),
            Effect::ResolveSeeds => {
                let seeds = self.hosts.iter().take(SEEDS).map(|host| host.addr).collect();
                let after = self.between(1, 20);
                self.answer(host, after, Event::Seeds(seeds));
            }
            Effect::Fetch { group, release, .. } => {
                self.job(host, (20, 400), Job::Fetch { group, release });
            }
            Effect::FetchRevision { group, digest, .. } => {
                self.job(host, (5, 100), Job::FetchRevision { group, digest });
            }
            Effect::TakeRevision { group, digest, sealed } => {
                self.job(host, (2, 20), Job::TakeRevision { group, digest, sealed });
            }
            Effect::ReadRevision { digest, to, id, .. } => {
                self.job(host, (1, 10), Job::ReadRevision { digest, to, id });
            }
            Effect::Unpack { group, release } => {
                self.job(host, (10, 200), Job::Unpack { group, release });
            }
            Effect::ReadChannel { group, .. } => {
                self.job(host, (2, 60), Job::ReadChannel { group });
            }
            Effect::KeepReleases { keep, .. } => {
                let machine = &mut self.hosts[host];
                let running = machine.services.iter().filter_map(|of| of.process.as_ref());
                let running: Vec<Digest> = running.map(|process| process.digest).collect();
                machine.unpacked.retain(|digest| keep.contains(digest) || running.contains(digest));
            }
            Effect::Launch { group, run, launch } => {
                let at = self.group_at(&group);
                let version = self.groups[at].depot.version(&launch.target.release.digest);
                self.say(host, &format!("launches {version} (run {run})"));
                self.hosts[host].services[at].launching = Some(run);
                self.job(host, (1, 15), Job::Launch { group, run, launch });
            }
            Effect::Halt { group, run, .. } => self.halt(host, self.group_at(&group), run),
            Effect::RunHook { group, hook, kind, launch, .. } => {
                self.run_hook(host, self.group_at(&group), hook, kind, &launch);
            }
            Effect::CancelHook { group, hook } => {
                let at = self.group_at(&group);
                if self.hosts[host].hooks.remove(&(at, hook)).is_some() {
                    let result = HookResult { end: HookEnd::Cancelled, text: Text::default() };
                    self.answer(host, 1_000, Event::HookDone { group, hook, result });
                }
            }
            Effect::Check { group, check, launch, .. } => {
                let digest = launch.target.release.digest;
                self.job(host, (1, 20), Job::Check { group, check, digest });
            }
            Effect::Reboot { .. } => {
                self.say(host, "asks for a reboot of its machine");
                let back = self.between(5_000, 20_000);
                self.later(1_000, What::Fault(Fault::Reboot { host, back }));
            }
            Effect::Reply { request, reply } => {
                self.say(
                    host,
                    &format!("reply {request}: {}", crate::operator::reply_words(&reply)),
                );
                self.check_reply(host, &reply);
                self.departed(request, &reply);
                self.replies.insert(request, reply);
            }
            Effect::Log(line) => {
                if line.level > Level::Debug {
                    self.say(host, &format!("says: {}", line.text));
                }
            }
            Effect::GoodbyeSaid => {
                let life = self.hosts[host].life;
                self.later(0, What::Fault(Fault::Ends { host, life }));
            }
            Effect::Census { .. } | Effect::Loaded { .. } => {}
        }
    }

    fn job(&mut self, host: usize, millis: (u64, u64), job: Job) {
        let after = self.between(millis.0, millis.1);
        let life = self.hosts[host].life;
        self.later(after, What::Done { host, life, job: Box::new(job) });
    }

    fn send(
        &mut self,
        host: usize,
        addr: SocketAddr,
        version: u8,
        messages: Vec<Message>,
        stream: bool,
    ) {
        let head = self.hosts[host].stamp(version, stream);
        let from = self.hosts[host].addr;
        let Some(to) = self.host_at(addr) else { return };
        self.traffic.add(&messages);
        let mut envelope = Envelope { head, messages };
        if self.setup.through_codec {
            match through_codec(&envelope) {
                Ok(decoded) if decoded == envelope => envelope = decoded,
                Ok(_) => self.violate(
                    "codec",
                    format!("{} reads back as another", envelope_words(&envelope)),
                ),
                Err(cause) => self.violate("codec", cause),
            }
        }
        let parcel = self.write_envelope(host, to, envelope);
        let [first, second] = self.net.ways(&mut self.rng, host, to, stream);
        if first.is_none() {
            self.tally.count(Occurrence::NothingArrived);
        }
        if let Some(after) = second {
            self.tally.count(Occurrence::ArrivedTwice);
            let parcel = Box::new(parcel.clone());
            self.later(after, What::Deliver { to, from, parcel });
        }
        if let Some(after) = first {
            self.later(after, What::Deliver { to, from, parcel: Box::new(parcel) });
        }
    }

    pub(crate) fn trace_envelope(&mut self, to: usize, from: SocketAddr, envelope: &Envelope) {
        let words = envelope_words(envelope);
        if words.is_empty() {
            let size = (envelope.head.counter << 8) | envelope.messages.len() as u64;
            self.trace.quiet(self.now, to, event_kind(envelope), size);
        } else {
            let from = self.host_at(from).map_or("?", |from| &self.hosts[from].name);
            let words = format!("hears from {from}: {words}");
            self.mutter(to, &words);
        }
    }

    fn write(&mut self, host: usize, write: u64, file: String, content: Option<Vec<u8>>) {
        self.trace.quiet(self.now, host, 2, content.as_ref().map_or(0, Vec::len) as u64);
        let longest = u64::try_from(self.faults.write_max.as_millis()).unwrap_or(u64::MAX).max(1);
        let takes = self.between(0, longest).max(50);
        let dies = chance(&mut self.rng, self.faults.dies_at_write);
        let ok = !chance(&mut self.rng, self.faults.write_fails);
        let disk = &mut self.hosts[host].disk;
        disk.begin(write, file, content);
        let done = disk.busy_until.max(self.now + takes);
        disk.busy_until = done;
        let after = done - self.now;
        let life = self.hosts[host].life;
        if dies {
            // Before the write, during it, or when it is done and nobody knows yet.
            let when = [0, after / 2, after][self.between(0, 2) as usize / 1_000 % 3];
            let back = Some(self.between(50, 8_000));
            self.tally.count(Occurrence::KilledAtWrite);
            self.later(when, What::Fault(Fault::Kill { host, back }));
        }
        self.later(after, What::Written { host, life, write, ok });
    }

    pub(crate) fn written(&mut self, host: usize, life: u64, write: u64, ok: bool) {
        if !self.is_life(host, life) {
            return;
        }
        let result = if ok {
            if let Some(file) = self.hosts[host].disk.finish(write) {
                self.file_changed(host, &file);
            }
            Ok(())
        } else {
            let stays = chance(&mut self.rng, self.faults.failed_stays);
            let disk = &mut self.hosts[host].disk;
            let file = match stays {
                true => disk.fail_to_sync(write),
                false => disk.fail(write),
            };
            let file = file.unwrap_or_default();
            if stays {
                self.tally.count(Occurrence::FailedWriteStays);
                // A disk in trouble and a power failure have one cause now and then.
                if chance(&mut self.rng, 200) {
                    let back = Some(self.between(3_000, 20_000));
                    self.later(0, What::Fault(Fault::PowerOff { host, back }));
                }
            }
            self.tally.count(Occurrence::WriteFailed);
            self.say(host, &format!("the write of {file} fails"));
            Err(Text::new(&format!("{file}: fsync: input/output error")))
        };
        self.trace.quiet(self.now, host, 3, write);
        self.handle(host, Event::Written { write, result });
    }

    pub(crate) fn finish(&mut self, host: usize, job: Job) {
        self.trace.quiet(self.now, host, 4, 0);
        match job {
            Job::Fetch { group, release } => {
                let at = self.group_at(&group);
                let result = match self.hosts[host].manifests.get(&release.digest) {
                    Some(kept) => Ok(kept.clone()),
                    None => self.groups[at].depot.fetch(host, &release.digest),
                };
                if let Ok(manifest) = &result {
                    self.hosts[host].manifests.insert(release.digest, manifest.clone());
                }
                let result = result.map(Box::new);
                self.handle(host, Event::Fetched { group, release, result });
            }
            Job::FetchRevision { group, digest } => {
                let at = self.group_at(&group);
                let result = match self.hosts[host].revisions.get(&digest) {
                    Some(kept) => Ok(Arc::clone(kept)),
                    None => self.groups[at].depot.fetch_revision(host, digest),
                };
                if let Ok(revision) = &result {
                    self.hosts[host].revisions.insert(digest, Arc::clone(revision));
                }
                self.handle(host, Event::RevisionFetched { group, digest, result });
            }
            Job::TakeRevision { group, digest, sealed } => {
                let taken = baton_wire::codec::decode::<Revision>(&sealed).map(Arc::new);
                let result = taken
                    .map_err(|cause| crate::depot::fault(false, &cause.to_string()))
                    .inspect(|revision| {
                        self.hosts[host].revisions.insert(digest, Arc::clone(revision));
                    });
                self.handle(host, Event::RevisionTaken { group, digest, result });
            }
            Job::ReadRevision { digest, to, id } => {
                let kept = self.hosts[host].revisions.get(&digest);
                let sealed = kept.and_then(|kept| baton_wire::codec::encode(&**kept).ok());
                self.handle(host, Event::RevisionRead { to, id, sealed });
            }
            Job::Unpack { group, release } => {
                let result: Result<(), DepotFault> =
                    match self.hosts[host].manifests.contains_key(&release.digest) {
                        true => Ok(()),
                        false => Err(crate::depot::fault(true, "the archive is not there")),
                    };
                if result.is_ok() {
                    self.hosts[host].unpacked.insert(release.digest);
                }
                self.handle(host, Event::Unpacked { group, release, result });
            }
            Job::ReadChannel { group } => {
                let result = self.groups[self.group_at(&group)].depot.read(host);
                self.handle(host, Event::Channel { group, result });
            }
            Job::Launch { group, run, launch } => {
                let at = self.group_at(&group);
                self.hosts[host].services[at].launching.take_if(|launching| *launching == run);
                self.launch(host, at, run, &launch);
            }
            Job::Halt { group, run } => self.halt(host, self.group_at(&group), run),
            Job::Check { group, check, digest } => {
                let result = self.health(host, self.group_at(&group), &digest);
                self.handle(host, Event::Checked { group, check, result });
            }
            Job::Hook { group, hook, end, text } => {
                let at = self.group_at(&group);
                if self.hosts[host].hooks.remove(&(at, hook)).is_some() {
                    let result = HookResult { end, text: Text::new(text) };
                    self.handle(host, Event::HookDone { group, hook, result });
                }
            }
        }
    }
}

fn through_codec(envelope: &Envelope) -> Result<Envelope, String> {
    let bytes = envelope.encode().map_err(|cause| cause.to_string())?;
    let opened = Envelope::decode(&bytes, envelope.head.versions);
    let opened = opened.map_err(|cause| cause.to_string())?;
    Ok(opened.envelope)
}

/// Join addresses of every node: the first hosts, as a configuration would have them.
const SEEDS: usize = 2;
