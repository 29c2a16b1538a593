//! From a change in memory to a promise: writes, and what is released by them.
//!
//! Invariant: at most one write is under way; changes made meanwhile go into the next one. A
//! failed write takes the memory back to what is on disk, so nothing depends on it.

use std::time::Duration;

use baton_types::Moment;
use baton_wire::ledger::{LedgerBody, Mark};

use crate::file::LedgerFile;
use crate::ledger::Ledger;
use crate::view::LedgerOutput;

/// The state of the writes.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Whether there is a file at all; without one nothing is sent.
    pub(crate) on_disk: bool,
    /// `file` differs from what was last given to be written.
    dirty: bool,
    token: u64,
    under_way: Option<LedgerFile>,
    pub(crate) degraded: bool,
    pub(crate) retry_at: Option<Moment>,
}

impl Writing {
    pub(crate) fn new(on_disk: bool) -> Self {
        Self {
            on_disk,
            dirty: !on_disk,
            token: 0,
            under_way: None,
            degraded: false,
            retry_at: None,
        }
    }
}

impl Ledger {
    /// The write with this token ended; `ok` only if it is durable. A failed write is final: what
    /// was to be written is given up, and the ledger says that it is degraded until a later write
    /// succeeds.
    pub fn persisted(&mut self, now: Moment, token: u64, ok: bool) {
        if token != self.writing.token {
            return;
        }
        let Some(written) = self.writing.under_way.take() else { return };
        if ok {
            self.durable = written;
            self.writing.on_disk = self.durable.file == self.file.file;
            self.writing.degraded = false;
        } else {
            self.give_up_write(now);
        }
        self.settle(now);
    }

    /// The file, to be changed.
    pub(crate) fn change(&mut self) -> &mut LedgerFile {
        self.writing.dirty = true;
        &mut self.file
    }

    /// Whether `file` is on disk as it stands.
    pub(crate) fn is_durable(&self) -> bool {
        self.writing.on_disk && !self.writing.dirty && self.writing.under_way.is_none()
    }

    /// Whether the votes are on disk as they stand.
    pub(crate) fn term_is_durable(&self) -> bool {
        self.writing.on_disk
            && self.durable.term == self.file.term
            && self.durable.voted_for == self.file.voted_for
            && self.durable.file == self.file.file
            && self.durable.lineage() == self.file.lineage()
    }

    /// Releases whatever became possible, and starts the next write.
    pub(crate) fn settle(&mut self, now: Moment) {
        self.formation_settle(now);
        self.stand_settle(now);
        self.owed_settle();
        self.lead_settle(now);
        self.told_settle(now);
        self.start_write(now);
    }

    fn start_write(&mut self, now: Moment) {
        self.writing.retry_at.take_if(|at| now >= *at);
        let is_held_back = self.writing.under_way.is_some() || self.writing.retry_at.is_some();
        if !self.writing.dirty || is_held_back {
            return;
        }
        self.writing.dirty = false;
        self.writing.token += 1;
        self.file.heard.clone_from(&self.heard);
        self.writing.under_way = Some(self.file.clone());
        let file = Box::new(self.file.clone());
        self.outputs.push(LedgerOutput::Persist { token: self.writing.token, file });
    }

    fn give_up_write(&mut self, now: Moment) {
        if !self.writing.degraded {
            self.outputs.push(LedgerOutput::Note(
                "the ledger file cannot be written: this node votes and acknowledges nothing new"
                    .to_owned(),
            ));
        }
        self.writing.degraded = true;
        self.writing.retry_at = Some(now + self.settings.heartbeat.max(RETRY_MIN));
        self.step_down(now);
        self.stand = None;
        self.owed = Default::default();
        self.forming.founding = None;
        if self.writing.on_disk && self.file.file == self.durable.file {
            self.file = self.durable.clone();
            self.writing.dirty = false;
        } else {
            // A new file was to be made. There is no way back from that: the old one must not
            // vote again.
            self.writing.on_disk = false;
            self.writing.dirty = true;
        }
    }

    /// Says `Committed` for a record that the leader said is committed and that is on disk here.
    fn told_settle(&mut self, now: Moment) {
        let known = self.committed.as_ref().map_or(Mark::default(), |record| record.mark());
        let Some(record) = self.durable.record.as_ref().filter(|record| {
            self.told == Some(record.mark()) && record.mark() > known && self.writing.on_disk
        }) else {
            return;
        };
        let record = record.clone();
        self.committed = Some(record.clone());
        self.outputs.push(LedgerOutput::Committed(record));
        self.end_lineage(now);
    }

    /// Sends the answers that waited for a write.
    fn owed_settle(&mut self) {
        if !self.term_is_durable() {
            return;
        }
        if let Some((candidate, probe)) = self.owed.vote.take()
            && self.file.voted_for == Some(candidate)
        {
            self.send(candidate, LedgerBody::VoteAnswer { probe, granted: true });
        }
        if let Some((leader, sequence)) = self.owed.beat.take() {
            self.send(leader, LedgerBody::AppendAnswer { sequence });
        }
        let mark = self.durable.mark();
        if let Some((leader, sequence, _)) = self.owed.record.take_if(|owed| owed.2 <= mark) {
            self.send(leader, LedgerBody::AppendAnswer { sequence });
        }
    }
}

/// A disk that failed is not asked again at once, whatever the heartbeat.
const RETRY_MIN: Duration = Duration::from_millis(100);
