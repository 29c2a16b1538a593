//! Reads one service: a file of `services.d`, or a `[[service]]` of `baton.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use baton_types::limits::GROUP_MAX_MEMBERS;
use baton_types::manifest::HealthTiming;
use baton_types::names::{GroupName, Name};
use baton_types::policy::Strategy;
use baton_types::service::Runner;
use baton_types::{Policy, service::ServiceSettings};
use toml::de::DeValue;

use crate::check;
use crate::document::{Document, Place};
use crate::limits::{
    CHECK_MIN, ENV_MAX, ENV_VALUE_MAX_BYTES, HEALTH_THRESHOLD_MAX, KEEP_RELEASES_MAX,
    PATH_MAX_BYTES, TRUSTED_KEYS_MAX, USER_MAX_BYTES,
};
use crate::node::ORDER;
use crate::policy::{self, Phase, read_policy};
use crate::section::{Section, Setting};
use crate::value;

/// What a service's file does not say itself.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// Whether `ring.join` is set: then `expect` is required.
    pub(crate) joins: bool,
    /// `node.labels`.
    pub(crate) labels: BTreeMap<String, String>,
}

/// A service as far as it could be read.
pub(crate) struct ServiceFound<'a> {
    /// Its file.
    pub(crate) document: &'a Document<'a>,
    /// Its group and where it is named.
    pub(crate) group: Option<(GroupName, Place)>,
    /// Complete if nothing required was missing or wrong.
    pub(crate) settings: Option<ServiceSettings>,
}

/// `[health]` with places, for the checks.
pub(crate) struct HealthDraft {
    pub(crate) interval: Setting<Option<Duration>>,
    pub(crate) timeout: Setting<Option<Duration>>,
    pub(crate) healthy_after: Setting<Option<u32>>,
    pub(crate) unhealthy_after: Setting<Option<u32>>,
}

/// Reads one service.
pub(crate) fn read_service<'a>(
    mut section: Section<'a>,
    around: &Surroundings,
) -> ServiceFound<'a> {
    let document = section.document;
    let name = section.require("name", "the name of the service", name_of);
    let group = section.read("group", None, |found| name_of(found).map(Some));
    let depot = section.require("depot", "a URL such as \"file:///srv/depot\"", value::depot);
    let release = section.read("release", None, |found| name_of(found).map(Some));
    let channel = section.read("channel", None, |found| name_of(found).map(Some));
    let poll = section.read("poll", POLL, |found| value::duration(found, CHECK_MIN));
    let trusted_keys = read_trusted_keys(&mut section);
    let strategy =
        section.read("strategy", Strategy::Rolling, |found| value::choice(found, Strategy::ALL));
    let runner = section.read("runner", Runner::Auto, |found| value::choice(found, Runner::ALL));
    if runner.value == Runner::Systemd {
        let message = "found \"systemd\", which this version does not have: the daemon starts the \
                       program itself, as with \"process\"";
        document.warn(&runner.place, message.to_owned());
    }
    let expect = read_expect(&mut section, around);
    let run_as = section.read("run_as", None, |found| user(found).map(Some));
    let keep_releases =
        section.read("keep_releases", 3, |found| value::integer(found, &(1..=KEEP_RELEASES_MAX)));
    let env = section.map("env", ENV_MAX, variable);
    let order = section
        .read(ORDER, label_order(around), |found| value::integer(found, &(i32::MIN..=i32::MAX)));

    let health = read_health(section.table("health"));
    let update = read_policy(section.table("update"), Phase::Update, &Policy::default());
    let rollback = read_policy(section.table("rollback"), Phase::Rollback, &update.policy());
    check::within_service(&health, &update, &rollback, &expect, around);
    section.finish_with(&[
        ("[health]", HEALTH_KEYS),
        ("[update]", policy::KEYS),
        ("baton.toml", MAIN_TABLES),
    ]);

    let default = |text: &str| Name::new(text).ok();
    let place = name.as_ref().map(|name| name.place.clone());
    let service = name.map(|name| name.value);
    let group = if group.is_absent() { default("default") } else { group.value };
    let named = service.clone().zip(group);
    let group = named.map(|(service, group)| GroupName { service, group });
    let settings = group.clone().and_then(|name| {
        Some(ServiceSettings {
            name,
            depot: depot?.value,
            release: release.value.or(service)?,
            channel: channel.value.or_else(|| default("stable"))?,
            poll: poll.value,
            trusted_keys,
            strategy: strategy.value,
            runner: runner.value,
            expect: expect.value,
            run_as: run_as.value,
            keep_releases: keep_releases.value,
            env: env.into_iter().map(|(name, (value, _))| (name, value)).collect(),
            health: HealthTiming {
                interval: health.interval.value,
                timeout: health.timeout.value,
                healthy_after: health.healthy_after.value,
                unhealthy_after: health.unhealthy_after.value,
            },
            update: update.policy(),
            rollback: rollback.policy(),
            order: order.value,
        })
    });
    ServiceFound { document, group: group.zip(place), settings }
}

fn read_health(mut section: Section<'_>) -> HealthDraft {
    let threshold =
        |found: &DeValue<'_>| value::integer(found, &(1..=HEALTH_THRESHOLD_MAX)).map(Some);
    let draft = HealthDraft {
        interval: section
            .read("interval", None, |found| value::duration(found, CHECK_MIN).map(Some)),
        timeout: section.read("timeout", None, |found| {
            value::duration(found, Duration::from_millis(1)).map(Some)
        }),
        healthy_after: section.read("healthy_after", None, threshold),
        unhealthy_after: section.read("unhealthy_after", None, threshold),
    };
    section.finish();
    draft
}

/// At least one key: a release must be signed by somebody.
fn read_trusted_keys(section: &mut Section<'_>) -> Vec<PathBuf> {
    let keys =
        section.list("trusted_keys", TRUSTED_KEYS_MAX, |found| value::path(found, PATH_MAX_BYTES));
    if keys.is_absent() || (keys.is_given() && keys.value.is_empty()) {
        let found = if keys.is_absent() { "nothing" } else { "an empty list" };
        let message = format!(
            "found {found}; at least one public key file is required, such as \
             [\"/etc/baton/depot.pub\"]"
        );
        section.document.fault(&keys.place, message);
    }
    keys.value.into_iter().map(|(path, _)| path).collect()
}

/// Required when `ring.join` is set: a node that joins must not form a group by itself.
fn read_expect(section: &mut Section<'_>, around: &Surroundings) -> Setting<u32> {
    let max = u32::try_from(GROUP_MAX_MEMBERS).unwrap_or(u32::MAX);
    let expect = section.read("expect", 1, |found| value::integer(found, &(1..=max)));
    if around.joins && expect.is_absent() {
        let message = format!(
            "found nothing; the number of members the group starts with, 1 to {max}, is required \
             when ring.join is set"
        );
        section.document.fault(&expect.place, message);
    }
    expect
}

fn name_of(found: &DeValue<'_>) -> Result<Name, String> {
    Name::new(value::string(found, "a name")?).map_err(|error| error.to_string())
}

fn label_order(around: &Surroundings) -> i32 {
    around.labels.get(ORDER).and_then(|order| order.parse().ok()).unwrap_or(0)
}

fn user(found: &DeValue<'_>) -> Result<String, String> {
    let wanted = format!(
        "the name of a user (a letter or '_' first, then letters, digits, '-', '_', '.'; at most \
         {USER_MAX_BYTES} bytes)"
    );
    let name = value::string(found, &wanted)?;
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.len() <= USER_MAX_BYTES
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if valid { Ok(name.to_owned()) } else { Err(value::mismatch(found, &wanted)) }
}

fn variable(name: &str, found: &DeValue<'_>) -> Result<String, String> {
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !valid {
        return Err(format!(
            "found the name \"{}\"; a letter or '_' first, then letters, digits, '_' is allowed",
            value::shorten(name)
        ));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(format!(
            "found the name \"{}\"; names that begin with {RESERVED_PREFIX} are set by baton itself",
            value::shorten(name)
        ));
    }
    let wanted = format!("a string without NUL of at most {ENV_VALUE_MAX_BYTES} bytes");
    let text = value::string(found, &wanted)?;
    if text.len() > ENV_VALUE_MAX_BYTES || text.contains('\0') {
        return Err(value::mismatch(found, &wanted));
    }
    Ok(text.to_owned())
}

/// A file of `services.d` is one service, its keys at the top.
const MAIN_TABLES: &[&str] = &["node", "ring", "control", "service"];

const HEALTH_KEYS: &[&str] = &["interval", "timeout", "healthy_after", "unhealthy_after"];

const POLL: Duration = Duration::from_secs(10);

const RESERVED_PREFIX: &str = "BATON_";
