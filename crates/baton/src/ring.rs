//! `baton ring …`: the nodes, and the ring's key.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use baton_daemon::api::{JoinBody, LeaveBody, NodeBody};
use baton_daemon::client::Client;
use baton_daemon::config_files;
use baton_types::format_duration;
use baton_types::status::RingMemberStatus;
use baton_wire::seal::{Key, Sealing};

use crate::args::RingCommand;
use crate::ask::{random_bits, show_json, tell};
use crate::exit::{DETACHED, Failure};
use crate::live::Live;
use crate::output::{Output, Table, clock, count};

/// Does it.
pub(crate) async fn run(
    ring: RingCommand,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    match ring {
        RingCommand::Members { watch: false, json } if json.json => {
            show_json(client, output, "/v1/members").await
        }
        RingCommand::Members { watch: false, .. } => {
            let members: Vec<RingMemberStatus> = client.get("/v1/members").await?;
            output.lines(table(&members))
        }
        RingCommand::Members { watch: true, json } => watch(client, output, json.json).await,
        RingCommand::Join { addr } => {
            tell(client, output, "/v1/ring/join", &JoinBody { addr }).await
        }
        RingCommand::Leave { force } => {
            tell(client, output, "/v1/ring/leave", &LeaveBody { force }).await
        }
        RingCommand::Forget { node } => {
            tell(client, output, "/v1/ring/forget", &NodeBody { node: Some(node) }).await
        }
        RingCommand::Keygen { out } => keygen(output, &out),
        RingCommand::Keys { config, json } => keys(output, &config.config, json.json),
    }
}

fn table(members: &[RingMemberStatus]) -> Vec<String> {
    let mut table = Table::new(&[
        "NAME", "ADDRESS", "STATE", "SINCE", "VERSION", "PROTOCOL", "GROUPS", "NODE", "NOTE",
    ]);
    for member in members {
        let me = if member.me { "this node" } else { "" };
        let note = match (me, member.note.as_str()) {
            ("", note) => note.to_owned(),
            (me, "") => me.to_owned(),
            (me, note) => format!("{me}; {note}"),
        };
        table.row(vec![
            member.name.clone(),
            member.addr.clone(),
            member.state.clone(),
            format_duration(Duration::from_secs(member.since_seconds)),
            member.version.clone(),
            member.protocol.clone(),
            member.groups.join(" "),
            member.node.clone(),
            note,
        ]);
    }
    table.lines(0)
}

/// Shows every change until Ctrl-C.
async fn watch(client: &Client, output: &mut Output, json: bool) -> Result<(), Failure> {
    let mut live = (output.is_terminal() && !json).then(Live::new);
    let ended = tokio::select! {
        ended = follow(client, output, &mut live, json) => ended,
        signal = tokio::signal::ctrl_c() => match signal {
            // The way in which one leaves it.
            Ok(()) => Err(Failure::with_code(DETACHED, "")),
            Err(cause) => Err(Failure::failed(format!("cannot wait for Ctrl-C: {cause}"))),
        },
    };
    if let Some(live) = live {
        live.finish(output)?;
    }
    ended
}

async fn follow(
    client: &Client,
    output: &mut Output,
    live: &mut Option<Live>,
    json: bool,
) -> Result<(), Failure> {
    let mut last: Option<Vec<RingMemberStatus>> = None;
    loop {
        let members: Vec<RingMemberStatus> = client.get("/v1/members").await?;
        if let Some(live) = live {
            live.draw(&table(&members));
        } else {
            let changes = changes(last.as_deref(), &members);
            if json && !changes.is_empty() {
                let text = serde_json::to_string(&members)
                    .map_err(|cause| Failure::failed(format!("cannot write JSON: {cause}")))?;
                output.write(&format!("{text}\n"))?;
            } else if !json {
                let time = clock();
                output.lines(changes.iter().map(|change| format!("{time} {change}")))?;
            }
        }
        last = Some(members);
        tokio::time::sleep(POLL).await;
    }
}

/// One line per event between two looks.
fn changes(old: Option<&[RingMemberStatus]>, new: &[RingMemberStatus]) -> Vec<String> {
    let Some(old) = old else {
        let alive = new.iter().filter(|member| member.state == "alive").count();
        return vec![format!("{}, {alive} alive", count(new.len(), "member"))];
    };
    let mut changes = Vec::new();
    for member in new {
        let RingMemberStatus { name, addr, state, .. } = member;
        match old.iter().find(|known| known.node == member.node) {
            None => changes.push(format!("{name} ({addr}) is new: {state}")),
            Some(known) => {
                if known.state != *state {
                    changes.push(format!("{name}: {} → {state}", known.state));
                }
                if known.addr != *addr {
                    changes.push(format!("{name}: address {} → {addr}", known.addr));
                }
                if known.version != member.version {
                    changes.push(format!("{name}: version {} → {}", known.version, member.version));
                }
                if known.groups != member.groups {
                    changes.push(format!("{name}: groups {}", member.groups.join(" ")));
                }
                if known.note != member.note && !member.note.is_empty() {
                    changes.push(format!("{name}: {}", member.note));
                }
            }
        }
    }
    let gone = old.iter().filter(|known| !new.iter().any(|member| member.node == known.node));
    changes.extend(gone.map(|known| format!("{} is forgotten", known.name)));
    changes
}

/// Makes a key file that only its owner can read.
fn keygen(output: &mut Output, path: &Path) -> Result<(), Failure> {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&random_bits()?.to_be_bytes());
    bytes[16..].copy_from_slice(&random_bits()?.to_be_bytes());
    let key = Key::from_random(bytes);
    let shown = path.display();
    let text = format!(
        "# A key of the ring: every node needs this file. Whoever has it can join.\n{}\n",
        key.to_line()
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(
        |cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::failed(format!("{shown} is there already; a key is never overwritten"))
            }
            _ => Failure::failed(format!("cannot make {shown}: {cause}")),
        },
    )?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|cause| Failure::failed(format!("cannot write {shown}: {cause}")))?;
    output.line(&format!(
        "made {shown} with the key {}; copy it to every node (mode 0600) and name it as [ring] \
         key_file",
        key.id()
    ))
}

fn keys(output: &mut Output, config: &Path, json: bool) -> Result<(), Failure> {
    let loaded =
        config_files::load(config).map_err(|faults| Failure::failed(faults.to_string()))?;
    let ids: Vec<String> = match &loaded.sealing {
        Sealing::Plain => Vec::new(),
        Sealing::Keys(keys) => keys.ids().iter().map(ToString::to_string).collect(),
    };
    if json {
        return output.json_value(&ids);
    }
    if ids.is_empty() {
        return output.line("no [ring] key_file: traffic is not sealed");
    }
    let line = |(at, id): (usize, &String)| {
        if at == 0 { format!("{id}  seals and opens") } else { format!("{id}  opens") }
    };
    output.lines(ids.iter().enumerate().map(line))
}

/// A person sees every change of the ring within this.
const POLL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use baton_wire::seal::KeyRing;

    use super::*;

    fn member(name: &str, state: &str) -> RingMemberStatus {
        RingMemberStatus {
            name: name.to_owned(),
            node: format!("id-{name}"),
            addr: "10.0.0.1:7117".to_owned(),
            state: state.to_owned(),
            since_seconds: 90,
            ..RingMemberStatus::default()
        }
    }

    #[test]
    fn members_are_a_table() {
        let mut me = member("n1", "alive");
        me.me = true;
        me.protocol = "1-2".to_owned();
        me.groups = vec!["a.b".to_owned(), "c.d".to_owned()];
        assert_eq!(
            table(&[me, member("n2", "suspect")]),
            [
                "NAME  ADDRESS        STATE    SINCE   PROTOCOL  GROUPS   NODE   NOTE",
                "n1    10.0.0.1:7117  alive    1m 30s  1-2       a.b c.d  id-n1  this node",
                "n2    10.0.0.1:7117  suspect  1m 30s                     id-n2",
            ]
        );
    }

    #[test]
    fn changes_of_the_ring_are_lines() {
        let old = [member("n1", "alive"), member("n2", "alive")];
        assert_eq!(changes(None, &old), ["2 members, 2 alive"]);
        assert!(changes(Some(&old), &old).is_empty());
        assert_eq!(
            changes(Some(&old), &[member("n1", "suspect"), member("n3", "alive")]),
            ["n1: alive → suspect", "n3 (10.0.0.1:7117) is new: alive", "n2 is forgotten"]
        );
    }

    #[test]
    fn a_made_key_reads_back_and_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring.key");
        keygen(&mut Output::new(), &path).expect("made");
        assert_eq!(path.metadata().expect("a file").mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(KeyRing::parse(&text).expect("a key").ids().len(), 1);
        let failure = keygen(&mut Output::new(), &path).expect_err("a second time");
        assert!(failure.text.contains("is there already"), "{}", failure.text);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
    }
}
