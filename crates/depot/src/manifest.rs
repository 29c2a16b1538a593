//! `release.toml`: what a release says of itself.
//!
//! Invariant: a `Manifest` comes only from a text without a single fault, and every fault is found at
//! once, with line and column, what was found and what is allowed.

use std::time::Duration;

use baton_types::limits::{ARGUMENT_MAX_BYTES, ARGV_MAX};
use baton_types::manifest::{
    HealthCheck, HealthTiming, Hook, HookKind, Hooks, Manifest, Run, StopSignal,
};
use baton_types::{Name, ReleaseId, Version};

use crate::faults::{Fault, Faults};
use crate::manifest::document::{Document, Keys, Value};

mod document;

/// A program that a release runs: where in `release.toml` it stands, and its first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Line and column.
    pub(crate) at: (usize, usize),
    /// The first word of the command.
    pub(crate) word: String,
}

/// Parses `text`; `file` is what errors call it.
///
/// # Errors
///
/// Every fault of the text.
pub fn parse(file: &str, text: &str) -> Result<Manifest, Faults> {
    parse_with_programs(file, text).map(|(manifest, _)| manifest)
}

/// As [`parse`], with the programs that must be there.
pub(crate) fn parse_with_programs(
    file: &str,
    text: &str,
) -> Result<(Manifest, Vec<Program>), Faults> {
    let document = Document::new(file, text);
    let table = document.table();
    let mut parser = Parser { programs: Vec::new() };
    let manifest = table.as_ref().and_then(|table| parser.manifest(&document.root(table)));
    match (document.faults(), manifest) {
        (Some(faults), _) => Err(faults),
        (None, Some(manifest)) => Ok((manifest, parser.programs)),
        // Whatever returned `None` noted a fault; should one ever forget, this is still an error.
        (None, None) => Err(Faults::one(Fault {
            file: file.to_owned(),
            at: None,
            message: "is not a release manifest".to_owned(),
        })),
    }
}

struct Parser {
    programs: Vec<Program>,
}

impl Parser {
    fn manifest(&mut self, root: &Value<'_>) -> Option<Manifest> {
        let root = root.keys("release.toml", &["name", "version", "run", "health", "hooks"])?;
        let name = root.required("name", "\"redis\"").and_then(|v| self.name(&v));
        let version = root.required("version", "\"7.0.15\"").and_then(|v| self.version(&v));
        let run = root.required("run", "a table with a command").and_then(|v| self.run(&v));
        let health = match root.get("health") {
            Some(value) => self.health(&value).map(|(check, timing)| (Some(check), timing)),
            None => Some((None, HealthTiming::default())),
        };
        let hooks = match root.get("hooks") {
            Some(value) => self.hooks(&value),
            None => Some(Hooks::default()),
        };
        let (health, health_timing) = health?;
        let id = ReleaseId { name: name?, version: version? };
        Some(Manifest { id, run: run?, health, health_timing, hooks: hooks? })
    }

    fn name(&self, value: &Value<'_>) -> Option<Name> {
        Name::new(value.string()?).map_err(|e| value.fault(e.to_string())).ok()
    }

    fn version(&self, value: &Value<'_>) -> Option<Version> {
        Version::new(value.string()?).map_err(|e| value.fault(e.to_string())).ok()
    }

    fn run(&mut self, value: &Value<'_>) -> Option<Run> {
        let keys = value.keys("[run]", &["command", "stop_signal", "stop_timeout"])?;
        let command = keys
            .required("command", "[\"bin/server\", \"--port\", \"${PORT}\"]")
            .and_then(|v| self.command(&v));
        let stop_signal = match keys.get("stop_signal") {
            Some(value) => stop_signal(&value),
            None => Some(StopSignal::default()),
        };
        let stop_timeout = match keys.get("stop_timeout") {
            Some(value) => value.duration(),
            None => Some(DEFAULT_STOP_TIMEOUT),
        };
        Some(Run { command: command?, stop_signal: stop_signal?, stop_timeout: stop_timeout? })
    }

    fn health(&mut self, value: &Value<'_>) -> Option<(HealthCheck, HealthTiming)> {
        let keys = value.keys("[health]", &HEALTH_KEYS)?;
        let timing = HealthTiming {
            interval: keys.get("interval").and_then(|v| v.duration()),
            timeout: keys.get("timeout").and_then(|v| v.duration()),
            healthy_after: keys.get("healthy_after").and_then(|v| v.count(THRESHOLD_MAX)),
            unhealthy_after: keys.get("unhealthy_after").and_then(|v| v.count(THRESHOLD_MAX)),
        };
        Some((self.check(value, &keys)?, timing))
    }

    fn check(&mut self, value: &Value<'_>, keys: &Keys<'_>) -> Option<HealthCheck> {
        let exec = keys.get("exec");
        let http = keys.get("http");
        let tcp = keys.get("tcp");
        match (exec, http, tcp) {
            (Some(exec), None, None) => self.command(&exec).map(HealthCheck::Exec),
            (None, Some(http), None) => address(&http, "http://").map(HealthCheck::Http),
            (None, None, Some(tcp)) => address(&tcp, "").map(HealthCheck::Tcp),
            (None, None, None) => {
                value.fault("[health] has no check: exactly one of exec, http, tcp is needed");
                None
            }
            (exec, http, tcp) => {
                let found: Vec<_> = [("exec", exec), ("http", http), ("tcp", tcp)]
                    .into_iter()
                    .filter_map(|(key, value)| value.map(|_| key))
                    .collect();
                let found = found.join(" and ");
                value.fault(format!(
                    "[health] has {found}: exactly one of exec, http, tcp is allowed"
                ));
                None
            }
        }
    }

    fn hooks(&mut self, value: &Value<'_>) -> Option<Hooks> {
        let keys = value.keys("[hooks]", &HOOKS.map(HookKind::key))?;
        let mut hooks = Hooks::default();
        let mut complete = true;
        for kind in HOOKS {
            let Some(value) = keys.get(kind.key()) else { continue };
            let hook = self.hook(kind, &value);
            complete &= hook.is_some();
            match kind {
                HookKind::Install => hooks.install = hook,
                HookKind::Ready => hooks.ready = hook,
                HookKind::PreStart => hooks.pre_start = hook,
                HookKind::PostStart => hooks.post_start = hook,
                HookKind::PostStop => hooks.post_stop = hook,
                HookKind::Verify => hooks.verify = hook,
            }
        }
        complete.then_some(hooks)
    }

    fn hook(&mut self, kind: HookKind, value: &Value<'_>) -> Option<Hook> {
        let default_timeout = default_timeout(kind);
        if value.is_array() {
            let command = self.command(value)?;
            return Some(Hook { command, timeout: default_timeout });
        }
        if !value.is_table() {
            value.expected("an array like [\"bin/hook\"] or a table { command, timeout }");
            return None;
        }
        let keys = value.keys("a hook", &["command", "timeout"])?;
        let command = keys.required("command", "[\"bin/hook\"]").and_then(|v| self.command(&v));
        let timeout = match keys.get("timeout") {
            Some(value) => value.duration(),
            None => Some(default_timeout),
        };
        Some(Hook { command: command?, timeout: timeout? })
    }

    /// An argv array whose first word is a path.
    fn command(&mut self, value: &Value<'_>) -> Option<Vec<String>> {
        let words = value.array("an array of words like [\"bin/server\", \"--flag\"]")?;
        if words.is_empty() {
            value.fault("an empty command: the program and its arguments are needed");
            return None;
        }
        if words.len() > ARGV_MAX {
            let found = words.len();
            value.fault(format!("a command of {found} words: at most {ARGV_MAX} are allowed"));
            return None;
        }
        let command: Vec<Option<String>> = words.iter().map(word).collect();
        let command: Vec<String> = command.into_iter().collect::<Option<_>>()?;
        let (first, program) = (&words[0], &command[0]);
        if program.is_empty() || program.ends_with('/') {
            first.fault(format!("{program:?} is no program: expected a path like \"bin/server\""));
            return None;
        }
        if program.split('/').any(|part| part == "..") {
            first.fault(format!(
                "{program:?} has \"..\": expected a path within the release, or an absolute one"
            ));
            return None;
        }
        self.programs.push(Program { at: first.at(), word: program.clone() });
        Some(command)
    }
}

fn word(value: &Value<'_>) -> Option<String> {
    let word = value.string()?;
    if word.len() > ARGUMENT_MAX_BYTES {
        let found = word.len();
        value.fault(format!("a word of {found} bytes: at most {ARGUMENT_MAX_BYTES} are allowed"));
        return None;
    }
    if word.contains('\0') {
        value.fault("a word with a NUL character, which no program can be given");
        return None;
    }
    Some(word.to_owned())
}

fn stop_signal(value: &Value<'_>) -> Option<StopSignal> {
    let name = value.string()?;
    let signal = StopSignal::from_name(name);
    if signal.is_none() {
        let allowed: Vec<_> = StopSignal::ALL.iter().map(|(_, name)| *name).collect();
        let allowed = allowed.join(", ");
        value.fault(format!("the signal {name:?} is unknown: allowed are {allowed}"));
    }
    signal
}

/// A URL after `scheme`, or HOST:PORT when there is none.
fn address(value: &Value<'_>, scheme: &str) -> Option<String> {
    let text = word(value)?;
    let plain = text.strip_prefix(scheme).filter(|rest| {
        !rest.is_empty() && !rest.chars().any(|c| c.is_control() || c.is_whitespace())
    });
    let fits = match scheme {
        "" => plain.and_then(|text| text.rsplit_once(':')).is_some_and(|(host, port)| {
            let port_fits = port.starts_with("${") || port.parse::<u16>().is_ok_and(|p| p > 0);
            !host.is_empty() && port_fits
        }),
        _ => plain.is_some_and(|rest| !rest.starts_with('/')),
    };
    if fits {
        return Some(text);
    }
    value.fault(match scheme {
        "" => format!("{text:?} is no address: expected HOST:PORT, like \"127.0.0.1:${{PORT}}\""),
        _ => format!("{text:?} is no URL: expected \"http://HOST:PORT/PATH\""),
    });
    None
}

fn default_timeout(kind: HookKind) -> Duration {
    Duration::from_secs(match kind {
        // It may download, migrate or compile while the old release still serves.
        HookKind::Install => 600,
        // It is asked again and again: a long answer only delays the next one.
        HookKind::Ready => 30,
        HookKind::PreStart | HookKind::PostStart | HookKind::PostStop | HookKind::Verify => 60,
    })
}

/// From the stop signal to the kill, where a release does not say.
const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// More consecutive checks than this are a typing error.
const THRESHOLD_MAX: u32 = 1_000;

const HEALTH_KEYS: [&str; 7] =
    ["exec", "http", "tcp", "interval", "timeout", "healthy_after", "unhealthy_after"];

const HOOKS: [HookKind; 6] = [
    HookKind::Install,
    HookKind::Ready,
    HookKind::PreStart,
    HookKind::PostStart,
    HookKind::PostStop,
    HookKind::Verify,
];

#[cfg(test)]
mod tests;
