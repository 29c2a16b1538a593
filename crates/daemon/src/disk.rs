//! The node's durable files: one thread writes them in the order in which they were asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};

use baton_node::{Event, FoundFile};
use baton_platform::{DurableError, DurableFiles};
use baton_types::{GroupName, Text};

/// Hands writes to the thread.
#[derive(Debug)]
pub(crate) struct Disk {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    write: u64,
    file: String,
    content: Option<Vec<u8>>,
}

impl Disk {
    /// Starts the thread; `done` takes its answers.
    pub(crate) fn start(
        files: Arc<DurableFiles>,
        done: tokio::sync::mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for Job { write, file, content } in queue {
                let result = match content {
                    Some(content) => files.write(&file, FORMAT, &content),
                    None => files.remove(&file),
                };
                let result = result.map_err(|cause| Text::new(&describe(&cause)));
                if done.send(Event::Written { write, result }).is_err() {
                    return;
                }
            }
        });
        Self { jobs }
    }

    /// Writes `content` as `file`, or removes it.
    pub(crate) fn write(&self, write: u64, file: String, content: Option<Vec<u8>>) {
        // The thread ends only with the daemon.
        self.jobs.send(Job { write, file, content }).ok();
    }
}

/// Reads every file that a node left in `files`. One that is damaged has been moved aside.
///
/// # Errors
///
/// One that cannot be read, or that a newer version wrote: nothing may be decided without it.
pub(crate) fn read_all(files: &DurableFiles) -> Result<BTreeMap<String, FoundFile>, DurableError> {
    let mut found = BTreeMap::new();
    for name in names(files.dir()) {
        match files.read(&name, FORMAT, FILE_MAX_BYTES) {
            Ok(Some(content)) => {
                found.insert(name, FoundFile::Content(content));
            }
            Ok(None) => {}
            Err(damaged @ DurableError::Damaged { .. }) => {
                // The node says what that means; only here it is known where the file is now.
                tracing::error!("{damaged}");
                found.insert(name, FoundFile::Damaged);
            }
            Err(other) => return Err(other),
        }
    }
    Ok(found)
}

/// Names of the node's own files in the data directory.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name == "ring" || is_of_a_group(name))
        .collect();
    names.sort_unstable();
    names
}

/// A file that was moved aside, or is being written, has one more part than a group's name has.
fn is_of_a_group(name: &str) -> bool {
    let group = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    group.is_some_and(|group| group.parse::<GroupName>().is_ok())
}

/// An error with its causes, on one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Many errors quote their cause already.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// What the node's files begin with; the rest of the folder belongs to others.
const PREFIXES: [&str; 5] = ["ledger.", "turn.", "service.", "outcomes.", "members."];

/// Format of the node's files.
const FORMAT: u16 = 1;

/// The largest file is a ledger's: one record and what was heard of the peers.
const FILE_MAX_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_group_is_written_and_found_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().join("data");
        let names = [
            "ring",
            "turn.a.new",
            "ledger.a.tmp",
            "service.a.damaged-1",
            "outcomes.a.b",
            "members.a.b",
        ];
        let files = DurableFiles::open(&data).expect("opened");
        for name in names {
            files.write(name, FORMAT, name.as_bytes()).expect("written");
        }
        drop(files);
        for stray in ["turn.a.b.damaged-1", "node-id", "depots", "turn.a.b.new", "turn."] {
            std::fs::write(data.join(stray), b"stray").expect("written");
        }
        let files = DurableFiles::open(&data).expect("opened again");
        let found = read_all(&files).expect("read");
        assert_eq!(found.len(), names.len(), "{found:?}");
        for name in names {
            assert_eq!(found[name], FoundFile::Content(name.as_bytes().to_vec()));
        }
    }
}
