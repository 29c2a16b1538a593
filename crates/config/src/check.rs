//! What no single key can know: settings that contradict or defeat each other.
//!
//! Invariant: a check speaks only if at least one of the settings it compares was given, at that
//! setting's place; in `[rollback]` only if it was given there, so that nothing is told twice.

use std::collections::BTreeMap;

use baton_types::limits::NODE_MAX_SERVICES;
use baton_types::manifest::HealthTiming;
use baton_types::{GroupName, Limit, Policy, exact_duration};

use crate::document::Place;
use crate::policy::{Phase, PolicyDraft};
use crate::section::Setting;
use crate::service::{HealthDraft, ServiceFound, Surroundings};

/// The checks over all services of the node.
pub(crate) fn across_services(found: &[ServiceFound<'_>]) {
    let mut places: BTreeMap<&GroupName, String> = BTreeMap::new();
    for service in found {
        let Some((group, place)) = &service.group else { continue };
        if let Some(first) = places.get(group) {
            let message =
                format!("found {group} a second time; the first is at {first}, one is allowed");
            service.document.fault(place, message);
        } else if places.len() == NODE_MAX_SERVICES {
            let message = format!(
                "found one service more; at most {NODE_MAX_SERVICES} are allowed on one node"
            );
            service.document.fault(place, message);
            return;
        } else {
            places.insert(group, service.document.point(place));
        }
    }
}

/// The checks within one service.
pub(crate) fn within_service(
    health: &HealthDraft,
    update: &PolicyDraft<'_>,
    rollback: &PolicyDraft<'_>,
    expect: &Setting<u32>,
    around: &Surroundings,
) {
    for policy in [update, rollback] {
        policy.check_monitor(health);
        policy.check_times();
        policy.check_limits(expect);
        policy.check_waves(expect);
        policy.check_zone(around);
    }
}

impl PolicyDraft<'_> {
    /// A monitor that ends before the health check can have failed sees nothing.
    fn check_monitor(&self, health: &HealthDraft) {
        let monitor = self.monitor.value;
        if monitor.is_zero() {
            let message = "found \"0s\"; a release that exits right after its first healthy check \
                           would count as passed";
            self.warn(&[self.monitor.spot()], message.to_owned());
            return;
        }
        let timing = HealthTiming {
            interval: health.interval.value,
            timeout: health.timeout.value,
            healthy_after: health.healthy_after.value,
            unhealthy_after: health.unhealthy_after.value,
        };
        let checks = timing.interval().saturating_mul(timing.unhealthy_after());
        let needed = checks.saturating_add(timing.timeout());
        if monitor >= needed {
            return;
        }
        let mut spots = vec![self.monitor.spot()];
        if self.phase == Phase::Update {
            spots.push(health.interval.spot());
            spots.push(health.unhealthy_after.spot());
            spots.push(health.timeout.spot());
        }
        let message = format!(
            "found monitor = \"{}\", but the health check needs \"{}\" to fail (interval × \
             unhealthy_after + timeout); a member that falls ill would count as passed",
            exact_duration(monitor),
            exact_duration(needed)
        );
        self.warn(&spots, message);
    }

    fn check_times(&self) {
        let show = exact_duration;
        let needed = self.start_timeout.value.saturating_add(self.monitor.value);
        let turn = self.turn_timeout.value;
        if turn < needed {
            let message = format!(
                "found turn_timeout = \"{}\" with start_timeout + monitor = \"{}\"; at least their \
                 sum is allowed",
                show(turn),
                show(needed)
            );
            let spots = [self.turn_timeout.spot(), self.monitor.spot(), self.start_timeout.spot()];
            self.fault(&spots, message);
            return;
        }
        if self.ready_timeout.value >= turn {
            let message = format!(
                "found ready_timeout = \"{}\" with turn_timeout = \"{}\"; on_not_ready could never \
                 decide",
                show(self.ready_timeout.value),
                show(turn)
            );
            self.warn(&[self.ready_timeout.spot(), self.turn_timeout.spot()], message);
        }
        let progress = self.progress_timeout.value;
        let defaults = Policy::default();
        let changed = (progress, turn) != (defaults.progress_timeout, defaults.turn_timeout);
        if changed && progress < turn {
            let message = format!(
                "found progress_timeout = \"{}\" with turn_timeout = \"{}\"; a long turn would \
                 pause the rollout before it ends",
                show(progress),
                show(turn)
            );
            self.warn(&[self.progress_timeout.spot(), self.turn_timeout.spot()], message);
        }
        for (key, wait) in [("delay", &self.delay), ("wave_soak", &self.wave_soak)] {
            if wait.value >= progress {
                let message = format!(
                    "found {key} = \"{}\" with progress_timeout = \"{}\"; every wait would end in \
                     a pause",
                    show(wait.value),
                    show(progress)
                );
                self.warn(&[wait.spot(), self.progress_timeout.spot()], message);
            }
        }
    }

    /// Budget and threshold against the size of the group. Without a given `expect` it is unknown.
    fn check_limits(&self, expect: &Setting<u32>) {
        if !expect.is_given() {
            return;
        }
        let total = expect.value as usize;
        let (unavailable, failures) = (self.max_unavailable.value, self.max_failures.value);
        if let Limit::Count(count) = unavailable
            && count > expect.value
        {
            let message = format!(
                "found {count} in a group that starts with {total} (expect); at most {total} is \
                 allowed"
            );
            self.fault(&[self.max_unavailable.spot()], message);
            return;
        }
        if !failures.exceeded_by(total, total) {
            let message = format!(
                "found {failures} in a group that starts with {total} (expect); it can never be \
                 exceeded, so on_failure would never act"
            );
            self.warn(&[self.max_failures.spot()], message);
            return;
        }
        let tolerated = match failures {
            Limit::Count(count) => count as usize,
            Limit::Percent(share) => total * usize::from(share) / 100,
        };
        let down = unavailable.budget(total) + tolerated;
        // A group of two loses its quorum with any turn; no setting can change that.
        if total > 2 && down * 2 >= total {
            let message = format!(
                "found max_unavailable = {unavailable} and max_failures = {failures} in a group \
                 that starts with {total} (expect); together they let {down} members be down, half \
                 of it or more"
            );
            let spots = [self.max_unavailable.spot(), self.max_failures.spot()];
            self.warn(&spots, message);
        }
    }

    fn check_waves(&self, expect: &Setting<u32>) {
        if !self.waves.is_given() {
            return;
        }
        for pair in self.waves.value.windows(2) {
            let [(before, _), (wave, place)] = pair else { continue };
            let rises = match (before, wave) {
                (Limit::Count(a), Limit::Count(b)) => a < b,
                (Limit::Percent(a), Limit::Percent(b)) => a < b,
                // A number and a share compare only in a group of a known size, and there an
                // empty wave between them does no harm.
                _ if expect.is_given() => {
                    let total = expect.value as usize;
                    before.wave_end(total) <= wave.wave_end(total)
                }
                _ => true,
            };
            if !rises {
                let message = format!("found {wave} after {before}; each wave must be larger");
                self.document.fault(place, message);
            }
        }
    }

    fn check_zone(&self, around: &Surroundings) {
        let Some(label) = &self.zone_label.value else { return };
        if !around.labels.contains_key(label) {
            let message = format!(
                "found {label:?}, but node.labels of this node has no such label; it would be in a \
                 zone of its own"
            );
            self.warn(&[self.zone_label.spot()], message);
        }
    }

    fn fault(&self, spots: &[Spot<'_>], message: String) {
        if let Some(place) = self.blamed(spots) {
            self.document.fault(place, message);
        }
    }

    fn warn(&self, spots: &[Spot<'_>], message: String) {
        if let Some(place) = self.blamed(spots) {
            self.document.warn(place, message);
        }
    }

    /// The first spot that the file gives. Without one `[rollback]` is silent (`[update]` has
    /// spoken), and `[update]` names where the default would stand.
    fn blamed<'s>(&self, spots: &[Spot<'s>]) -> Option<&'s Place> {
        let given = spots.iter().find(|spot| spot.given);
        let or_first = spots.first().filter(|_| self.phase == Phase::Update);
        given.or(or_first).map(|spot| spot.place)
    }
}

/// Where a setting is, and whether the file gives it.
struct Spot<'s> {
    place: &'s Place,
    given: bool,
}

impl<T> Setting<T> {
    fn spot(&self) -> Spot<'_> {
        Spot { place: &self.place, given: self.is_given() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        let policy = Policy::default();
        let health = HealthTiming::default();
        let needed = health.interval() * health.unhealthy_after() + health.timeout();
        assert!(policy.monitor >= needed);
        assert!(policy.turn_timeout >= policy.start_timeout + policy.monitor);
        assert!(policy.ready_timeout < policy.turn_timeout);
        assert!(policy.delay < policy.progress_timeout && policy.wave_soak == Duration::ZERO);
    }
}
