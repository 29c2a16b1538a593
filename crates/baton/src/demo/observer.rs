//! The demo's own eyes: asks every member's service over HTTP, all the time, on a connection that
//! stays open, so that even a restart between two questions is seen.
//!
//! Invariant: it asks the services and nobody else. What it counts does not rest on what a daemon
//! says of itself.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Watches every service until it is dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

/// What was seen since the last mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    members: Vec<Watched>,
    most_down: usize,
}

/// One member's service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// What it answers now; `None`: it does not.
    pub(crate) answers: Option<String>,
    /// Every version that it answered with since the mark.
    pub(crate) served: BTreeSet<String>,
    /// How often an answer differed from the one before.
    pub(crate) changes: usize,
    /// How often it stopped answering since the mark.
    pub(crate) outages: usize,
    last: Option<String>,
    down_since: Option<Instant>,
    longest_down: Duration,
}

impl Observer {
    /// Begins to ask the services on these ports of this machine.
    pub(crate) fn start(ports: &[u16]) -> Self {
        let members = vec![Watched::default(); ports.len()];
        let seen = Arc::new(Mutex::new(Seen { members, most_down: 0 }));
        let mut tasks = JoinSet::new();
        for (at, port) in ports.iter().enumerate() {
            let (seen, addr) = (Arc::clone(&seen), SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
            tasks.spawn(async move {
                loop {
                    // It ends with the connection: an answer is lacking from then on.
                    ask(addr, |answer| lock(&seen).answered(at, answer)).await.ok();
                    lock(&seen).silent(at, Instant::now());
                    tokio::time::sleep(EVERY).await;
                }
            });
        }
        Self { seen, _tasks: tasks }
    }

    /// Begins to count anew.
    pub(crate) fn mark(&self) {
        let mut seen = lock(&self.seen);
        seen.most_down = seen.down();
        for member in &mut seen.members {
            member.served = member.answers.iter().cloned().collect();
            (member.changes, member.outages, member.longest_down) = (0, 0, Duration::ZERO);
        }
    }

    /// What was seen since the last mark.
    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Seen {
    /// Each member, in order.
    pub(crate) fn members(&self) -> &[Watched] {
        &self.members
    }

    /// The most services that did not answer at one moment.
    pub(crate) fn most_down(&self) -> usize {
        self.most_down
    }

    /// The longest time that one of them did not answer; one that still does not is counted so far.
    pub(crate) fn longest_down(&self) -> Duration {
        let so_far = |member: &Watched| member.down_since.map_or(Duration::ZERO, |at| at.elapsed());
        let longest = self.members.iter().map(|member| member.longest_down.max(so_far(member)));
        longest.max().unwrap_or_default()
    }

    /// How many answer with this version now.
    pub(crate) fn on(&self, version: &str) -> usize {
        let on = |member: &&Watched| member.answers.as_deref() == Some(version);
        self.members.iter().filter(on).count()
    }

    /// How many answered with this version at any moment since the mark.
    pub(crate) fn ever_on(&self, version: &str) -> usize {
        self.members.iter().filter(|member| member.served.contains(version)).count()
    }

    fn down(&self) -> usize {
        self.members.iter().filter(|member| member.answers.is_none()).count()
    }

    fn answered(&mut self, at: usize, version: String) {
        let Some(member) = self.members.get_mut(at) else { return };
        if let Some(since) = member.down_since.take() {
            member.longest_down = member.longest_down.max(since.elapsed());
        }
        if member.answers.as_ref() == Some(&version) {
            return;
        }
        if member.last.as_ref().is_some_and(|last| *last != version) {
            member.changes += 1;
        }
        member.served.insert(version.clone());
        member.last = Some(version.clone());
        member.answers = Some(version);
    }

    fn silent(&mut self, at: usize, now: Instant) {
        if let Some(member) = self.members.get_mut(at)
            && member.answers.take().is_some()
        {
            member.down_since = Some(now);
            member.outages += 1;
            self.most_down = self.most_down.max(self.down());
        }
    }
}

/// Asks on one connection until it breaks.
async fn ask(addr: SocketAddr, mut answered: impl FnMut(String)) -> std::io::Result<()> {
    let mut stream = tokio::time::timeout(PATIENCE, TcpStream::connect(addr)).await??;
    stream.set_nodelay(true)?;
    loop {
        let question = async {
            stream.write_all(b"GET / HTTP/1.1\r\nhost: demo\r\n\r\n").await?;
            let mut answer = Vec::new();
            let mut chunk = [0; 512];
            loop {
                let read = stream.read(&mut chunk).await?;
                answer.extend(chunk.iter().take(read));
                if read == 0 || answer.len() > ANSWER_MAX_BYTES {
                    return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
                }
                if let Some(version) = version(&answer) {
                    return Ok(version);
                }
            }
        };
        answered(tokio::time::timeout(PATIENCE, question).await??);
        tokio::time::sleep(EVERY).await;
    }
}

/// The body of a good answer that has come whole: the version and the end of its line.
fn version(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let good = head.starts_with("HTTP/1.1 200 ") && body.ends_with('\n');
    good.then(|| body.trim_end().to_owned())
}

/// Nothing that holds it can leave it half changed.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often each service is asked.
const EVERY: Duration = Duration::from_millis(20);

/// A service that has not answered after this is down.
const PATIENCE: Duration = Duration::from_secs(2);

/// A version's answer is a few hundred bytes.
const ANSWER_MAX_BYTES: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let mut seen = Seen { members: vec![Watched::default(); 3], most_down: 0 };
        for at in 0..3 {
            seen.answered(at, "1".to_owned());
        }
        seen
    }

    #[test]
    fn outages_at_the_same_time_are_counted_and_those_after_each_other_are_not() {
        let now = Instant::now();
        let mut one = seen();
        one.silent(0, now);
        one.silent(0, now);
        one.answered(0, "2".to_owned());
        one.silent(1, now);
        assert_eq!((one.most_down(), one.on("1"), one.on("2"), one.ever_on("1")), (1, 1, 1, 3));
        assert_eq!((one.members[0].outages, one.members[0].changes), (1, 1));
        let mut two = seen();
        two.silent(0, now);
        two.silent(2, now);
        assert_eq!(two.most_down(), 2);
    }

    #[test]
    fn only_a_whole_good_answer_is_a_version() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n2\n", Some("2")),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n2", None),
            ("HTTP/1.1 200 OK\r\ncontent-le", None),
            ("HTTP/1.1 503 No\r\n\r\n2\n", None),
        ] {
            assert_eq!(version(answer.as_bytes()).as_deref(), expected, "{answer:?}");
        }
    }
}
