//! Many seeds, or one.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use baton_sim::{Course, Generation, Runner, Sum, Violation};

use crate::args::SimArgs;
use crate::exit::{DONE, Failure};
use crate::live::Live;
use crate::output::{Output, count, write_stderr};

use super::report::{Outcome, events, grouped, hex, lived, tally_lines, violation_lines};

/// Plays one seed.
pub(super) fn one(seed: u64, args: &SimArgs, output: &mut Output) -> Result<u8, Failure> {
    name_the_seed_of_a_panic();
    let course = course(args).with_seed(seed);
    let runner = Runner { seeds: seed..=seed, course: course.clone(), jobs: 1, digests: true };
    let mut sum = runner.run(remember, |_| true);
    if args.json.json {
        if !args.trace_digest {
            sum.digests.clear();
        }
        output.json_value(&Outcome::of_sum(seed, seed, &sum, Vec::new()))?;
    } else if let Some((_, digest)) = sum.digests.first() {
        let digest = match args.trace_digest {
            true => format!(", digest {}", hex(*digest)),
            false => String::new(),
        };
        output.line(&format!(
            "seed {seed}: no promise broken in {} of its time; {}, {} commits, {} rollouts \
             ended{digest}",
            lived(sum.lived),
            events(sum.events),
            sum.commits,
            sum.rollouts
        ))?;
        output.lines(tally_lines(&sum.tally, false))?;
    }
    match sum.violations.first() {
        None => Ok(DONE),
        Some(violation) => {
            if !args.json.json {
                output.lines(violation_lines(violation))?;
            }
            Err(Failure::failed(format!("seed {seed} breaks {}", violation.invariant)))
        }
    }
}

/// Plays a campaign.
pub(super) fn run(
    seeds: RangeInclusive<u64>,
    args: &SimArgs,
    output: &mut Output,
) -> Result<u8, Failure> {
    name_the_seed_of_a_panic();
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from).min(256));
    let course = course(args);
    let (first, last) = (*seeds.start(), *seeds.end());
    let digests = args.trace_digest;
    let runner = Runner { seeds, course: course.clone(), jobs, digests };
    let mut progress = Progress::new(last - first + 1, args.json.json, output);
    let mut gone = None;
    let sum = runner.run(remember, |sum| match progress.look(sum, output) {
        Ok(()) => true,
        Err(failure) => {
            gone = Some(failure);
            false
        }
    });
    let took = progress.finish(output)?;
    if let Some(failure) = gone {
        return Err(failure);
    }
    let missing: Vec<String> = sum.missing(&course).iter().map(ToString::to_string).collect();
    if args.json.json {
        output.json_value(&Outcome::of_sum(first, last, &sum, missing.clone()))?;
    } else if digests {
        let of = |(seed, digest): &(u64, u64)| format!("seed {seed} digest {}", hex(*digest));
        output.lines(sum.digests.iter().map(of))?;
        broken_lines(&sum, output)?;
    } else {
        result_lines(&sum, jobs, took, output)?;
        broken_lines(&sum, output)?;
    }
    verdict(&sum, &missing)?;
    if !args.json.json && !digests {
        output.line(match missing_is_judged(&sum, &course) {
            true => "no promise broken; every fault and rare branch of the list occurred",
            false => "no promise broken",
        })?;
    }
    Ok(DONE)
}

fn course(args: &SimArgs) -> Course {
    Course {
        hosts: args.hosts,
        chaos: args.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
        generation: args.generation.unwrap_or(Generation::NEWEST),
        last_events: args.last,
        ..Course::of(0)
    }
}

/// Whether a fault that never occurs in so many seeds fails the campaign.
fn missing_is_judged(sum: &Sum, course: &Course) -> bool {
    !Sum { seeds: sum.seeds, ..Sum::default() }.missing(course).is_empty()
}

fn result_lines(sum: &Sum, jobs: usize, took: Duration, out: &mut Output) -> Result<(), Failure> {
    let kept = sum.seeds - sum.broken;
    out.lines([
        format!(
            "{} seeds played in {} on {}, {:.1} a second",
            grouped(sum.seeds),
            lived(took),
            count(jobs, "thread"),
            sum.seeds as f64 / took.as_secs_f64().max(0.001)
        ),
        format!(
            "{} of them kept every promise: {} in {} of their time, {} commits, {} rollouts ended",
            grouped(kept),
            events(sum.events),
            lived(sum.lived),
            grouped(sum.commits),
            grouped(sum.rollouts)
        ),
    ])?;
    out.lines(tally_lines(&sum.tally, true))
}

/// The broken seeds in short, the first one with its last events and how it is played again.
fn broken_lines(sum: &Sum, output: &mut Output) -> Result<(), Failure> {
    let Some(first) = sum.violations.first() else { return Ok(()) };
    output.lines(sum.violations.iter().skip(1).map(in_short))?;
    let left_out = sum.broken.saturating_sub(sum.violations.len() as u64);
    if left_out > 0 {
        output.line(&format!("… and {left_out} seeds more"))?;
    }
    output.lines(violation_lines(first))
}

fn in_short(violation: &Violation) -> String {
    format!(
        "seed {}: {} broken at {:?}: {}; replay: {}",
        violation.seed, violation.invariant, violation.at, violation.what, violation.replay
    )
}

fn verdict(sum: &Sum, missing: &[String]) -> Result<(), Failure> {
    let mut faults = Vec::new();
    if let Some(first) = sum.violations.first() {
        let (broken, seeds, replay) = (sum.broken, sum.seeds, &first.replay);
        let broke = format!("{broken} of {seeds} seeds broke a promise; the first: `{replay}`");
        faults.push(broke);
    }
    if !missing.is_empty() {
        let (seeds, names) = (sum.seeds, missing.join(", "));
        faults.push(format!("never occurred in {seeds} seeds: {names}"));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(faults.join("\n"))),
    }
}

/// How far it is: in place on a terminal, else a line now and then.
struct Progress {
    of: u64,
    live: Option<Live>,
    silent: bool,
    began: Instant,
    told: Instant,
    /// Broken seeds that were told: whoever waits for an hour wants to know of the first at once.
    told_broken: u64,
}

impl Progress {
    fn new(of: u64, silent: bool, output: &Output) -> Self {
        let live = (!silent && output.is_terminal()).then(Live::new);
        let began = Instant::now();
        Self { of, live, silent, began, told: began, told_broken: 0 }
    }

    fn look(&mut self, sum: &Sum, output: &mut Output) -> Result<(), Failure> {
        let new = sum.broken.saturating_sub(self.told_broken) as usize;
        if new > 0 && !self.silent && self.live.is_none() {
            // The newest ones stand last until there are more than are kept.
            output.lines(sum.violations.iter().rev().take(new).map(in_short))?;
            self.told_broken = sum.broken;
        }
        let every = if self.live.is_some() { LIVE_EVERY } else { LINE_EVERY };
        if self.silent || self.told.elapsed() < every {
            return Ok(());
        }
        self.told = Instant::now();
        let line = progress_line(sum.seeds, sum.broken, self.of, self.began.elapsed());
        match &mut self.live {
            Some(live) => {
                let newest = sum.violations.iter().rev().take(SHOWN_MAX).map(in_short);
                live.draw(&std::iter::once(line).chain(newest).collect::<Vec<_>>());
                Ok(())
            }
            None => output.line(&line),
        }
    }

    /// How long it took.
    fn finish(self, output: &mut Output) -> Result<Duration, Failure> {
        if let Some(live) = self.live {
            live.finish(output)?;
        }
        Ok(self.began.elapsed())
    }
}

/// `312 of 2,000 seeds, 15.1 a second, 1 broken, about 1m 51s left`.
fn progress_line(seeds: u64, broken: u64, of: u64, took: Duration) -> String {
    let speed = seeds as f64 / took.as_secs_f64().max(0.001);
    let left = match seeds {
        seeds if seeds == 0 || seeds >= of => String::new(),
        _ => {
            let left = Duration::from_secs(((of - seeds) as f64 / speed) as u64);
            format!(", about {} left", lived(left))
        }
    };
    let (seeds, of) = (grouped(seeds), grouped(of));
    format!("{seeds} of {of} seeds, {speed:.1} a second, {broken} broken{left}")
}

thread_local! {
    /// What this thread plays.
    static PLAYED: RefCell<String> = const { RefCell::new(String::new()) };
}

fn remember(course: &Course) {
    PLAYED.set(course.command());
}

/// A node that panics ends the campaign; then at least the seed is known.
fn name_the_seed_of_a_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let replay = PLAYED.with_borrow(Clone::clone);
        if !replay.is_empty() {
            write_stderr(&format!("replay: {replay}"));
        }
    }));
}

/// Often enough for eyes.
const LIVE_EVERY: Duration = Duration::from_millis(200);

/// A log of an hour's campaign is a page long.
const LINE_EVERY: Duration = Duration::from_secs(20);

/// Broken seeds that are shown beside the progress; the end lists all.
const SHOWN_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_far_how_fast_and_how_long() {
        let second = Duration::from_secs;
        for (seeds, took, want) in [
            (0, second(1), "0 of 2,000 seeds, 0.0 a second, 1 broken"),
            (500, second(50), "500 of 2,000 seeds, 10.0 a second, 1 broken, about 2m 30s left"),
            (1_999, second(400), "1,999 of 2,000 seeds, 5.0 a second, 1 broken, about 0s left"),
            (2_000, second(200), "2,000 of 2,000 seeds, 10.0 a second, 1 broken"),
        ] {
            assert_eq!(progress_line(seeds, 1, 2_000, took), want);
        }
    }

    #[test]
    fn a_fault_that_never_occurred_fails_a_campaign_and_is_named() {
        let sum = Sum { seeds: 300, ..Sum::default() };
        let failure = verdict(&sum, &["partition".to_owned()]).expect_err("missing");
        assert_eq!(failure, Failure::failed("never occurred in 300 seeds: partition"));
        assert_eq!(verdict(&sum, &[]), Ok(()));
        assert!(missing_is_judged(&sum, &Course::of(0)));
        let earlier = Course { generation: Generation::Second, ..Course::of(0) };
        assert!(!missing_is_judged(&sum, &earlier));
        assert!(!missing_is_judged(&Sum { seeds: 199, ..Sum::default() }, &Course::of(0)));
    }
}
