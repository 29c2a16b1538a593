//! What differs between two configurations, by key.
//!
//! Invariant: keys alone are named, never values: an environment may hold secrets.

use std::collections::BTreeSet;

use baton_types::GroupName;
use serde::Serialize;
use toml::{Table, Value};

use crate::settings::{ServiceSettings, Settings};

/// What a daemon that runs has to do about a configuration that was edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys that only a start of the daemon reads, such as `ring.profile`.
    pub needs_restart: Vec<String>,
    /// Whether `ring.join` names other addresses.
    pub join: bool,
    /// Services that are new.
    pub added: Vec<GroupName>,
    /// Services that are configured no more.
    pub gone: Vec<GroupName>,
    /// Services with other settings.
    pub changed: Vec<ServiceChange>,
}

/// The keys of one service that have other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// Whose.
    pub group: GroupName,
    /// Keys that its program gets with its next turn: `env.NAME`, `run_as`, `health.interval`.
    pub of_program: Vec<String>,
    /// Keys that are in force at once; a rollout under way keeps the policy that it began with.
    pub at_once: Vec<String>,
}

impl Changes {
    /// What `new` has otherwise than `old`.
    pub fn between(old: &Settings, new: &Settings) -> Self {
        let mut changes = Self { join: old.ring.join != new.ring.join, ..Self::default() };
        let mut ring = new.ring.clone();
        ring.join.clone_from(&old.ring.join);
        if ring.profile != old.ring.profile {
            // Its timings follow from it.
            ring.timing = old.ring.timing.clone();
        }
        for (section, keys) in [
            ("node", differing(&old.node, &new.node)),
            ("ring", differing(&old.ring, &ring)),
            ("control", differing(&old.control, &new.control)),
        ] {
            // The file has the timings beside the other keys of the ring.
            let names = keys.iter().map(|key| key.strip_prefix("timing.").unwrap_or(key));
            changes.needs_restart.extend(names.map(|key| format!("{section}.{key}")));
        }
        for service in &new.services {
            match of_name(&old.services, &service.name) {
                None => changes.added.push(service.name.clone()),
                Some(before) if before != service => {
                    changes.changed.push(ServiceChange::between(before, service));
                }
                Some(_) => {}
            }
        }
        let gone = old.services.iter().filter(|old| of_name(&new.services, &old.name).is_none());
        changes.gone = gone.map(|old| old.name.clone()).collect();
        changes
    }
}

impl ServiceChange {
    fn between(old: &ServiceSettings, new: &ServiceSettings) -> Self {
        let (of_program, at_once) =
            differing(old, new).into_iter().partition(|key| is_of_program(key));
        Self { group: new.name.clone(), of_program, at_once }
    }
}

/// As `baton_supervise` compares two launches: target and manifest are no settings.
fn is_of_program(key: &str) -> bool {
    matches!(key.split('.').next(), Some("env" | "run_as" | "health"))
}

fn of_name<'a>(services: &'a [ServiceSettings], name: &GroupName) -> Option<&'a ServiceSettings> {
    services.iter().find(|service| service.name == *name)
}

/// The keys under which two structures differ, those of their tables one level deep.
fn differing<T: Serialize>(old: &T, new: &T) -> Vec<String> {
    let mut keys = Vec::new();
    let (old, new) = (table(old), table(new));
    for key in all_keys(&old, &new) {
        match (old.get(key), new.get(key)) {
            (old, new) if old == new => {}
            (Some(Value::Table(old)), Some(Value::Table(new))) if key_has_keys(key) => {
                let below = all_keys(old, new).into_iter().filter(|k| old.get(*k) != new.get(*k));
                keys.extend(below.map(|below| format!("{key}.{below}")));
            }
            _ => keys.push(key.to_owned()),
        }
    }
    keys
}

/// Other tables stand for one value: a duration, a limit.
fn key_has_keys(key: &str) -> bool {
    matches!(key, "env" | "health" | "update" | "rollback" | "labels" | "timing")
}

fn all_keys<'a>(old: &'a Table, new: &'a Table) -> BTreeSet<&'a str> {
    old.keys().chain(new.keys()).map(String::as_str).collect()
}

fn table<T: Serialize>(settings: &T) -> Table {
    // Settings came out of TOML; what would not go in again is seen by the test below.
    Table::try_from(settings).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{Host, SourceFile, parse};

    const MAIN: &str = "[node]\nname = \"n1\"\ndata_dir = \"/var/lib/baton\"\n[ring]\n\
                        bind = \"127.0.0.1:7946\"\njoin = [\"127.0.0.1:7947\"]\n";
    const SERVICE: &str = "name = \"web\"\ndepot = \"file:///srv/depot\"\n\
                           trusted_keys = [\"/etc/baton/depot.pub\"]\nexpect = 1\n";

    fn settings(main: &str, services: &[&str]) -> Settings {
        let host = Host { name: "n1".to_owned() };
        let source = |name: &str, text: &str| SourceFile::new(PathBuf::from(name), text.to_owned());
        let services: Vec<SourceFile> =
            services.iter().map(|text| source("s.toml", text)).collect();
        let outcome = parse(&source("baton.toml", main), &services, &host);
        assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
        outcome.settings.expect("settings")
    }

    #[test]
    fn the_same_has_no_changes_and_everything_can_be_compared() {
        let all = settings(MAIN, &[SERVICE]);
        assert_eq!(Changes::between(&all, &all.clone()), Changes::default());
        for table in [table(&all.node), table(&all.ring), table(&all.control)] {
            assert!(!table.is_empty());
        }
        assert!(table(&all.services[0]).contains_key("update"));
    }

    #[test]
    fn keys_are_named_where_the_file_has_them() {
        let old = settings(MAIN, &[SERVICE]);
        let main = MAIN.replace("7947", "7948") + "heartbeat = \"120ms\"\n";
        let main = main.replace("[ring]", "on_stop = \"stop\"\nlabels = { zone = \"a\" }\n[ring]");
        let new = settings(&main, &[SERVICE]);
        let changes = Changes::between(&old, &new);
        assert!(changes.join);
        assert_eq!(changes.needs_restart, ["node.labels.zone", "node.on_stop", "ring.heartbeat"]);
        assert_eq!((changes.changed, changes.added, changes.gone), (vec![], vec![], vec![]));
        let wan = settings(&(MAIN.to_owned() + "profile = \"wan\"\n"), &[SERVICE]);
        assert_eq!(Changes::between(&old, &wan).needs_restart, ["ring.profile"]);
    }

    #[test]
    fn services_come_go_and_change() {
        let other = SERVICE.replace("web", "db");
        let edited = format!(
            "{SERVICE}poll = \"7s\"\nrun_as = \"www\"\nenv = {{ COLOUR = \"secret\" }}\n\
             [health]\ninterval = \"7s\"\n[update]\nmonitor = \"7s\"\n"
        );
        let old = settings(MAIN, &[SERVICE]);
        let changes = Changes::between(&old, &settings(MAIN, &[&edited, &other]));
        let names = |names: &[GroupName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&changes.added), ["db.default"]);
        let [web] = &changes.changed[..] else { panic!("{changes:?}") };
        assert_eq!(web.of_program, ["env.COLOUR", "health.interval", "run_as"]);
        // Where nothing is said of a rollback, its policy is that of the update.
        assert_eq!(web.at_once, ["poll", "rollback.monitor", "update.monitor"]);
        assert!(!format!("{changes:?}").contains("secret"));
        let gone = Changes::between(&old, &settings(MAIN, &[&other]));
        assert_eq!(
            (names(&gone.gone), names(&gone.added)),
            (vec!["web.default".to_owned()], vec!["db.default".to_owned()])
        );
    }
}
