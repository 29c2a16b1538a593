//! Running a hook or a check: once, with a time limit, and with nothing left of it afterwards.
//!
//! Invariant: when [`OnceResult`] is there, or soon after its future was dropped, no process that
//! the command started is alive. A hook cannot leave a daemon behind.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::cgroup::CgroupRoot;
use crate::family::{Family, MARKER};
use crate::limits::{ONCE_CHUNK_BYTES, ONCE_FREE_BYTES, ONCE_PACE};
use crate::pollable;
use crate::runner::{Exit, reap};
use crate::spawn::{Held, LaunchError, Plan, Spawned, hold, user_for};

/// What to run.
#[derive(Clone, Debug)]
pub struct OnceRequest {
    /// What it is, for the journal, e.g. "redis.default install".
    pub label: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment; a PATH is added if there is none.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// As whom; `None`: as the daemon.
    pub run_as: Option<String>,
    /// After it everything is killed.
    pub timeout: Duration,
    /// How much of the end of its output is kept.
    pub output_max_bytes: usize,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnceExit {
    /// By itself.
    Ended(Exit),
    /// Killed at its timeout.
    TimedOut,
    /// It never ran; why.
    CouldNotStart(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceResult {
    /// How it ended.
    pub exit: OnceExit,
    /// The end of what it printed to stdout and stderr.
    pub output: String,
    /// From its start to the death of everything that it started.
    pub took: Duration,
}

/// Runs `request` under the marker `instance`. When `cancelled` completes, everything is killed.
pub(crate) async fn run(
    request: OnceRequest,
    instance: String,
    cgroups: Option<CgroupRoot>,
    cancelled: impl Future<Output = ()>,
) -> OnceResult {
    let started = Instant::now();
    let (timeout, output_max) = (request.timeout, request.output_max_bytes);
    let label = request.label.clone();
    let launched =
        tokio::task::spawn_blocking(move || launch(&request, instance, cgroups.as_ref())).await;
    let (mut once, pipe) = match launched {
        Ok(Ok(launched)) => launched,
        Ok(Err(error)) => return could_not_start(error.to_string(), started),
        Err(error) => return could_not_start(error.to_string(), started),
    };
    let mut output = Ring { bytes: VecDeque::new(), cap: output_max };
    let exit = {
        let reading = read_all(pipe, &mut output);
        let ending = once.ended(timeout, cancelled);
        tokio::pin!(reading, ending);
        let mut is_read = false;
        loop {
            tokio::select! {
                // The pipe closes only after the last holder is dead, so its end is never missed.
                () = &mut reading, if !is_read => is_read = true,
                exit = &mut ending => {
                    if !is_read {
                        // All writers are dead; what is left is one pipe buffer.
                        tokio::time::timeout(REST_PATIENCE, &mut reading).await.ok();
                    }
                    break exit;
                }
            }
        }
    };
    if once.survivors {
        tracing::error!(%label, "processes of a hook or check do not die");
    }
    OnceResult { exit, output: output.text(), took: started.elapsed() }
}

struct Once {
    family: Family,
    spawned: Option<Spawned>,
    survivors: bool,
}

impl Once {
    /// Waits for the end, and makes one at the timeout or when cancelled.
    async fn ended(&mut self, timeout: Duration, cancelled: impl Future<Output = ()>) -> OnceExit {
        let Some(spawned) = self.spawned.take() else { return OnceExit::TimedOut };
        let handle = match pollable::readable(spawned.handle) {
            Ok(handle) => handle,
            Err(error) => {
                self.kill().await;
                return OnceExit::CouldNotStart(format!("cannot watch it: {error}"));
            }
        };
        let by_itself = tokio::select! {
            _ = handle.readable() => true,
            () = tokio::time::sleep(timeout) => false,
            () = cancelled => false,
        };
        self.kill().await;
        // The main process is dead, by itself or killed, and until here it kept its pid.
        let exit = reap(handle.get_ref());
        drop(spawned.tracked);
        if by_itself { OnceExit::Ended(exit) } else { OnceExit::TimedOut }
    }

    async fn kill(&mut self) {
        let family = self.family.clone();
        let killed = tokio::task::spawn_blocking(move || family.kill()).await;
        self.survivors = !matches!(killed, Ok(Ok(_)));
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        // Only when the runtime itself is torn down in the middle of a run.
        if self.spawned.is_some() {
            self.family.kill_once();
        }
    }
}

fn launch(
    request: &OnceRequest,
    instance: String,
    cgroups: Option<&CgroupRoot>,
) -> Result<(Once, Receiver), LaunchError> {
    let start = |source: std::io::Error| LaunchError::Start {
        program: request.argv.first().cloned().unwrap_or_default(),
        source,
    };
    let user = user_for(&request.argv, request.run_as.as_deref())?;
    // Close-on-exec: no other program that is started now may hold our pipe open.
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| start(error.into()))?;
    rustix::io::ioctl_fionbio(&reader, true).map_err(|error| start(error.into()))?;
    let pipe = Receiver::from_owned_fd(reader).map_err(start)?;
    let mut env = request.env.clone();
    env.insert(MARKER.to_owned(), instance.clone());
    let cgroup = cgroups.and_then(|root| root.make(&instance).ok());
    let held = hold(Plan {
        argv: &request.argv,
        env: &env,
        cwd: &request.cwd,
        user: user.as_ref(),
        output: writer,
        cgroup: cgroup.as_ref(),
    });
    let spawned = match held.and_then(Held::let_go) {
        Ok(spawned) => spawned,
        Err(error) => {
            if let Some(cgroup) = cgroup {
                cgroup.remove();
            }
            return Err(error);
        }
    };
    let main = Some((spawned.pid, spawned.start_time));
    let family = Family { instance, cgroup, main, is_ours: true };
    Ok((Once { family, spawned: Some(spawned), survivors: false }, pipe))
}

/// Reads until every writer is gone. Beyond a first amount it reads slowly, so that a program
/// that prints without end waits in its own write instead of using our time.
async fn read_all(mut pipe: Receiver, output: &mut Ring) {
    let mut chunk = vec![0; ONCE_CHUNK_BYTES];
    let mut total = 0_usize;
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) => return,
            Ok(read) => {
                output.push(&chunk[..read]);
                total = total.saturating_add(read);
                if total > ONCE_FREE_BYTES {
                    tokio::time::sleep(ONCE_PACE).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the output of a hook or check");
                return;
            }
        }
    }
}

/// The last bytes of a stream.
struct Ring {
    bytes: VecDeque<u8>,
    cap: usize,
}

impl Ring {
    fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.cap)..];
        let over = (self.bytes.len() + chunk.len()).saturating_sub(self.cap);
        self.bytes.drain(..over);
        self.bytes.extend(chunk);
    }

    fn text(mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}

fn could_not_start(why: String, started: Instant) -> OnceResult {
    OnceResult {
        exit: OnceExit::CouldNotStart(why),
        output: String::new(),
        took: started.elapsed(),
    }
}

/// A full pipe is read in less than a millisecond.
const REST_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_end() {
        let check = |cap: usize, chunks: &[&str], want: &str| {
            let mut ring = Ring { bytes: VecDeque::new(), cap };
            chunks.iter().for_each(|chunk| ring.push(chunk.as_bytes()));
            assert_eq!(ring.text(), want, "{cap} {chunks:?}");
        };
        check(4, &["ab", "cd"], "abcd");
        check(4, &["ab", "cde"], "bcde");
        check(4, &["abcdefgh"], "efgh");
        check(0, &["abc"], "");
        check(2, &[], "");
    }
}
