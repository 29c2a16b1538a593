use super::*;
use baton_types::CommandId;
use baton_wire::ask::{Answer, AnswerContent};
use baton_wire::seal::{Key, KeyRing};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

fn message(size: usize) -> Message {
    let content = AnswerContent::Json("x".repeat(size));
    Message::Answer(Answer { id: CommandId::from_random(1), content })
}

async fn net(key: u8) -> (Net, SocketAddr, mpsc::Receiver<Event>) {
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
            1_400,
            events.clone(),
        );
        if let Ok(net) = opened.await {
            return (net, addr, received);
        }
    }
    panic!("no free port");
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
    a.send(b_addr, vec![message(10)], false).await;
    assert_eq!(receive(&mut b_events).await, vec![message(10)]);
    for size in [3_000, 2_000_000] {
        a.send(b_addr, vec![message(size)], false).await;
        assert_eq!(receive(&mut b_events).await, vec![message(size)]);
    }
    a.send(b_addr, vec![message(1)], true).await;
    assert_eq!(receive(&mut b_events).await, vec![message(1)]);
    assert_eq!(b.counters().get(Count::DatagramReceived), 1);
    assert_eq!(b.counters().get(Count::FrameReceived), 3);
}

#[tokio::test]
async fn a_stranger_changes_nothing() {
    let (mut stranger, _, _events) = net(9).await;
    let (b, b_addr, mut b_events) = net(1).await;
    let (mut friend, _, _friend_events) = net(1).await;
    stranger.send(b_addr, vec![message(10)], false).await;
    stranger.send(b_addr, vec![message(3_000)], false).await;
    let raw = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    for size in [0, 1, 40, 65_507] {
        raw.send_to(&vec![1; size], b_addr).await.expect("sent");
    }
    let mut stream = tokio::net::TcpStream::connect(b_addr).await.expect("connected");
    stream.write_all(&[255; 40]).await.expect("written");
    // Six datagrams and streams were dropped once the friend's packet, sent last, is through and
    // the counters say so.
    friend.send(b_addr, vec![message(5)], false).await;
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
    let envelope = Envelope {
        sender: NodeId::from_random(5),
        boot: BootNonce::from_random(5),
        counter: 7,
        messages: vec![message(1)],
    };
    let sealing = Sealing::Keys(KeyRing::of(Key::from_random([1; 32])));
    let content = codec::encode(&envelope).expect("encodes");
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
