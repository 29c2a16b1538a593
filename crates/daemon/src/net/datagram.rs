//! The datagram socket.

use std::net::SocketAddr;
use std::sync::Arc;

use baton_node::Event;
use baton_wire::Envelope;
use baton_wire::envelope::Opened;
use baton_wire::limits::DATAGRAM_MAX_BYTES;
use baton_wire::replay::ReplayWindow;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Count, Shared, random_bytes};

/// Seals and sends one datagram.
pub(super) async fn send(shared: &Shared, to: SocketAddr, content: &[u8]) {
    let packet = shared.sealing.read().await.seal(random_bytes(), CONTEXT, content);
    match shared.socket.send_to(&packet, to).await {
        Ok(_) => shared.counters.add(Count::DatagramSent),
        Err(_) => shared.counters.add(Count::SendFailed),
    }
}

/// Reads datagrams until the node is gone.
pub(super) async fn receive(shared: Arc<Shared>, events: mpsc::Sender<Event>) {
    let mut buffer = vec![0; DATAGRAM_MAX_BYTES];
    let mut replay = ReplayWindow::default();
    loop {
        let Ok((length, from)) = shared.socket.recv_from(&mut buffer).await else {
            // An ICMP error of an earlier send; the next datagram is not affected.
            continue;
        };
        match open(&shared, &mut replay, &buffer[..length]).await {
            Err(count) => shared.refused(from, count),
            Ok(envelope) => match events.try_send(Event::Packet { from, envelope }) {
                Ok(()) => shared.counters.add(Count::DatagramReceived),
                Err(TrySendError::Full(_)) => shared.counters.add(Count::QueueFull),
                Err(TrySendError::Closed(_)) => return,
            },
        }
    }
}

async fn open(
    shared: &Shared,
    replay: &mut ReplayWindow,
    packet: &[u8],
) -> Result<Envelope, Count> {
    let opened = shared.sealing.read().await.open(CONTEXT, packet);
    let content = opened.map_err(|_| Count::NotOpened)?;
    let Opened { envelope, skipped } = shared.decode(&content)?;
    let head = envelope.head;
    if !replay.accept(head.sender, head.boot, head.counter) {
        return Err(Count::Replayed);
    }
    shared.count_unread(&head, skipped);
    Ok(envelope)
}

/// What a datagram is sealed for.
const CONTEXT: &[u8] = b"baton datagram";
