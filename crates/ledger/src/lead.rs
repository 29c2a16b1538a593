//! What a leader knows of its voters, how many of them decide, and whom it has yet to let in.
//!
//! Invariant: what is known of a voter is known of its listed file; with another file it starts
//! from nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::{FileId, Moment, NodeId, Term};
use baton_wire::ledger::{Mark, Voter};

use crate::file::LedgerFile;
use crate::ledger::Ledger;

/// What a leader knows.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) term: Term,
    /// When it began, or last changed the voters: from then on it waits for answers.
    pub(crate) since: Moment,
    pub(crate) sequence: u64,
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    /// Whether a record of this term is committed.
    pub(crate) ready: bool,
    pub(crate) committed: Option<Mark>,
    pub(crate) next_beat: Moment,
    /// A voter that the newest record removes: it is told until it knows.
    pub(crate) parting: Option<Voter>,
    /// Voters removed on request and when, which are not let in again before they were gone. One
    /// that comes back with a new file was gone, whether that was seen or not.
    pub(crate) kept_out: BTreeMap<Voter, Moment>,
    /// Nodes that asked to be let in, with the file they have.
    pub(crate) asking: BTreeMap<NodeId, (FileId, Moment)>,
    /// Nodes that were voters until their file was gone.
    pub(crate) returning: BTreeSet<NodeId>,
    /// Voters that the ring has for gone, and since when.
    pub(crate) gone: BTreeMap<NodeId, Moment>,
    /// Places of removed voters that a spare member is to take.
    pub(crate) vacancies: usize,
    /// Voters of the past that were told that they are none any more.
    pub(crate) informed: BTreeSet<Voter>,
}

/// What a leader knows of one voter.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) file: Option<FileId>,
    pub(crate) held: Mark,
    pub(crate) answered: Option<Moment>,
    pub(crate) sent: Option<(Mark, Moment)>,
}

impl Peer {
    /// Whether the newest record is to be sent: it lacks it, and was not sent it yet, or was and
    /// speaks since then without having it. So a dead voter costs heartbeats only.
    pub(crate) fn wants(&self, newest: Mark, now: Moment, resend: Duration) -> bool {
        self.held < newest
            && match self.sent {
                Some((mark, at)) if mark == newest => {
                    now.since(at) >= resend && self.answered.is_some_and(|answered| answered > at)
                }
                _ => true,
            }
    }
}

/// How many of `voters` decide. No exception for voters that lost their files: a half that does not
/// know of a later change of the voters could otherwise decide beside the majority that made it.
pub(crate) const fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

impl Lead {
    /// Whether nothing is in flight and a record may be proposed.
    pub(crate) fn is_idle(&self, file: &LedgerFile) -> bool {
        self.ready && self.committed == Some(file.mark())
    }

    /// When it must beat or step down.
    pub(crate) fn due(&self, ledger: &Ledger) -> Moment {
        self.next_beat.min(ledger.quorum_ends_at(self))
    }

    pub(crate) fn peer(&mut self, voter: Voter) -> &mut Peer {
        let peer = self.peers.entry(voter.node).or_default();
        if peer.file != Some(voter.file) {
            *peer = Peer { file: Some(voter.file), ..Peer::default() };
        }
        peer
    }

    /// Whether no former voter is being told that it is none, or one that does not listen.
    pub(crate) fn is_free_to_tell(&self, now: Moment, span: Duration) -> bool {
        self.parting.is_none_or(|parting| !self.answers(parting, now, span))
    }

    /// Whether that voter answered, with this file, since `span` before `now`.
    pub(crate) fn answers(&self, voter: Voter, now: Moment, span: Duration) -> bool {
        self.peers.get(&voter.node).is_some_and(|peer| {
            peer.file == Some(voter.file) && peer.answered.is_some_and(|at| now.since(at) < span)
        })
    }
}
