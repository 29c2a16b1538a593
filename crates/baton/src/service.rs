//! `baton service …` and `baton member …`: what runs on the nodes.

use std::io::Read;
use std::path::Path;

use baton_daemon::api::{LoadBody, LogsReply, NodeBody, ServiceBody};
use baton_daemon::client::Client;
use baton_types::status::ServiceStatus;

use crate::args::{MemberCommand, ServiceCommand};
use crate::ask::{show_json, tell, with_known_groups};
use crate::exit::Failure;
use crate::output::{Output, Table};

/// Does it.
pub(crate) async fn run(
    service: ServiceCommand,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let on_this_node = |group| ServiceBody { group, force: false };
    match service {
        ServiceCommand::List(json) if json.json => show_json(client, output, "/v1/services").await,
        ServiceCommand::List(_) => {
            let services: Vec<ServiceStatus> = client.get("/v1/services").await?;
            if services.is_empty() {
                return output.line("the ring has no services");
            }
            output.lines(table(&services))
        }
        ServiceCommand::Load { file } => {
            tell(client, output, "/v1/service/load", &read(&file)?).await
        }
        ServiceCommand::Unload { group, force } => {
            tell(client, output, "/v1/service/unload", &ServiceBody { group, force }).await
        }
        ServiceCommand::Start { group } => {
            tell(client, output, "/v1/service/start", &on_this_node(group)).await
        }
        ServiceCommand::Stop { group } => {
            tell(client, output, "/v1/service/stop", &on_this_node(group)).await
        }
        ServiceCommand::Restart { group } => {
            tell(client, output, "/v1/service/restart", &on_this_node(group)).await
        }
        ServiceCommand::Logs { group, lines, json } => {
            let path = format!("/v1/logs?group={group}&lines={lines}");
            if json.json {
                return show_json(client, output, &path).await;
            }
            match client.get::<LogsReply>(&path).await {
                Ok(reply) => output.lines(reply.lines),
                Err(error) => Err(with_known_groups(client, error).await),
            }
        }
    }
}

/// Cordons or uncordons a node.
pub(crate) async fn run_member(
    member: MemberCommand,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let (path, node) = match member {
        MemberCommand::Cordon { node } => ("/v1/member/cordon", node),
        MemberCommand::Uncordon { node } => ("/v1/member/uncordon", node),
    };
    tell(client, output, path, &NodeBody { node }).await
}

fn table(services: &[ServiceStatus]) -> Vec<String> {
    let mut table = Table::new(&[
        "GROUP", "NODE", "RELEASE", "DESIRED", "PROCESS", "PID", "HEALTH", "RESTARTS", "NOTE",
    ]);
    for service in services {
        let ill = !matches!(service.health.as_str(), "ok" | "");
        let edit = if service.pending_edit { "edited file waits for the next turn" } else { "" };
        let words = if ill { service.health_text.as_str() } else { "" };
        // What it says of itself is then what it said last.
        let absent = match service.ring.as_str() {
            "" | "alive" => String::new(),
            state => format!("its node is {state}; this is what it said last"),
        };
        let cordoned = if service.cordoned { "cordoned" } else { "" };
        let notes = [absent.as_str(), cordoned, service.phase.as_str(), words, edit];
        let notes: Vec<&str> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        table.row(vec![
            service.group.clone(),
            service.name.clone(),
            if service.release.is_empty() { "-".to_owned() } else { service.release.clone() },
            service.desired.clone(),
            service.process.clone(),
            service.pid.map_or_else(String::new, |pid| pid.to_string()),
            service.health.clone(),
            service.restarts.to_string(),
            notes.join("; "),
        ]);
    }
    table.lines(0)
}

fn read(file: &Path) -> Result<LoadBody, Failure> {
    let fault = |cause: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot read {}: {cause}", file.display()))
    };
    let mut toml = String::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(FILE_MAX_BYTES).read_to_string(&mut toml))
        .map_err(|cause| fault(&cause))?;
    if toml.len() as u64 == FILE_MAX_BYTES {
        return Err(fault(&"larger than 1 MiB, expected a service file"));
    }
    let path = file.canonicalize().map_err(|cause| fault(&cause))?;
    Ok(LoadBody { path: path.display().to_string(), toml })
}

/// Above the largest configuration file.
const FILE_MAX_BYTES: u64 = 1024 * 1024 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_a_table_with_what_stands_out() {
        let service = ServiceStatus {
            group: "redis.default".to_owned(),
            name: "n1".to_owned(),
            release: "redis/2".to_owned(),
            desired: "running".to_owned(),
            process: "back-off".to_owned(),
            health: "critical".to_owned(),
            health_text: "exited 1".to_owned(),
            restarts: 3,
            pending_edit: true,
            ring: "dead".to_owned(),
            cordoned: true,
            ..ServiceStatus::default()
        };
        assert_eq!(
            table(&[service]).join("\n"),
            "\
GROUP          NODE  RELEASE  DESIRED  PROCESS   HEALTH    RESTARTS  NOTE
redis.default  n1    redis/2  running  back-off  critical  3         its node is dead; this is what it said last; cordoned; exited 1; edited file waits for the next turn"
        );
    }

    #[test]
    fn a_service_file_travels_with_its_full_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("redis.toml");
        assert!(read(&path).expect_err("no file").text.contains("redis.toml: No such file"));
        std::fs::write(&path, "name = \"redis\"").expect("written");
        let body = read(&path).expect("read");
        assert!(body.path.starts_with('/') && body.toml == "name = \"redis\"");
        std::fs::write(&path, vec![b'#'; 2_000_000]).expect("written");
        assert!(read(&path).expect_err("too large").text.contains("larger than 1 MiB"));
    }
}
