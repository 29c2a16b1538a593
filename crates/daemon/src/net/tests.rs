use super::*;
use baton_types::CommandId;
use baton_wire::ask::{Answer, AnswerContent};
use baton_wire::envelope;
use baton_wire::seal::{Key, KeyRing};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn message(size: usize) -> Message {
    let content = AnswerContent::Json("x".repeat(size));
    Message::Answer(Answer { id: CommandId::from_random(1), content })
}

async fn net(key: u8) -> (Net, SocketAddr, mpsc::Receiver<Event>) {
    net_of(key, Versions::OURS).await
}

async fn net_of(key: u8, versions: Versions) -> (Net, SocketAddr, mpsc::Receiver<Event>) {
    let (events, received) = mpsc::channel(16);
    // UDP and TCP must be on one port: take a free UDP port and hope for TCP, a few times.
    for _ in 0..50 {
        let probe = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let addr = probe.local_addr().expect("an address");
        drop(probe);
        let sealing = Sealing::Keys(KeyRing::of(Key::from_random([key; 32])));
        let id = rand::random();
        let opened = Net::open(
            addr,
            sealing,
            NodeId::from_random(id),
            BootNonce::from_random(id),
            versions,
            1_400,
            events.clone(),
        );
        if let Ok(net) = opened.await {
            return (net, addr, received);
        }
    }
    panic!("no free port");
}

fn head(counter: u64) -> Head {
    Head {
        sender: NodeId::from_random(5),
        boot: BootNonce::from_random(5),
        counter,
        versions: Versions::OURS,
        version: 1,
    }
}

async fn receive(events: &mut mpsc::Receiver<Event>) -> Vec<Message> {
    match tokio::time::timeout(Duration::from_secs(10), events.recv()).await {
        Ok(Some(Event::Packet { envelope, .. })) => envelope.messages,
        other => panic!("expected a packet, got {other:?}"),
    }
}

#[tokio::test]
async fn small_goes_as_a_datagram_and_large_as_a_stream() {
    let (mut a, _, _a_events) = net(1).await;
    let (b, b_addr, mut b_events) = net(1).await;
    a.send(b_addr, 1, vec![message(10)], false).await;
    assert_eq!(receive(&mut b_events).await, vec![message(10)]);
    for size in [3_000, 2_000_000] {
        a.send(b_addr, 1, vec![message(size)], false).await;
        assert_eq!(receive(&mut b_events).await, vec![message(size)]);
    }
    a.send(b_addr, 1, vec![message(1)], true).await;
    assert_eq!(receive(&mut b_events).await, vec![message(1)]);
    assert_eq!(b.counters().get(Count::DatagramReceived), 1);
    assert_eq!(b.counters().get(Count::FrameReceived), 3);
}

#[tokio::test]
async fn a_stranger_changes_nothing() {
    let (mut stranger, _, _events) = net(9).await;
    let (b, b_addr, mut b_events) = net(1).await;
    let (mut friend, _, _friend_events) = net(1).await;
    stranger.send(b_addr, 1, vec![message(10)], false).await;
    stranger.send(b_addr, 1, vec![message(3_000)], false).await;
    let raw = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    for size in [0, 1, 40, 65_507] {
        raw.send_to(&vec![1; size], b_addr).await.expect("sent");
    }
    let mut stream = tokio::net::TcpStream::connect(b_addr).await.expect("connected");
    stream.write_all(&[255; 40]).await.expect("written");
    // Six datagrams and streams were dropped once the friend's packet, sent last, is through and
    // the counters say so.
    friend.send(b_addr, 1, vec![message(5)], false).await;
    assert_eq!(receive(&mut b_events).await, vec![message(5)]);
    for _ in 0..500 {
        if b.counters().get(Count::NotOpened) >= 7 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(b.counters().get(Count::NotOpened), 7);
    assert!(b_events.try_recv().is_err());
}

#[tokio::test]
async fn a_recorded_datagram_counts_once() {
    let (b, b_addr, mut b_events) = net(1).await;
    let head = head(7);
    let envelope = Envelope { head, messages: vec![message(1)] };
    let sealing = Sealing::Keys(KeyRing::of(Key::from_random([1; 32])));
    let content = envelope.encode().expect("encodes");
    let packet = sealing.seal([3; 24], b"baton datagram", &content);
    let raw = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    for _ in 0..3 {
        raw.send_to(&packet, b_addr).await.expect("sent");
    }
    assert_eq!(receive(&mut b_events).await, vec![message(1)]);
    for _ in 0..500 {
        if b.counters().get(Count::Replayed) == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("replays were not counted");
}

/// Sends `content` to `to`, sealed, by a datagram or as the first frame of a stream.
async fn send_raw(to: SocketAddr, content: &[u8], stream: bool) {
    let sealing = Sealing::Keys(KeyRing::of(Key::from_random([1; 32])));
    if !stream {
        let raw = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let packet = sealing.seal([4; 24], b"baton datagram", content);
        raw.send_to(&packet, to).await.expect("sent");
        return;
    }
    let (ours, mut theirs) = ([7; 16], [0; 16]);
    let mut stream = tokio::net::TcpStream::connect(to).await.expect("connected");
    stream.write_all(&ours).await.expect("written");
    stream.read_exact(&mut theirs).await.expect("read");
    let packet = sealing.seal([5; 24], &listen::frame_context(&ours, &theirs, 0), content);
    let length = u32::try_from(packet.len()).expect("small");
    stream.write_all(&[&length.to_be_bytes(), packet.as_slice()].concat()).await.expect("written");
}

#[tokio::test]
async fn what_a_newer_build_says_is_skipped_and_counted_both_ways() {
    let (b, b_addr, mut b_events) = net(1).await;
    for (at, stream) in [(1, false), (2, true)] {
        let known = baton_wire::codec::encode(&message(1)).expect("encodes");
        let grown = [known, vec![7; 30]].concat();
        let frames = [vec![200, 1, 2, 3], grown];
        let content = envelope::pack(&head(at), &frames).expect("packs");
        send_raw(b_addr, &content, stream).await;
        assert_eq!(receive(&mut b_events).await, vec![message(1)]);
        assert_eq!(b.counters().get(Count::MessageSkipped), at);
    }
    assert_eq!(b.counters().get(Count::NotDecoded), 0);
}

#[tokio::test]
async fn of_a_version_that_is_not_spoken_only_the_head_is_heard() {
    let versions = Versions::new(1, 2).expect("a range");
    let (mut newer, newer_addr, mut newer_events) = net_of(1, versions).await;
    let (older, older_addr, mut older_events) = net(1).await;
    for (at, size) in [(1, 10), (2, 3_000)] {
        newer.send(older_addr, 2, vec![message(size)], false).await;
        let Some(Event::Packet { envelope, .. }) = older_events.recv().await else {
            panic!("a packet")
        };
        assert_eq!((envelope.head.versions, envelope.head.version), (versions, 2));
        assert_eq!(envelope.messages, [], "nothing of it is believed");
        assert_eq!(older.counters().get(Count::VersionUnknown), at);
    }
    // Both speak the older one; and two newer ones the newer.
    newer.send(older_addr, 1, vec![message(1)], false).await;
    assert_eq!(receive(&mut older_events).await, vec![message(1)]);
    let (mut other, ..) = net_of(1, versions).await;
    other.send(newer_addr, 2, vec![message(2)], false).await;
    assert_eq!(receive(&mut newer_events).await, vec![message(2)]);
    // Only a head, as it answers one that spoke too new a version.
    other.send(newer_addr, 1, Vec::new(), false).await;
    assert_eq!(receive(&mut newer_events).await, Vec::new());
    assert_eq!(newer.counters().get(Count::VersionUnknown), 0);
}
