//! The command line's words. What they mean to the daemon is in the module of each command.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod depot;
pub(crate) mod rollout;
pub(crate) mod sim;

use std::path::PathBuf;

use baton_types::GroupName;
use clap::{Args, Parser, Subcommand};

pub(crate) use config::ConfigCommand;
pub(crate) use demo::{DemoArgs, DemoServiceArgs};
pub(crate) use depot::DepotCommand;
pub(crate) use rollout::RolloutCommand;
pub(crate) use sim::SimArgs;

/// Rolling updates for fleets of plain machines: one member at a time, each only after the one
/// before it has proved healthy.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true, after_help = OVERVIEW)]
pub(crate) struct Cli {
    /// Control socket of the daemon that is asked; any node answers for the whole ring
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "BATON_SOCKET",
        default_value = "/run/baton/control.sock"
    )]
    pub(crate) socket: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The first word.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon (systemd does this)
    Run(ConfigFile),
    /// Check the configuration without touching anything; every fault with file:line:column
    Check(ConfigFile),
    /// Show a real ring on this machine, and a rolling update of it; nothing stays
    Demo(DemoArgs),
    /// The program of the demo's releases
    #[command(hide = true)]
    DemoService(DemoServiceArgs),
    /// Look at the ring of nodes, join it, leave it, make its key
    #[command(subcommand)]
    Ring(RingCommand),
    /// Look at services; load, start or stop one on this node
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Watch and steer rolling updates
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Give a group a configuration revision, rolled out like a release
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Keep a node out of rollouts, or let it take part again
    #[command(subcommand)]
    Member(MemberCommand),
    /// Publish releases and promote them to channels
    #[command(subcommand)]
    Depot(DepotCommand),
    /// Play whole groups under faults in a world of their own, or one scenario
    Sim(SimArgs),
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual page of every command into a folder, for packages
    #[command(hide = true)]
    ManPages {
        /// An existing folder
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Which configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The node's file; services.d/*.toml beside it belong to it
    #[arg(long, value_name = "FILE", default_value = "/etc/baton/baton.toml")]
    pub(crate) config: PathBuf,
}

/// For programs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Json {
    /// Print JSON, for programs: names are stable
    #[arg(long)]
    pub(crate) json: bool,
}

/// `baton ring …`
#[derive(Debug, Subcommand)]
pub(crate) enum RingCommand {
    /// List every node of the ring as this one sees it
    Members {
        /// Stay, and show every change until Ctrl-C
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Join the ring of another node
    Join {
        /// host:port of any member
        addr: String,
    },
    /// Leave the ring for good; returns once no group counts on this node's vote
    Leave {
        /// Do not wait for the groups
        #[arg(long)]
        force: bool,
    },
    /// Remove a dead member from every node's list
    Forget {
        /// Name or id
        node: String,
    },
    /// Make a ring key; copy the file to every node and name it as `key_file` under `ring`
    Keygen {
        /// The file to make; never overwritten
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Show the ids of this node's ring keys, never the keys
    Keys {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        json: Json,
    },
}

/// `baton service …`
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// List every service of every node
    List(Json),
    /// Load a service file on this node while the daemon runs
    Load {
        /// As in services.d
        file: PathBuf,
    },
    /// Stop a service on this node and take the node out of its group
    Unload {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
        /// Do not wait until the group no longer counts on this node's vote
        #[arg(long)]
        force: bool,
    },
    /// Start the program on this node
    Start {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
    },
    /// Stop the program on this node until `service start`
    Stop {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
    },
    /// Restart the program on this node
    Restart {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
    },
    /// Print the last lines of the program on this node
    Logs {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
        /// How many lines
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: usize,
        #[command(flatten)]
        json: Json,
    },
}

/// `baton member …`
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// Keep a node out of rollouts; it need not be alive
    Cordon {
        /// Name or id; this node if left out
        node: Option<String>,
    },
    /// Let a node take part again
    Uncordon {
        /// Name or id; this node if left out
        node: Option<String>,
    },
}

const OVERVIEW: &str = "\
Examples:
  baton demo                               a real ring on this machine, in half a minute
  baton check                              is the configuration good?
  baton ring members                       who is there?
  baton depot publish ./redis-7.0.15       put a release into the depot
  baton depot promote redis/7.0.15 --channel stable
  baton rollout status redis.default --watch
  baton config apply redis.default redis.toml --wait
  baton rollout explain redis.default      what does it wait for?

Exit codes:
  0 done   1 failed   2 usage   3 no daemon   4 no quorum   5 timed out
  rollouts that are waited for: 0 completed, 10 rolled back, 11 paused, 12 cancelled,
  13 superseded, 14 completed with exceptions";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_of_the_documentation_parse() {
        for line in [
            "run",
            "run --config /tmp/baton.toml",
            "check --config /tmp/baton.toml",
            "demo",
            "demo --nodes 20 --fault kill-leader --keep",
            "demo-service --version 3 --breaks-after 700ms",
            "ring members --json",
            "ring members --watch --socket /tmp/x.sock",
            "ring join 10.0.0.1:7117",
            "ring leave --force",
            "ring forget n3",
            "ring keygen --out ring.key",
            "ring keys",
            "service list --json",
            "service load redis.toml",
            "service unload redis.default --force",
            "service logs redis.default --lines 5",
            "rollout status",
            "rollout status redis.default --json",
            "rollout status redis.default --watch",
            "rollout start redis.default --release 7.0.15 --wait --timeout 5m",
            "rollout pause redis.default",
            "rollout resume redis.default --wait",
            "rollout cancel redis.default",
            "rollout rollback redis.default --to 7.0.14 --wait",
            "rollout retry redis.default",
            "rollout approve redis.default --id 00000000000000000000000000000001",
            "rollout restart redis.default --wait",
            "rollout reboot redis.default --wait",
            "rollout reform redis.default",
            "rollout reform redis.default --yes redis.default",
            "rollout adopt redis.default --lineage 3-d97c",
            "rollout history redis.default --json",
            "rollout explain redis.default",
            "config apply redis.default redis.toml --key depot.key --wait --timeout 5m",
            "config apply redis.default r.toml --key k --depot file:///srv/depot --trust a.pub",
            "config show redis.default --json",
            "config show redis.default --revision 2",
            "member cordon",
            "member uncordon n3",
            "depot init file:///srv/depot",
            "depot keygen --out depot",
            "depot publish dir --depot file:///srv/depot --key depot.key",
            "depot promote redis/7.0.15 --channel stable --depot file:///srv/depot --key depot.key",
            "depot demote redis/7.0.15 --channel stable --depot file:///srv/depot --key depot.key",
            "depot list --depot file:///srv/depot --json",
            "depot verify --depot file:///srv/depot --trust depot.pub",
            "depot gc --depot file:///srv/depot --key depot.key",
            "sim bad-release.toml --seed 3 --json",
            "sim --seed 214 --hosts 5 --minutes 2 --generation 1 --last 400",
            "sim --seeds 1..2000 --jobs 2 --trace-digest",
            "completions bash",
            "man-pages --out /tmp/man",
        ] {
            let words = std::iter::once("baton").chain(line.split(' '));
            assert!(Cli::try_parse_from(words.clone()).is_ok(), "{line}");
        }
    }

    #[test]
    fn wrong_words_are_usage_errors_that_say_what_is_allowed() {
        for (line, kind, part) in [
            ("rollout start", ErrorKind::MissingRequiredArgument, "<GROUP>"),
            ("rollout start redis", ErrorKind::ValueValidation, "expected SERVICE.GROUP"),
            ("rollout fly redis.default", ErrorKind::InvalidSubcommand, "fly"),
            ("depot promote redis --channel s", ErrorKind::ValueValidation, "NAME/VERSION"),
            ("depot init /srv/depot", ErrorKind::ValueValidation, "file:///"),
            ("rollout start r.d --wait --timeout 5", ErrorKind::ValueValidation, "no unit"),
            ("demo --nodes 2", ErrorKind::ValueValidation, "from 3 to 20"),
            ("demo --fault flood", ErrorKind::InvalidValue, "kill-leader"),
            ("rollout start r.d --timeout 5s", ErrorKind::MissingRequiredArgument, "--wait"),
            ("sim", ErrorKind::MissingRequiredArgument, "--seeds"),
            ("sim --seeds 5", ErrorKind::ValueValidation, "for example 1..2000"),
            ("sim --seed 1 --generation 0", ErrorKind::ValueValidation, "one of 1, 2, 3, 4"),
            ("sim --seeds 9..8", ErrorKind::ValueValidation, "both included"),
            ("sim --seeds 1..99999999", ErrorKind::ValueValidation, "at most 10000000"),
            ("sim --seeds 1..9 --hosts 1", ErrorKind::ValueValidation, "from 2 to 50"),
            ("sim --seeds 1..9 --seed 3", ErrorKind::ArgumentConflict, "--seed"),
            ("sim a.toml --seeds 1..9", ErrorKind::ArgumentConflict, "SCENARIO"),
            ("sim --seed 1 --jobs 2", ErrorKind::ArgumentConflict, "--jobs"),
        ] {
            let words = std::iter::once("baton").chain(line.split(' '));
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line}: {error}");
            assert!(error.to_string().contains(part), "{line}: {error}");
        }
    }
}
