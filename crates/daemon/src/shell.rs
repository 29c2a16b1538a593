//! The loop: one task owns the node, hands it events and carries out its effects.
//!
//! Invariant: the watchdog of the service manager is fed by this loop and by nothing else, so a
//! loop that hangs is noticed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_config::Settings;
use baton_node::request::no_such_service;
use baton_node::{Effect, Event, Node, Reply, Request, Why};
use baton_platform::{Notifier, Runner, RunnerEvent, now};
use baton_types::GroupName;
use baton_types::service::ServiceSettings;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

use crate::control::{Asked, Question, logs_reply};
use crate::depots::Depots;
use crate::disk::Disk;
use crate::journal::Journal;
use crate::loaded;
use crate::net::Net;
use crate::programs::{Programs, census_path};
use crate::reload::Reload;
use crate::seeds;

/// Everything around the node.
pub(crate) struct Shell {
    pub(crate) node: Node,
    pub(crate) settings: Settings,
    pub(crate) services: BTreeMap<GroupName, ServiceSettings>,
    pub(crate) net: Net,
    pub(crate) resolver: Arc<seeds::Resolver>,
    pub(crate) disk: Disk,
    pub(crate) depots: Depots,
    pub(crate) programs: Programs,
    pub(crate) runner: Arc<Runner>,
    pub(crate) journal: Journal,
    pub(crate) notifier: Notifier,
    pub(crate) reboot_command: Option<Vec<String>>,
    pub(crate) reload: Reload,
    pub(crate) state: State,
}

/// What the loop remembers.
#[derive(Default)]
pub(crate) struct State {
    next_request: u64,
    replies: BTreeMap<u64, oneshot::Sender<Reply>>,
    /// Texts of service files that are being loaded, kept once the node has them.
    loading: BTreeMap<GroupName, (String, ServiceSettings)>,
    ready: bool,
    status: String,
    /// Whether this machine is being rebooted; one that refused may be asked again.
    rebooting: Arc<AtomicBool>,
}

/// Where events come from.
pub(crate) struct Sources {
    pub(crate) packets: mpsc::Receiver<Event>,
    pub(crate) done: mpsc::UnboundedReceiver<Event>,
    pub(crate) done_tx: mpsc::UnboundedSender<Event>,
    pub(crate) runner: mpsc::Receiver<RunnerEvent>,
    pub(crate) asked: mpsc::Receiver<Asked>,
    pub(crate) stop: mpsc::Receiver<StopSignal>,
    pub(crate) hangup: tokio::signal::unix::Signal,
}

/// How the daemon is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopSignal {
    /// Whether services are stopped, too.
    pub(crate) stop_services: bool,
}

impl Shell {
    /// Runs until the goodbye is said.
    pub(crate) async fn run(mut self, mut sources: Sources) {
        let mut beat = tokio::time::interval(self.beat());
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.carry_out(&sources.done_tx).await {
                break;
            }
            self.tell_manager();
            let due = self.node.next_tick();
            let wait = due.since(now().moment);
            let event = tokio::select! {
                biased;
                Some(event) = sources.done.recv() => self.done(event),
                Some(event) = sources.runner.recv() => self.runner(event),
                Some(asked) = sources.asked.recv() => self.asked(asked, &sources.done_tx),
                Some(stop) = sources.stop.recv() => {
                    self.notifier.stopping();
                    Some(Event::Goodbye { stop_services: stop.stop_services })
                }
                _ = sources.hangup.recv() => self.reload_settings(&sources.done_tx).await,
                _ = beat.tick() => {
                    self.notifier.watchdog();
                    None
                }
                Some(event) = sources.packets.recv() => Some(event),
                () = tokio::time::sleep_until(Instant::now() + wait) => Some(Event::Tick),
            };
            if let Some(event) = event {
                self.node.handle(now(), event);
            }
        }
        // Streams get a moment to bring the goodbye out.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn beat(&self) -> Duration {
        // Three beats for each interval that the manager allows.
        self.notifier.watchdog_interval().map_or(Duration::from_secs(5), |interval| interval / 3)
    }

    fn tell_manager(&mut self) {
        if !self.state.ready && self.node.is_ready() {
            self.state.ready = true;
            self.notifier.ready();
            tracing::info!("ready");
        }
        let status = self.node.summary(now());
        if status != self.state.status {
            self.notifier.status(&status);
            self.state.status = status;
        }
    }

    fn done(&mut self, event: Event) -> Option<Event> {
        // The end of a program that came before its launch follows it at once.
        if let Some(early) = self.programs.announce(&event) {
            self.node.handle(now(), event);
            return Some(early);
        }
        if let Event::Request { what: Request::RingJoin { name, at }, .. } = &event
            && !at.is_empty()
            && !self.settings.ring.join.contains(name)
        {
            // Tried again like those of the configuration, until the daemon ends.
            self.settings.ring.join.push(name.clone());
        }
        Some(event)
    }

    fn runner(&mut self, event: RunnerEvent) -> Option<Event> {
        if let RunnerEvent::Output { group, line } = &event {
            let release = self.programs.release_of(group).to_owned();
            self.journal.program_line(group, &release, line);
            return None;
        }
        self.programs.runner_event(event)
    }

    fn asked(&mut self, asked: Asked, done: &mpsc::UnboundedSender<Event>) -> Option<Event> {
        let what = match asked.what {
            Question::Node(what) => what,
            Question::Logs(group, lines) => {
                let reply = match self.services.contains_key(&group) {
                    true => match self.runner.last_lines(&group, lines) {
                        Ok(lines) => logs_reply(lines),
                        Err(cause) => refused(Why::State, format!("log of {group}: {cause}")),
                    },
                    false => refused(Why::Unknown, no_such_service(&group, self.services.keys())),
                };
                // Whoever asked may have gone.
                asked.reply.send(reply).ok();
                return None;
            }
            Question::Load(body) => match self.reload.parse_service(&self.settings, &body) {
                Ok(settings) => {
                    let loading = (body.toml, settings.clone());
                    self.state.loading.insert(settings.name.clone(), loading);
                    Request::ServiceLoad(Box::new(settings))
                }
                Err(text) => {
                    asked.reply.send(refused(Why::State, text)).ok();
                    return None;
                }
            },
            Question::Trust(depot) => {
                asked.reply.send(trust(&self.depots, &depot)).ok();
                return None;
            }
            Question::HandIn(group, sealed) => {
                match self.services.get(&group) {
                    Some(settings) => self.depots.hand_in(settings, sealed, asked.reply),
                    None => {
                        let text = no_such_service(&group, self.services.keys());
                        asked.reply.send(refused(Why::Unknown, text)).ok();
                    }
                }
                return None;
            }
            Question::Join(addr) => {
                let request = self.expect_reply(asked.reply);
                self.join(request, addr, done);
                return None;
            }
        };
        Some(Event::Request { request: self.expect_reply(asked.reply), what })
    }

    /// The number under which the node answers whoever waits for `reply`.
    fn expect_reply(&mut self, reply: oneshot::Sender<Reply>) -> u64 {
        self.state.next_request += 1;
        self.state.replies.retain(|_, reply| !reply.is_closed());
        self.state.replies.insert(self.state.next_request, reply);
        self.state.next_request
    }

    /// Resolves a further address; the node joins by it.
    fn join(&self, request: u64, name: String, done: &mpsc::UnboundedSender<Event>) {
        let done = done.clone();
        let resolver = Arc::clone(&self.resolver);
        tokio::spawn(async move {
            let at = resolver.resolve(std::slice::from_ref(&name)).await;
            // Nobody waits once the daemon stops.
            done.send(Event::Request { request, what: Request::RingJoin { name, at } }).ok();
        });
    }

    async fn reload_settings(&mut self, done: &mpsc::UnboundedSender<Event>) -> Option<Event> {
        // READY ends a reload, and must not be said before the ring is looked for.
        let tells = self.state.ready;
        if tells {
            self.notifier.reloading();
        }
        let services = self.reload.again(&mut self.settings, &self.net).await;
        if tells {
            self.notifier.ready();
        }
        let mut services = services?;
        // As at a start: what was loaded at run time holds until it is unloaded.
        services.retain(|service| !loaded::is_kept(&self.settings.node.data_dir, &service.name));
        self.resolve_seeds(done);
        for settings in &services {
            self.services.insert(settings.name.clone(), settings.clone());
        }
        Some(Event::Services(services))
    }

    /// Carries out what the node wants done; `true` once the goodbye is said.
    async fn carry_out(&mut self, done: &mpsc::UnboundedSender<Event>) -> bool {
        let mut finished = false;
        let mut unkept = BTreeMap::new();
        for effect in self.node.take_effects() {
            match effect {
                Effect::Send { to, version, messages, stream } => {
                    self.net.send(to, version, messages, stream).await;
                }
                Effect::Write { write, file, content } => self.disk.write(write, file, content),
                Effect::ResolveSeeds => self.resolve_seeds(done),
                Effect::Fetch { group, depot, release } => {
                    self.with_settings(&group, |depots, settings| {
                        depots.fetch(settings, depot, release);
                    });
                }
                Effect::FetchRevision { group, depot, digest } => {
                    self.with_settings(&group, |depots, settings| {
                        depots.fetch_revision(settings, depot, digest);
                    });
                }
                Effect::TakeRevision { group, digest, sealed } => {
                    self.with_settings(&group, |depots, settings| {
                        depots.take_revision(settings, digest, sealed);
                    });
                }
                Effect::ReadRevision { group, digest, to, id } => {
                    self.depots.read_revision(group, digest, to, id);
                }
                Effect::Unpack { group, release } => self.depots.unpack(group, release),
                Effect::ReadChannel { group, depot, name, channel, versions } => {
                    self.with_settings(&group, |depots, settings| {
                        depots.read_channel(settings, depot, name, channel, versions);
                    });
                }
                Effect::KeepReleases { keep, .. } => self.depots.keep(keep),
                Effect::Launch { group, run, launch } => self.programs.launch(group, run, &launch),
                Effect::Halt { group, run, signal, timeout } => {
                    self.programs.halt(group, run, signal, timeout);
                }
                Effect::RunHook { group, hook, kind, launch, timeout } => {
                    self.programs.hook(group, hook, kind, &launch, timeout);
                }
                Effect::CancelHook { group, hook } => self.programs.cancel_hook(group, hook),
                Effect::Check { group, check, what, timeout, launch } => {
                    self.programs.check(group, check, what, timeout, &launch);
                }
                Effect::Census { group, json } => self.census(&group, &json),
                Effect::Reboot { group } => self.reboot(&group),
                Effect::Reply { request, reply } => {
                    if let Some(waiting) = self.state.replies.remove(&request) {
                        let reply = unkept.remove(&request).unwrap_or(reply);
                        // Whoever asked may have gone.
                        waiting.send(reply).ok();
                    }
                }
                Effect::Loaded { request, group, loaded } => {
                    if let Err(text) = self.loaded(&group, loaded) {
                        unkept.insert(request, refused(Why::State, text));
                    }
                }
                Effect::Log(line) => self.journal.line(&line),
                Effect::GoodbyeSaid => finished = true,
            }
        }
        finished
    }

    fn resolve_seeds(&self, done: &mpsc::UnboundedSender<Event>) {
        let (names, done) = (self.settings.ring.join.clone(), done.clone());
        let resolver = Arc::clone(&self.resolver);
        tokio::spawn(async move {
            // Nobody waits once the daemon stops.
            done.send(Event::Seeds(resolver.resolve(&names).await)).ok();
        });
    }

    fn with_settings(&self, group: &GroupName, act: impl FnOnce(&Depots, &ServiceSettings)) {
        if let Some(settings) = self.services.get(group) {
            act(&self.depots, settings);
        }
    }

    fn census(&self, group: &GroupName, json: &str) {
        let path: PathBuf = census_path(&self.settings.node.data_dir, group);
        let draft = path.with_extension("tmp");
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&draft, json))
            .and_then(|()| std::fs::rename(&draft, &path));
        if let Err(cause) = written {
            tracing::warn!(
                BATON_GROUP = %group,
                "{group}: census {}: {cause}",
                path.display()
            );
        }
    }

    fn reboot(&mut self, group: &GroupName) {
        let rebooting = Arc::clone(&self.state.rebooting);
        if rebooting.swap(true, Ordering::Relaxed) {
            return;
        }
        let (command, group) = (self.reboot_command.clone(), group.clone());
        tokio::spawn(async move {
            match baton_platform::reboot(command.as_deref()).await {
                Ok(()) => tracing::info!(
                    BATON_GROUP = %group,
                    "{group}: the reboot of this machine is under way"
                ),
                Err(cause) => {
                    let cause = crate::disk::describe(&cause);
                    tracing::error!(BATON_GROUP = %group, "{group}: {cause}");
                    rebooting.store(false, Ordering::Relaxed);
                }
            }
        });
    }

    /// Keeps or forgets what was loaded at run time; says what the next start will do if it cannot.
    fn loaded(&mut self, group: &GroupName, loaded: bool) -> Result<(), String> {
        let data_dir = &self.settings.node.data_dir;
        let (kept, next) = match (loaded, self.state.loading.remove(group)) {
            (true, Some((toml, settings))) => {
                self.services.insert(group.clone(), settings);
                (loaded::keep(data_dir, group, &toml), "is loaded until the next start only")
            }
            (true, None) => return Ok(()),
            (false, _) => {
                (loaded::forget(data_dir, group), "is unloaded until the next start only")
            }
        };
        kept.map_err(|cause| {
            let folder = loaded::folder(data_dir);
            let text = format!("{group} {next}: its file in {}: {cause}", folder.display());
            tracing::error!(BATON_GROUP = %group, "{text}");
            text
        })
    }
}

/// The file is a few hundred bytes: written here and now.
fn trust(depots: &Depots, url: &str) -> Reply {
    match depots.trust(url) {
        Ok(Some((id, sequence))) => Reply::Done(format!(
            "forgot the depot {id} (index sequence {sequence}) at {url}; whatever depot is there \
             now is accepted by this node, if its signatures are good"
        )),
        Ok(None) => Reply::Done(format!("this node has not seen a depot at {url} yet")),
        Err(text) => refused(Why::State, text),
    }
}

fn refused(why: Why, text: String) -> Reply {
    Reply::Refused { why, text }
}
