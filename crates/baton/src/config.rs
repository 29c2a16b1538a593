//! `baton config …`: configuration revisions of a group.
//!
//! Invariant: everything that can be wrong with a revision and can be seen here is said before
//! anything is written or asked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use baton_config::SourceFile;
use baton_config::parse_revision;
use baton_daemon::api::DoneReply;
use baton_daemon::client::Client;
use baton_depot::{Depot, DepotUrl, PublishOutcome, seal_revision};
use baton_types::limits::REVISION_MAX_BYTES;
use baton_types::status::{GroupStatus, RevisionContent, RevisionStatus};
use baton_types::{CommandAction, GroupName, Revision};
use serde::Serialize;

use crate::args::config::ConfigCommand;
use crate::ask::with_known_groups;
use crate::depot::signing_key;
use crate::exit::{DONE, Failure};
use crate::output::{Output, count};
use crate::rollout::{read_status, steer};

/// Does it; the exit code of `apply --wait` follows from how the rollout ended.
pub(crate) async fn run(
    command: ConfigCommand,
    client: &Client,
    output: &mut Output,
) -> Result<u8, Failure> {
    match command {
        ConfigCommand::Apply { typed, file, depot, hand_in, signer, wait } => {
            let revision = read_revision(&file, output)?;
            let key = signing_key(&signer)?;
            let status = read_status(client, &typed.group).await?;
            let group = &typed.group;
            let place = if hand_in { Place::Daemon } else { place_of(&status, depot)? };
            let (what, digest, place) = match place {
                Place::Folder(depot) => {
                    let (digest, outcome) =
                        Depot::open(&depot).add_revision(group, &revision, &key)?;
                    let what = match outcome {
                        PublishOutcome::New => "signed",
                        PublishOutcome::Unchanged => "signed before, unchanged:",
                        PublishOutcome::Restored => "signed again, the depot's copy was damaged:",
                    };
                    (what, digest, format!("in {depot}"))
                }
                Place::Daemon => {
                    let (digest, sealed) = seal_revision(group, &revision, &key)?;
                    let path = format!("/v1/config/hand-in?group={group}");
                    let _: DoneReply = client.post_bytes(&path, sealed).await?;
                    ("signed", digest, "handed to this node's daemon".to_owned())
                }
            };
            let short: String = digest.to_string().chars().take(DIGEST_SHOWN_CHARS).collect();
            output.line(&format!("{what} {} (SHA-256 {short}…), {place}", amounts(&revision)))?;
            steer(client, output, typed, CommandAction::ApplyConfig { digest }, Some(wait)).await
        }
        ConfigCommand::Show { group, revision, json } => {
            let status = read_status(client, &group).await?;
            let shown = chosen(&status, revision)?;
            let content = read_content(client, &group, &shown).await?;
            if json.json {
                output.json_value(&as_json(&group, &status, &shown, content))?;
            } else {
                output.lines(lines(&status, &shown, content.as_ref()))?;
            }
            Ok(DONE)
        }
    }
}

/// The revision in `path`, with the files that it names beside it.
fn read_revision(path: &Path, output: &mut Output) -> Result<Revision, Failure> {
    let text = read_text(path, FILE_MAX_BYTES).map_err(Failure::failed)?;
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    let read = |source: &str| read_text(&beside.join(source), REVISION_MAX_BYTES as u64);
    parse_revision(&SourceFile::new(path, text), &read).or_else(|faults| {
        output.lines(faults.iter().map(|fault| format!("error: {fault}")))?;
        let faults = count(faults.len(), "fault");
        Err(Failure::failed(format!("{faults} in the revision; nothing was signed or sent")))
    })
}

fn read_text(path: &Path, max_bytes: u64) -> Result<String, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes))
        .map_err(|cause| format!("cannot read {shown}: {cause}"))?;
    if bytes.len() as u64 > max_bytes {
        return Err(format!("{shown} is larger than {max_bytes} bytes, the most that are allowed"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text; only text is allowed"))
}

/// Where a signed revision goes.
#[derive(Debug, PartialEq)]
enum Place {
    /// Into a depot's folder.
    Folder(DepotUrl),
    /// To the daemon here: the group's depot can only be read.
    Daemon,
}

/// What was typed, else where the group reads.
fn place_of(status: &GroupStatus, typed: Option<DepotUrl>) -> Result<Place, Failure> {
    let is_typed = typed.is_some();
    let depot = match typed {
        Some(depot) => depot,
        None if status.depot.is_empty() => {
            return Err(Failure::failed(format!(
                "nobody answers for {} who knows its depot; name the depot's folder with --depot",
                status.group
            )));
        }
        None => status
            .depot
            .parse()
            .map_err(|cause: baton_depot::DepotUrlError| Failure::failed(cause.to_string()))?,
    };
    match depot.folder() {
        Some(_) => Ok(Place::Folder(depot)),
        None if is_typed => Err(Failure::failed(format!(
            "{depot} can only be read: name the depot's folder with --depot file:///FOLDER, or leave \
             --depot and BATON_DEPOT out and the revision is handed to this node's daemon"
        ))),
        None => Ok(Place::Daemon),
    }
}

/// The revision asked for: that of a number, or the one in force.
fn chosen(status: &GroupStatus, number: Option<u32>) -> Result<RevisionStatus, Failure> {
    let group = &status.group;
    let Some(number) = number else {
        return status.config.clone().ok_or_else(|| {
            let text = format!("no configuration revision is in force in {group}");
            Failure::failed(match under_way(status) {
                Some(under_way) => format!("{text}; {under_way}"),
                None => format!("{text}: `baton config apply {group} FILE` makes one"),
            })
        });
    };
    let all = status.revisions.iter().chain(&status.config);
    all.clone().find(|revision| revision.number == number).cloned().ok_or_else(|| {
        let known: Vec<String> =
            status.revisions.iter().map(|revision| revision.number.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::failed(format!(
            "{group} has no configuration revision {number}; the ledger remembers: {known}"
        ))
    })
}

async fn read_content(
    client: &Client,
    group: &GroupName,
    shown: &RevisionStatus,
) -> Result<Option<RevisionContent>, Failure> {
    let path = format!("/v1/config?group={group}&digest={}", shown.digest);
    match client.get(&path).await {
        Ok(content) => Ok(content),
        Err(error) => Err(with_known_groups(client, error).await),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    group: &'a GroupName,
    number: u32,
    digest: &'a str,
    by: &'a str,
    at: &'a str,
    in_force: bool,
    /// Null for one that the leader does not keep any more.
    content: Option<Revision>,
}

fn as_json<'a>(
    group: &'a GroupName,
    status: &GroupStatus,
    shown: &'a RevisionStatus,
    content: Option<RevisionContent>,
) -> Shown<'a> {
    Shown {
        group,
        number: shown.number,
        digest: &shown.digest,
        by: &shown.by,
        at: &shown.at,
        in_force: is_in_force(status, shown),
        content: content.map(|content| content.content),
    }
}

fn is_in_force(status: &GroupStatus, shown: &RevisionStatus) -> bool {
    status.config.as_ref().is_some_and(|in_force| in_force.digest == shown.digest)
}

fn lines(
    status: &GroupStatus,
    shown: &RevisionStatus,
    content: Option<&RevisionContent>,
) -> Vec<String> {
    let force = if is_in_force(status, shown) { "in force" } else { "not in force" };
    let by = match shown.by.as_str() {
        "" => String::new(),
        by => format!(", applied at {by}, {}", shown.at),
    };
    let mut lines = vec![
        format!("{}: configuration revision {}, {force}{by}", status.group, shown.number),
        format!("SHA-256 {}", shown.digest),
    ];
    lines.extend(under_way(status));
    let Some(content) = content.map(|content| &content.content) else {
        lines.push(format!(
            "its content is no longer kept by the group's leader; it is in the depot {}",
            status.depot
        ));
        return lines;
    };
    if !content.env.is_empty() {
        lines.push("[env]".to_owned());
        lines.extend(content.env.iter().map(|(name, value)| format!("{name} = {value:?}")));
    }
    for (name, file) in &content.files {
        lines.push(format!("[files.{name:?}]  mode {:04o}", file.mode));
        lines.extend(file.content.lines().map(|line| format!("| {line}")));
    }
    lines
}

/// A rollout that changes the revision, in a sentence.
fn under_way(status: &GroupStatus) -> Option<String> {
    let rollout = status.rollout.as_ref().filter(|rollout| !is_over(&rollout.state))?;
    let now = status.config.as_ref().map_or("", |config| config.digest.as_str());
    (rollout.to.config_digest != now).then(|| {
        format!(
            "a rollout to {} config {} is {}: `baton rollout status {}`",
            rollout.to.release, rollout.to.config, rollout.state, status.group
        )
    })
}

fn is_over(state: &str) -> bool {
    ["completed", "completed_with_exceptions", "cancelled", "superseded", "rolled_back"]
        .contains(&state)
}

/// "2 variables and 1 file".
fn amounts(revision: &Revision) -> String {
    let (env, files) = (count(revision.env.len(), "variable"), count(revision.files.len(), "file"));
    match (revision.env.is_empty(), revision.files.is_empty()) {
        (false, true) => env,
        (true, _) => files,
        _ => format!("{env} and {files}"),
    }
}

/// As for every configuration file.
const FILE_MAX_BYTES: u64 = baton_config::limits::FILE_MAX_BYTES as u64;

/// Enough of a digest to compare by eye; `show` has all of it.
const DIGEST_SHOWN_CHARS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::status::{RolloutStatus, TargetStatus};

    fn status() -> GroupStatus {
        let revision = |number: u32| RevisionStatus {
            number,
            digest: format!("d{number}"),
            by: "n1".to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
        };
        GroupStatus {
            group: "redis.default".to_owned(),
            depot: "https://depot.example/x".to_owned(),
            config: Some(revision(2)),
            revisions: vec![revision(1), revision(2), revision(3)],
            ..GroupStatus::default()
        }
    }

    #[test]
    fn the_revision_shown_is_the_one_in_force_or_the_one_named() {
        let mut status = status();
        assert_eq!(chosen(&status, None).map(|shown| shown.number), Ok(2));
        assert_eq!(chosen(&status, Some(3)).map(|shown| shown.number), Ok(3));
        let failure = chosen(&status, Some(9)).expect_err("unknown");
        assert!(failure.text.contains("remembers: 1, 2, 3"), "{}", failure.text);
        status.config = None;
        let failure = chosen(&status, None).expect_err("none");
        assert!(failure.text.contains("`baton config apply redis.default FILE`"));
        let to = TargetStatus { release: "redis/1".to_owned(), config: 3, ..Default::default() };
        let to = TargetStatus { config_digest: "d3".to_owned(), ..to };
        let state = "running".to_owned();
        status.rollout = Some(RolloutStatus { state, to, ..RolloutStatus::default() });
        let failure = chosen(&status, None).expect_err("none");
        assert!(failure.text.contains("a rollout to redis/1 config 3 is running"));
    }

    #[test]
    fn a_revision_is_shown_with_its_content() {
        let status = status();
        let mut content = RevisionContent::default();
        content.content.env.insert("PORT".to_owned(), "1\n2".to_owned());
        let file = baton_types::RevisionFile { content: "a\nb\n".to_owned(), mode: 0o600 };
        content.content.files.insert("a.conf".to_owned(), file);
        let shown = chosen(&status, None).expect("in force");
        assert_eq!(
            lines(&status, &shown, Some(&content)),
            [
                "redis.default: configuration revision 2, in force, applied at n1, \
                 2026-01-01T00:00:00Z",
                "SHA-256 d2",
                "[env]",
                "PORT = \"1\\n2\"",
                "[files.\"a.conf\"]  mode 0600",
                "| a",
                "| b",
            ]
        );
        let gone = lines(&status, &chosen(&status, Some(1)).expect("known"), None);
        assert!(gone[0].contains("revision 1, not in force"), "{gone:?}");
        assert!(gone[2].contains("no longer kept"), "{gone:?}");
    }

    #[test]
    fn a_revision_is_written_to_a_folder_or_handed_to_the_daemon() {
        let status = status();
        assert_eq!(place_of(&status, None), Ok(Place::Daemon), "https is only read");
        let https: DepotUrl = "https://depot.example/x".parse().expect("a URL");
        let failure = place_of(&status, Some(https)).expect_err("read only");
        assert!(failure.text.contains("--depot file:///FOLDER"), "{}", failure.text);
        let folder: DepotUrl = "file:///srv/depot".parse().expect("a URL");
        assert_eq!(place_of(&status, Some(folder.clone())), Ok(Place::Folder(folder)));
        let unknown = GroupStatus::default();
        assert!(place_of(&unknown, None).is_err());
    }

    #[test]
    fn faults_and_unreadable_files_end_with_1() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.toml");
        let check = |text: &str, part: &str| {
            std::fs::write(&path, text).expect("written");
            let failure = read_revision(&path, &mut Output::new()).expect_err(part);
            assert_eq!(failure.code, 1);
            assert!(failure.text.contains(part), "{}", failure.text);
        };
        check("[files.a]\nsource = \"nope\"\n[env]\nA = 1", "2 faults in the revision");
        let missing = read_revision(&folder.path().join("none"), &mut Output::new());
        assert!(missing.expect_err("none").text.starts_with("cannot read"));
        std::fs::write(folder.path().join("a.conf"), "x").expect("written");
        std::fs::write(&path, "[files.a]\nsource = \"a.conf\"").expect("written");
        let revision = read_revision(&path, &mut Output::new()).expect("a revision");
        assert_eq!(amounts(&revision), "1 file");
    }
}
