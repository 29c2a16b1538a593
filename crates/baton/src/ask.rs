//! How commands speak to the daemon: reading, doing, and steering a group through its leader.
//!
//! Invariant: a command has its id before it is sent, so that whoever does not hear the answer can
//! repeat it without doing it twice.

use std::time::Duration;

use baton_daemon::api::{CommandBody, CommandIdText, CommandReply, DoneReply, ErrorKind};
use baton_daemon::client::{Client, ClientError};
use baton_types::{CommandAction, CommandId, CommandResult, GroupName};
use rand::TryRng;
use rand::rngs::SysRng;
use serde::Serialize;

use crate::exit::{FAILED, Failure, NO_QUORUM, TIMED_OUT};
use crate::output::Output;

/// Posts `body` and prints the sentence that is answered.
pub(crate) async fn tell<B: Serialize>(
    client: &Client,
    output: &mut Output,
    path: &str,
    body: &B,
) -> Result<(), Failure> {
    let reply: Result<DoneReply, ClientError> = client.post(path, body).await;
    match reply {
        Ok(reply) => output.line(&reply.message),
        Err(error @ ClientError::Broken { .. }) => Err(may_have_been_done(&error.to_string())),
        Err(error) => Err(with_known_groups(client, error).await),
    }
}

/// The request may have arrived before the connection broke.
fn may_have_been_done(cause: &str) -> Failure {
    let text = format!("{cause}\nit may have been done: look before it is typed again");
    Failure::with_code(TIMED_OUT, text)
}

/// Reads `path` and prints it as JSON.
pub(crate) async fn show_json(
    client: &Client,
    output: &mut Output,
    path: &str,
) -> Result<(), Failure> {
    match client.get_text(path).await {
        Ok(text) => output.json(&text),
        Err(error) => Err(with_known_groups(client, error).await),
    }
}

/// Sends one command to the leader of `group`, under `id` or a new one. Only a committed one comes
/// back.
pub(crate) async fn command(
    client: &Client,
    group: &GroupName,
    action: CommandAction,
    id: Option<CommandId>,
) -> Result<CommandReply, Failure> {
    let id = match id {
        Some(id) => id,
        None => CommandId::from_random(random_bits()?),
    };
    let body = CommandBody { group: group.clone(), action, id: Some(CommandIdText(id)) };
    let reply: CommandReply = match client.post("/v1/command", &body).await {
        Ok(reply) => reply,
        // The request may have arrived before the connection broke.
        Err(
            error @ (ClientError::Broken { .. } | ClientError::Refused(_, ErrorKind::TimedOut)),
        ) => {
            return Err(may_have_been_accepted(&error.to_string(), id));
        }
        Err(error) => return Err(with_known_groups(client, error).await),
    };
    let message = reply.answer.message.as_str();
    match reply.answer.result {
        CommandResult::Done => Ok(reply),
        CommandResult::Refused => Err(Failure::with_code(FAILED, message)),
        CommandResult::NoQuorum => Err(Failure::with_code(NO_QUORUM, message)),
        CommandResult::TimedOut => Err(may_have_been_accepted(message, id)),
    }
}

/// Tells every group that the daemon knows to read its channel now. `None` without a daemon: its
/// leader reads by itself before long, so this is a courtesy that may fail.
pub(crate) async fn read_channels(client: &Client) -> Option<usize> {
    let told = async {
        let groups: Vec<GroupName> = client.get("/v1/groups").await.ok()?;
        let mut told = 0;
        for group in &groups {
            let answer = command(client, group, CommandAction::ReadChannel, None).await;
            told += usize::from(answer.is_ok());
        }
        Some(told)
    };
    tokio::time::timeout(COURTESY, told).await.ok().flatten()
}

/// The failure that `error` is; where it is about a name that nobody knows, with the groups that
/// the ring does know.
pub(crate) async fn with_known_groups(client: &Client, error: ClientError) -> Failure {
    let unknown = matches!(error, ClientError::Refused(_, ErrorKind::Unknown));
    let mut failure = Failure::from(error);
    if unknown
        && failure.text.contains("group")
        && let Ok(groups) = client.get::<Vec<String>>("/v1/groups").await
        && groups.iter().any(|group| !failure.text.contains(group.as_str()))
    {
        let shown: Vec<&str> = groups.iter().take(GROUPS_SHOWN).map(String::as_str).collect();
        failure.text.push_str(&format!("\nthe ring's groups: {}", shown.join(", ")));
    }
    failure
}

fn may_have_been_accepted(cause: &str, id: CommandId) -> Failure {
    let text = format!(
        "{cause}\nthe command may have been accepted; the same command with --id {id} repeats it \
         without doing it twice"
    );
    Failure::with_code(TIMED_OUT, text)
}

/// 128 bits from the system.
pub(crate) fn random_bits() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|cause| Failure::failed(format!("the system gives no random bytes: {cause}")))?;
    Ok(u128::from_be_bytes(bytes))
}

/// What telling the daemon of a promotion may take; a leader far away reads by itself soon anyway.
const COURTESY: Duration = Duration::from_secs(5);

/// More names than this help nobody to find a typing error.
const GROUPS_SHOWN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_daemon_that_ends_before_it_answers_leaves_the_outcome_open() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("s");
        let listener = tokio::net::UnixListener::bind(&socket).expect("bound");
        let daemon = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut heard = [0; 64];
            tokio::io::AsyncReadExt::read(&mut stream, &mut heard).await.expect("a request");
        });
        let client = Client::new(&socket);
        let told = tell(&client, &mut Output::new(), "/v1/service/stop", &()).await;
        daemon.await.expect("it ended");
        let failure = told.expect_err("no answer");
        assert_eq!(failure.code, 5, "{}", failure.text);
        assert!(failure.text.contains("may have been done"), "{}", failure.text);
    }

    #[test]
    fn a_command_without_answer_names_its_id() {
        let failure = may_have_been_accepted("no answer", CommandId::from_random(7));
        assert_eq!(failure.code, 5);
        let wanted = "--id 00000000000000000000000000000007 repeats it";
        assert!(failure.text.starts_with("no answer\n") && failure.text.contains(wanted));
    }
}
