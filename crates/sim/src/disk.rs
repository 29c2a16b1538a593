//! A virtual disk: durable files, and writes that are under way.
//!
//! Invariant: a write is seen whole or not at all; until it is said to be done, a crash may have
//! either outcome. Only a disk that lies, and says that a write is done which it has not kept, may
//! lose or tear it when the power fails.

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
    /// What the last finished write replaced.
    last: Option<Earlier>,
    /// What writes replaced that failed at their last step, and that nobody has read since.
    failed: Vec<Failed>,
    /// The last write that was asked for ends then: writes end in their order.
    pub(crate) busy_until: u64,
}

/// What was written can be read by the next daemon, and the power may take it back until the folder is
/// synced by another write or by that daemon.
#[derive(Clone, Debug)]
struct Failed {
    earlier: Earlier,
    is_synced: bool,
}

/// A file as it was before; `None`: there was none.
#[derive(Clone, Debug)]
struct Earlier {
    file: String,
    content: Option<Vec<u8>>,
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
        self.last = Some(self.earlier(&write.file));
        self.failed.retain(|failed| failed.earlier.file != write.file);
        self.failed.iter_mut().for_each(|failed| failed.is_synced = true);
        Some(self.apply(write))
    }

    /// A write fails: the old file stays.
    pub(crate) fn fail(&mut self, number: u64) -> Option<String> {
        let at = self.under_way.iter().position(|write| write.number == number)?;
        Some(self.under_way.remove(at).file)
    }

    /// A write fails at its last step: what it wrote is there, but perhaps not for good.
    pub(crate) fn fail_to_sync(&mut self, number: u64) -> Option<String> {
        let at = self.under_way.iter().position(|write| write.number == number)?;
        let write = self.under_way.remove(at);
        if self.failed.iter().all(|failed| failed.earlier.file != write.file) {
            let earlier = self.earlier(&write.file);
            self.failed.push(Failed { earlier, is_synced: false });
        }
        Some(self.apply(write))
    }

    /// The power fails: what was not synced is gone, or there for good. The files, and whether each is gone.
    pub(crate) fn lose_unsynced(&mut self, rng: &mut StdRng) -> Vec<(String, bool)> {
        let failed = std::mem::take(&mut self.failed);
        let decide = |Failed { earlier, is_synced }: Failed| {
            let (file, is_lost) = (earlier.file.clone(), !is_synced && rng.random());
            if is_lost {
                self.put_back(earlier);
            }
            (file, is_lost)
        };
        failed.into_iter().map(decide).collect()
    }

    /// What was written last and said to be done was not kept. The file.
    pub(crate) fn lose_last(&mut self) -> Option<String> {
        let earlier = self.last.take()?;
        let file = earlier.file.clone();
        self.put_back(earlier);
        Some(file)
    }

    /// What was written last and said to be done is torn. The file.
    pub(crate) fn tear_last(&mut self) -> Option<String> {
        let file = self.last.take()?.file;
        self.damage(&file);
        Some(file)
    }

    /// The file that was written last, if it can still be lost.
    pub(crate) fn last_file(&self) -> Option<&str> {
        self.last.as_ref().map(|earlier| earlier.file.as_str())
    }

    /// How many writes are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The writer dies: each write under way is done or is not. The files that changed.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) -> Vec<String> {
        let under_way = std::mem::take(&mut self.under_way);
        let kept: Vec<String> = under_way
            .into_iter()
            .filter_map(|write| rng.random::<bool>().then(|| self.apply(write)))
            .collect();
        self.failed.retain(|failed| !kept.contains(&failed.earlier.file));
        kept
    }

    /// What a daemon finds at its start. A damaged file is moved aside by that.
    /// Whoever opens the folder syncs it, so that what it reads is there for good.
    pub(crate) fn found(&mut self) -> BTreeMap<String, FoundFile> {
        self.last = None;
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

    /// A durable file that is whole.
    pub(crate) fn read(&self, file: &str) -> Option<&[u8]> {
        self.files.get(file).filter(|_| !self.damaged.contains(file)).map(Vec::as_slice)
    }

    /// Bits rot.
    pub(crate) fn damage(&mut self, file: &str) {
        self.damaged.insert(file.to_owned());
    }

    /// An older copy is put back.
    pub(crate) fn restore(&mut self, file: &str, content: Vec<u8>) {
        self.files.insert(file.to_owned(), content);
    }

    /// The files that a daemon reads now although their writes failed.
    pub(crate) fn sync(&mut self) -> Vec<String> {
        self.failed.drain(..).map(|failed| failed.earlier.file).collect()
    }

    fn earlier(&self, file: &str) -> Earlier {
        Earlier { file: file.to_owned(), content: self.files.get(file).cloned() }
    }

    fn put_back(&mut self, earlier: Earlier) {
        match earlier.content {
            Some(content) => self.files.insert(earlier.file, content),
            None => self.files.remove(&earlier.file),
        };
    }

    fn apply(&mut self, write: Write) -> String {
        match write.content {
            Some(content) => self.files.insert(write.file.clone(), content),
            None => self.files.remove(&write.file),
        };
        write.file
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_torn_file_is_no_whole_one_before_anybody_finds_it() {
        let mut disk = Disk::default();
        for (number, content) in [(1, "a"), (2, "b")] {
            disk.begin(number, "ledger".to_owned(), Some(content.into()));
            disk.finish(number);
        }
        assert_eq!(disk.read("ledger"), Some(b"b".as_slice()));
        assert_eq!(disk.tear_last().as_deref(), Some("ledger"));
        assert_eq!(disk.read("ledger"), None);
        assert_eq!(disk.found().get("ledger"), Some(&FoundFile::Damaged));
        assert_eq!(disk.read("ledger"), None);
    }

    #[test]
    fn the_power_decides_about_a_write_that_failed() {
        let mut ends = BTreeSet::new();
        for seed in 0..20 {
            let mut disk = Disk::default();
            disk.begin(1, "ledger".to_owned(), Some("a".into()));
            disk.fail_to_sync(1);
            let decided = disk.lose_unsynced(&mut StdRng::seed_from_u64(seed));
            let is_lost = disk.read("ledger").is_none();
            assert_eq!(decided, [("ledger".to_owned(), is_lost)]);
            assert!(disk.sync().is_empty(), "nothing is left to decide");
            ends.insert(is_lost);
        }
        assert_eq!(ends.len(), 2);
    }

    #[test]
    fn whoever_syncs_the_folder_keeps_what_failed_for_the_next_daemon() {
        let mut disk = Disk::default();
        for (number, file) in [(1, "ledger.a"), (2, "ledger.b"), (3, "ledger.a")] {
            disk.begin(number, file.to_owned(), Some(vec![number as u8]));
            disk.fail_to_sync(number);
        }
        disk.begin(4, "ledger.b".to_owned(), Some(vec![4]));
        disk.finish(4);
        for seed in 0..20 {
            let decided = disk.clone().lose_unsynced(&mut StdRng::seed_from_u64(seed));
            assert_eq!(decided, [("ledger.a".to_owned(), false)], "the other write synced it");
        }
        assert_eq!(disk.read("ledger.a"), Some([3].as_slice()));
        assert_eq!(disk.sync(), ["ledger.a"]);
    }
}
