//! How long to wait before a service that failed is started again.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::launch::ServiceTiming;

/// Failures in a row; the wait doubles with each, up to a limit. Half of it is drawn at random, so
/// that members that fail for one common cause do not come back in step.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    /// The next failure is the first of a new row.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure: the wait after it, between half and all of min × 2^(failures before).
    pub(crate) fn next(&mut self, timing: &ServiceTiming, rng: &mut StdRng) -> Duration {
        let doubled = 2u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        let whole = timing.backoff_min.saturating_mul(doubled).min(timing.backoff_max);
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX).max(2);
        Duration::from_micros(rng.random_range(micros / 2..=micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_begins_anew() {
        let timing = ServiceTiming::default();
        let mut rng = StdRng::seed_from_u64(7);
        let mut backoff = BackOff::default();
        for whole in [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let wait = backoff.next(&timing, &mut rng).as_millis();
            assert!((whole / 2..=whole).contains(&wait), "{wait} of {whole}");
        }
        backoff.failures = u32::MAX;
        assert!(backoff.next(&timing, &mut rng) <= timing.backoff_max);
        backoff.reset();
        assert!(backoff.next(&timing, &mut rng) <= timing.backoff_min);
    }

    #[test]
    fn members_do_not_come_back_in_step() {
        let waits: std::collections::BTreeSet<_> = (0..20)
            .map(|seed| {
                let mut rng = StdRng::seed_from_u64(seed);
                BackOff::default().next(&ServiceTiming::default(), &mut rng)
            })
            .collect();
        assert!(waits.len() > 15, "{waits:?}");
    }
}
