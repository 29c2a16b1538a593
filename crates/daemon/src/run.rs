//! `baton run`: from the configuration to the loop.
//!
//! Invariant: everything that can be wrong is found before a socket is bound and before a program
//! is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use baton_config::{OnStop, Settings};
use baton_depot::{DepotError, ReleaseStore, RevisionStore};
use baton_node::{Adopted, Boot, Manifests, Node};
use baton_platform::{
    DurableError, DurableFiles, Notifier, Runner, RunnerError, RunnerSettings, journal_stream, now,
};
use baton_types::limits::NODE_MAX_SERVICES;
use baton_types::{BootNonce, Digest, Text};
use baton_wire::Versions;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::boot_complete;
use crate::config_files::{self, ConfigFaults, Loaded};
use crate::control::{self, ControlError};
use crate::depots::Depots;
use crate::disk::{self, Disk, describe};
use crate::http::{self, Page};
use crate::identity::{self, IdentityError};
use crate::journal::Journal;
use crate::loaded;
use crate::net::{Net, NetError};
use crate::programs::{Programs, config_path};
use crate::reload::Reload;
use crate::seeds;
use crate::shell::{Shell, Sources, State, StopSignal};

/// Why the daemon did not start. Nothing was left behind, and no service was touched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration has faults.
    #[error(transparent)]
    Config(#[from] ConfigFaults),
    /// The data directory cannot be used.
    #[error(transparent)]
    Files(#[from] DurableError),
    /// No identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The release store cannot be used.
    #[error(transparent)]
    Store(#[from] DepotError),
    /// Programs cannot be run.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The ring's sockets cannot be opened.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Something else of the system.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// From the system.
        cause: std::io::Error,
    },
}

impl RunError {
    /// What the process exits with: 78 (EX_CONFIG of sysexits.h) where no restart can help.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Config(_)
            | Self::Identity(IdentityError::Damaged { .. })
            | Self::Files(DurableError::Newer { .. }) => 78,
            _ => 1,
        }
    }
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
///
/// It could not start; see [`RunError`].
pub async fn run(config: &Path) -> Result<(), RunError> {
    let journal = Journal::start(journal_stream());
    let Loaded { settings, sealing, warnings, .. } = config_files::load(config)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let data_dir = settings.node.data_dir.clone();
    let files = Arc::new(DurableFiles::open(&data_dir)?);
    let node_id = identity::node_id(&data_dir)?;
    let found = disk::read_all(&files)?;
    let store = ReleaseStore::open(&data_dir.join("releases"))?;
    let (runner_tx, runner_rx) = mpsc::channel(RUNNER_EVENTS);
    let runner = Runner::new(runner_settings(&data_dir), runner_tx)?;
    let adoption = runner.adopt().await?;
    for line in &adoption.damaged {
        tracing::error!("{line}");
    }
    let services = all_services(&settings);
    let running = adoption.running.iter().map(|ran| (ran.group.clone(), ran.pid)).collect();

    let (packets_tx, packets) = mpsc::channel(PACKETS);
    let (done_tx, done) = mpsc::unbounded_channel();
    let (asked_tx, asked) = mpsc::channel(ASKED);
    let mut depot_warnings = Vec::new();
    let depots = Depots::open(
        store,
        RevisionStore::new(&config_path(&data_dir)),
        Arc::clone(&files),
        done_tx.clone(),
        &mut depot_warnings,
    );
    let revisions = depots.known_revisions(&mut depot_warnings);
    for warning in depot_warnings {
        tracing::warn!("{warning}");
    }
    let (manifests, unpacked) = known_releases(&depots, &data_dir);
    let mut adopted = BTreeMap::new();
    for ran in &adoption.running {
        if !services.iter().any(|service| service.name == ran.group) {
            tracing::warn!(
                BATON_GROUP = %ran.group,
                "{}: process {} runs on, but no such service is configured any more: it is not \
                 watched, and whoever does not want it ends it by hand",
                ran.group,
                ran.pid
            );
        }
        let digest = release_of(&ran.release, &manifests);
        adopted.insert(ran.group.clone(), Adopted { pid: ran.pid, digest });
    }

    let nonce = BootNonce::from_random(rand::random());
    let max_packet = settings.ring.timing.max_packet;
    let versions = Versions::OURS;
    let bind = settings.ring.bind;
    let net = Net::open(bind, sealing, node_id, nonce, versions, max_packet, packets_tx).await?;
    let listener = control::listen(&settings.control.socket)?;
    let page = match settings.control.http {
        Some(addr) => Some(
            http::listen(addr).await.map_err(system(format!("open the status page on {addr}")))?,
        ),
        None => None,
    };
    let resolver = Arc::new(seeds::Resolver::default());
    let seeds = resolver.resolve(&settings.ring.join).await;
    let addr = match settings.ring.advertise {
        Some(addr) => addr,
        None => seeds::advertised(settings.ring.bind, &seeds),
    };

    let boot = Boot {
        node: node_id,
        name: settings.node.name.clone(),
        addr,
        version: Text::new(env!("CARGO_PKG_VERSION")),
        versions,
        nonce,
        machine_boot: machine_boot()?,
        timing: settings.ring.timing.clone(),
        labels: settings.node.labels.clone(),
        has_seeds: !settings.ring.join.is_empty(),
        services: services.clone(),
        files: found,
        manifests,
        revisions,
        unpacked,
        adopted,
        seed: rand::random(),
    };
    tracing::info!(
        "{} ({node_id}) {} starts as {addr}, profile {}, {} service(s)",
        settings.node.name,
        env!("CARGO_PKG_VERSION"),
        settings.ring.profile,
        services.len()
    );
    let node = match boot_complete::awaited() {
        Some(path) => {
            tokio::spawn(boot_complete::wait(path, done_tx.clone()));
            Node::while_booting(boot, now())
        }
        None => Node::new(boot, now()),
    };

    let counters = net.counters();
    tokio::spawn(control::serve(listener, asked_tx.clone()));
    if let Some(listener) = page {
        tokio::spawn(http::serve(listener, Page { asked: asked_tx, counters }));
    }
    let runner = Arc::new(runner);
    let programs = Programs::new(
        Arc::clone(&runner),
        Arc::clone(depots.store()),
        settings.node.name.clone(),
        &data_dir,
        done_tx.clone(),
        running,
    );
    let sources = Sources {
        packets,
        done,
        done_tx: done_tx.clone(),
        runner: runner_rx,
        asked,
        stop: stop_signals(settings.node.on_stop)?,
        hangup: signal(SignalKind::hangup()).map_err(system("listen for SIGHUP".to_owned()))?,
    };
    let socket = settings.control.socket.clone();
    let shell = Shell {
        node,
        services: services.into_iter().map(|service| (service.name.clone(), service)).collect(),
        settings,
        net,
        resolver,
        disk: Disk::start(files, done_tx),
        depots,
        programs,
        runner,
        journal,
        notifier: Notifier::from_env(),
        reboot_command: reboot_command(),
        reload: Reload { config: config.to_owned() },
        state: State::default(),
    };
    shell.run(sources).await;
    // The next daemon finds a stale socket as well, but a person would wonder.
    std::fs::remove_file(socket).ok();
    tracing::info!("stopped");
    Ok(())
}

/// The configuration's services and those that were loaded at run time.
fn all_services(settings: &Settings) -> Vec<baton_types::service::ServiceSettings> {
    let mut services = settings.services.clone();
    let Ok(entries) = std::fs::read_dir(loaded::folder(&settings.node.data_dir)) else {
        return services;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    for path in paths {
        let read = std::fs::read_to_string(&path)
            .map_err(|cause| format!("{}: {cause}", path.display()))
            .and_then(|text| {
                config_files::load_service(&path, &text, settings).map_err(|f| f.to_string())
            });
        match read {
            Ok(found) => {
                services.retain(|service| service.name != found.service.name);
                services.push(found.service);
            }
            Err(faults) => tracing::error!("a service that was loaded at run time: {faults}"),
        }
    }
    services.truncate(NODE_MAX_SERVICES);
    services
}

fn runner_settings(data_dir: &Path) -> RunnerSettings {
    let mut settings = RunnerSettings::new(data_dir.join("run"), data_dir.join("log"));
    if let Some(path) = std::env::var_os(BOOT_ID_FILE) {
        settings.boot_id_path = PathBuf::from(path);
    }
    settings
}

fn machine_boot() -> Result<String, RunError> {
    let read = match std::env::var_os(BOOT_ID_FILE) {
        Some(path) => baton_platform::boot_id_from(Path::new(&path)),
        None => baton_platform::boot_id(),
    };
    read.map_err(system("read the machine's boot id".to_owned()))
}

fn reboot_command() -> Option<Vec<String>> {
    let command = std::env::var(REBOOT_COMMAND).ok()?;
    Some(command.split_whitespace().map(ToOwned::to_owned).collect())
}

/// What an adopted program runs: by its run record, or, where that was lost, by what the program
/// itself was told. Zeros, which no archive has, for what cannot be known any more: the node ends
/// such a program before it starts another.
fn release_of(text: &str, manifests: &Manifests) -> Digest {
    let by_name = || manifests.iter().find(|(_, manifest)| manifest.id.to_string() == text);
    Digest::from_hex(text)
        .or_else(|| by_name().map(|(digest, _)| *digest))
        .unwrap_or(Digest([0; 32]))
}

/// Manifests and folders of the releases that are on this machine.
fn known_releases(depots: &Depots, data_dir: &Path) -> (Manifests, BTreeSet<Digest>) {
    let (mut manifests, mut unpacked) = (Manifests::new(), BTreeSet::new());
    let Ok(entries) = std::fs::read_dir(data_dir.join("releases/archives")) else {
        return (manifests, unpacked);
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(digest) = name.to_str().and_then(|name| name.strip_suffix(".tar.zst")) else {
            continue;
        };
        let Some(digest) = Digest::from_hex(digest) else { continue };
        match depots.store().manifest(&digest) {
            Ok(manifest) => {
                manifests.insert(digest, manifest);
                if depots.store().path(&digest).is_some() {
                    unpacked.insert(digest);
                }
            }
            Err(cause) => tracing::warn!("a release on this machine: {}", describe(&cause)),
        }
    }
    (manifests, unpacked)
}

/// SIGTERM and SIGINT.
fn stop_signals(on_stop: OnStop) -> Result<mpsc::Receiver<StopSignal>, RunError> {
    let failed = || system("listen for SIGTERM".to_owned());
    let mut terminate = signal(SignalKind::terminate()).map_err(failed())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed())?;
    let (stop, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let down = tokio::task::spawn_blocking(machine_goes_down).await.unwrap_or(false);
        let stop_services = down || on_stop == OnStop::Stop;
        // The loop is the only receiver; without it there is nothing to stop.
        stop.send(StopSignal { stop_services }).await.ok();
    });
    Ok(receiver)
}

/// Whether the machine is being shut down: then services are stopped in good order.
fn machine_goes_down() -> bool {
    if !Path::new("/run/systemd/system").is_dir() {
        return false;
    }
    Command::new("systemctl")
        .arg("is-system-running")
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"stopping"))
}

fn system(what: String) -> impl FnOnce(std::io::Error) -> RunError {
    move |cause| RunError::System { what, cause }
}

/// A file that stands for the kernel's boot id, so that a test can play a reboot.
const BOOT_ID_FILE: &str = "BATON_BOOT_ID_FILE";

/// A command that stands for the machine's reboot.
const REBOOT_COMMAND: &str = "BATON_REBOOT_COMMAND";

/// Packets that may wait for the loop; beyond it they are lost, as on any network.
const PACKETS: usize = 4_096;

/// What the runner may report before it waits for the loop.
const RUNNER_EVENTS: usize = 1_024;

/// Control requests that may wait for the loop.
const ASKED: usize = 64;
