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
    state: State,
}

/// What a question came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// PONG.
    Up,
    /// Another answer: the server runs and serves nobody yet, for example while it loads what its
    /// primary sent. It may do so more than once after one restart.
    Busy,
    /// No answer, or a connection that is closed or refused.
    Gone,
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
            .filter(|change| change.state != State::Up)
            .map(|change| change.server)
            .collect()
    }

    /// How often each server went away since, however often it was busy after it came back;
    /// `servers` is how many there are.
    pub fn restarts_since(&self, mark: Mark, servers: usize) -> Vec<usize> {
        let changes = self.changes();
        let gone = |server| {
            changes[mark.0..]
                .iter()
                .filter(|c| c.server == server && c.state == State::Gone)
                .count()
        };
        (0..servers).map(gone).collect()
    }

    /// What was seen of each server since, for the message of a test that fails.
    pub fn told_since(&self, mark: Mark) -> String {
        let changes = self.changes();
        let Some(first) = changes.get(mark.0).map(|change| change.at) else {
            return "nothing was seen".to_owned();
        };
        let line = |change: &Change| {
            let after = change.at.saturating_duration_since(first).as_millis();
            format!("{after:>7} ms: server {} {:?}", change.server, change.state)
        };
        changes[mark.0..].iter().map(line).collect::<Vec<_>>().join("\n")
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
    let mut before = State::Up;
    while !shared.stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let state = answer(&mut connection, addr);
        if state != before {
            // A server that did not answer was down when it was asked, not when we gave up.
            let at = if state == State::Up { Instant::now() } else { asked };
            let mut changes = shared.changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.push(Change { at, server, state });
            before = state;
        }
        std::thread::sleep(PAUSE);
    }
}

fn answer(connection: &mut Option<Connection>, addr: SocketAddr) -> State {
    // Taken out, and put back only after an answer: a broken one is never used again.
    let open = match connection.take() {
        Some(open) => Ok(open),
        None => Connection::open(addr, ANSWER_LIMIT),
    };
    let Ok(mut open) = open else { return State::Gone };
    let Ok(reply) = open.ask(&["PING"]) else { return State::Gone };
    *connection = Some(open);
    if reply == Reply::Text("PONG".to_owned()) { State::Up } else { State::Busy }
}

fn most_down(mut changes: Vec<Change>) -> BTreeSet<usize> {
    // At the same instant the one that goes down counts first: in doubt both were down.
    changes.sort_by_key(|change| (change.at, change.state == State::Up));
    let (mut down, mut most) = (BTreeSet::new(), BTreeSet::new());
    for change in changes {
        if change.state == State::Up {
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
/// A healthy server answers within a millisecond; a busy machine may need far longer. A server that
/// is stopped is seen at once all the same: it closes its connections.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_found_and_sequence_is_none() {
        let start = Instant::now();
        let change = |millis, server, up| Change {
            at: start + Duration::from_millis(millis),
            server,
            state: if up { State::Up } else { State::Gone },
        };
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
