//! The words after `baton demo`.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// `baton demo …`
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many daemons, 3 to 20
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = nodes)]
    pub(crate) nodes: usize,
    /// Show this fault instead of the whole story
    #[arg(long, value_name = "KIND")]
    pub(crate) fault: Option<Fault>,
    /// Leave the ring running at the end, and say how to talk to it
    #[arg(long)]
    pub(crate) keep: bool,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// A release that crashes while it is being watched
    BadRelease,
    /// The daemon of the update leader is killed in the middle of a rollout
    KillLeader,
    /// The machine of the member in its turn loses power, and comes back
    RebootMember,
    /// The leader is cut off from the majority, and joined to it again
    Partition,
}

/// `baton demo-service …`: the program of the demo's releases.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoServiceArgs {
    /// What it answers.
    #[arg(long)]
    pub(crate) version: String,
    /// Crash this long after the first answer.
    #[arg(long, value_parser = baton_types::parse_duration)]
    pub(crate) breaks_after: Option<Duration>,
}

fn nodes(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| NODES.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", NODES.start(), NODES.end()))
}

/// Fewer cannot lose one and go on; more only make a small machine slow.
const NODES: std::ops::RangeInclusive<usize> = 3..=20;
