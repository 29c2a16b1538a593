//! `[update]` and `[rollback]` of a scenario: the keys of a service file, over short times.
//!
//! Invariant: a key or value that a service file would refuse is refused here, too.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::policy::{Approve, Limit, OnDemote, OnFailure, OnNotReady, Policy};
use baton_types::{Name, parse_duration};

use super::ScriptError;

/// The keys of one table.
pub(super) type Table = BTreeMap<String, toml::Value>;

/// What a table says, over `base`.
pub(super) fn read(
    table: &'static str,
    values: &Table,
    base: Policy,
) -> Result<Policy, ScriptError> {
    let mut policy = base;
    for (key, value) in values {
        set(&mut policy, key, value)
            .map_err(|allowed| ScriptError::value(&format!("{table}.{key}"), value, allowed))?;
    }
    if table == ROLLBACK && policy.on_failure != OnFailure::Pause {
        let allowed = "pause: a rollback that fails is paused";
        return Err(ScriptError::value("rollback.on_failure", policy.on_failure, allowed));
    }
    Ok(policy)
}

/// What `[rollback]` leaves out is what `[update]` says; a rollback that fails is paused.
pub(super) fn of_rollback(values: &Table, update: &Policy) -> Result<Policy, ScriptError> {
    let base = Policy { on_failure: OnFailure::Pause, ..update.clone() };
    read(ROLLBACK, values, base)
}

/// Sets one key; what is allowed, if that is not.
fn set(policy: &mut Policy, key: &str, value: &toml::Value) -> Result<(), &'static str> {
    match key {
        "max_unavailable" => policy.max_unavailable = positive_limit(value)?,
        "max_failures" => policy.max_failures = limit(value).ok_or(LIMIT)?,
        "start_timeout" => policy.start_timeout = positive_span(value)?,
        "monitor" => policy.monitor = span(value).ok_or(SPAN)?,
        "prepare_timeout" => policy.prepare_timeout = positive_span(value)?,
        "ready_timeout" => policy.ready_timeout = positive_span(value)?,
        "turn_timeout" => policy.turn_timeout = positive_span(value)?,
        "progress_timeout" => policy.progress_timeout = positive_span(value)?,
        "delay" => policy.delay = span(value).ok_or(SPAN)?,
        "on_failure" => {
            policy.on_failure =
                word(value, OnFailure::from_word).ok_or("pause, rollback, continue")?;
        }
        "on_demote" => {
            policy.on_demote =
                word(value, OnDemote::from_word).ok_or("cancel, rollback, ignore")?;
        }
        "on_not_ready" => {
            policy.on_not_ready = word(value, OnNotReady::from_word).ok_or("fail, skip, force")?;
        }
        "waves" => policy.waves = waves(value).ok_or(WAVES)?,
        "wave_soak" => policy.wave_soak = span(value).ok_or(SPAN)?,
        "approve" => policy.approve = word(value, Approve::from_word).ok_or("auto, manual")?,
        "zone_label" => policy.zone_label = label(value).ok_or(LABEL)?,
        _ => return Err(KEYS),
    }
    Ok(())
}

fn limit(value: &toml::Value) -> Option<Limit> {
    match value {
        toml::Value::String(text) => text.parse().ok(),
        toml::Value::Integer(number) => u32::try_from(*number).ok().map(Limit::Count),
        _ => None,
    }
}

fn positive_limit(value: &toml::Value) -> Result<Limit, &'static str> {
    let is_none = |limit: &Limit| matches!(limit, Limit::Count(0) | Limit::Percent(0));
    limit(value).filter(|limit| !is_none(limit)).ok_or(POSITIVE_LIMIT)
}

fn span(value: &toml::Value) -> Option<Duration> {
    parse_duration(value.as_str()?).ok()
}

fn positive_span(value: &toml::Value) -> Result<Duration, &'static str> {
    span(value).filter(|span| !span.is_zero()).ok_or(POSITIVE_SPAN)
}

fn word<T>(value: &toml::Value, from_word: impl Fn(&str) -> Option<T>) -> Option<T> {
    from_word(value.as_str()?)
}

fn waves(value: &toml::Value) -> Option<Vec<Limit>> {
    let waves = value.as_array().filter(|waves| waves.len() <= WAVES_MAX)?;
    waves.iter().map(|wave| positive_limit(wave).ok()).collect()
}

/// `""` is no label.
fn label(value: &toml::Value) -> Option<Option<String>> {
    match value.as_str()? {
        "" => Some(None),
        label => Name::new(label).ok().map(|name| Some(name.into())),
    }
}

const ROLLBACK: &str = "rollback";

/// As many as a service file may have.
const WAVES_MAX: usize = 16;

const LIMIT: &str = "a number or a share like \"25%\"";
const POSITIVE_LIMIT: &str = "a number from 1 up or a share from \"1%\" to \"100%\"";
const SPAN: &str = "a time like \"10s\"";
const POSITIVE_SPAN: &str = "a time like \"10s\", not 0";
const WAVES: &str = "up to 16 of numbers from 1 up and shares, like [1, \"25%\"]";
const LABEL: &str = "the name of a label, or \"\" for none";
const KEYS: &str = "no such key; there are max_unavailable, start_timeout, monitor, prepare_timeout, \
                    ready_timeout, turn_timeout, delay, max_failures, on_failure, on_demote, \
                    on_not_ready, progress_timeout, waves, wave_soak, approve, zone_label";

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).expect("a table")
    }

    #[test]
    fn every_key_of_a_service_file_is_read() {
        let text = "max_unavailable = \"25%\"\nstart_timeout = \"1s\"\nmonitor = \"2s\"\n\
                    prepare_timeout = \"3s\"\nready_timeout = \"4s\"\nturn_timeout = \"5s\"\n\
                    delay = \"6s\"\nmax_failures = 1\non_failure = \"rollback\"\n\
                    on_demote = \"ignore\"\non_not_ready = \"force\"\nprogress_timeout = \"7s\"\n\
                    waves = [1, \"50%\"]\nwave_soak = \"8s\"\napprove = \"manual\"\n\
                    zone_label = \"rack\"";
        let wanted = Policy {
            max_unavailable: Limit::Percent(25),
            start_timeout: Duration::from_secs(1),
            monitor: Duration::from_secs(2),
            prepare_timeout: Duration::from_secs(3),
            ready_timeout: Duration::from_secs(4),
            turn_timeout: Duration::from_secs(5),
            delay: Duration::from_secs(6),
            max_failures: Limit::Count(1),
            on_failure: OnFailure::Rollback,
            on_demote: OnDemote::Ignore,
            on_not_ready: OnNotReady::Force,
            progress_timeout: Duration::from_secs(7),
            waves: vec![Limit::Count(1), Limit::Percent(50)],
            wave_soak: Duration::from_secs(8),
            approve: Approve::Manual,
            zone_label: Some("rack".to_owned()),
        };
        assert_eq!(read("update", &table(text), Policy::default()), Ok(wanted.clone()));
        let back = of_rollback(&table("delay = \"0s\"\nzone_label = \"\""), &wanted);
        let paused = Policy { on_failure: OnFailure::Pause, ..wanted };
        assert_eq!(back, Ok(Policy { delay: Duration::ZERO, zone_label: None, ..paused }));
    }

    #[test]
    fn what_a_service_file_would_refuse_is_refused() {
        for (text, part) in [
            ("speed = 2", "`update.speed`: 2; allowed: no such key; there are max_unavailable"),
            ("max_unavailable = 0", "`update.max_unavailable`: 0; allowed: a number from 1 up"),
            ("max_unavailable = \"200%\"", "update.max_unavailable"),
            ("max_failures = -1", "`update.max_failures`: -1; allowed: a number or a share"),
            ("monitor = \"5\"", "`update.monitor`: \"5\"; allowed: a time like \"10s\""),
            ("start_timeout = \"0s\"", "not 0"),
            ("on_failure = \"stop\"", "allowed: pause, rollback, continue"),
            ("on_demote = \"stop\"", "allowed: cancel, rollback, ignore"),
            ("on_not_ready = \"wait\"", "allowed: fail, skip, force"),
            ("waves = [0]", "`update.waves`: [0]; allowed: up to 16 of numbers"),
            ("waves = \"25%\"", "update.waves"),
            ("approve = true", "allowed: auto, manual"),
            ("zone_label = \"a b\"", "the name of a label"),
        ] {
            let error = read("update", &table(text), Policy::default()).expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = of_rollback(&table("on_failure = \"continue\""), &Policy::default());
        let error = error.expect_err("it is paused").to_string();
        assert!(error.contains("`rollback.on_failure`: continue; allowed: pause"), "{error}");
    }
}
