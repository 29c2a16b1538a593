//! Many seeds on several threads.
//!
//! Invariant: threads decide only when a life is played, never what happens in it. The sum of a
//! campaign does not depend on their number.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::campaign::Report;
use crate::check::Violation;
use crate::course::{Course, Generation};
use crate::tally::{Occurrence, Tally};

/// What a campaign of many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Seeds played so far.
    pub seeds: u64,
    /// Seeds that broke a promise.
    pub broken: u64,
    /// The first violations, by seed; no more than [`VIOLATIONS_KEPT`].
    pub violations: Vec<Violation>,
    /// Events of the seeds that broke none.
    pub events: u64,
    /// Commits of their ledgers.
    pub commits: u64,
    /// Rollouts that ended in them.
    pub rollouts: u64,
    /// The world's time in them.
    pub lived: Duration,
    /// What befell them.
    pub tally: Tally,
    /// The traces' digests, by seed, if they were asked for.
    pub digests: Vec<(u64, u64)>,
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Its seeds, both ends included.
    pub seeds: RangeInclusive<u64>,
    /// What is not left to them; its own seed is not played.
    pub course: Course,
    /// Threads.
    pub jobs: usize,
    /// Keeps every trace's digest.
    pub digests: bool,
}

impl Runner {
    /// Plays all of it, and tells now and then how far it has come; `false` from there ends it.
    /// `begins` is told on the playing thread which course it begins.
    pub fn run(
        &self,
        begins: impl Fn(&Course) + Sync,
        mut progress: impl FnMut(&Sum) -> bool,
    ) -> Sum {
        let next = AtomicU64::new(*self.seeds.start());
        let last = *self.seeds.end();
        let mut sum = Sum::default();
        let (ended, news) = mpsc::sync_channel(self.jobs.max(1));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let (ended, next, begins) = (ended.clone(), &next, &begins);
                scope.spawn(move || {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        // Past the end, or past the greatest number: both are the end.
                        if seed > last || seed < *self.seeds.start() {
                            break;
                        }
                        let course = self.course.with_seed(seed);
                        begins(&course);
                        if ended.send((seed, course.play())).is_err() || seed == u64::MAX {
                            break;
                        }
                    }
                });
            }
            drop(ended);
            loop {
                match news.recv_timeout(LOOK) {
                    Ok((seed, end)) => sum.add(seed, end, self.digests),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if !progress(&sum) {
                    next.store(last.saturating_add(1), Ordering::Relaxed);
                    drop(news);
                    break;
                }
            }
        });
        sum.violations.sort_by_key(|violation| violation.seed);
        sum.digests.sort_unstable();
        sum
    }
}

impl Sum {
    fn add(&mut self, seed: u64, end: Result<Report, Box<Violation>>, digests: bool) {
        self.seeds += 1;
        match end {
            Ok(report) => {
                self.events += report.events;
                self.commits += report.version;
                self.rollouts += report.rollouts as u64;
                self.lived += report.lived;
                self.tally.add(&report.tally);
                if digests {
                    self.digests.push((seed, report.hash));
                }
            }
            Err(violation) => {
                self.broken += 1;
                self.violations.push(*violation);
                if self.violations.len() > VIOLATIONS_KEPT {
                    self.violations.sort_by_key(|violation| violation.seed);
                    self.violations.truncate(VIOLATIONS_KEPT);
                }
            }
        }
    }

    /// What should have occurred in so many seeds and never did. A life without the later faults is
    /// not asked for them.
    pub fn missing(&self, course: &Course) -> Vec<Occurrence> {
        match course.generation {
            Generation::NEWEST => self.tally.missing(self.seeds),
            _ => Vec::new(),
        }
    }
}

/// Violations that are kept with their events; more would be read by nobody.
pub const VIOLATIONS_KEPT: usize = 50;

/// How often progress is told while no life ends.
const LOOK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(seeds: RangeInclusive<u64>, jobs: usize) -> Runner {
        let course = Course { hosts: Some(3), chaos: Some(Duration::ZERO), ..Course::of(0) };
        Runner { seeds, course, jobs, digests: true }
    }

    #[test]
    fn the_sum_does_not_depend_on_the_threads() {
        let [one, three] = [1, 3].map(|jobs| runner(5..=10, jobs).run(|_| (), |_| true));
        assert_eq!((one.seeds, one.broken), (6, 0));
        assert_eq!(one.digests, three.digests);
        assert_eq!(
            one.digests.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(),
            [5, 6, 7, 8, 9, 10]
        );
        assert_eq!((one.events, &one.tally, one.lived), (three.events, &three.tally, three.lived));
    }

    #[test]
    fn the_greatest_seed_is_played_once_and_an_end_is_heard() {
        let sum = runner(u64::MAX - 1..=u64::MAX, 2).run(|_| (), |_| true);
        assert_eq!(sum.seeds, 2);
        let sum = runner(1..=1_000_000, 1).run(|_| (), |sum| sum.seeds < 1);
        assert_eq!(sum.seeds, 1);
    }

    #[test]
    fn the_first_violations_are_kept() {
        let mut sum = Sum::default();
        for seed in (1..=VIOLATIONS_KEPT as u64 + 9).rev() {
            let violation = Violation {
                seed,
                invariant: "a promise",
                what: String::new(),
                at: Duration::ZERO,
                recent: Vec::new(),
                replay: String::new(),
            };
            sum.add(seed, Err(Box::new(violation)), false);
        }
        assert_eq!((sum.broken, sum.violations.len()), (59, VIOLATIONS_KEPT));
        assert!(sum.violations.iter().all(|violation| violation.seed <= VIOLATIONS_KEPT as u64));
    }
}
