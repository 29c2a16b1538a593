//! The receiving side of streams.
//!
//! Invariant: a frame counts only in its own connection and place: both ends' random greetings and
//! the frame's number are sealed with it, so a recorded stream cannot be played again.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_node::Event;
use baton_wire::limits::FRAME_MAX_BYTES;
use baton_wire::seal::OVERHEAD_BYTES;
use baton_wire::{Envelope, codec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Count, Shared, random_bytes};

/// Accepts connections until the node is gone.
pub(super) async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    events: mpsc::Sender<Event>,
) {
    let open = Arc::new(Mutex::new(BTreeMap::new()));
    while !events.is_closed() {
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors: give those that are open time to end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(seat) = Seat::take(&open, from.ip()) else {
            shared.counters.add(Count::ConnectionRefused);
            continue;
        };
        let (shared, events) = (Arc::clone(&shared), events.clone());
        tokio::spawn(async move {
            if let Err(count) = receive(&shared, stream, from, &events).await {
                shared.counters.add(count);
            }
            drop(seat);
        });
    }
}

async fn receive(
    shared: &Shared,
    mut stream: TcpStream,
    from: SocketAddr,
    events: &mpsc::Sender<Event>,
) -> Result<(), Count> {
    let lost = |_| Count::StreamFailed;
    let (ours, mut theirs): ([u8; 16], _) = (random_bytes(), [0; 16]);
    timeout(GREETING, stream.read_exact(&mut theirs)).await.map_err(lost)?.map_err(broken)?;
    timeout(GREETING, stream.write_all(&ours)).await.map_err(lost)?.map_err(broken)?;
    let mut number = 0_u64;
    // A peer that has proved nothing yet gets little time.
    let mut patience = GREETING;
    loop {
        let mut length = [0; 4];
        match timeout(patience, stream.read_exact(&mut length)).await {
            Ok(Ok(_)) => {}
            // The end of a stream between two frames is its normal end.
            Ok(Err(_)) | Err(_) if number > 0 => return Ok(()),
            _ => return Err(Count::StreamFailed),
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_MAX_BYTES + OVERHEAD_BYTES {
            return Err(Count::NotOpened);
        }
        // Grows as bytes arrive, not as the length promises.
        let mut packet = Vec::new();
        let mut frame = (&mut stream).take(length as u64);
        timeout(FRAME, frame.read_to_end(&mut packet)).await.map_err(lost)?.map_err(broken)?;
        let context = frame_context(&theirs, &ours, number);
        let opened = shared.sealing.read().await.open(&context, &packet);
        let content = opened.map_err(|_| Count::NotOpened)?;
        let envelope: Envelope = codec::decode(&content).map_err(|_| Count::NotDecoded)?;
        if envelope.sender == shared.me && envelope.boot == shared.boot {
            return Err(Count::FromOurselves);
        }
        if events.send(Event::Packet { from, envelope }).await.is_err() {
            return Ok(());
        }
        shared.counters.add(Count::FrameReceived);
        number += 1;
        patience = BETWEEN_FRAMES;
    }
}

fn broken(_: std::io::Error) -> Count {
    Count::StreamFailed
}

/// What a frame is sealed for: who opened the stream, who answered, and its place in it.
pub(super) fn frame_context(opener: &[u8; 16], answerer: &[u8; 16], number: u64) -> Vec<u8> {
    [b"baton stream".as_slice(), opener, answerer, &number.to_be_bytes()].concat()
}

/// A connection's place among those of its source; given back when dropped.
struct Seat {
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    source: IpAddr,
}

impl Seat {
    fn take(open: &Arc<Mutex<BTreeMap<IpAddr, usize>>>, source: IpAddr) -> Option<Self> {
        let mut seats = open.lock().unwrap_or_else(PoisonError::into_inner);
        // Loopback is a whole ring in one place, as in the demo.
        let limit = if source.is_loopback() { ALL_MAX } else { SOURCE_MAX };
        if seats.values().sum::<usize>() >= ALL_MAX
            || seats.get(&source).copied().unwrap_or(0) >= limit
        {
            return None;
        }
        *seats.entry(source).or_insert(0) += 1;
        Some(Self { open: Arc::clone(open), source })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = seats.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                seats.remove(&self.source);
            }
        }
    }
}

/// Connections of one source: a peer needs one, and one more while it restarts.
const SOURCE_MAX: usize = 16;

/// Connections of all sources: each costs a task and a buffer.
const ALL_MAX: usize = 512;

/// For the greeting and the first frame.
const GREETING: Duration = Duration::from_secs(5);

/// For one frame, once its length is known.
const FRAME: Duration = Duration::from_secs(15);

/// Between frames: longer than a sender keeps an idle stream.
const BETWEEN_FRAMES: Duration = Duration::from_secs(60);
