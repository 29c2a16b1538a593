//! `baton demo`: a real ring of real daemons on this machine, a real rolling update, and what
//! happens when something goes wrong.
//!
//! Invariant: whatever happens, Ctrl-C included, what was started is ended and what was made is
//! removed, unless `--keep` asks otherwise; and a demo whose facts do not hold exits 1.

mod cut;
mod faults;
mod fleet;
mod ground;
mod keep;
mod leftovers;
mod observer;
mod pace;
mod progress;
pub(crate) mod server;
mod stage;
mod story;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::demo::{DemoArgs, Fault};
use crate::exit::{DETACHED, DONE, Failure, PIPE_GONE};
use crate::output::Output;
use cut::Cut;
use ground::Ground;
use stage::Stage;

/// Plays it.
pub(crate) async fn run(args: DemoArgs, output: &mut Output) -> Result<u8, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let relayed = args.fault == Some(Fault::Partition);
    let ground = Ground::new(args.nodes, relayed)?;
    let mut stage = Stage::new(ground, output);
    let played = tokio::select! {
        played = play(&args, &mut stage) => played,
        interrupted = interrupts.next() => Err(interrupted),
    };
    if let Err(failure) = &played
        && !matches!(failure.code, DETACHED | PIPE_GONE)
    {
        let tails = stage.fleet.log_tails();
        crate::output::write_stderr(&tails.join("\n"));
    }
    let kept = match (&played, args.keep) {
        (Err(failure), true) => !matches!(failure.code, DETACHED | PIPE_GONE) && !relayed,
        (_, keep) => keep,
    };
    if kept {
        keep::explain(&mut stage, relayed)?;
        if !relayed {
            return played.map(|_| DONE);
        }
        // The ring's packets pass through here, so it lives as long as this process does.
        interrupts.next().await;
    }
    let cleaned = clean(&mut stage).await;
    let played = played.map(drop);
    match (played, cleaned) {
        (Err(failure), Err(further)) if !further.text.is_empty() => {
            let text = format!("{}\n{}", failure.text, further.text);
            Err(Failure::with_code(failure.code, text))
        }
        (Err(failure), _) | (Ok(()), Err(failure)) => Err(failure),
        (Ok(()), Ok(())) => Ok(DONE),
    }
}

/// The play, and what must outlive it.
async fn play(args: &DemoArgs, stage: &mut Stage<'_>) -> Result<Option<Cut>, Failure> {
    greet(args, stage)?;
    let mut between = None;
    match args.fault {
        None => story::whole(stage).await?,
        Some(Fault::BadRelease) => {
            story::beginning(stage).await?;
            story::bad_release(stage, "1").await?;
        }
        Some(Fault::KillLeader) => faults::kill_leader(stage).await?,
        Some(Fault::RebootMember) => faults::reboot_member(stage).await?,
        Some(Fault::Partition) => {
            let cut = between.insert(Cut::start(&stage.ground)?);
            faults::partition(stage, cut).await?;
        }
    }
    stage.summary()?;
    Ok(between)
}

fn greet(args: &DemoArgs, stage: &mut Stage<'_>) -> Result<(), Failure> {
    let end = if args.keep { "stays" } else { "goes away at the end" };
    let (nodes, dir) = (args.nodes, stage.ground.dir.display());
    let lines = [
        format!("Baton demo: {nodes} real daemons on this machine, each standing for a host."),
        format!("Everything is in {dir} and {end}."),
    ];
    stage.lines(&lines)
}

/// Ends all processes and removes the directory.
async fn clean(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let stopped = stage.fleet.stop().await;
    stage.ground.remove()?;
    let stubborn = stopped?;
    let lines = match stubborn.len() {
        0 => vec!["All daemons and services have ended; the directory is removed.".to_owned()],
        killed => {
            let mut lines =
                vec![format!("{killed} process(es) did not end by themselves and were killed:")];
            lines.extend(stubborn.iter().map(|process| format!("  {}", process.command)));
            lines
        }
    };
    stage.lines(&lines)
}

/// Ctrl-C, SIGTERM, or a terminal that goes away.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// From now on none of them ends this process by itself.
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            let failed = |cause| Failure::failed(format!("cannot listen for signals: {cause}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Failure {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        Failure::with_code(DETACHED, "interrupted")
    }
}

/// The group of the demo's service.
const GROUP: &str = "web.default";
