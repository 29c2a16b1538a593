//! One step of a scenario: when, and what.
//!
//! Invariant: a step names only hosts of its world, and comes no earlier than the one before it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use baton_rollout::RolloutState;
use baton_types::{CommandAction, Version, parse_duration};
use serde::Deserialize;

use super::{behaviour, host_named};
use crate::program::Behaviour;

/// What happens at a time.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) deed: Deed,
}

/// What can happen.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Promote { release: String, behaviour: Behaviour },
    Demote { release: String },
    Kill { host: usize, back: Option<Duration> },
    PowerOff { host: usize, back: Option<Duration> },
    Start { host: usize },
    Suspend { host: usize, span: Duration },
    Stop { host: usize, span: Duration },
    Clock { host: usize, by: i64 },
    Cut { from: usize, to: usize },
    Partition { hosts: Vec<usize> },
    LoseDepot { hosts: Vec<usize> },
    Heal,
    Leave { host: usize },
    Forget { host: usize, member: usize },
    Type { host: usize, action: CommandAction },
    Expect(Expectation),
}

/// What must be so, at once or `within` a time.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) release: Option<String>,
    pub(super) state: Option<RolloutState>,
    pub(super) baseline: Option<String>,
    pub(super) running: Option<usize>,
    /// Exactly these run the release.
    pub(super) hosts: Option<BTreeSet<usize>>,
    pub(super) within: Duration,
}

/// A step as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    at: String,
    pub(super) r#do: String,
    host: Option<String>,
    hosts: Option<Vec<String>>,
    member: Option<String>,
    from: Option<String>,
    to: Option<String>,
    release: Option<String>,
    behaviour: Option<String>,
    r#for: Option<String>,
    by: Option<i64>,
    command: Option<String>,
    state: Option<String>,
    baseline: Option<String>,
    running: Option<usize>,
    within: Option<String>,
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match (&self.release, self.state) {
            (Some(release), Some(state)) => parts.push(format!("release {release} is {state}")),
            (Some(release), None) => parts.push(format!("the rollout is to {release}")),
            (None, Some(state)) => parts.push(format!("the rollout is {state}")),
            (None, None) => {}
        }
        parts.extend(self.running.map(|running| format!("{running} members run it")));
        parts.extend(self.hosts.as_ref().map(|hosts| format!("{} run it", host_names(hosts))));
        parts.extend(self.baseline.as_ref().map(|release| format!("the baseline is {release}")));
        f.write_str(&parts.join(", "))
    }
}

impl Step {
    pub(super) fn parse(line: &Line, hosts: usize, before: Duration) -> Result<Self, String> {
        let at = span(&line.at)?;
        if at < before {
            return Err(format!("at {:?} comes before the step above it", line.at));
        }
        if at > TIME_MAX {
            return Err(format!("at {:?}; allowed: up to 24h", line.at));
        }
        let reader = Reader { line, hosts };
        Ok(Self { at, deed: reader.deed()? })
    }
}

struct Reader<'a> {
    line: &'a Line,
    hosts: usize,
}

impl Reader<'_> {
    fn deed(&self) -> Result<Deed, String> {
        let line = self.line;
        let back = || line.r#for.as_deref().map(span).transpose();
        Ok(match line.r#do.as_str() {
            "promote" => Deed::Promote {
                release: self.release()?,
                behaviour: behaviour(line.behaviour.as_deref().unwrap_or("healthy"))?,
            },
            "demote" => Deed::Demote { release: self.release()? },
            "kill" => Deed::Kill { host: self.host()?, back: back()? },
            "power-off" => Deed::PowerOff { host: self.host()?, back: back()? },
            "start" => Deed::Start { host: self.host()? },
            "suspend" => Deed::Suspend { host: self.host()?, span: self.lasts()? },
            "stop" => Deed::Stop { host: self.host()?, span: self.lasts()? },
            "clock" => Deed::Clock { host: self.host()?, by: self.millis()? },
            "cut" => Deed::Cut {
                from: self.named(line.from.as_deref(), "from")?,
                to: self.named(line.to.as_deref(), "to")?,
            },
            "partition" => Deed::Partition { hosts: self.several()? },
            "lose-depot" => Deed::LoseDepot { hosts: self.several()? },
            "heal" => Deed::Heal,
            "leave" => Deed::Leave { host: self.host()? },
            "forget" => Deed::Forget {
                host: self.host()?,
                member: self.named(line.member.as_deref(), "member")?,
            },
            "type" => Deed::Type { host: self.host()?, action: self.action()? },
            "expect" => Deed::Expect(self.expectation()?),
            _ => return Err(format!("no such step; allowed: {DEEDS}")),
        })
    }

    fn host(&self) -> Result<usize, String> {
        self.named(self.line.host.as_deref(), "host")
    }

    fn named(&self, name: Option<&str>, key: &str) -> Result<usize, String> {
        let name = name.ok_or_else(|| format!("`{key}` is missing"))?;
        host_named(name, self.hosts)
            .ok_or_else(|| format!("`{key}` {name:?}; allowed: n1 to n{}", self.hosts))
    }

    fn several(&self) -> Result<Vec<usize>, String> {
        let names = self.line.hosts.as_ref().ok_or("`hosts` is missing")?;
        names.iter().map(|name| self.named(Some(name), "hosts")).collect()
    }

    fn release(&self) -> Result<String, String> {
        let release = self.line.release.clone().ok_or("`release` is missing")?;
        version(&release).map(|_| release)
    }

    fn lasts(&self) -> Result<Duration, String> {
        span(self.line.r#for.as_deref().ok_or("`for` is missing")?)
    }

    fn millis(&self) -> Result<i64, String> {
        let seconds = self.line.by.ok_or("`by` is missing: seconds, either way")?;
        seconds.checked_mul(1_000).ok_or_else(|| format!("`by` {seconds} is too large"))
    }

    fn action(&self) -> Result<CommandAction, String> {
        let named = || self.line.release.as_deref().map(version).transpose();
        Ok(match self.line.command.as_deref().ok_or("`command` is missing")? {
            "start" => CommandAction::Start { version: named()? },
            "pause" => CommandAction::Pause,
            "resume" => CommandAction::Resume,
            "cancel" => CommandAction::Cancel,
            "rollback" => CommandAction::Rollback { to: named()? },
            "retry" => CommandAction::Retry,
            "approve" => CommandAction::Approve,
            other => {
                return Err(format!(
                    "`command` {other:?}; allowed: start, pause, resume, cancel, rollback, retry, \
                     approve"
                ));
            }
        })
    }

    fn expectation(&self) -> Result<Expectation, String> {
        let line = self.line;
        let expected = Expectation {
            release: line.release.clone(),
            state: line.state.as_deref().map(state).transpose()?,
            baseline: line.baseline.clone(),
            running: line.running,
            hosts: match &line.hosts {
                Some(_) => Some(self.several()?.into_iter().collect()),
                None => None,
            },
            within: line.within.as_deref().map(span).transpose()?.unwrap_or_default(),
        };
        let nothing =
            expected.release.is_none() && expected.state.is_none() && expected.baseline.is_none();
        if nothing {
            return Err("expects nothing: say `release`, `state` or `baseline`".to_owned());
        }
        let counts = expected.running.is_some() || expected.hosts.is_some();
        if counts && expected.release.is_none() {
            let what = "`running` and `hosts` are members on a `release`, which is missing";
            return Err(what.to_owned());
        }
        if expected.within > TIME_MAX {
            return Err("`within`; allowed: up to 24h".to_owned());
        }
        Ok(expected)
    }
}

/// "n1, n3"; "none" of nobody.
pub(super) fn host_names(hosts: &BTreeSet<usize>) -> String {
    let names: Vec<String> = hosts.iter().map(|host| format!("n{}", host + 1)).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

fn span(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|cause| format!("{text:?}: {cause}"))
}

fn version(text: &str) -> Result<Version, String> {
    Version::new(text).map_err(|cause| format!("`release` {text:?}: {cause}"))
}

fn state(word: &str) -> Result<RolloutState, String> {
    let all = [
        RolloutState::Preparing,
        RolloutState::Running,
        RolloutState::Paused,
        RolloutState::Completed,
        RolloutState::CompletedWithExceptions,
        RolloutState::Cancelled,
        RolloutState::Superseded,
        RolloutState::RollingBack,
        RolloutState::RollbackPaused,
        RolloutState::RolledBack,
    ];
    let found = all.into_iter().find(|state| state.to_string() == word);
    found.ok_or_else(|| {
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        format!("`state` {word:?}; allowed: {}", words.join(", "))
    })
}

/// A scenario longer than a day has a mistake in its times.
const TIME_MAX: Duration = Duration::from_secs(86_400);

const DEEDS: &str = "promote, demote, kill, power-off, start, suspend, stop, clock, cut, \
                     partition, lose-depot, heal, leave, forget, type, expect";
