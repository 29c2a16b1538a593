//! Counts of packets, by what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// A datagram left.
    DatagramSent,
    /// A stream frame left.
    FrameSent,
    /// A datagram was accepted.
    DatagramReceived,
    /// A stream frame was accepted.
    FrameReceived,
    /// It did not open: wrong key, format or mode, changed, cut.
    NotOpened,
    /// It opened but did not decode.
    NotDecoded,
    /// It is in a version of the wire that this build does not speak: only its head was heard.
    VersionUnknown,
    /// A message in it did not decode: a kind of a newer build. The others were handled.
    MessageSkipped,
    /// Its counter was seen before.
    Replayed,
    /// It carries our own id.
    FromOurselves,
    /// The node is behind with its work.
    QueueFull,
    /// A value that no frame can carry.
    NotEncoded,
    /// The system refused to send: no route, or a local firewall.
    SendFailed,
    /// A connection over the limit for its source, or for all.
    ConnectionRefused,
    /// A stream ended with an error.
    StreamFailed,
}

impl Count {
    /// Every count with its name in the metrics.
    pub(crate) const ALL: [(Self, &'static str); 15] = [
        (Self::DatagramSent, "datagram_sent"),
        (Self::FrameSent, "frame_sent"),
        (Self::DatagramReceived, "datagram_received"),
        (Self::FrameReceived, "frame_received"),
        (Self::NotOpened, "not_opened"),
        (Self::NotDecoded, "not_decoded"),
        (Self::VersionUnknown, "version_unknown"),
        (Self::MessageSkipped, "message_skipped"),
        (Self::Replayed, "replayed"),
        (Self::FromOurselves, "from_ourselves"),
        (Self::QueueFull, "queue_full"),
        (Self::NotEncoded, "not_encoded"),
        (Self::SendFailed, "send_failed"),
        (Self::ConnectionRefused, "connection_refused"),
        (Self::StreamFailed, "stream_failed"),
    ];
}

/// All counts of one daemon; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetCounters(Arc<[AtomicU64; Count::ALL.len()]>);

impl NetCounters {
    /// One more.
    pub(crate) fn add(&self, count: Count) {
        self.add_all(count, 1);
    }

    /// So many more.
    pub(crate) fn add_all(&self, count: Count, more: u64) {
        self.0[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// How many so far.
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }
}
