//! `baton rollout …`: looks at groups and steers them through their leaders.

mod events;
mod explain;
mod follow;
mod reform;
pub(crate) mod render;
mod watch;

use baton_daemon::client::Client;
use baton_types::status::{GroupStatus, HistoryStatus, OutcomesStatus};
use baton_types::{CommandAction, GroupName};
use jiff::Timestamp;

use crate::args::rollout::{RolloutCommand, Typed, Wait};
use crate::ask::{command, show_json, with_known_groups};
use crate::exit::{DONE, Failure, PAUSED, ROLLED_BACK};
use crate::output::Output;
use watch::{Watch, history_path, status_path};

/// Does it; the exit code follows from how a rollout that was waited for ended.
pub(crate) async fn run(
    rollout: RolloutCommand,
    client: &Client,
    output: &mut Output,
) -> Result<u8, Failure> {
    let (typed, action, wait) = match rollout {
        RolloutCommand::Status { group: Some(group), watch: true, timeout, json } => {
            let json = json.json;
            let watch = Watch { group, rollout: None, after_command: false, timeout, json };
            return watch.run(client, output).await;
        }
        RolloutCommand::Status { group, json, .. } => {
            return show_status(client, output, group, json.json).await;
        }
        RolloutCommand::History { group, rollout: Some(rollout), json } => {
            return show_outcomes(client, output, &group, &rollout, json.json).await;
        }
        RolloutCommand::History { group, rollout: None, json } => {
            return show_history(client, output, &group, json.json).await;
        }
        RolloutCommand::Explain { group, json } => {
            let status = read_status(client, &group).await?;
            let lines = explain::explain(&status, Timestamp::now());
            if json.json {
                output.json_value(&serde_json::json!({ "group": group, "explanation": lines }))?;
            } else {
                output.lines(lines)?;
            }
            return Ok(DONE);
        }
        RolloutCommand::Start { typed, release, wait } => {
            (typed, CommandAction::Start { version: release }, Some(wait))
        }
        RolloutCommand::Rollback { typed, to, wait } => {
            (typed, CommandAction::Rollback { to }, Some(wait))
        }
        RolloutCommand::Resume { typed, wait } => (typed, CommandAction::Resume, Some(wait)),
        RolloutCommand::Restart { typed, wait } => (typed, CommandAction::Restart, Some(wait)),
        RolloutCommand::Reboot { typed, wait } => (typed, CommandAction::Reboot, Some(wait)),
        RolloutCommand::Pause(typed) => (typed, CommandAction::Pause, None),
        RolloutCommand::Cancel(typed) => (typed, CommandAction::Cancel, None),
        RolloutCommand::Reform { typed, yes } => {
            reform::confirm(&typed.group, yes, &mut std::io::stdin().lock())?;
            (typed, CommandAction::Reform, None)
        }
        RolloutCommand::Adopt { typed, lineage } => {
            let lineage = baton_types::Text::new(lineage.trim());
            if lineage.is_empty() {
                let text = "--lineage needs an id, as `baton rollout status` prints it";
                return Err(Failure::failed(text));
            }
            (typed, CommandAction::Adopt { lineage }, None)
        }
        RolloutCommand::Retry(typed) => (typed, CommandAction::Retry, None),
        RolloutCommand::Approve(typed) => (typed, CommandAction::Approve, None),
    };
    steer(client, output, typed, action, wait).await
}

/// Sends a command and, where asked to, waits for the end of the rollout that it started or
/// touched.
pub(crate) async fn steer(
    client: &Client,
    output: &mut Output,
    typed: Typed,
    action: CommandAction,
    wait: Option<Wait>,
) -> Result<u8, Failure> {
    let Typed { group, id } = typed;
    let back = matches!(action, CommandAction::Rollback { .. });
    let reply = command(client, &group, action, id).await?;
    output.line(reply.answer.message.as_str())?;
    let Some(wait) = wait.filter(|wait| wait.wait) else {
        return Ok(DONE);
    };
    let Some(rollout) = reply.answer.rollout else {
        return without_rollout(client, output, &group).await;
    };
    let rollout = Some(rollout.to_string());
    let watch = Watch { group, rollout, after_command: true, timeout: wait.timeout, json: false };
    let code = watch.run(client, output).await?;
    Ok(if back && code == ROLLED_BACK { DONE } else { code })
}

/// A command that was accepted without a rollout to wait for: its target waits for a typed pause
/// to end, or there was nothing to do.
async fn without_rollout(
    client: &Client,
    output: &mut Output,
    group: &GroupName,
) -> Result<u8, Failure> {
    let status = read_status(client, group).await?;
    let waits = status.pending.filter(|_| status.paused_by.is_some());
    match waits {
        Some(pending) => {
            output.line(&format!("{} waits: {}", pending.release, pending.reason))?;
            Ok(PAUSED)
        }
        None => Ok(DONE),
    }
}

async fn show_status(
    client: &Client,
    output: &mut Output,
    group: Option<GroupName>,
    json: bool,
) -> Result<u8, Failure> {
    if let Some(group) = group {
        if json {
            show_json(client, output, &status_path(&group)).await?;
        } else {
            let status = read_status(client, &group).await?;
            output.lines(render::status(&status, Timestamp::now()))?;
        }
        return Ok(DONE);
    }
    let groups: Vec<GroupName> = client.get("/v1/groups").await?;
    if json {
        let mut all = Vec::new();
        for group in &groups {
            all.push(client.get_text(&status_path(group)).await?);
        }
        output.json(&format!("[{}]", all.join(",")))?;
        return Ok(DONE);
    }
    if groups.is_empty() {
        output.line("the ring has no service groups")?;
    }
    for (at, group) in groups.iter().enumerate() {
        if at > 0 {
            output.line("")?;
        }
        let status = read_status(client, group).await?;
        output.line(&render::title(&status))?;
        output.lines(render::head(&status, Timestamp::now()))?;
    }
    Ok(DONE)
}

async fn show_history(
    client: &Client,
    output: &mut Output,
    group: &GroupName,
    json: bool,
) -> Result<u8, Failure> {
    let path = history_path(group);
    if json {
        show_json(client, output, &path).await?;
        return Ok(DONE);
    }
    let history: Vec<HistoryStatus> = match client.get(&path).await {
        Ok(history) => history,
        Err(error) => return Err(with_known_groups(client, error).await),
    };
    if history.is_empty() {
        output.line(&format!("no rollout of {group} has ended yet"))?;
    } else {
        output.lines(render::history(&history))?;
    }
    Ok(DONE)
}

/// What every member came to in the rollout whose id begins like this.
async fn show_outcomes(
    client: &Client,
    output: &mut Output,
    group: &GroupName,
    id: &str,
    json: bool,
) -> Result<u8, Failure> {
    let history: Vec<HistoryStatus> = match client.get(&history_path(group)).await {
        Ok(history) => history,
        Err(error) => return Err(with_known_groups(client, error).await),
    };
    let ended = one_of(&history, id).map_err(|text| Failure::failed(format!("{group}: {text}")))?;
    let path = format!("/v1/outcomes?group={group}&rollout={}", ended.id);
    if json {
        show_json(client, output, &path).await?;
        return Ok(DONE);
    }
    let outcomes: OutcomesStatus = client.get(&path).await?;
    output.lines(render::ended(ended))?;
    output.line("")?;
    output.lines(render::outcomes(&outcomes))?;
    Ok(DONE)
}

/// The one rollout whose id begins with `start`.
fn one_of<'a>(history: &'a [HistoryStatus], start: &str) -> Result<&'a HistoryStatus, String> {
    let mut fitting = history.iter().filter(|ended| ended.id.starts_with(start));
    match (fitting.next(), fitting.next()) {
        (Some(ended), None) => Ok(ended),
        (Some(_), Some(_)) => Err(format!("the ids of several rollouts begin with {start:?}")),
        (None, _) => {
            let known: Vec<&str> = history.iter().map(|ended| render::short(&ended.id)).collect();
            Err(match known.is_empty() {
                true => "no rollout has ended yet".to_owned(),
                false => format!(
                    "no rollout that ended is called {start:?}; there are: {}",
                    known.join(", ")
                ),
            })
        }
    }
}

pub(crate) async fn read_status(
    client: &Client,
    group: &GroupName,
) -> Result<GroupStatus, Failure> {
    match client.get(&status_path(group)).await {
        Ok(status) => Ok(status),
        Err(error) => Err(with_known_groups(client, error).await),
    }
}
