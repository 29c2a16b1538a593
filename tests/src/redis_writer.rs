//! A client that writes to a Redis Cluster all the time and remembers what was acknowledged.
//!
//! Invariant: a write counts as acknowledged only if, on one connection, `SET` answered OK and
//! `WAIT 1` after it that at least one replica has it too. Redis replicates asynchronously: a mere
//! OK promises one copy, which a crash of that server may lose by design.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace;
use crate::redis_client::{Connection, Reply};

/// A writer at work on its own thread.
pub struct RedisWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Written>>,
}

/// What a writer has done.
#[derive(Debug)]
pub struct Written {
    /// Key → value of every acknowledged write.
    pub acknowledged: BTreeMap<String, String>,
    /// Writes that were sent, perhaps carried out, but never acknowledged.
    pub unconfirmed: u64,
    /// The longest time between two acknowledged writes.
    pub longest_gap: Duration,
}

/// A cluster as a client sees it: any server redirects to the right one.
pub struct Cluster {
    servers: Vec<SocketAddr>,
    connections: BTreeMap<SocketAddr, Connection>,
    homes: BTreeMap<u64, SocketAddr>,
    next: usize,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

impl RedisWriter {
    /// Starts to write, from inside the namespace if one is named.
    pub fn start(servers: &[SocketAddr], namespace: Option<&str>) -> Self {
        let shared = Arc::new(Shared::default());
        let (inside, mut cluster) = (Arc::clone(&shared), Cluster::new(servers));
        let namespace = namespace.map(str::to_owned);
        let thread = std::thread::spawn(move || {
            namespace::enter(namespace.as_deref());
            write_until_stopped(&mut cluster, &inside)
        });
        Self { shared, thread: Some(thread) }
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops and hands over what was written.
    pub fn finish(mut self) -> Written {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a writer is finished once");
        thread.join().expect("the writer does not panic")
    }
}

impl Drop for RedisWriter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Written {
    /// Every acknowledged write that `servers` do not have any more, with what was found instead.
    pub fn lost(&self, servers: &[SocketAddr], namespace: Option<&str>) -> Vec<String> {
        namespace::run_inside(namespace, || {
            let mut cluster = Cluster::new(servers);
            let mut lost = Vec::new();
            for (number, (key, value)) in self.acknowledged.iter().enumerate() {
                let found = cluster.until_answered(home(key), &["GET", key], READ_LIMIT);
                if found != Ok(Reply::Text(value.clone())) {
                    lost.push(format!("{key}: written {value:?}, found {found:?}"));
                }
                assert!(lost.len() < 100, "after {number} keys: {lost:#?}");
            }
            lost
        })
    }
}

impl Cluster {
    /// A client that knows these servers.
    pub fn new(servers: &[SocketAddr]) -> Self {
        assert!(!servers.is_empty(), "a cluster has servers");
        Self {
            servers: servers.to_vec(),
            connections: BTreeMap::new(),
            homes: BTreeMap::new(),
            next: 0,
        }
    }

    /// Takes a key of a writer away, as a loss would.
    pub fn delete(&mut self, key: &str) -> Result<(), String> {
        match self.until_answered(home(key), &["DEL", key], READ_LIMIT)? {
            Reply::Number(1) => Ok(()),
            other => Err(format!("{key}: {other:?}")),
        }
    }

    /// Sends a command for a key of this home until a server carries it out, at most for `limit`.
    fn until_answered(
        &mut self,
        home: u64,
        words: &[&str],
        limit: Duration,
    ) -> Result<Reply, String> {
        let end = Instant::now() + limit;
        loop {
            match self.once(home, words) {
                Ok((_, reply)) => return Ok(reply),
                Err(fault) if Instant::now() >= end => return Err(fault),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// One attempt, redirections followed. An error says what stood in the way.
    fn once(&mut self, home: u64, words: &[&str]) -> Result<(SocketAddr, Reply), String> {
        for _ in 0..REDIRECTIONS_MAX {
            let server = self.homes.get(&home).copied().unwrap_or_else(|| self.any());
            match self.ask(server, words) {
                Ok(Reply::Fault(fault)) => match moved_to(&fault) {
                    Some(other) => {
                        self.homes.insert(home, other);
                    }
                    None => {
                        self.homes.remove(&home);
                        return Err(format!("{server}: {fault}"));
                    }
                },
                Ok(reply) => {
                    self.homes.insert(home, server);
                    return Ok((server, reply));
                }
                Err(fault) => {
                    self.homes.remove(&home);
                    return Err(format!("{server}: {fault}"));
                }
            }
        }
        Err("redirected in a circle".to_owned())
    }

    fn ask(&mut self, server: SocketAddr, words: &[&str]) -> std::io::Result<Reply> {
        let mut connection = match self.connections.remove(&server) {
            Some(connection) => connection,
            None => Connection::open(server, ANSWER_LIMIT)?,
        };
        // Only a connection that answered is kept: after an error its next reply may be an old one.
        let reply = connection.ask(words)?;
        self.connections.insert(server, connection);
        Ok(reply)
    }

    fn any(&mut self) -> SocketAddr {
        self.next += 1;
        self.servers[self.next % self.servers.len()]
    }
}

fn write_until_stopped(cluster: &mut Cluster, shared: &Shared) -> Written {
    let mut written =
        Written { acknowledged: BTreeMap::new(), unconfirmed: 0, longest_gap: Duration::ZERO };
    let mut last = Instant::now();
    let mut number = 0_u64;
    while !shared.stop.load(Ordering::Relaxed) {
        number += 1;
        // The part in braces decides the slot, so that servers are found again by few names.
        let key = format!("{{{}}}:{number}", number % HOMES);
        let value = format!("value-{number}");
        if write(cluster, &key, &value) {
            written.longest_gap = written.longest_gap.max(last.elapsed());
            last = Instant::now();
            written.acknowledged.insert(key, value);
            shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        } else {
            written.unconfirmed += 1;
        }
        std::thread::sleep(PAUSE);
    }
    written
}

/// Whether the write was carried out and a replica has it.
fn write(cluster: &mut Cluster, key: &str, value: &str) -> bool {
    let Ok((server, Reply::Text(answer))) = cluster.once(home(key), &["SET", key, value]) else {
        return false;
    };
    // `WAIT` looks at the writes of its own connection, and that one is kept: it just answered.
    let replicas = cluster.ask(server, &["WAIT", "1", WAIT_MILLIS]);
    answer == "OK" && matches!(replicas, Ok(Reply::Number(count)) if count >= 1)
}

/// The number in the braces of a key of this writer.
fn home(key: &str) -> u64 {
    key[1..].split('}').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The server in `MOVED 3999 10.0.0.1:6379`.
fn moved_to(fault: &str) -> Option<SocketAddr> {
    fault.strip_prefix("MOVED ")?.split(' ').nth(1)?.parse().ok()
}

/// Over enough slots that every shard has its share.
const HOMES: u64 = 64;
const REDIRECTIONS_MAX: u32 = 5;
/// Between writes, so that six servers and six daemons still have a processor to run on.
const PAUSE: Duration = Duration::from_millis(2);
const WAIT_MILLIS: &str = "300";
/// Longer than `WAIT` itself takes.
const ANSWER_LIMIT: Duration = Duration::from_millis(1000);
const READ_LIMIT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_and_homes_are_read() {
        let addr: SocketAddr = "10.0.0.1:6379".parse().unwrap();
        assert_eq!(moved_to("MOVED 3999 10.0.0.1:6379"), Some(addr));
        for other in ["CLUSTERDOWN Hash slot not served", "MOVED", "MOVED 1 nowhere"] {
            assert_eq!(moved_to(other), None, "{other}");
        }
        assert_eq!(home("{17}:81"), 17);
    }
}
