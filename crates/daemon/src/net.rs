//! Datagrams and stream frames: what leaves and enters a node, sealed.
//!
//! Invariant: only an envelope that was opened under the ring's sealing, decoded whole and is new
//! reaches the node; everything else is counted by its reason and dropped, and never answered.

mod counters;
mod datagram;
mod listen;
mod peer;
mod strangers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_node::Event;
use baton_types::{BootNonce, NodeId};
use baton_wire::envelope::Opened;
use baton_wire::seal::{OVERHEAD_BYTES, Sealing};
use baton_wire::{Envelope, Head, Message, Versions};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{RwLock, mpsc};

pub(crate) use counters::{Count, NetCounters};
use peer::Peer;

/// The sockets of one daemon.
#[derive(Debug)]
pub(crate) struct Net {
    shared: Arc<Shared>,
    peers: BTreeMap<SocketAddr, Peer>,
    counter: AtomicU64,
    max_packet: usize,
}

/// What the tasks of the sockets share.
#[derive(Debug)]
struct Shared {
    socket: UdpSocket,
    sealing: RwLock<Sealing>,
    me: NodeId,
    boot: BootNonce,
    versions: Versions,
    counters: NetCounters,
    strangers: strangers::Strangers,
}

impl Shared {
    /// What this build makes of an envelope that was opened.
    fn decode(&self, content: &[u8]) -> Result<Opened, Count> {
        let opened = Envelope::decode(content, self.versions).map_err(|_| Count::NotDecoded)?;
        let head = opened.envelope.head;
        match head.sender == self.me && head.boot == self.boot {
            true => Err(Count::FromOurselves),
            false => Ok(opened),
        }
    }

    /// Counts what newer builds say and this one does not understand.
    fn count_unread(&self, head: &Head, skipped: u64) {
        if !self.versions.speaks(head.version) {
            self.counters.add(Count::VersionUnknown);
        }
        self.counters.add_all(Count::MessageSkipped, skipped);
    }

    /// A packet or a stream from there came to nothing.
    fn refused(&self, from: SocketAddr, count: Count) {
        self.counters.add(count);
        if count == Count::NotOpened {
            self.strangers.note(from);
        }
    }
}

/// Why the sockets could not be opened. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address is taken, not ours, or not allowed.
    #[error("cannot bind {protocol} {addr}: {cause}")]
    Bind {
        /// udp or tcp.
        protocol: &'static str,
        /// As configured.
        addr: SocketAddr,
        /// From the system.
        cause: std::io::Error,
    },
}

impl Net {
    /// Binds UDP and TCP on `bind` and starts their tasks, which hand packets to `events`.
    pub(crate) async fn open(
        bind: SocketAddr,
        sealing: Sealing,
        me: NodeId,
        boot: BootNonce,
        versions: Versions,
        max_packet: usize,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, NetError> {
        let failed = |protocol| move |cause| NetError::Bind { protocol, addr: bind, cause };
        let socket = UdpSocket::bind(bind).await.map_err(failed("udp"))?;
        let listener = TcpListener::bind(bind).await.map_err(failed("tcp"))?;
        let shared = Arc::new(Shared {
            socket,
            sealing: RwLock::new(sealing),
            me,
            boot,
            versions,
            counters: NetCounters::default(),
            strangers: strangers::Strangers::default(),
        });
        tokio::spawn(datagram::receive(Arc::clone(&shared), events.clone()));
        tokio::spawn(listen::accept(Arc::clone(&shared), listener, events));
        Ok(Self { shared, peers: BTreeMap::new(), counter: AtomicU64::new(1), max_packet })
    }

    /// Sends `messages` in one envelope of that version; a loss is no error, the protocols repeat.
    pub(crate) async fn send(
        &mut self,
        to: SocketAddr,
        version: u8,
        messages: Vec<Message>,
        stream: bool,
    ) {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let Shared { me: sender, boot, versions, .. } = *self.shared;
        let head = Head { sender, boot, counter, versions, version };
        let Ok(content) = (Envelope { head, messages }).encode() else {
            self.shared.counters.add(Count::NotEncoded);
            return;
        };
        if !stream && content.len() + OVERHEAD_BYTES <= self.max_packet {
            datagram::send(&self.shared, to, &content).await;
        } else {
            let counters = self.shared.counters.clone();
            self.peer(to).send(content, &counters);
        }
    }

    /// Takes other keys into use, for both directions; open streams go on until they end. The ones
    /// used so far are returned.
    pub(crate) async fn set_sealing(&self, sealing: Sealing) -> Sealing {
        std::mem::replace(&mut *self.shared.sealing.write().await, sealing)
    }

    /// What was sent, received and dropped, by reason.
    pub(crate) fn counters(&self) -> NetCounters {
        self.shared.counters.clone()
    }

    fn peer(&mut self, to: SocketAddr) -> &mut Peer {
        self.peers.retain(|addr, peer| *addr == to || !peer.is_ended());
        let shared = &self.shared;
        let peer = self.peers.entry(to).or_insert_with(|| Peer::start(Arc::clone(shared), to));
        if peer.is_ended() {
            *peer = Peer::start(Arc::clone(shared), to);
        }
        peer
    }
}

/// Random bytes from the system, for nonces.
fn random_bytes<const N: usize>() -> [u8; N] {
    rand::random()
}

#[cfg(test)]
mod tests;
