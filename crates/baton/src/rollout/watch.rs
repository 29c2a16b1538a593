//! `--watch` and `--wait`: follows one rollout, by its id, until it ends.
//!
//! Invariant: only the rollout under way at the start is followed, whatever starts after it; a
//! daemon that restarts meanwhile is waited for; leaving (Ctrl-C) never touches the rollout.

use std::time::{Duration, Instant};

use baton_daemon::api::ErrorKind;
use baton_daemon::client::{Client, ClientError};
use baton_types::status::{GroupStatus, HistoryStatus};
use baton_types::{GroupName, format_duration};
use jiff::Timestamp;

use super::events::events;
use super::follow::{Follow, Step};
use super::render;
use crate::exit::{DETACHED, DONE, Failure, TIMED_OUT, code_of_state};
use crate::live::Live;
use crate::output::{Output, clock};

/// What to follow and how long.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Whose rollout.
    pub(crate) group: GroupName,
    /// Which; `None`: the one under way.
    pub(crate) rollout: Option<String>,
    /// Whether a command has just been given: a paused state may then be from before it.
    pub(crate) after_command: bool,
    /// Give up after this long.
    pub(crate) timeout: Option<Duration>,
    /// Print every changed status as one line of JSON.
    pub(crate) json: bool,
}

impl Watch {
    /// Follows it; the exit code says how it ended.
    pub(crate) async fn run(self, client: &Client, output: &mut Output) -> Result<u8, Failure> {
        let live = (output.is_terminal() && !self.json).then(Live::new);
        let mut screen = Screen { output, live, json: self.json };
        let ended = tokio::select! {
            ended = self.follow(client, &mut screen) => ended,
            () = deadline(self.timeout) => Err(self.gave_up()),
            signal = tokio::signal::ctrl_c() => match signal {
                Ok(()) => Err(self.detached()),
                Err(cause) => Err(Failure::failed(format!("cannot wait for Ctrl-C: {cause}"))),
            },
        };
        screen.finish()?;
        ended
    }

    async fn follow(&self, client: &Client, screen: &mut Screen<'_>) -> Result<u8, Failure> {
        let path = status_path(&self.group);
        let mut follow = match &self.rollout {
            Some(id) => Follow::new(id.clone(), self.after_command),
            None => {
                let status: GroupStatus = match client.get(&path).await {
                    Ok(status) => status,
                    Err(error) => return Err(crate::ask::with_known_groups(client, error).await),
                };
                match status.rollout.as_ref().filter(|rollout| render::is_under_way(rollout)) {
                    Some(rollout) => Follow::new(rollout.id.clone(), false),
                    None => {
                        screen.say(&format!("no rollout under way\n{}", render::title(&status)))?;
                        // A script that comes late is told how it ended all the same.
                        let last = status.rollout.as_ref();
                        let code = last.and_then(|last| code_of_state(&last.state));
                        return Ok(code.unwrap_or(DONE));
                    }
                }
            }
        };
        let mut silence: Option<Instant> = None;
        let mut last: Option<GroupStatus> = None;
        loop {
            match client.get::<GroupStatus>(&path).await {
                Ok(status) => {
                    if silence.take().is_some() {
                        screen.note("the daemon answers again")?;
                    }
                    screen.show(last.as_ref(), &status)?;
                    let step = follow.see(Instant::now(), &status);
                    last = Some(status);
                    match step {
                        Step::GoesOn => {}
                        Step::Ended(end) => {
                            screen.finish()?;
                            screen.say(&end.sentence)?;
                            return Ok(end.code);
                        }
                        Step::LookUp => {
                            let history = history(client, &self.group).await;
                            if let Some(end) = follow.look_up(&history) {
                                screen.finish()?;
                                screen.say(&end.sentence)?;
                                return Ok(end.code);
                            }
                            if follow.is_missing_for(Instant::now()) > PATIENCE {
                                return Err(self.lost(follow.id()));
                            }
                        }
                    }
                }
                Err(error) if is_passing(&error, last.is_some() || self.after_command) => {
                    let since = match silence {
                        Some(since) => since,
                        None => {
                            let wait = format_duration(PATIENCE);
                            screen
                                .note(&format!("{error}; waiting up to {wait} for the daemon"))?;
                            *silence.insert(Instant::now())
                        }
                    };
                    if since.elapsed() > PATIENCE {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(crate::ask::with_known_groups(client, error).await),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn detached(&self) -> Failure {
        let group = &self.group;
        let text = format!(
            "detached; the rollout goes on. `baton rollout status {group} --watch` follows it again"
        );
        Failure::with_code(DETACHED, text)
    }

    fn gave_up(&self) -> Failure {
        let group = &self.group;
        let text = format!(
            "not ended in time; the rollout goes on. `baton rollout status {group} --watch` \
             follows it again, `baton rollout explain {group}` says what it waits for"
        );
        Failure::with_code(TIMED_OUT, text)
    }

    fn lost(&self, id: &str) -> Failure {
        let group = &self.group;
        Failure::failed(format!(
            "the rollout {id} is neither under way nor in the history of {group}; `baton rollout \
             history {group}` lists what is"
        ))
    }
}

/// Where a status is read.
pub(crate) fn status_path(group: &GroupName) -> String {
    format!("/v1/status?group={group}")
}

/// Where a history is read.
pub(crate) fn history_path(group: &GroupName) -> String {
    format!("/v1/history?group={group}")
}

/// Where the picture or the lines go.
struct Screen<'a> {
    output: &'a mut Output,
    live: Option<Live>,
    json: bool,
}

impl Screen<'_> {
    fn show(&mut self, last: Option<&GroupStatus>, status: &GroupStatus) -> Result<(), Failure> {
        if self.json {
            if last == Some(status) {
                return Ok(());
            }
            let text = serde_json::to_string(status)
                .map_err(|cause| Failure::failed(format!("cannot write JSON: {cause}")))?;
            return self.output.write(&format!("{text}\n"));
        }
        if let Some(live) = &mut self.live {
            live.draw(&render::status(status, Timestamp::now()));
            return Ok(());
        }
        let events = events(last, status);
        let time = clock();
        self.output.lines(events.iter().map(|event| format!("{time} {event}")))
    }

    /// Something about the watching itself.
    fn note(&mut self, text: &str) -> Result<(), Failure> {
        match (&mut self.live, self.json) {
            (Some(live), _) => {
                live.draw(&[text.to_owned()]);
                Ok(())
            }
            (None, true) => {
                self.output.note(text);
                Ok(())
            }
            (None, false) => self.output.line(&format!("{} {text}", clock())),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            self.output.note(text);
            return Ok(());
        }
        self.output.lines(text.lines())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        match self.live.take() {
            Some(live) => live.finish(self.output),
            None => Ok(()),
        }
    }
}

/// Whether `error` is what a daemon that restarts looks like. One that knows its groups not yet is
/// one of these only after it has known ours.
fn is_passing(error: &ClientError, was_known: bool) -> bool {
    match error {
        ClientError::NoDaemon { cause, .. } => {
            was_known && cause.kind() != std::io::ErrorKind::PermissionDenied
        }
        ClientError::Broken { .. } => was_known,
        ClientError::Refused(_, kind) => match kind {
            ErrorKind::BadRequest => false,
            ErrorKind::Unknown | ErrorKind::State | ErrorKind::Failed => was_known,
            ErrorKind::NoQuorum | ErrorKind::TimedOut => true,
        },
    }
}

/// What ended; nothing if it cannot be read now, as it is asked for again.
async fn history(client: &Client, group: &GroupName) -> Vec<HistoryStatus> {
    client.get(&history_path(group)).await.unwrap_or_default()
}

async fn deadline(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Often enough that a person sees every step, seldom enough to cost nothing.
const POLL: Duration = Duration::from_millis(200);

/// A daemon restarts, and a group finds its leader again, well within this.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_restart_looks_like_is_waited_for() {
        let refused = |kind| ClientError::Refused(String::new(), kind);
        let absent = |kind: std::io::ErrorKind| ClientError::NoDaemon {
            socket: "/run/x".into(),
            cause: kind.into(),
        };
        for (error, first, later) in [
            (absent(std::io::ErrorKind::NotFound), false, true),
            (absent(std::io::ErrorKind::ConnectionRefused), false, true),
            (absent(std::io::ErrorKind::PermissionDenied), false, false),
            (refused(ErrorKind::Unknown), false, true),
            (refused(ErrorKind::BadRequest), false, false),
            (refused(ErrorKind::NoQuorum), true, true),
        ] {
            assert_eq!(
                (is_passing(&error, false), is_passing(&error, true)),
                (first, later),
                "{error:?}"
            );
        }
    }
}
