//! `baton depot …`: releases and channels.

use std::path::PathBuf;

use baton_daemon::api::{DoneReply, TrustBody};
use baton_daemon::client::Client;
use baton_depot::{
    Depot, ListedChannel, Listing, PublishOutcome, Published, SigningKey, TrustedKeys, VerifyReport,
};

use crate::args::depot::{DepotCommand, Signer};
use crate::ask::read_channels;
use crate::exit::{DONE, FAILED, Failure};
use crate::output::{Output, Table, count};

/// Does it. The depot is read and written here and now; the daemon is only told of promotions.
pub(crate) async fn run(
    command: DepotCommand,
    client: &Client,
    output: &mut Output,
) -> Result<u8, Failure> {
    match command {
        DepotCommand::Init { url } => {
            let id = Depot::open(&url).init()?;
            output.line(&format!("made the depot {url} with the id {id}"))?;
        }
        DepotCommand::Keygen { out } => {
            let (secret, public) = baton_depot::keygen(&out)?;
            output.line(&format!(
                "made {} (keep it secret: whoever has it can sign releases) and {} (copy it to \
                 every node and name it in trusted_keys)",
                secret.display(),
                public.display()
            ))?;
        }
        DepotCommand::Publish { dir, place, signer, json } => {
            let published = Depot::open(&place.depot).publish(&dir, &signing_key(&signer)?)?;
            if json.json {
                output.json_value(&published)?;
            } else {
                output.line(&published_sentence(&published))?;
            }
        }
        DepotCommand::Promote { moved, again, place, signer } => {
            let (release, channel) = (&moved.release, &moved.channel);
            let depot = Depot::open(&place.depot);
            let number = depot.promote(release, channel, &signing_key(&signer)?, again)?;
            output.line(&format!("{release} is the head of {channel} (promotion {number})"))?;
            tell_daemon(client, output).await?;
        }
        DepotCommand::Demote { moved, place, signer } => {
            let (release, channel) = (&moved.release, &moved.channel);
            let depot = Depot::open(&place.depot);
            let sequence = depot.demote(release, channel, &signing_key(&signer)?)?;
            output.line(&format!("{release} is out of {channel} (index {sequence})"))?;
            tell_daemon(client, output).await?;
        }
        DepotCommand::Trust { place } => {
            let body = TrustBody { depot: place.depot.to_string() };
            let done: DoneReply = client.post("/v1/depot/trust", &body).await?;
            output.line(&done.message)?;
        }
        DepotCommand::List { place, trust, json } => {
            let depot = Depot::open(&place.depot);
            if !trust.is_empty() {
                let report = depot.verify(&TrustedKeys::load(&trust)?)?;
                if !report.faults.is_empty() {
                    return Err(Failure::failed(report.faults.join("\n")));
                }
            }
            let listing = depot.list()?;
            if json.json {
                output.json_value(&listing)?;
            } else {
                output.lines(listing_lines(&listing))?;
            }
        }
        DepotCommand::Verify { place, trust, json } => {
            return verify(output, &Depot::open(&place.depot), &trust, json.json);
        }
        DepotCommand::Gc { place, signer, json } => {
            let removed = Depot::open(&place.depot).gc(&signing_key(&signer)?)?;
            if json.json {
                output.json_value(&removed)?;
            } else {
                output.lines(removed.iter().map(|name| format!("removed {name}")))?;
                output.line(&format!("{} removed", count(removed.len(), "file")))?;
            }
        }
    }
    Ok(DONE)
}

fn verify(
    output: &mut Output,
    depot: &Depot,
    trust: &[PathBuf],
    json: bool,
) -> Result<u8, Failure> {
    let report = depot.verify(&TrustedKeys::load(trust)?)?;
    let code = if report.faults.is_empty() { DONE } else { FAILED };
    if json {
        output.json_value(&report)?;
    } else {
        output.lines(&report.faults)?;
        output.line(&report_sentence(&report))?;
    }
    Ok(code)
}

pub(crate) fn signing_key(signer: &Signer) -> Result<SigningKey, Failure> {
    let key = SigningKey::load(&signer.key)?;
    if signer.trust.is_empty() {
        return Ok(key);
    }
    Ok(key.with_peers(&TrustedKeys::load(&signer.trust)?))
}

/// Lets leaders read their channels at once. Without a daemon here they do so at their next poll.
async fn tell_daemon(client: &Client, output: &mut Output) -> Result<(), Failure> {
    match read_channels(client).await {
        Some(0) | None => Ok(()),
        Some(told) => output.line(&format!("told {} to read the channel", count(told, "group"))),
    }
}

fn published_sentence(published: &Published) -> String {
    let Published { release, size, outcome } = published;
    let digest: String = release.digest.to_string().chars().take(DIGEST_SHOWN_CHARS).collect();
    let what = match outcome {
        PublishOutcome::New => "published",
        PublishOutcome::Unchanged => "published before, unchanged:",
        PublishOutcome::Restored => "published before, its archive restored:",
    };
    format!("{what} {release} ({size} bytes, SHA-256 {digest}…)")
}

fn report_sentence(report: &VerifyReport) -> String {
    let VerifyReport { releases, collected, faults } = report;
    let mut sentence = format!("{}, {}", count(*releases, "release"), count(faults.len(), "fault"));
    if *collected > 0 {
        sentence.push_str(&format!("; archives of {collected} were collected by gc"));
    }
    sentence
}

fn listing_lines(listing: &Listing) -> Vec<String> {
    let mut lines = vec![format!("depot {}, index {}", listing.depot_id, listing.sequence)];
    if listing.releases.is_empty() {
        lines.push("nothing is published yet".to_owned());
        return lines;
    }
    let mut table = Table::new(&["RELEASE", "SIZE", "SHA-256", "CHANNELS"]);
    for listed in &listing.releases {
        let digest = listed.release.digest.to_string();
        let channels: Vec<String> = listed.channels.iter().map(channel).collect();
        table.row(vec![
            listed.release.to_string(),
            listed.size.to_string(),
            digest.chars().take(DIGEST_SHOWN_CHARS).collect(),
            channels.join(" "),
        ]);
    }
    lines.extend(table.lines(0));
    lines
}

/// `stable(7)`, and a star if it is what the channel stands for.
fn channel(listed: &ListedChannel) -> String {
    let star = if listed.head { "*" } else { "" };
    format!("{}({}){star}", listed.channel, listed.promotion)
}

/// Enough of a digest to compare by eye; `--json` has all of it.
const DIGEST_SHOWN_CHARS: usize = 12;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    /// Types `line` with the depot in `folder` and no daemon.
    fn type_at(folder: &Path, line: &str) -> Result<u8, Failure> {
        let line = line.replace("DIR", &folder.display().to_string());
        let words = std::iter::once("baton").chain(line.split(' '));
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        let crate::args::Command::Depot(command) = cli.command else { panic!("{line}") };
        let client = Client::new(&folder.join("no.sock"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(run(command, &client, &mut Output::new()))
    }

    #[test]
    fn a_release_goes_through_its_life_without_a_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let release = folder.path().join("r");
        std::fs::create_dir(&release).expect("made");
        let manifest = "name = \"app\"\nversion = \"1\"\n[run]\ncommand = [\"/bin/true\"]\n";
        std::fs::write(release.join("release.toml"), manifest).expect("written");
        for (line, code) in [
            ("depot init file://DIR/depot", 0),
            ("depot keygen --out DIR/k", 0),
            ("depot publish DIR/r --depot file://DIR/depot --key DIR/k.key", 0),
            ("depot promote app/1 --channel s --depot file://DIR/depot --key DIR/k.key", 0),
            ("depot list --depot file://DIR/depot --trust DIR/k.pub", 0),
            ("depot verify --depot file://DIR/depot --trust DIR/k.pub", 0),
            ("depot demote app/1 --channel s --depot file://DIR/depot --key DIR/k.key", 0),
            ("depot gc --depot file://DIR/depot --key DIR/k.key", 0),
        ] {
            assert_eq!(type_at(folder.path(), line), Ok(code), "{line}");
        }
        let gone = "depot promote app/2 --channel s --depot file://DIR/depot --key DIR/k.key";
        let failure = type_at(folder.path(), gone).expect_err("unknown");
        assert_eq!(failure.code, 1);
        assert!(failure.text.starts_with("release app/2 is not in the depot"), "{}", failure.text);
    }
}
