//! What a campaign or a scenario came to, as JSON and in words.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_sim::campaign::Report;
use baton_sim::{Sum, Tally, Violation};
use baton_types::format_duration;
use serde::Serialize;

/// The result, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// `good` or `broken`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<String>,
    first_seed: u64,
    last_seed: u64,
    seeds: u64,
    broken: u64,
    events: u64,
    commits: u64,
    rollouts: u64,
    virtual_seconds: u64,
    counts: BTreeMap<String, u64>,
    /// What should have occurred and never did.
    missing: Vec<String>,
    violations: Vec<Broken>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    digests: Vec<Digest>,
}

#[derive(Debug, Serialize)]
struct Broken {
    seed: u64,
    invariant: &'static str,
    what: String,
    at_ms: u64,
    recent: Vec<String>,
    replay: String,
}

#[derive(Debug, Serialize)]
struct Digest {
    seed: u64,
    digest: String,
}

impl Outcome {
    /// Of seeds that were played.
    pub(super) fn of_sum(first: u64, last: u64, sum: &Sum, missing: Vec<String>) -> Self {
        let good = sum.broken == 0 && missing.is_empty();
        Self {
            result: if good { "good" } else { "broken" },
            scenario: None,
            first_seed: first,
            last_seed: last,
            seeds: sum.seeds,
            broken: sum.broken,
            events: sum.events,
            commits: sum.commits,
            rollouts: sum.rollouts,
            virtual_seconds: sum.lived.as_secs(),
            counts: counts(&sum.tally),
            missing,
            violations: sum.violations.iter().map(Broken::of).collect(),
            digests: sum
                .digests
                .iter()
                .map(|(seed, digest)| Digest { seed: *seed, digest: hex(*digest) })
                .collect(),
        }
    }

    /// Of a scenario that was played.
    pub(super) fn of_scenario(file: &str, seed: u64, end: &Result<Report, Box<Violation>>) -> Self {
        let mut sum = Sum { seeds: 1, ..Sum::default() };
        match end {
            Ok(report) => {
                sum.events = report.events;
                sum.commits = report.version;
                sum.rollouts = report.rollouts as u64;
                sum.lived = report.lived;
                sum.tally = report.tally.clone();
                sum.digests = vec![(seed, report.hash)];
            }
            Err(violation) => {
                sum.broken = 1;
                sum.violations = vec![violation.as_ref().clone()];
            }
        }
        Self { scenario: Some(file.to_owned()), ..Self::of_sum(seed, seed, &sum, Vec::new()) }
    }
}

impl Broken {
    fn of(violation: &Violation) -> Self {
        Self {
            seed: violation.seed,
            invariant: violation.invariant,
            what: violation.what.clone(),
            at_ms: u64::try_from(violation.at.as_millis()).unwrap_or(u64::MAX),
            recent: violation.recent.clone(),
            replay: violation.replay.clone(),
        }
    }
}

/// Names are the words with `_` for spaces.
fn counts(tally: &Tally) -> BTreeMap<String, u64> {
    tally.rows().map(|(what, count)| (what.to_string().replace(' ', "_"), count)).collect()
}

/// What befell it, a line each; what never occurred is left out of one seed's.
pub(super) fn tally_lines(tally: &Tally, all: bool) -> Vec<String> {
    let rows = tally.rows().filter(|(_, count)| all || *count > 0);
    rows.map(|(what, count)| format!("{count:>12}  {what}")).collect()
}

/// A violation in lines.
pub(super) fn violation_lines(violation: &Violation) -> Vec<String> {
    violation.to_string().lines().map(str::to_owned).collect()
}

/// `16 digits`.
pub(super) fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

/// `31,024 events`.
pub(super) fn events(events: u64) -> String {
    format!("{} events", grouped(events))
}

/// Thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time, in whole seconds.
pub(super) fn lived(lived: Duration) -> String {
    match lived.as_secs() {
        0 => "0s".to_owned(),
        seconds => format_duration(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, want) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (31_024, "31,024"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), want);
        }
    }

    #[test]
    fn a_campaign_that_missed_a_fault_is_broken() {
        let sum = Sum { seeds: 200, ..Sum::default() };
        assert_eq!(Outcome::of_sum(1, 200, &sum, Vec::new()).result, "good");
        assert_eq!(Outcome::of_sum(1, 200, &sum, vec!["partition".to_owned()]).result, "broken");
        let counts = Outcome::of_sum(1, 200, &sum, Vec::new()).counts;
        assert_eq!(counts.get("datagram_lost"), Some(&0));
    }
}
