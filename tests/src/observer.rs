//! Who was down, and when, judged from outside: by asking the servers, never the daemons.
//!
//! Invariant: a server counts as down from the first question that it did not answer with PONG
//! until the next one that it did. The connection is kept open between questions, so a restart
//! shorter than the pause between two questions is seen as well.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace;
use crate::redis_client::{Connection, Reply};

/// Observes servers that are all up when it starts.
pub struct Observer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A place in time of what was observed.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    changes: Mutex<Vec<Change>>,
}

/// One server went down or came up.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: Instant,
    server: usize,
    up: bool,
}

impl Observer {
    /// Starts to observe, from inside the namespace if one is named.
    pub fn start(servers: &[SocketAddr], namespace: Option<&str>) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = servers
            .iter()
            .enumerate()
            .map(|(index, addr)| {
                let (shared, addr) = (Arc::clone(&shared), *addr);
                let namespace = namespace.map(str::to_owned);
                std::thread::spawn(move || {
                    namespace::enter(namespace.as_deref());
                    observe(index, addr, &shared);
                })
            })
            .collect();
        Self { shared, threads }
    }

    /// Now, to ask later what happened since.
    pub fn mark(&self) -> Mark {
        Mark(self.changes().len())
    }

    /// The servers that went down since, by index.
    pub fn touched_since(&self, mark: Mark) -> BTreeSet<usize> {
        self.changes()[mark.0..]
            .iter()
            .filter(|change| !change.up)
            .map(|change| change.server)
            .collect()
    }

    /// How often each server went down since; `servers` is how many there are.
    pub fn downs_since(&self, mark: Mark, servers: usize) -> Vec<usize> {
        let changes = self.changes();
        let downs =
            |server| changes[mark.0..].iter().filter(|c| c.server == server && !c.up).count();
        (0..servers).map(downs).collect()
    }

    /// The largest set of servers that were ever down at the same moment.
    pub fn most_down_at_once(&self) -> BTreeSet<usize> {
        most_down(self.changes().clone())
    }

    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn observe(server: usize, addr: SocketAddr, shared: &Shared) {
    let mut connection = None;
    let mut was_up = true;
    while !shared.stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let up = answers(&mut connection, addr);
        if up != was_up {
            // A server that did not answer was down when it was asked, not when we gave up.
            let at = if up { Instant::now() } else { asked };
            let mut changes = shared.changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.push(Change { at, server, up });
            was_up = up;
        }
        std::thread::sleep(PAUSE);
    }
}

fn answers(connection: &mut Option<Connection>, addr: SocketAddr) -> bool {
    // Taken out, and put back only after an answer: a broken one is never used again.
    let open = match connection.take() {
        Some(open) => Ok(open),
        None => Connection::open(addr, ANSWER_LIMIT),
    };
    let Ok(mut open) = open else { return false };
    let up = open.ask(&["PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".to_owned()));
    if up {
        *connection = Some(open);
    }
    up
}

fn most_down(mut changes: Vec<Change>) -> BTreeSet<usize> {
    // At the same instant the one that goes down counts first: in doubt both were down.
    changes.sort_by_key(|change| (change.at, change.up));
    let (mut down, mut most) = (BTreeSet::new(), BTreeSet::new());
    for change in changes {
        if change.up {
            down.remove(&change.server);
        } else {
            down.insert(change.server);
        }
        if down.len() > most.len() {
            most.clone_from(&down);
        }
    }
    most
}

const PAUSE: Duration = Duration::from_millis(20);
/// A healthy server answers within a millisecond; a busy machine may need far longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_found_and_sequence_is_none() {
        let start = Instant::now();
        let change =
            |millis, server, up| Change { at: start + Duration::from_millis(millis), server, up };
        let cases = [
            (vec![], vec![]),
            (vec![change(0, 3, false), change(9, 3, true), change(10, 1, false)], vec![3]),
            (vec![change(0, 3, false), change(9, 3, true), change(9, 1, false)], vec![1, 3]),
            (vec![change(5, 1, false), change(0, 3, false), change(9, 3, true)], vec![1, 3]),
        ];
        for (changes, expected) in cases {
            let found: Vec<usize> = most_down(changes.clone()).into_iter().collect();
            assert_eq!(found, expected, "{changes:?}");
        }
    }
}
