//! A scenario in a file: a small world, what happens in it at which time, and what must come out.
//!
//! Invariant: a file that means nothing is refused as a whole, with the step's number; nothing of
//! it is played.

mod labels;
mod play;
mod policy;
mod step;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use baton_types::parse_duration;
use baton_types::policy::Strategy;
use serde::Deserialize;

use crate::program::{Behaviour, Play};
use crate::settings::{Setup, short_policy};

pub use play::Telling;
use policy::Table;
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
        key: String,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: String,
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

impl ScriptError {
    fn value(key: &str, found: impl fmt::Display, allowed: &str) -> Self {
        Self::Value { key: key.to_owned(), found: found.to_string(), allowed: allowed.to_owned() }
    }
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
            return Err(ScriptError::value("hosts", document.hosts, "1 to 100"));
        }
        if document.steps.len() > STEPS_MAX {
            return Err(ScriptError::value("steps", document.steps.len(), "up to 1000"));
        }
        let mut setup = Setup::of(document.seed.unwrap_or(1), document.hosts);
        setup.expect = document.expect.unwrap_or(setup.expect);
        if let Some(word) = &document.strategy {
            setup.strategy = Strategy::from_word(word)
                .ok_or_else(|| ScriptError::value("strategy", word, "rolling, at-once, none"))?;
        }
        setup.update = policy::read("update", &document.update, short_policy())?;
        setup.rollback = policy::of_rollback(&document.rollback, &setup.update)?;
        labels::read(&document.labels, &mut setup)?;
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
    strategy: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, Table>,
    #[serde(default)]
    update: Table,
    #[serde(default)]
    rollback: Table,
    #[serde(default)]
    steps: Vec<Line>,
}

/// The host of that name, counted from 0.
fn host_named(name: &str, hosts: usize) -> Option<usize> {
    let number = name.strip_prefix('n')?.parse::<usize>().ok()?;
    (1..=hosts).contains(&number).then(|| number - 1)
}

fn span(text: &str) -> Option<Duration> {
    parse_duration(text).ok()
}

/// How a release behaves, as a file names it.
fn behaviour(text: &str) -> Result<Behaviour, String> {
    let allowed = "allowed: healthy, never-healthy, exits:3s, falls-ill:2s, not-ready:20s, \
                   verify-fails";
    let (word, after) = text.split_once(':').unwrap_or((text, ""));
    match (word, span(after)) {
        ("healthy", None) if after.is_empty() => Ok(Behaviour::healthy()),
        ("never-healthy", None) if after.is_empty() => Ok(Behaviour::never_healthy()),
        ("exits", Some(after)) => Ok(Behaviour::exits(after)),
        ("falls-ill", Some(after)) => Ok(Behaviour::falls_ill(after)),
        ("not-ready", Some(span)) => Ok(Behaviour::healthy().ready(Play::NotYetFor(span))),
        ("verify-fails", None) if after.is_empty() => Ok(Behaviour::healthy().verify(Play::No)),
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
        refused("hosts = 3\nstrategy = \"fast\"", "`strategy`: fast; allowed: rolling");
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
            ("at = \"1s\", do = \"expect\", baseline = \"1\", hosts = [\"n1\"]", "missing"),
        ] {
            refused(&format!("hosts = 3\nsteps = [{{ {line} }}]"), part);
        }
        let back =
            "hosts = 3\nsteps = [{ at = \"2s\", do = \"heal\" }, { at = \"1s\", do = \"heal\" }]";
        refused(back, "step 2");
    }

    #[test]
    fn hosts_carry_the_labels_that_the_file_gives_them() {
        let text =
            "hosts = 2\nlabels.n2 = { rack = \"b\", order = -1 }\nupdate.zone_label = \"rack\"";
        let setup = Script::parse(text).expect("a scenario").setup;
        assert_eq!((setup.zone(1, 0), setup.place(1)), (Some(&"b".to_owned()), Some(-1)));
        assert_eq!((setup.zone(0, 0), setup.place(0)), (None, None));
        for (label, part) in [
            ("n3.rack = \"a\"", "`labels`: \"n3\"; allowed: n1 to n2"),
            ("n1.rack = 1", "`labels.n1.rack`: 1; allowed: a short text"),
            ("n1.rack = \"\"", "`labels.n1.rack`"),
            ("n1.order = \"last\"", "`labels.n1.order`: \"last\"; allowed: a number"),
            ("n1.\"a b\" = \"a\"", "`labels.n1.a b`"),
        ] {
            refused(&format!("hosts = 2\nlabels.{label}"), part);
        }
    }

    #[test]
    fn an_expectation_that_does_not_come_is_a_violation() {
        let text = "hosts = 3\nsteps = [\n{ at = \"0s\", do = \"promote\", release = \"1\" },\n\
                    { at = \"1s\", do = \"expect\", release = \"2\", within = \"20s\" }]";
        let violation = Script::parse(text).expect("a scenario").play().expect_err("no release 2");
        assert!(violation.to_string().contains("step 2"), "{violation}");
    }
}
