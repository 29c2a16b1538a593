//! The sending side of a stream: one task and one connection for each address that is written to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::listen::frame_context;
use super::{Count, NetCounters, Shared, random_bytes};

/// A queue of frames to one address.
#[derive(Debug)]
pub(super) struct Peer {
    frames: mpsc::Sender<Vec<u8>>,
}

impl Peer {
    pub(super) fn start(shared: Arc<Shared>, to: SocketAddr) -> Self {
        let (frames, queue) = mpsc::channel(QUEUE_FRAMES);
        tokio::spawn(async move {
            if run(&shared, to, queue).await.is_err() {
                shared.counters.add(Count::StreamFailed);
            }
        });
        Self { frames }
    }

    /// Queues `content`; with a full queue it is lost like a datagram, and the protocols repeat.
    pub(super) fn send(&self, content: Vec<u8>, counters: &NetCounters) {
        if self.frames.try_send(content).is_err() {
            counters.add(Count::QueueFull);
        }
    }

    /// Whether the task has ended: nothing was to send for a while, or the stream failed.
    pub(super) fn is_ended(&self) -> bool {
        self.frames.is_closed()
    }
}

async fn run(
    shared: &Shared,
    to: SocketAddr,
    mut queue: mpsc::Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let mut stream = timeout(CONNECT, TcpStream::connect(to)).await??;
    stream.set_nodelay(true)?;
    let ours: [u8; 16] = random_bytes();
    let mut theirs = [0; 16];
    timeout(CONNECT, stream.write_all(&ours)).await??;
    timeout(CONNECT, stream.read_exact(&mut theirs)).await??;
    let mut number = 0_u64;
    while let Ok(Some(content)) = timeout(IDLE, queue.recv()).await {
        let context = frame_context(&ours, &theirs, number);
        let packet = shared.sealing.read().await.seal(random_bytes(), &context, &content);
        let length = u32::try_from(packet.len()).map_err(std::io::Error::other)?;
        timeout(WRITE, stream.write_all(&length.to_be_bytes())).await??;
        timeout(WRITE, stream.write_all(&packet)).await??;
        shared.counters.add(Count::FrameSent);
        number += 1;
    }
    // Nothing more is taken in before the last frame is out: a frame that came in between is lost
    // like a datagram.
    stream.shutdown().await
}

/// Frames that may wait for a slow peer; beyond it they are lost.
const QUEUE_FRAMES: usize = 64;

/// For connection and greeting: a peer that needs longer is better asked anew.
const CONNECT: Duration = Duration::from_secs(3);

/// For one frame; a peer that reads slower than this holds up what is newer.
const WRITE: Duration = Duration::from_secs(10);

/// A stream without frames is closed after this, so that a large ring keeps few connections.
const IDLE: Duration = Duration::from_secs(30);
