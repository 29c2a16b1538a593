//! Depot work on blocking threads: fetch, unpack, read a channel.
//!
//! Invariant: each service's own trusted keys hold, read anew for each piece of work; the sequence
//! of a depot's index never falls, over restarts too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use baton_depot::{
    Depot, DepotError, DepotUrl, IndexFloor, ReleaseStore, RevisionStore, TrustedKeys,
};
use baton_node::{ChannelContent, ChannelEntry, DepotFault, Event, Reply, Revisions, Why};
use baton_platform::DurableFiles;
use baton_supervise::environment::check_names;
use baton_types::manifest::Manifest;
use baton_types::service::ServiceSettings;
use baton_types::{
    CommandId, Digest, GroupName, Name, NodeId, Release, ReleaseId, Revision, Text, Version,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::disk::describe;

/// The node's releases and depots.
#[derive(Clone, Debug)]
pub(crate) struct Depots {
    store: Arc<ReleaseStore>,
    revisions: RevisionStore,
    files: Arc<DurableFiles>,
    /// By the depot's URL.
    floors: Arc<Mutex<BTreeMap<String, IndexFloor>>>,
    /// What must stay in the store now: also what is asked for after the node last said so. The
    /// removal of old releases runs beside fetches, and what it was told may be old by then.
    kept: Arc<Mutex<BTreeSet<Digest>>>,
    /// Configuration revisions that operators handed in since the start: other members may ask for
    /// one long after this node has no use for it.
    handed_in: Arc<Mutex<BTreeSet<Digest>>>,
    done: UnboundedSender<Event>,
}

impl Depots {
    /// Opens what an earlier start left; a damaged list of sequences has been moved aside, and is
    /// said in `warnings`.
    pub(crate) fn open(
        store: ReleaseStore,
        revisions: RevisionStore,
        files: Arc<DurableFiles>,
        done: UnboundedSender<Event>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let floors = match files.read(FLOORS, 1, FLOORS_MAX_BYTES) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|cause| {
                warnings.push(format!("{FLOORS}: {cause}"));
                BTreeMap::new()
            }),
            Ok(None) => BTreeMap::new(),
            Err(cause) => {
                warnings.push(describe(&cause));
                BTreeMap::new()
            }
        };
        Self {
            store: Arc::new(store),
            revisions,
            files,
            floors: Arc::new(Mutex::new(floors)),
            kept: Arc::default(),
            handed_in: Arc::default(),
            done,
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<ReleaseStore> {
        &self.store
    }

    /// Fetches and verifies a release.
    pub(crate) fn fetch(&self, settings: &ServiceSettings, depot: String, release: Release) {
        let (this, group, keys) =
            (self.clone(), settings.name.clone(), settings.trusted_keys.clone());
        self.kept().insert(release.digest);
        self.work(move || {
            let result = (|| -> Result<Box<Manifest>, DepotFault> {
                let url: DepotUrl = parse(&depot)?;
                let trusted = TrustedKeys::load(&keys).map_err(fault)?;
                let fetched = this.store.fetch(&Depot::open(&url), &trusted, &release);
                fetched.map(Box::new).map_err(fault)
            })();
            Event::Fetched { group, release, result }
        });
    }

    /// Fetches and verifies a configuration revision, and looks whether its files can be written.
    pub(crate) fn fetch_revision(&self, settings: &ServiceSettings, depot: String, digest: Digest) {
        let (this, group) = (self.clone(), settings.name.clone());
        let bring = move |trusted: &TrustedKeys| {
            let url: DepotUrl = parse(&depot)?;
            this.revisions.fetch(&Depot::open(&url), trusted, &group, &digest).map_err(fault)
        };
        self.bring_revision(settings, digest, bring, move |group, result| Event::RevisionFetched {
            group,
            digest,
            result,
        });
    }

    /// Keeps a configuration revision that another node had, and looks whether its files can be
    /// written.
    pub(crate) fn take_revision(
        &self,
        settings: &ServiceSettings,
        digest: Digest,
        sealed: Vec<u8>,
    ) {
        let (this, group) = (self.clone(), settings.name.clone());
        let bring = move |trusted: &TrustedKeys| {
            let taken = this.revisions.take(trusted, &group, &sealed, |found| *found == digest);
            taken.map(|(_, revision)| revision).map_err(fault)
        };
        self.bring_revision(settings, digest, bring, move |group, result| Event::RevisionTaken {
            group,
            digest,
            result,
        });
    }

    fn bring_revision(
        &self,
        settings: &ServiceSettings,
        digest: Digest,
        bring: impl FnOnce(&TrustedKeys) -> Result<Revision, DepotFault> + Send + 'static,
        event: impl FnOnce(GroupName, Result<Arc<Revision>, DepotFault>) -> Event + Send + 'static,
    ) {
        let (group, keys) = (settings.name.clone(), settings.trusted_keys.clone());
        let env = settings.env.clone();
        self.kept().insert(digest);
        self.work(move || {
            let trusted = TrustedKeys::load(&keys).map_err(fault);
            let result = trusted.and_then(|trusted| bring(&trusted)).and_then(|revision| {
                // An edit of the service's file mends it, so it is asked for again.
                check_names(&revision, &env)
                    .map_err(|text| DepotFault { environment: true, text: Text::new(&text) })?;
                Ok(Arc::new(revision))
            });
            event(group, result)
        });
    }

    /// Reads a configuration revision as it was signed, for another node.
    pub(crate) fn read_revision(
        &self,
        group: GroupName,
        digest: Digest,
        to: NodeId,
        id: CommandId,
    ) {
        let this = self.clone();
        self.work(move || {
            let sealed = this.revisions.sealed(&group, &digest);
            Event::RevisionRead { to, id, sealed }
        });
    }

    /// Keeps a configuration revision that an operator hands in; it stays until the next start of
    /// the daemon, whoever needs it. Answers what to say of it.
    pub(crate) fn hand_in(
        &self,
        settings: &ServiceSettings,
        sealed: Vec<u8>,
        reply: oneshot::Sender<Reply>,
    ) {
        let (this, group, keys) =
            (self.clone(), settings.name.clone(), settings.trusted_keys.clone());
        tokio::task::spawn_blocking(move || {
            // Known before it is written: the removal of old ones may run just then.
            let keep = |digest: &Digest| {
                this.handed_in().insert(*digest);
                this.kept().insert(*digest);
                true
            };
            let taken = TrustedKeys::load(&keys)
                .and_then(|trusted| this.revisions.take(&trusted, &group, &sealed, keep));
            let answer = match taken {
                Ok((digest, _)) => Reply::Done(format!("{digest} is on this node")),
                Err(cause) => Reply::Refused { why: Why::State, text: describe(&cause) },
            };
            // Whoever asked may have gone.
            reply.send(answer).ok();
        });
    }

    /// The configuration revisions that lie on this machine; damaged ones are said in `warnings`.
    pub(crate) fn known_revisions(&self, warnings: &mut Vec<String>) -> Revisions {
        let (found, faults) = self.revisions.read_all();
        warnings.extend(faults);
        found.into_iter().map(|(digest, revision)| (digest, Arc::new(revision))).collect()
    }

    /// Unpacks a fetched release.
    pub(crate) fn unpack(&self, group: GroupName, release: Release) {
        let this = self.clone();
        self.kept().insert(release.digest);
        self.work(move || {
            let result = this.store.unpack(&release.digest).map(drop).map_err(fault);
            Event::Unpacked { group, release, result }
        });
    }

    /// Reads a channel, and looks `versions` up.
    pub(crate) fn read_channel(
        &self,
        settings: &ServiceSettings,
        depot: String,
        name: Name,
        channel: Name,
        versions: Vec<Version>,
    ) {
        let (this, group, keys) =
            (self.clone(), settings.name.clone(), settings.trusted_keys.clone());
        self.work(move || {
            let result = parse(&depot).and_then(|url| {
                let trusted = TrustedKeys::load(&keys).map_err(fault)?;
                this.channel(&trusted, &url, &name, &channel, &versions).map_err(fault)
            });
            Event::Channel { group, result }
        });
    }

    /// Forgets what was seen of the depot at `url`, so that another one is accepted there. Returns
    /// its id and index sequence, if anything was known.
    pub(crate) fn trust(&self, url: &str) -> Result<Option<(String, u64)>, String> {
        let url: DepotUrl = parse(url).map_err(|fault| fault.text.to_string())?;
        let mut floors = self.floors();
        let known = floors.remove(&url.to_string());
        self.write_floors(&floors)?;
        Ok(known.map(|floor| (floor.depot_id, floor.sequence)))
    }

    /// Removes releases and configuration revisions that no service needs any more.
    pub(crate) fn keep(&self, keep: Vec<Digest>) {
        *self.kept() = keep.into_iter().chain(self.handed_in().iter().copied()).collect();
        let (store, kept) = (Arc::clone(&self.store), Arc::clone(&self.kept));
        let revisions = self.revisions.clone();
        let is_kept = move |digest: &str| {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().any(|kept| kept.to_string().starts_with(digest))
        };
        tokio::task::spawn_blocking(move || {
            for (what, removed) in [
                ("releases", store.collect(&is_kept)),
                ("configuration revisions", revisions.collect(&is_kept)),
            ] {
                match removed {
                    Ok(removed) if removed.is_empty() => {}
                    Ok(removed) => tracing::debug!("removed old {what}: {}", removed.join(", ")),
                    Err(cause) => tracing::warn!("old {what}: {}", describe(&cause)),
                }
            }
        });
    }

    fn channel(
        &self,
        trusted: &TrustedKeys,
        url: &DepotUrl,
        name: &Name,
        channel: &Name,
        versions: &[Version],
    ) -> Result<ChannelContent, DepotError> {
        let depot = Depot::open(url);
        let url = &url.to_string();
        let floor = self.floors().get(url).cloned();
        let read = depot.read_channel(trusted, floor.as_ref(), name, channel)?;
        self.raise_floor(url, &read.depot_id, read.sequence);
        let mut releases = Vec::new();
        for version in versions {
            let id = ReleaseId { name: name.clone(), version: version.clone() };
            match depot.find(trusted, &id) {
                Ok(release) => releases.push(release),
                Err(cause) if cause.is_environment() => return Err(cause),
                Err(_) => {
                    let all = depot.list()?.releases.into_iter().map(|listed| listed.release);
                    releases = all.filter(|release| release.id.name == *name).collect();
                    break;
                }
            }
        }
        let entries = read.entries.into_iter().map(|entry| ChannelEntry {
            release: entry.release,
            promotion: entry.promotion,
            again: entry.again,
        });
        Ok(ChannelContent {
            depot_id: read.depot_id,
            sequence: read.sequence,
            entries: entries.collect(),
            releases,
        })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeSet<Digest>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handed_in(&self) -> std::sync::MutexGuard<'_, BTreeSet<Digest>> {
        self.handed_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn floors(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, IndexFloor>> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise_floor(&self, url: &str, depot_id: &str, sequence: u64) {
        let mut floors = self.floors();
        let floor = IndexFloor { depot_id: depot_id.to_owned(), sequence };
        if floors.get(url) == Some(&floor) {
            return;
        }
        floors.insert(url.to_owned(), floor);
        if let Err(cause) = self.write_floors(&floors) {
            tracing::error!("degraded: the depot's sequence is not on disk: {cause}");
        }
    }

    fn write_floors(&self, floors: &BTreeMap<String, IndexFloor>) -> Result<(), String> {
        let bytes = serde_json::to_vec(floors).map_err(|cause| cause.to_string())?;
        self.files.write(FLOORS, 1, &bytes).map_err(|cause| describe(&cause))
    }

    fn work(&self, job: impl FnOnce() -> Event + Send + 'static) {
        let done = self.done.clone();
        tokio::task::spawn_blocking(move || {
            // Nobody waits once the daemon stops.
            done.send(job()).ok();
        });
    }
}

fn parse(url: &str) -> Result<DepotUrl, DepotFault> {
    url.parse().map_err(|cause: baton_depot::DepotUrlError| DepotFault {
        environment: false,
        text: Text::new(&cause.to_string()),
    })
}

fn fault(error: DepotError) -> DepotFault {
    DepotFault { environment: error.is_environment(), text: Text::new(&describe(&error)) }
}

/// The file with the highest index sequence seen of each depot.
pub(crate) const FLOORS: &str = "depots";

/// A few hundred bytes for each depot.
const FLOORS_MAX_BYTES: usize = 256 * 1024;
