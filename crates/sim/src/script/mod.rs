//! A scenario in a file: a small world, what happens in it at which time, and what must come out.
//!
//! Invariant: a file that means nothing is refused as a whole, with the step's number; nothing of
//! it is played.

mod play;
mod step;

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::parse_duration;
use baton_types::policy::{Limit, OnFailure, Policy};
use serde::Deserialize;

use crate::program::Behaviour;
use crate::settings::{Setup, short_policy};

pub use play::Telling;
use step::{Line, Step};

/// A scenario that can be played.
#[derive(Clone, Debug)]
pub struct Script {
    setup: Setup,
    steps: Vec<Step>,
}

/// Why a text is no scenario. Nothing was played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It does not read as TOML of this shape.
    #[error("not a scenario: {0}")]
    Shape(String),
    /// A value outside the world.
    #[error("`{key}`: {found}; allowed: {allowed}")]
    Value {
        /// Where.
        key: &'static str,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A step that means nothing.
    #[error("step {number} (`{word}`): {what}")]
    Step {
        /// Counted from 1.
        number: usize,
        /// Its `do`.
        word: String,
        /// What is wrong with it.
        what: String,
    },
}

impl Script {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// It is none; which step or key is at fault.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let document: Document =
            toml::from_str(text).map_err(|cause| ScriptError::Shape(cause.to_string()))?;
        if !(1..=HOSTS_MAX).contains(&document.hosts) {
            return Err(ScriptError::Value {
                key: "hosts",
                found: document.hosts.to_string(),
                allowed: "1 to 100",
            });
        }
        if document.steps.len() > STEPS_MAX {
            return Err(ScriptError::Value {
                key: "steps",
                found: document.steps.len().to_string(),
                allowed: "up to 1000",
            });
        }
        let mut setup = Setup::of(document.seed.unwrap_or(1), document.hosts);
        setup.expect = document.expect.unwrap_or(setup.expect);
        setup.update = policy("update", &document.update)?;
        setup.rollback = policy("rollback", &document.rollback)?;
        let mut steps = Vec::new();
        let mut before = Duration::ZERO;
        for (at, line) in document.steps.iter().enumerate() {
            let step = Step::parse(line, document.hosts, before).map_err(|what| {
                ScriptError::Step { number: at + 1, word: line.r#do.clone(), what }
            })?;
            before = step.at;
            steps.push(step);
        }
        Ok(Self { setup, steps })
    }

    /// The same scenario under another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// How a person plays it again.
    #[must_use]
    pub fn replayed_by(mut self, command: String) -> Self {
        self.setup.replay = command;
        self
    }

    /// How many hosts it has, and under which seed it is played.
    pub fn world(&self) -> (usize, u64) {
        (self.setup.hosts, self.setup.seed)
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happens in it.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    hosts: usize,
    expect: Option<u32>,
    seed: Option<u64>,
    #[serde(default)]
    update: BTreeMap<String, toml::Value>,
    #[serde(default)]
    rollback: BTreeMap<String, toml::Value>,
    #[serde(default)]
    steps: Vec<Line>,
}

/// The short policy of the world, with what the file says otherwise.
fn policy(
    key: &'static str,
    values: &BTreeMap<String, toml::Value>,
) -> Result<Policy, ScriptError> {
    let mut policy = short_policy();
    for (name, value) in values {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let set = match name.as_str() {
            "max_unavailable" => limit(&text).map(|limit| policy.max_unavailable = limit),
            "max_failures" => limit(&text).map(|limit| policy.max_failures = limit),
            "on_failure" => OnFailure::from_word(&text).map(|word| policy.on_failure = word),
            "start_timeout" => span(&text).map(|span| policy.start_timeout = span),
            "monitor" => span(&text).map(|span| policy.monitor = span),
            "turn_timeout" => span(&text).map(|span| policy.turn_timeout = span),
            "progress_timeout" => span(&text).map(|span| policy.progress_timeout = span),
            _ => None,
        };
        if set.is_none() {
            return Err(ScriptError::Value {
                key,
                found: format!("{name} = {value}"),
                allowed: "max_unavailable and max_failures (2 or \"25%\"), on_failure (pause, \
                          rollback, continue), start_timeout, monitor, turn_timeout and \
                          progress_timeout (\"10s\")",
            });
        }
    }
    Ok(policy)
}

fn limit(text: &str) -> Option<Limit> {
    text.parse().ok()
}

fn span(text: &str) -> Option<Duration> {
    parse_duration(text).ok()
}

/// How a release behaves, as a file names it.
fn behaviour(text: &str) -> Result<Behaviour, String> {
    let allowed = "allowed: healthy, never-healthy, exits:3s, falls-ill:2s";
    let (word, after) = text.split_once(':').unwrap_or((text, ""));
    match (word, span(after)) {
        ("healthy", None) if after.is_empty() => Ok(Behaviour::healthy()),
        ("never-healthy", None) if after.is_empty() => Ok(Behaviour::never_healthy()),
        ("exits", Some(after)) => Ok(Behaviour::exits(after)),
        ("falls-ill", Some(after)) => Ok(Behaviour::falls_ill(after)),
        _ => Err(format!("behaviour {text:?}; {allowed}")),
    }
}

/// Larger worlds belong to the measurement of sizes, not to a script.
const HOSTS_MAX: usize = 100;

/// More than a person writes.
const STEPS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, part: &str) {
        let error = Script::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn what_means_nothing_is_refused_and_named() {
        refused("hosts = 0", "1 to 100");
        refused("hosts = 101", "1 to 100");
        refused("hosts = 3\nspeed = 2", "speed");
        refused("hosts = 3\n[update]\nmax_unavailable = \"200%\"", "max_unavailable");
        refused("hosts = 3\n[update]\nmonitor = \"5\"", "monitor");
        for (line, part) in [
            ("at = \"1s\", do = \"fly\"", "allowed: promote"),
            ("at = \"1s\", do = \"kill\"", "`host`"),
            ("at = \"1s\", do = \"leave\"", "`host`"),
            ("at = \"1s\", do = \"forget\", host = \"n1\"", "`member`"),
            ("at = \"1s\", do = \"kill\", host = \"n4\"", "n1 to n3"),
            ("at = \"soon\", do = \"heal\"", "soon"),
            ("at = \"1s\", do = \"promote\", release = \"2\", behaviour = \"odd\"", "odd"),
            ("at = \"1s\", do = \"type\", host = \"n1\", command = \"dance\"", "dance"),
            ("at = \"1s\", do = \"expect\", state = \"fine\"", "fine"),
            ("at = \"1s\", do = \"expect\"", "nothing"),
        ] {
            refused(&format!("hosts = 3\nsteps = [{{ {line} }}]"), part);
        }
        let back =
            "hosts = 3\nsteps = [{ at = \"2s\", do = \"heal\" }, { at = \"1s\", do = \"heal\" }]";
        refused(back, "step 2");
    }

    #[test]
    fn an_expectation_that_does_not_come_is_a_violation() {
        let text = "hosts = 3\nsteps = [\n{ at = \"0s\", do = \"promote\", release = \"1\" },\n\
                    { at = \"1s\", do = \"expect\", release = \"2\", within = \"20s\" }]";
        let violation = Script::parse(text).expect("a scenario").play().expect_err("no release 2");
        assert!(violation.to_string().contains("step 2"), "{violation}");
    }
}
