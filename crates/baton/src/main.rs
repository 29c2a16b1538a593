//! `baton`: the daemon and the command line in one binary. Here a line is parsed, its command
//! carried out, and its end turned into an exit code.

mod args;
mod ask;
mod check;
mod config;
mod demo;
mod depot;
mod exit;
mod live;
mod output;
mod ring;
mod rollout;
mod service;
mod sim;

use std::path::Path;
use std::process::ExitCode;

use baton_daemon::client::Client;
use clap::{CommandFactory, Parser};
use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command};
use exit::{DONE, FAILED, Failure, USAGE};
use output::{Output, write_stderr};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come here too; a reader who is gone needs neither.
            error.print().ok();
            return ExitCode::from(if error.use_stderr() { USAGE } else { DONE });
        }
    };
    match carry_out(cli, &mut Output::new()) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let prefix = if failure.code == exit::DETACHED { "" } else { "error: " };
            if !failure.text.is_empty() {
                write_stderr(&format!("{prefix}{}", failure.text));
            }
            ExitCode::from(failure.code)
        }
    }
}

fn carry_out(cli: Cli, output: &mut Output) -> Result<u8, Failure> {
    let client = Client::new(&cli.socket);
    match cli.command {
        Command::Run(file) => return daemon(&file.config),
        Command::Demo(demo) => return playing()?.block_on(demo::run(demo, output)),
        Command::DemoService(service) => {
            return demo::server::serve(&service.version, service.breaks_after, output);
        }
        Command::Check(file) => check::run(&file.config, output)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "baton", &mut script);
            output.write(&String::from_utf8_lossy(&script))?;
        }
        Command::ManPages { out } => {
            clap_mangen::generate_to(Cli::command(), &out)
                .map_err(|cause| Failure::failed(format!("{}: {cause}", out.display())))?;
        }
        Command::Ring(ring) => asking()?.block_on(ring::run(ring, &client, output))?,
        Command::Service(service) => {
            asking()?.block_on(service::run(service, &client, output))?;
        }
        Command::Member(member) => {
            asking()?.block_on(service::run_member(member, &client, output))?;
        }
        Command::Rollout(rollout) => {
            return asking()?.block_on(rollout::run(rollout, &client, output));
        }
        Command::Config(config) => {
            return asking()?.block_on(config::run(config, &client, output));
        }
        Command::Sim(sim) => return sim::run(&sim, output),
        Command::Depot(depot) => return asking()?.block_on(depot::run(depot, &client, output)),
    }
    Ok(DONE)
}

/// Runs the daemon until it is told to stop.
fn daemon(config: &Path) -> Result<u8, Failure> {
    let runtime = started(Builder::new_multi_thread().worker_threads(DAEMON_WORKERS))?;
    let ended = runtime.block_on(baton_daemon::run(config));
    // A download from a slow depot is not waited for: the next start fetches it again.
    runtime.shutdown_background();
    match ended {
        Ok(()) => Ok(DONE),
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(FAILED);
            Err(Failure::with_code(code, error.to_string()))
        }
    }
}

/// For the demo, which watches many services while it asks daemons.
fn playing() -> Result<Runtime, Failure> {
    started(Builder::new_multi_thread().worker_threads(DAEMON_WORKERS))
}

/// For a command that asks a daemon: one thread is plenty.
fn asking() -> Result<Runtime, Failure> {
    started(&mut Builder::new_current_thread())
}

fn started(builder: &mut Builder) -> Result<Runtime, Failure> {
    let started = builder.enable_all().build();
    started.map_err(|cause| Failure::failed(format!("cannot start: {cause}")))
}

/// One for the node, one for sockets and requests; what may block has threads of its own.
const DAEMON_WORKERS: usize = 2;
