//! What a stranger, or a broken network, can send to a ring with a key: noise, packets cut short or
//! changed, those of another ring, real ones played again, and connections that say nothing, say
//! nonsense or promise a lot. All of it is counted and dropped, and a rollout goes on meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use baton_tests::cli::baton;
use baton_tests::hello::{Hello, LIMIT, Scripts};
use baton_tests::loopback::free_addrs;
use baton_tests::wait;

/// n1 to n3 have one key and run the service; n4 has another key and joins n1 all the time.
struct Ring {
    hello: Hello,
    pages: Vec<SocketAddr>,
}

impl Ring {
    fn start() -> Self {
        let mut hello = Hello::new(4);
        for version in ["1", "2", "3"] {
            hello.publish(version, Scripts::default());
        }
        let dir = hello.ring.dir().to_owned();
        for name in ["ring.key", "other.key"] {
            baton(&["ring", "keygen", "--out", &dir.join(name).display().to_string()]);
        }
        let pages = free_addrs(4);
        let mut service = hello.service("monitor = \"0s\"");
        service.insert("expect".to_owned(), toml::Value::Integer(3));
        hello.ring.configure(|index, settings| {
            settings.http = Some(pages[index]);
            let key = if index == STRANGER { "other.key" } else { "ring.key" };
            settings.key_file = Some(dir.join(key));
            if index != STRANGER {
                settings.services.push(service.clone());
            }
        });
        for index in 0..STRANGER {
            hello.ring.host(index).start();
        }
        hello.roll("1", &["completed"]);
        Self { hello, pages }
    }

    fn addr(&self, index: usize) -> SocketAddr {
        self.hello.ring.hosts()[index].ring()
    }

    /// A count of packets, from the metrics of this host.
    fn count(&self, index: usize, result: &str) -> u64 {
        let mut page = TcpStream::connect(self.pages[index]).expect("the status page");
        page.set_read_timeout(Some(LIMIT)).unwrap();
        page.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        page.read_to_string(&mut text).expect("the metrics");
        let line = format!("baton_packets{{result=\"{result}\"}} ");
        let value = text.lines().find_map(|found| found.strip_prefix(&line));
        value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().expect("a number")
    }

    /// Waits until this count has risen by at least `wanted` from `before`.
    fn expect_counted(&self, index: usize, result: &str, before: u64, wanted: u64) {
        wait::until(&format!("n{} counts {result}", index + 1), LIMIT, || {
            let found = self.count(index, result) - before;
            if found >= wanted { Ok(()) } else { Err(format!("{found} of {wanted}")) }
        });
    }

    /// Each of the three sees these three alive, and nobody else.
    fn expect_whole(&self) {
        for host in &self.hello.ring.hosts()[..STRANGER] {
            wait::until(&format!("{} sees three", host.name()), LIMIT, || {
                let members = host.cli().json(&["ring", "members"])?;
                let all = members.as_array().cloned().unwrap_or_default();
                let alive = all.iter().filter(|member| member["state"] == "alive").count();
                if (alive, all.len()) == (3, 3) { Ok(()) } else { Err(members.to_string()) }
            });
        }
    }

    fn logs(&self) -> usize {
        self.hello.ring.hosts()[..STRANGER].iter().map(|host| host.log().len()).sum()
    }

    /// The most memory that any of the three daemons has ever used, in KiB.
    fn memory(&self) -> u64 {
        let peak = |pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a daemon");
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("VmHWM")
        };
        self.hello.ring.hosts()[..STRANGER].iter().map(|host| peak(host.pid())).max().unwrap()
    }
}

#[test]
fn noise_forgeries_and_replays_are_counted_and_change_nothing() {
    let mut ring = Ring::start();
    let recorded = record(&mut ring);
    let (log, memory) = (ring.logs(), ring.memory());
    noise_is_not_opened(&ring);
    changed_and_cut_is_not_opened(&ring, &recorded);
    what_was_accepted_once_is_a_replay(&ring, &recorded);
    another_key_is_not_opened(&mut ring);
    ring.expect_whole();
    // All the while a rollout completes.
    let attack = Attack::start(&ring, recorded);
    ring.hello.roll("2", &["completed"]);
    attack.stop();
    ring.hello.expect_running("2", 3);
    ring.expect_whole();
    let lines = ring.logs() - log;
    assert!(lines < LOG_MAX_BYTES, "{lines} bytes were logged");
    let grown = ring.memory().saturating_sub(memory);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more than the {memory} KiB before");
}

#[test]
fn connections_that_waste_time_or_memory_are_ended() {
    let ring = Ring::start();
    let (log, memory) = (ring.logs(), ring.memory());
    let n1 = ring.addr(0);
    let counted = |result| ring.count(0, result);
    let before = (counted("stream_failed"), counted("not_opened"));
    let streams = [
        ("a greeting and nothing more", vec![1; 16]),
        ("half a greeting", vec![1; 7]),
        ("half a frame", [vec![1; 16], vec![0, 0, 1, 0], vec![5; 9]].concat()),
        ("nonsense", noise(7, 20_000)),
        ("a huge length", [vec![1; 16], vec![255; 4]].concat()),
        ("an empty frame", vec![0; 20]),
    ]
    .map(|(what, bytes)| {
        let mut stream = TcpStream::connect(n1).unwrap();
        stream.write_all(&bytes).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        (what, stream)
    });
    for (what, stream) in streams {
        expect_closed(stream, what);
    }
    ring.expect_counted(0, "stream_failed", before.0, 3);
    ring.expect_counted(0, "not_opened", before.1, 3);
    // As many as promise 16 MiB each, and send half of it, as it takes to fill the machine.
    let before = counted("stream_failed") + counted("not_opened");
    let greedy: Vec<TcpStream> = (0..48).map(|_| promise_much(n1)).collect();
    let grown = ring.memory().saturating_sub(memory);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more than the {memory} KiB before");
    // More than it holds: the rest is refused, and n1 is busy with nobody for a while.
    let refused = ring.count(0, "connection_refused");
    let idle: Vec<TcpStream> = (0..700).filter_map(|_| TcpStream::connect(n1).ok()).collect();
    ring.expect_counted(0, "connection_refused", refused, 100);
    ring.hello.roll("2", &["completed"]);
    ring.hello.expect_running("2", 3);
    for stream in idle.into_iter().chain(greedy) {
        expect_closed(stream, "a connection");
    }
    let ended = counted("stream_failed") + counted("not_opened") - before;
    assert!(ended >= 500, "{ended} streams were counted");
    ring.expect_whole();
    ring.hello.roll("3", &["completed"]);
    let lines = ring.logs() - log;
    assert!(lines < LOG_MAX_BYTES, "{lines} bytes were logged");
    let grown = ring.memory().saturating_sub(memory);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more than the {memory} KiB before");
}

/// Real datagrams of n1 and n2, sent to n3 while this test sat at its address.
fn record(ring: &mut Ring) -> Vec<Vec<u8>> {
    ring.hello.ring.host(2).kill();
    let socket = wait::until("the address of n3", LIMIT, || UdpSocket::bind(ring.addr(2)));
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut buffer = vec![0; 65_536];
    let mut recorded = Vec::new();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let length = socket.recv(&mut buffer).expect("somebody probes n3");
        recorded.push(buffer[..length].to_vec());
    }
    drop(socket);
    assert!(recorded.len() >= 4, "only {} datagrams", recorded.len());
    ring.hello.ring.host(2).start();
    ring.expect_whole();
    recorded
}

fn noise_is_not_opened(ring: &Ring) {
    let mut packets: Vec<Vec<u8>> = [0, 1, 2, 5, 29, 30, 45, 46, 47, 1_400, 9_000, 65_507]
        .into_iter()
        .map(|size| noise(size as u64 + 1, size))
        .collect();
    packets.extend((0..1_000).map(|seed| noise(seed, (seed * 37 % 1_500) as usize)));
    for host in 0..STRANGER {
        let before = ring.count(host, "not_opened");
        send(ring.addr(host), &packets);
        ring.expect_counted(host, "not_opened", before, packets.len() as u64 * 9 / 10);
    }
}

fn changed_and_cut_is_not_opened(ring: &Ring, recorded: &[Vec<u8>]) {
    let mut packets = Vec::new();
    for (at, packet) in recorded.iter().take(20).enumerate() {
        for cut in [1, packet.len() / 2, packet.len() - 1] {
            packets.push(packet[..cut].to_vec());
        }
        let mut changed = packet.clone();
        changed[at * 7 % packet.len()] ^= 1;
        packets.push(changed);
        packets.push([packet.as_slice(), &[0]].concat());
        // The same, as a newer version would send it.
        packets.push([&[packet[0] + 1], &packet[1..]].concat());
    }
    for host in 0..STRANGER {
        let before = ring.count(host, "not_opened");
        let accepted = ring.count(host, "replayed");
        send(ring.addr(host), &packets);
        ring.expect_counted(host, "not_opened", before, packets.len() as u64 * 9 / 10);
        assert_eq!(ring.count(host, "replayed"), accepted, "something changed was opened");
    }
}

/// n3 has not seen them: each may count once, then never again. n1 and n2 meet their own words.
fn what_was_accepted_once_is_a_replay(ring: &Ring, recorded: &[Vec<u8>]) {
    for host in 0..STRANGER {
        let result = if host == 2 { "replayed" } else { "from_ourselves" };
        let before = ring.count(host, result);
        for _ in 0..5 {
            send(ring.addr(host), recorded);
        }
        let times = if host == 2 { 4 } else { 1 };
        ring.expect_counted(host, result, before, times * recorded.len() as u64 * 9 / 10);
    }
    ring.expect_whole();
}

fn another_key_is_not_opened(ring: &mut Ring) {
    let before = ring.count(0, "not_opened");
    ring.hello.ring.host(STRANGER).start();
    ring.expect_counted(0, "not_opened", before, 1);
    let seen = ring.hello.ring.hosts()[STRANGER].cli().json(&["ring", "members"]).unwrap();
    assert_eq!(seen.as_array().unwrap().len(), 1, "it learned something: {seen}");
}

/// Everything at once, at all three, until it is stopped.
struct Attack {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    fn start(ring: &Ring, recorded: Vec<Vec<u8>>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = (0..STRANGER)
            .map(|host| {
                let (to, ends, recorded) = (ring.addr(host), Arc::clone(&ends), recorded.clone());
                std::thread::spawn(move || attack(to, &ends, &recorded))
            })
            .collect();
        Self { ends, threads }
    }

    fn stop(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("an attacker");
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn attack(to: SocketAddr, ends: &AtomicBool, recorded: &[Vec<u8>]) {
    let mut seed = 0;
    while !ends.load(Ordering::Relaxed) {
        seed += 1;
        send(to, &[noise(seed, 1_400), noise(seed, 65_507)]);
        send(to, &recorded[..recorded.len().min(20)]);
        // A refused connection is what it may get.
        if let Ok(mut stream) = TcpStream::connect(to) {
            stream.write_all(&noise(seed, 100)).ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(to: SocketAddr, packets: &[Vec<u8>]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for few in packets.chunks(16) {
        for packet in few {
            socket.send_to(packet, to).expect("sent");
        }
        // What a socket's buffer cannot hold would be lost before it is looked at.
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn promise_much(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.write_all(&[1; 16]).unwrap();
    stream.write_all(&(16 * 1024 * 1024_u32).to_be_bytes()).unwrap();
    // The daemon may end it at any point of it, or read no more.
    stream.write_all(&vec![3; 8 * 1024 * 1024]).ok();
    stream
}

/// The other end ends it, after however many bytes of greeting.
fn expect_closed(mut stream: TcpStream, what: &str) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(fault) if fault.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(fault) => panic!("{what} is left open: {fault}"),
        }
    }
}

/// Bytes that look random and are the same for the same seed.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..size).map(next).collect()
}

const STRANGER: usize = 3;

/// The daemons' own lines of a rollout, and some; thousands of packets came in.
const LOG_MAX_BYTES: usize = 40_000;

/// Less than a tenth of what was sent, and some for a debug build's tasks.
const MEMORY_MAX_KIB: u64 = 160 * 1024;
