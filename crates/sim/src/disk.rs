//! A virtual disk: durable files, and writes that are under way.
//!
//! Invariant: a write is seen whole or not at all; until it is said to be done, a crash may have
//! either outcome.

use std::collections::{BTreeMap, BTreeSet};

use baton_node::FoundFile;
use rand::RngExt as _;
use rand::rngs::StdRng;

/// One host's disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    damaged: BTreeSet<String>,
    under_way: Vec<Write>,
    /// The last write that was asked for ends then: writes end in their order.
    pub(crate) busy_until: u64,
}

#[derive(Clone, Debug)]
struct Write {
    number: u64,
    file: String,
    content: Option<Vec<u8>>,
}

impl Disk {
    /// A write is asked for.
    pub(crate) fn begin(&mut self, number: u64, file: String, content: Option<Vec<u8>>) {
        self.under_way.push(Write { number, file, content });
    }

    /// A write is done; the file that it was for.
    pub(crate) fn finish(&mut self, number: u64) -> Option<String> {
        let at = self.under_way.iter().position(|write| write.number == number)?;
        let write = self.under_way.remove(at);
        Some(self.apply(write))
    }

    /// A write fails: the old file stays.
    pub(crate) fn fail(&mut self, number: u64) -> Option<String> {
        let at = self.under_way.iter().position(|write| write.number == number)?;
        Some(self.under_way.remove(at).file)
    }

    /// How many writes are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The writer dies: each write under way is done or is not. The files that changed.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) -> Vec<String> {
        let under_way = std::mem::take(&mut self.under_way);
        under_way
            .into_iter()
            .filter_map(|write| rng.random::<bool>().then(|| self.apply(write)))
            .collect()
    }

    /// What a daemon finds at its start. A damaged file is moved aside by that.
    pub(crate) fn found(&mut self) -> BTreeMap<String, FoundFile> {
        let damaged = std::mem::take(&mut self.damaged);
        for file in &damaged {
            self.files.remove(file);
        }
        let whole = self
            .files
            .iter()
            .map(|(file, content)| (file.clone(), FoundFile::Content(content.clone())));
        whole.chain(damaged.iter().map(|file| (file.clone(), FoundFile::Damaged))).collect()
    }

    /// A durable file.
    pub(crate) fn read(&self, file: &str) -> Option<&[u8]> {
        self.files.get(file).map(Vec::as_slice)
    }

    /// Bits rot.
    pub(crate) fn damage(&mut self, file: &str) {
        self.damaged.insert(file.to_owned());
    }

    /// An older copy is put back.
    pub(crate) fn restore(&mut self, file: &str, content: Vec<u8>) {
        self.files.insert(file.to_owned(), content);
    }

    fn apply(&mut self, write: Write) -> String {
        match write.content {
            Some(content) => self.files.insert(write.file.clone(), content),
            None => self.files.remove(&write.file),
        };
        write.file
    }
}
