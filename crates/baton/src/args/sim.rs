//! The words after `baton sim`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use baton_sim::Generation;
use clap::{ArgGroup, Args};

use super::Json;

/// `baton sim …`
#[derive(Clone, Debug, Args)]
#[command(
    after_help = HELP,
    group = ArgGroup::new("what").args(["scenario", "seed", "seeds"]).required(true).multiple(true)
)]
pub(crate) struct SimArgs {
    /// Play this scenario: a TOML file with hosts, a policy and steps
    #[arg(value_name = "SCENARIO", conflicts_with_all = ["seeds", "hosts", "minutes", "jobs", "generation"])]
    pub(crate) scenario: Option<PathBuf>,
    /// Play one life under faults; with a scenario, what is left to chance in it
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Play a campaign: one life for each seed, both ends included
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds)]
    pub(crate) seeds: Option<RangeInclusive<u64>>,
    /// Members of the group, 2 to 50; by chance 3 to 7 if left out
    #[arg(long, value_name = "N", value_parser = hosts)]
    pub(crate) hosts: Option<usize>,
    /// How long faults go on in their world's time, 1 to 60; by chance 1 to 4 if left out
    #[arg(long, value_name = "M", value_parser = minutes)]
    pub(crate) minutes: Option<u64>,
    /// Threads, 1 to 256; as many as this machine has cores if left out
    #[arg(long, value_name = "N", value_parser = jobs, conflicts_with = "seed")]
    pub(crate) jobs: Option<usize>,
    /// Only the faults up to generation N, so that a seed plays the life that it had when there were
    /// no others; all if left out
    #[arg(long, value_name = "N", value_parser = generation)]
    pub(crate) generation: Option<Generation>,
    /// Print one number over everything that happened, for each seed
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) trace_digest: bool,
    /// How many of the last events a broken promise is told with
    #[arg(long, value_name = "N", value_parser = last, default_value = "60")]
    pub(crate) last: usize,
    #[command(flatten)]
    pub(crate) json: Json,
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let allowed = || {
        format!(
            "expected FIRST..LAST, for example 1..2000, both included and at most {SEEDS_MAX} seeds"
        )
    };
    let (first, last) = text.split_once("..").ok_or_else(allowed)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| allowed());
    let (first, last) = (number(first)?, number(last)?);
    match last.checked_sub(first) {
        Some(more) if more < SEEDS_MAX => Ok(first..=last),
        _ => Err(allowed()),
    }
}

fn hosts(text: &str) -> Result<usize, String> {
    within(text, HOSTS)
}

fn minutes(text: &str) -> Result<u64, String> {
    within(text, MINUTES).map(|minutes| minutes as u64)
}

fn jobs(text: &str) -> Result<usize, String> {
    within(text, JOBS)
}

fn generation(text: &str) -> Result<Generation, String> {
    let found = text.parse().ok().and_then(Generation::numbered);
    found.ok_or_else(|| {
        let all: Vec<String> = Generation::ALL.iter().map(ToString::to_string).collect();
        format!("expected one of {}", all.join(", "))
    })
}

fn last(text: &str) -> Result<usize, String> {
    within(text, LAST)
}

fn within(text: &str, allowed: RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", allowed.start(), allowed.end()))
}

/// Each seed takes a fraction of a second and sixteen bytes: this many take days.
const SEEDS_MAX: u64 = 10_000_000;

/// One alone has nobody to be cut off from; sizes beyond are measured, not played under faults.
const HOSTS: RangeInclusive<usize> = 2..=50;

/// An hour of faults in one life finds nothing that many short lives do not.
const MINUTES: RangeInclusive<usize> = 1..=60;

/// More threads than a large machine has cores gain nothing.
const JOBS: RangeInclusive<usize> = 1..=256;

/// What fits memory for every seed that is played at the same time.
const LAST: RangeInclusive<usize> = 0..=100_000;

const HELP: &str = "\
Whole nodes, the code of the daemon, in a world of their own: virtual clocks, network, disks,
programs, a depot and operators. An observer who sees everything holds each step against what
Baton promises. The same seed plays the same life again, event by event.

Examples:
  baton sim bad-release.toml             play a scenario and tell it
  baton sim --seeds 1..2000              a campaign; from 200 seeds on every fault must occur
  baton sim --seed 214                   one life of it again
  baton sim --seeds 1..50 --trace-digest what happened, as numbers to compare

Exit codes:
  0 every promise kept   1 one was broken, or a fault never occurred
  2 the command line or the scenario means nothing: nothing was played";
