//! Whole groups under faults, one campaign per seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_sim::{Campaign, Tally};

/// Seeds of the normal test: as many as fit about a minute on two cores.
const SEEDS: u64 = 400;

#[test]
fn seeds_keep_every_promise() {
    if let Some(seed) = number("BATON_SIM_SEED") {
        match Campaign::new(seed, 400).run() {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(violation) => panic!("{violation}"),
        }
        return;
    }
    let seeds = number("BATON_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(1);
    let broken = Mutex::new(Vec::new());
    let done = Mutex::new((0u64, 0usize, 0u64, Tally::default()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        break;
                    }
                    match Campaign::new(seed, 40).run() {
                        Ok(report) => {
                            let mut done = done.lock().expect("whole");
                            done.0 += report.events;
                            done.1 += report.rollouts;
                            done.2 += report.version;
                            done.3.add(&report.tally);
                        }
                        Err(violation) => broken.lock().expect("whole").push(violation),
                    }
                }
            });
        }
    });
    let (events, rollouts, commits, tally) = done.into_inner().expect("whole");
    println!("{seeds} seeds: {events} events, {commits} commits, {rollouts} rollouts ended");
    for (what, count) in tally.rows() {
        println!("{count:>12} {what}");
    }
    let mut broken = broken.into_inner().expect("whole");
    broken.sort_by_key(|violation| violation.seed);
    for violation in broken.iter().skip(1) {
        println!(
            "seed {}: {} at {:?}: {}",
            violation.seed, violation.invariant, violation.at, violation.what
        );
    }
    if let Some(first) = broken.first() {
        panic!("{} of {seeds} seeds broke a promise; the first: {first}", broken.len());
    }
    let missing: Vec<String> = tally.missing(seeds).iter().map(ToString::to_string).collect();
    assert!(missing.is_empty(), "never occurred in {seeds} seeds: {}", missing.join(", "));
}

/// Seeds beyond the usual ones that once broke a promise: 214 and 662 by two nodes that answered
/// each other's refusals for ever, 482 by a claim that was answered without asking the budget, 16388
/// by one that was taken for ill after its daemon had restarted. In 506 a turn of the way there goes
/// beside one of the way back, whose policy allows two.
#[test]
fn seeds_that_once_failed_stay_well() {
    for seed in [214, 482, 506, 662, 16_388] {
        if let Err(violation) = Campaign::plain(seed, 60).run() {
            panic!("{violation}");
        }
    }
}

#[test]
fn a_seed_replays_byte_for_byte() {
    for seed in [3, 7, 20, 41, 60] {
        let run = || Campaign::new(seed, 40).run().map_err(|violation| violation.to_string());
        let (first, second) = (run(), run());
        assert_eq!(first, second, "seed {seed}");
        let lines = || Campaign::new(seed, usize::MAX).lines();
        assert_eq!(lines(), lines(), "seed {seed}");
    }
    let hash = |seed| Campaign::new(seed, 0).run().map(|report| report.hash).ok();
    assert_ne!(hash(3), hash(7), "another seed is another run");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
