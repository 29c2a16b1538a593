//! How long a suspicion lasts: Lifeguard (Dadgar, Phillips, Currey, 2017), section "Suspicion
//! timeouts".
//!
//! Invariant: never below the floor, never above the ceiling, shorter with every confirmation,
//! and at the floor only with all of them.

use std::time::Duration;

use baton_types::RingTiming;
use baton_wire::ring::ACCUSERS_MAX;

/// From the start of a suspicion to death, in a ring of `members` reachable ones, when `accusers`
/// members have failed to reach the suspect.
pub(crate) fn timeout(timing: &RingTiming, members: usize, accusers: usize) -> Duration {
    let floor = timing.suspicion_floor;
    let scale = (members.max(1) as f64).log10().max(1.0);
    let stretch = f64::from(timing.suspicion_multiplier) * scale;
    let ceiling = timing.probe_period.mul_f64(stretch.min(STRETCH_MAX)).max(floor);
    let confirmations = accusers.saturating_sub(1).min(ACCUSERS_MAX - 1);
    let share = (confirmations as f64 + 1.0).ln() / (ACCUSERS_MAX as f64).ln();
    ceiling.saturating_sub((ceiling - floor).mul_f64(share.clamp(0.0, 1.0)))
}

/// Keeps a mistyped multiplier from overflowing a duration; a suspicion that long never ends.
const STRETCH_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::Profile;

    #[test]
    fn shrinks_with_confirmations_from_ceiling_to_floor() {
        let timing = Profile::Lan.timing();
        let check = |members, accusers, millis: u64| {
            let found = timeout(&timing, members, accusers).as_millis();
            assert_eq!(found, u128::from(millis), "{members} members, {accusers} accusers");
        };
        check(1, 1, 4_000);
        check(10, 1, 4_000);
        check(10, 2, 2_750);
        check(10, 4, 1_500);
        check(10, 400, 1_500);
        check(100, 1, 8_000);
        check(1_000, 1, 12_000);
        check(1_000, 4, 1_500);
    }

    #[test]
    fn a_multiplier_of_any_size_stays_in_bounds() {
        let mut timing = Profile::Lan.timing();
        timing.suspicion_multiplier = u32::MAX;
        assert!(timeout(&timing, 4_096, 1) > Duration::from_secs(3_600));
        timing.suspicion_multiplier = 0;
        assert_eq!(timeout(&timing, 4_096, 1), timing.suspicion_floor);
    }
}
