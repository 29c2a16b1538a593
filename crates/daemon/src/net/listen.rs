//! The receiving side of streams.
//!
//! Invariant: a frame counts only in its own connection and place: both ends' random greetings and
//! the frame's number are sealed with it, so a recorded stream cannot be played again. All
//! connections that have proved nothing yet share one small store of memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_node::Event;
use baton_wire::envelope::Opened;
use baton_wire::limits::FRAME_MAX_BYTES;
use baton_wire::seal::OVERHEAD_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::timeout;

use super::{Count, Shared, random_bytes};

/// Accepts connections until the node is gone.
pub(super) async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    events: mpsc::Sender<Event>,
) {
    let open = Arc::new(Mutex::new(BTreeMap::new()));
    let unproven = Arc::new(Semaphore::new(UNPROVEN_CHUNKS));
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
        let unproven = Arc::clone(&unproven);
        tokio::spawn(async move {
            if let Err(count) = receive(&shared, stream, from, &events, &unproven).await {
                shared.refused(from, count);
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
    unproven: &Semaphore,
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
        // A stream whose first frame was opened is a peer's: only its own size bounds it.
        let budget = (number == 0).then_some(unproven);
        let (packet, held) =
            timeout(FRAME, read_frame(&mut stream, length, budget)).await.map_err(lost)??;
        let context = frame_context(&theirs, &ours, number);
        let opened = shared.sealing.read().await.open(&context, &packet);
        let content = opened.map_err(|_| Count::NotOpened)?;
        drop((packet, held));
        let Opened { envelope, skipped } = shared.decode(&content)?;
        shared.count_unread(&envelope.head, skipped);
        if events.send(Event::Packet { from, envelope }).await.is_err() {
            return Ok(());
        }
        shared.counters.add(Count::FrameReceived);
        number += 1;
        patience = BETWEEN_FRAMES;
    }
}

/// Reads a frame into memory that grows as bytes arrive, not as the length promises; with a
/// `budget` every piece of it is taken from there first, and given back with the permit.
async fn read_frame<'a>(
    stream: &mut TcpStream,
    length: usize,
    budget: Option<&'a Semaphore>,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'a>>), Count> {
    let (mut packet, mut held) = (Vec::new(), None);
    while packet.len() < length {
        if let Some(budget) = budget {
            let more = budget.try_acquire().map_err(|_| Count::ConnectionRefused)?;
            match &mut held {
                None => held = Some(more),
                Some(held) => held.merge(more),
            }
        }
        let want = CHUNK_BYTES.min(length - packet.len());
        let read = (&mut *stream).take(want as u64).read_to_end(&mut packet).await;
        // Less than that is the end of the stream: what came cannot be opened.
        if read.map_err(broken)? < want {
            break;
        }
    }
    Ok((packet, held))
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

/// In which first frames take memory from the common store.
const CHUNK_BYTES: usize = 64 * 1024;

/// The common store of all first frames, 64 MiB: the largest state of four peers that join at once.
/// Without it strangers could fill the machine, as each may send [`FRAME_MAX_BYTES`].
const UNPROVEN_CHUNKS: usize = 64 * 1024 * 1024 / CHUNK_BYTES;

/// For the greeting and the first frame.
const GREETING: Duration = Duration::from_secs(5);

/// For one frame, once its length is known.
const FRAME: Duration = Duration::from_secs(15);

/// Between frames: longer than a sender keeps an idle stream.
const BETWEEN_FRAMES: Duration = Duration::from_secs(60);
