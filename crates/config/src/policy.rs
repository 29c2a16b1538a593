//! Reads `[update]` and `[rollback]` of one service.
//!
//! Invariant: what `[rollback]` leaves out is what `[update]` says, except `on_failure`: a rollback
//! that fails is paused, never rolled back.

use std::time::Duration;

use baton_types::names::Name;
use baton_types::policy::{Approve, OnDemote, OnFailure, OnNotReady};
use baton_types::{Limit, Policy};
use toml::de::DeValue;

use crate::document::{Document, Place};
use crate::limits::WAVES_MAX;
use crate::section::{Section, Setting};
use crate::value;

/// Which of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `[update]`.
    Update,
    /// `[rollback]`.
    Rollback,
}

/// A policy with the place of every setting, for the checks.
pub(crate) struct PolicyDraft<'a> {
    pub(crate) document: &'a Document<'a>,
    pub(crate) phase: Phase,
    pub(crate) max_unavailable: Setting<Limit>,
    pub(crate) start_timeout: Setting<Duration>,
    pub(crate) monitor: Setting<Duration>,
    pub(crate) prepare_timeout: Setting<Duration>,
    pub(crate) ready_timeout: Setting<Duration>,
    pub(crate) turn_timeout: Setting<Duration>,
    pub(crate) delay: Setting<Duration>,
    pub(crate) max_failures: Setting<Limit>,
    pub(crate) on_failure: Setting<OnFailure>,
    pub(crate) on_demote: Setting<OnDemote>,
    pub(crate) on_not_ready: Setting<OnNotReady>,
    pub(crate) progress_timeout: Setting<Duration>,
    pub(crate) waves: Setting<Vec<(Limit, Place)>>,
    pub(crate) wave_soak: Setting<Duration>,
    pub(crate) approve: Setting<Approve>,
    pub(crate) zone_label: Setting<Option<String>>,
}

/// Reads one of the two tables over `base`.
pub(crate) fn read_policy<'a>(
    mut section: Section<'a>,
    phase: Phase,
    base: &Policy,
) -> PolicyDraft<'a> {
    let mut waves = section.list("waves", WAVES_MAX, |found| nonzero(found, value::limit(found)?));
    if waves.is_absent() {
        waves.value = base.waves.iter().map(|wave| (*wave, waves.place.clone())).collect();
    }
    let draft = PolicyDraft {
        document: section.document,
        phase,
        max_unavailable: section.read("max_unavailable", base.max_unavailable, |found| {
            nonzero(found, value::limit(found)?)
        }),
        start_timeout: positive(&mut section, "start_timeout", base.start_timeout),
        monitor: any(&mut section, "monitor", base.monitor),
        prepare_timeout: positive(&mut section, "prepare_timeout", base.prepare_timeout),
        ready_timeout: positive(&mut section, "ready_timeout", base.ready_timeout),
        turn_timeout: positive(&mut section, "turn_timeout", base.turn_timeout),
        delay: any(&mut section, "delay", base.delay),
        max_failures: section.read("max_failures", base.max_failures, value::limit),
        on_failure: read_on_failure(&mut section, phase, base),
        on_demote: section
            .read("on_demote", base.on_demote, |found| value::choice(found, OnDemote::ALL)),
        on_not_ready: section
            .read("on_not_ready", base.on_not_ready, |found| value::choice(found, OnNotReady::ALL)),
        progress_timeout: positive(&mut section, "progress_timeout", base.progress_timeout),
        waves,
        wave_soak: any(&mut section, "wave_soak", base.wave_soak),
        approve: section.read("approve", base.approve, |found| value::choice(found, Approve::ALL)),
        zone_label: section.read("zone_label", base.zone_label.clone(), read_label),
    };
    section.finish();
    draft
}

impl PolicyDraft<'_> {
    /// The policy without places.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            max_unavailable: self.max_unavailable.value,
            start_timeout: self.start_timeout.value,
            monitor: self.monitor.value,
            prepare_timeout: self.prepare_timeout.value,
            ready_timeout: self.ready_timeout.value,
            turn_timeout: self.turn_timeout.value,
            delay: self.delay.value,
            max_failures: self.max_failures.value,
            on_failure: self.on_failure.value,
            on_demote: self.on_demote.value,
            on_not_ready: self.on_not_ready.value,
            progress_timeout: self.progress_timeout.value,
            waves: self.waves.value.iter().map(|(wave, _)| *wave).collect(),
            wave_soak: self.wave_soak.value,
            approve: self.approve.value,
            zone_label: self.zone_label.value.clone(),
        }
    }
}

fn read_on_failure(section: &mut Section<'_>, phase: Phase, base: &Policy) -> Setting<OnFailure> {
    if phase == Phase::Update {
        return section
            .read("on_failure", base.on_failure, |found| value::choice(found, OnFailure::ALL));
    }
    section.read("on_failure", OnFailure::Pause, |found| {
        value::choice(found, ON_ROLLBACK_FAILURE)
            .map_err(|message| format!("{message} in a rollback, which pauses when it fails"))
    })
}

fn nonzero(found: &DeValue<'_>, limit: Limit) -> Result<Limit, String> {
    match limit {
        Limit::Count(0) | Limit::Percent(0) => {
            Err(value::mismatch(found, "a number from 1 up or a share from \"1%\" to \"100%\""))
        }
        limit => Ok(limit),
    }
}

fn read_label(found: &DeValue<'_>) -> Result<Option<String>, String> {
    let label = value::string(found, "the name of a label, or \"\" for none,")?;
    if label.is_empty() {
        return Ok(None);
    }
    Name::new(label).map(|name| Some(name.into())).map_err(|error| error.to_string())
}

fn positive(section: &mut Section<'_>, key: &'static str, base: Duration) -> Setting<Duration> {
    section.read(key, base, |found| value::duration(found, Duration::from_millis(1)))
}

fn any(section: &mut Section<'_>, key: &'static str, base: Duration) -> Setting<Duration> {
    section.read(key, base, |found| value::duration(found, Duration::ZERO))
}

/// The keys of both tables, for a key that stands in the wrong table.
pub(crate) const KEYS: &[&str] = &[
    "max_unavailable",
    "start_timeout",
    "monitor",
    "prepare_timeout",
    "ready_timeout",
    "turn_timeout",
    "delay",
    "max_failures",
    "on_failure",
    "on_demote",
    "on_not_ready",
    "progress_timeout",
    "waves",
    "wave_soak",
    "approve",
    "zone_label",
];

const ON_ROLLBACK_FAILURE: &[(OnFailure, &str)] = &[(OnFailure::Pause, "pause")];
