//! Where a demo is played: the ring, the eyes on it, the words about it, and the facts that were
//! found.
//!
//! Invariant: nothing is claimed that was not measured here; a fact that does not hold ends the demo.

use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_types::status::GroupStatus;
use tokio::process::Command;

use super::fleet::Fleet;
use super::ground::{Ground, NodePlace};
use super::observer::{Observer, Seen};
use super::progress::{Progress, fit, wrapped};
use crate::exit::Failure;
use crate::output::Output;

/// A demo under way.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    /// Directory and places.
    pub(crate) ground: Ground,
    /// The daemons.
    pub(crate) fleet: Fleet,
    /// The eyes.
    pub(crate) observer: Observer,
    /// Which node the commands are typed at.
    pub(crate) at: usize,
    output: &'a mut Output,
    progress: Progress,
    last: Option<GroupStatus>,
    chapters: usize,
    facts: Vec<String>,
    began: Instant,
}

/// What a command answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// The exit code.
    pub(crate) code: i32,
    /// Its result, or what it says of its failure.
    pub(crate) text: String,
}

impl<'a> Stage<'a> {
    /// Nothing runs yet.
    pub(crate) fn new(ground: Ground, output: &'a mut Output) -> Self {
        let ports: Vec<u16> = ground.nodes.iter().map(|node| node.port).collect();
        Self {
            fleet: Fleet::new(ground.clone()),
            observer: Observer::start(&ports),
            at: 0,
            output,
            progress: Progress::after(None),
            last: None,
            chapters: 0,
            facts: Vec::new(),
            began: Instant::now(),
            ground,
        }
    }

    /// How many nodes.
    pub(crate) fn count(&self) -> usize {
        self.ground.nodes.len()
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Result<(usize, NodePlace), Failure> {
        let found = self.ground.nodes.iter().enumerate().find(|(_, node)| node.name == name);
        found.map(|(at, node)| (at, node.clone())).ok_or_else(|| {
            Failure::failed(format!("the daemons speak of {name}, which is none of ours"))
        })
    }

    /// The node that is asked.
    pub(crate) fn asked(&self) -> Result<NodePlace, Failure> {
        self.ground.nodes.get(self.at).cloned().ok_or_else(|| Failure::failed("no such node"))
    }

    /// Begins the next part.
    pub(crate) fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.chapters += 1;
        let number = self.chapters;
        self.output.lines(["".to_owned(), format!("{number}. {title}")])
    }

    /// Says a sentence or two, in lines of a usual terminal.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.progress.pause(self.output)?;
        self.output.lines(wrapped(text, "   ", "   "))
    }

    /// Shows what the demo does beside typing commands.
    pub(crate) fn show_act(&mut self, act: &str) -> Result<(), Failure> {
        self.progress.pause(self.output)?;
        self.output.line(&fit(&format!("   # {act}")))
    }

    /// Prints what a command said, in lines of a usual terminal.
    pub(crate) fn quote<'t>(
        &mut self,
        lines: impl IntoIterator<Item = &'t str>,
    ) -> Result<(), Failure> {
        for line in lines {
            let line = line.trim_end();
            let (inner, line) = line.split_at(line.len() - line.trim_start().len());
            let (first, next) = (format!("   | {inner}"), format!("   |   {inner}"));
            self.output.lines(wrapped(line, &first, &next))?;
        }
        Ok(())
    }

    /// Prints lines as they are.
    pub(crate) fn lines(&mut self, lines: &[String]) -> Result<(), Failure> {
        self.output.lines(lines)
    }

    /// A fact that must hold; it is kept for the summary.
    pub(crate) fn fact(&mut self, holds: bool, fact: &str, found: &str) -> Result<(), Failure> {
        self.progress.pause(self.output)?;
        if !holds {
            return Err(Failure::failed(format!("expected: {fact}\nfound: {found}")));
        }
        self.facts.push(fact.to_owned());
        self.output.lines(wrapped(fact, "   ✓ ", "     "))
    }

    /// What was shown.
    pub(crate) fn summary(&mut self) -> Result<(), Failure> {
        let seconds = self.began.elapsed().as_secs_f64();
        self.output.lines(["", "What was shown, as measured from outside the daemons"])?;
        for fact in &self.facts {
            self.output.lines(wrapped(fact, "   - ", "     "))?;
        }
        self.output.lines(["".to_owned(), format!("All of it in {seconds:.1}s.")])
    }

    /// Types a command at the node that is asked, and insists on its exit code.
    pub(crate) async fn command(&mut self, words: &[&str], code: i32) -> Result<Answered, Failure> {
        self.say_command(words)?;
        let answered = self.started(words)?.await?;
        self.insist(words, &answered, code)?;
        Ok(answered)
    }

    /// Shows a command as it is typed.
    pub(crate) fn say_command(&mut self, words: &[&str]) -> Result<(), Failure> {
        self.progress.pause(self.output)?;
        let words = self.typed(words)?.join(" ");
        self.output.line(&format!("   $ baton {words}"))
    }

    /// The words as they are typed: at another node than the first one, its socket is named.
    fn typed(&self, words: &[&str]) -> Result<Vec<String>, Failure> {
        let mut typed = Vec::new();
        if self.at != 0 {
            typed.extend(["--socket".to_owned(), format!("{}/sock", self.asked()?.name)]);
        }
        typed.extend(words.iter().map(|word| (*word).to_owned()));
        Ok(typed)
    }

    /// Insists on an exit code.
    pub(crate) fn insist(
        &self,
        words: &[&str],
        answered: &Answered,
        code: i32,
    ) -> Result<(), Failure> {
        if answered.code == code {
            return Ok(());
        }
        let (line, Answered { code: found, text }) = (words.join(" "), answered);
        Err(Failure::failed(format!("`baton {line}` exited {found}, expected {code}\n{text}")))
    }

    /// Starts a command: the very one that a person would type in the demo's directory.
    pub(crate) fn started(
        &self,
        words: &[&str],
    ) -> Result<impl Future<Output = Result<Answered, Failure>> + use<>, Failure> {
        let depot = format!("file://{}", self.ground.dir.join("depot").display());
        let words = self.typed(words)?;
        let line = words.join(" ");
        let mut command = Command::new(&self.ground.program);
        command
            .args(&words)
            .current_dir(&self.ground.dir)
            .env("BATON_SOCKET", "n1/sock")
            .env("BATON_DEPOT", depot)
            .env("BATON_DEPOT_KEY", "depot.key")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        Ok(async move {
            let output = tokio::time::timeout(COMMAND_LIMIT, command.output()).await;
            let failed = |cause: String| Failure::failed(format!("`baton {line}`: {cause}"));
            let output = output
                .map_err(|_| failed(format!("no end within {} s", COMMAND_LIMIT.as_secs())))?
                .map_err(|cause| failed(cause.to_string()))?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).trim_end().to_owned();
            Ok(Answered { code: output.status.code().unwrap_or(-1), text })
        })
    }

    /// Begins to tell of a new rollout, and to count anew.
    pub(crate) fn begin_rollout(&mut self) {
        self.observer.mark();
        let last = self.last.as_ref().and_then(|status| status.rollout.as_ref());
        self.progress = Progress::after(last);
    }

    /// How long the rollout has taken so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.progress.elapsed()
    }

    /// Shows the rollout until `done` says so; returns what was found then.
    pub(crate) async fn follow(
        &mut self,
        wanted: &str,
        limit: Duration,
        done: impl Fn(&GroupStatus) -> bool,
    ) -> Result<(GroupStatus, Seen), Failure> {
        let end = Instant::now() + limit;
        loop {
            self.fleet.check_alive()?;
            let last = match self.fleet.status(&self.asked()?).await {
                Ok(status) => {
                    let seen = self.observer.seen();
                    self.progress.show(self.output, &self.ground.nodes, &status, &seen)?;
                    self.last = Some(status.clone());
                    if done(&status) {
                        self.progress.pause(self.output)?;
                        return Ok((status, self.observer.seen()));
                    }
                    described(&status)
                }
                Err(error) => error.to_string(),
            };
            if Instant::now() >= end {
                self.progress.pause(self.output)?;
                return Err(Failure::failed(format!(
                    "expected: {wanted}, within {} s\nfound: {last}",
                    limit.as_secs()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until every service answers with this version: the daemon has heard of a member's
    /// health a moment before or after we have.
    pub(crate) async fn all_on(&mut self, version: &str) -> Result<Seen, Failure> {
        let end = Instant::now() + SETTLE;
        loop {
            let seen = self.observer.seen();
            if seen.on(version) == self.count() {
                return Ok(seen);
            }
            if Instant::now() >= end {
                return Err(Failure::failed(format!(
                    "expected: all {} services answer \"{version}\"\nfound: {} do",
                    self.count(),
                    seen.on(version)
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Where a group stands, in a line.
pub(crate) fn described(status: &GroupStatus) -> String {
    let leader = status.leader.as_deref().unwrap_or("none");
    let mut text = format!("leader {leader}, quorum {}", status.quorum);
    if let Some(rollout) = &status.rollout {
        let (kind, to, state) = (&rollout.kind, &rollout.to.release, &rollout.state);
        let (passed, total) = (rollout.passed, rollout.total);
        text.push_str(&format!("; {kind} to {to} {state}, {passed} of {total} passed"));
        for part in [&rollout.reason, &rollout.waiting_for].into_iter().filter(|p| !p.is_empty()) {
            text.push_str(&format!("; {part}"));
        }
    }
    if !status.quorum_reason.is_empty() {
        text.push_str(&format!("; {}", status.quorum_reason));
    }
    text
}

/// Often enough that a person sees every step.
const POLL: Duration = Duration::from_millis(50);

/// The slowest command waits for a rollback of one member, or for a quorum that does not come.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

/// Our eyes are at most a few polls behind.
const SETTLE: Duration = Duration::from_secs(5);
