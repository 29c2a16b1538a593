//! The words after `baton rollout`.

use std::time::Duration;

use baton_types::{CommandId, GroupName, Version, parse_duration};
use clap::{Args, Subcommand};

use super::Json;

/// `baton rollout …`
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum RolloutCommand {
    /// Show how far a group's rollout is; without GROUP, of every group
    Status {
        /// SERVICE.GROUP, for example redis.default
        group: Option<GroupName>,
        /// Stay until the rollout under way ends; the exit code says how
        #[arg(long, requires = "group")]
        watch: bool,
        /// With --watch: give up after this long, for example 30m
        #[arg(long, value_name = "DURATION", requires = "watch", value_parser = parse_duration)]
        timeout: Option<Duration>,
        #[command(flatten)]
        json: Json,
    },
    /// Start a rollout of the channel's newest release, or of a given version
    Start {
        #[command(flatten)]
        typed: Typed,
        /// This version instead of the head of the channel
        #[arg(long, value_name = "VERSION")]
        release: Option<Version>,
        #[command(flatten)]
        wait: Wait,
    },
    /// Start no further turn, until `resume`; holds for new releases too
    Pause(Typed),
    /// Accept the failures so far and go on
    Resume {
        #[command(flatten)]
        typed: Typed,
        #[command(flatten)]
        wait: Wait,
    },
    /// End the rollout where it stands
    Cancel(Typed),
    /// Bring the group back to what it ran before
    Rollback {
        #[command(flatten)]
        typed: Typed,
        /// To this version, which must have completed before
        #[arg(long, value_name = "VERSION")]
        to: Option<Version>,
        #[command(flatten)]
        wait: Wait,
    },
    /// Give the failed members another attempt, and count failures from 0
    Retry(Typed),
    /// Let the next wave go
    Approve(Typed),
    /// Restart every member on what it runs, one at a time, each only when the one before is healthy
    Restart {
        #[command(flatten)]
        typed: Typed,
        #[command(flatten)]
        wait: Wait,
    },
    /// Reboot the machine of every member, one at a time; what else runs there is down meanwhile
    Reboot {
        #[command(flatten)]
        typed: Typed,
        #[command(flatten)]
        wait: Wait,
    },
    /// Form a group anew whose majority of voters is lost for good, from the newest record that is
    /// left; refused while it has a leader
    Reform {
        #[command(flatten)]
        typed: Typed,
        /// The group's name once more, instead of typing it when asked
        #[arg(long, value_name = "NAME")]
        yes: Option<String>,
    },
    /// Decide which history of a group stays, of several that were formed apart and have different
    /// baselines
    Adopt {
        #[command(flatten)]
        typed: Typed,
        /// The one that stays, as `status` prints it, or enough of its first characters
        #[arg(long, value_name = "ID")]
        lineage: String,
    },
    /// List the rollouts that ended, or what every member came to in one of them
    History {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
        /// The id of one rollout, or enough of its first digits
        #[arg(value_name = "ROLLOUT")]
        rollout: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Say what a rollout waits for, on which node, and what can be typed next
    Explain {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
        #[command(flatten)]
        json: Json,
    },
}

/// A command to a group's leader.
#[derive(Clone, Debug, Args)]
pub(crate) struct Typed {
    /// SERVICE.GROUP, for example redis.default
    pub(crate) group: GroupName,
    /// Repeat the command that had this id; its first result is answered
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<CommandId>,
}

/// Whether to wait for a rollout's end.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Wait {
    /// Stay until the rollout ends; the exit code says how
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: give up after this long, for example 30m; the rollout goes on
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  baton rollout status                              every group in a few lines each
  baton rollout status redis.default --watch        live, until it ends
  baton rollout start redis.default --release 7.0.15 --wait
  baton rollout pause redis.default                 no further member is touched
  baton rollout explain redis.default               what does it wait for?
  baton rollout resume redis.default --wait         accept the failures, go on
  baton rollout rollback redis.default --wait       back to what worked

A promotion in the group's channel starts a rollout by itself (see `baton depot promote`).

Exit codes of --watch and --wait:
  0 completed   10 rolled back (0 for `rollback --wait`)   11 paused   12 cancelled
  13 superseded   14 completed with exceptions   5 timed out   130 Ctrl-C: the rollout goes on";
