//! Whole groups under faults, one campaign per seed.

use baton_sim::{Campaign, Course, Generation, Runner};

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
    let jobs = std::thread::available_parallelism().map_or(2, usize::from);
    let course = Course::of(0);
    let runner = Runner { seeds: 1..=seeds, course: course.clone(), jobs, digests: false };
    let sum = runner.run(|_| (), |_| true);
    let (events, commits, rollouts) = (sum.events, sum.commits, sum.rollouts);
    println!("{seeds} seeds: {events} events, {commits} commits, {rollouts} rollouts ended");
    for (what, count) in sum.tally.rows() {
        println!("{count:>12} {what}");
    }
    for violation in sum.violations.iter().skip(1) {
        println!(
            "seed {}: {} at {:?}: {}",
            violation.seed, violation.invariant, violation.at, violation.what
        );
    }
    if let Some(first) = sum.violations.first() {
        panic!("{} of {seeds} seeds broke a promise; the first: {first}", sum.broken);
    }
    let missing: Vec<String> = sum.missing(&course).iter().map(ToString::to_string).collect();
    assert!(missing.is_empty(), "never occurred in {seeds} seeds: {}", missing.join(", "));
}

/// Seeds beyond the usual ones that once broke a promise: 214 and 662 by two nodes that answered
/// each other's refusals for ever, 482 by a claim that was answered without asking the budget, 16388
/// by one that was taken for ill after its daemon had restarted. In 506 a turn of the way there goes
/// beside one of the way back, whose policy allows two.
#[test]
fn seeds_that_once_failed_stay_well() {
    for seed in [214, 482, 506, 662, 16_388] {
        if let Err(violation) = Campaign::of(Generation::First, seed, 60).run() {
            panic!("{violation}");
        }
    }
}

/// The same of the second generation. 90, 100, 175 and 250: a stop that overtook a
/// start held up by a machine that stood still. 48: a leader that stood still notices late that its
/// record was committed. 212: a turn beside one whose zone was not known. 6691: a finished wave that
/// stayed ill was waited for without end. 6521: a member that was down when all others started anew.
/// 10957: a machine stood still, and its member was taken for as well as before. 3736: such a member was
/// taken for ill instead, and went first. 15404: a member that died after its go, in a group whose first
/// rollout never ended well, got nothing when it was back. 16072 and 17357: an ill member of a later zone
/// went first, and others of its zone followed it before the earlier zone had begun.
#[test]
fn seeds_that_once_failed_by_later_faults_stay_well() {
    let seeds = [48, 90, 100, 175, 212, 250, 3_736, 6_521, 6_691, 10_957, 15_404, 16_072, 17_357];
    for seed in seeds {
        if let Err(violation) = Campaign::of(Generation::Second, seed, 60).run() {
            panic!("{violation}");
        }
    }
}

/// The same of the third generation. 388 and 20204: two voters of three lost their files, because the
/// observer took the first one's torn file for whole; and one that had left by force led. 31183: he did not
/// see that a write that had failed was there all the same after a power cut.
#[test]
fn seeds_that_once_failed_by_departures_and_lies_stay_well() {
    for seed in [388, 20_204, 31_183] {
        if let Err(violation) = Campaign::of(Generation::Third, seed, 60).run() {
            panic!("{violation}");
        }
    }
}

/// The same of the fifth. 1823: a daemon that went on early, when the faults ended, heard only later that
/// its program had died meanwhile. 303, 1896: a lost majority came back where it could not hear of the
/// reform. 3503, 4561: what was offered before a reform is not offered by it. 3703: a lineage that its nodes left
/// one by one decided again. 1825: a disk lied in a lineage of two voters. 2060: the end of a turn was not on disk yet when
/// that of another group began. 2294: who left its lineage owes it no report of a failure.
/// 1254, 1537: a lineage without any target leaves those who join it what they run. 156: before the first
/// baseline a member that had just booted was taken for ill, and stopped beside another one. 3360: one spoke to a
/// node as another one understood that had the address before. 1401: a lineage that nobody had told of a member that was off.
/// 18781: what another write had synced was there for good, and he was not told.
#[test]
fn seeds_that_once_failed_with_several_groups_stay_well() {
    for seed in [
        156, 303, 1_254, 1_401, 1_537, 1_823, 1_825, 1_896, 2_060, 2_294, 3_360, 3_503, 3_703,
        4_561, 18_781,
    ] {
        if let Err(violation) = Campaign::of(Generation::Fifth, seed, 60).run() {
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
