//! Watching one service until it is gone, and the tasks that serve all of them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use baton_types::GroupName;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch as watching;

use super::launch::remove_record;
use super::{Inner, Life, RunnerEvent, Slot};
use crate::family::{Family, Survivors};
use crate::limits::{LOOK_PERIOD, LOOK_PERIOD_BLIND, NOTIFY_BATCH};
use crate::notify_socket::NotifySocket;
use crate::pollable;
use crate::reaper::Tracked;
use crate::record::RunRecord;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It is gone, but it was not our child: nobody told us how.
    Unknown,
}

/// What is held on a process that is to be watched.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) handle: OwnedFd,
    pub(super) tracked: Option<Tracked>,
    pub(super) family: Family,
    pub(super) socket: Option<NotifySocket>,
}

/// A process that is being watched.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) pid: u32,
    pub(super) family: Arc<Family>,
    pub(super) done: watching::Receiver<Option<End>>,
    handle: Arc<AsyncFd<OwnedFd>>,
}

/// The end of a launch: nothing of it is alive, or what does not die.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) killed: Result<usize, Survivors>,
}

impl Running {
    /// Signals the very process that is being watched.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        pidfd_send_signal(self.handle.get_ref().as_fd(), signal).map_err(io::Error::from)
    }
}

/// Puts the process into the table and watches it.
pub(super) fn begin(
    inner: &Arc<Inner>,
    life: &Life,
    record: RunRecord,
    handles: Handles,
) -> io::Result<()> {
    let Handles { handle, tracked, family, socket } = handles;
    let Some((pid, _)) = family.main else { return Err(io::ErrorKind::NotFound.into()) };
    let handle = Arc::new(pollable::readable(handle)?);
    let (done_tx, done) = watching::channel(None);
    let family = Arc::new(family);
    let running = Running { pid, family, done, handle };
    inner.table().insert(record.group.clone(), Slot::Running(running.clone()));
    if let Some(socket) = socket {
        let listening =
            listen(Arc::clone(inner), life.clone(), record.group.clone(), running.clone(), socket);
        tokio::spawn(listening);
    }
    tokio::spawn(watch(Arc::clone(inner), life.clone(), record, running, tracked, done_tx));
    Ok(())
}

async fn watch(
    inner: Arc<Inner>,
    mut life: Life,
    record: RunRecord,
    running: Running,
    tracked: Option<Tracked>,
    done: watching::Sender<Option<End>>,
) {
    tokio::select! {
        () = life.over() => return,
        readable = running.handle.readable() => if let Err(error) = readable {
            tracing::error!(group = %record.group, %error, "cannot watch a service any more");
            return;
        },
    }
    let group = record.group.clone();
    let (worker, family) = (Arc::clone(&inner), Arc::clone(&running.family));
    let cleared = tokio::task::spawn_blocking(move || {
        // The dead main process keeps its pid until it is reaped below, so that the session that
        // it leads cannot be another one's meanwhile.
        let killed = family.kill();
        worker.output.drain(&record.group, &mut |group, line| relay(&worker, group, line));
        if let Err(error) = remove_record(&worker, &record.group) {
            tracing::warn!(group = %record.group, %error, "cannot remove a run record");
        }
        worker.instances().remove(&record.instance);
        killed
    });
    let killed = match cleared.await {
        Ok(killed) => killed,
        Err(error) => {
            tracing::error!(%group, %error, "the leftovers of a service were not looked for");
            Ok(0)
        }
    };
    if let Err(survivors) = &killed {
        tracing::error!(%group, %survivors, "a service left processes behind");
    }
    let exit = reap(running.handle.get_ref());
    drop(tracked);
    inner.table().remove(&group);
    // Nobody listens any more only when the daemon itself ends.
    inner.events.send(RunnerEvent::Exited { group, pid: running.pid, exit }).await.ok();
    done.send_replace(Some(End { killed }));
}

async fn listen(
    inner: Arc<Inner>,
    mut life: Life,
    group: GroupName,
    running: Running,
    socket: NotifySocket,
) {
    let mut done = running.done.clone();
    let mut handled = 0;
    loop {
        let received = tokio::select! {
            () = life.over() => {
                // The program goes on under the next daemon, which binds the same path anew.
                return;
            }
            _ = done.wait_for(Option::is_some) => return,
            received = socket.receive() => received,
        };
        handled += 1;
        if handled % NOTIFY_BATCH == 0 {
            // A service that talks without a pause waits for its next turn.
            tokio::time::sleep(LOOK_PERIOD).await;
        }
        match received {
            Ok((Ok(note), Some(pid))) if pid == running.pid || running.family.has(pid) => {
                let event = RunnerEvent::Notify {
                    group: group.clone(),
                    ready: note.ready,
                    stopping: note.stopping,
                    status: note.status,
                };
                if inner.events.send(event).await.is_err() {
                    return;
                }
            }
            Ok((Ok(_), pid)) => tracing::debug!(%group, ?pid, "a stranger's notify message"),
            Ok((Err(error), pid)) => {
                tracing::debug!(%group, ?pid, %error, "notify message dropped")
            }
            Err(error) => {
                tracing::warn!(%group, %error, "cannot read a notify socket any more");
                return;
            }
        }
    }
}

/// The status of a process that is dead; it is forgotten by the kernel with this.
pub(crate) fn reap(handle: &OwnedFd) -> Exit {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::PidFd(handle.as_fd()), options) {
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Unknown,
        },
        // Not our child: an adopted process.
        Ok(None) | Err(_) => Exit::Unknown,
    }
}

/// Reaps orphans for as long as the runner lives.
pub(super) fn start_reaper(mut life: Life) {
    tokio::spawn(async move {
        tokio::select! {
            () = life.over() => {}
            end = crate::reaper::run() => if let Err(error) = end {
                tracing::error!(%error, "dead orphans are not reaped any more");
            },
        }
    });
}

/// Relays output for as long as the runner lives.
pub(super) fn start_relay(inner: Arc<Inner>, mut life: Life) {
    tokio::spawn(async move {
        let writes = Writes::watch(&inner);
        loop {
            let worker = Arc::clone(&inner);
            let look = move || worker.output.look(&mut |group, line| relay(&worker, group, line));
            let busy = tokio::task::spawn_blocking(look).await.unwrap_or(false);
            let pause = async {
                tokio::time::sleep(LOOK_PERIOD).await;
                match &writes {
                    _ if busy => {}
                    Some(writes) => tokio::select! {
                        () = writes.wait() => {}
                        () = inner.output.more() => {}
                    },
                    None => tokio::time::sleep(LOOK_PERIOD_BLIND).await,
                }
            };
            tokio::select! {
                () = life.over() => return,
                () = pause => {}
            }
        }
    });
}

/// `false` when the receiver has no room: the line stays in the file and comes later.
fn relay(inner: &Inner, group: &GroupName, line: String) -> bool {
    let event = RunnerEvent::Output { group: group.clone(), line };
    match inner.events.try_send(event) {
        // With nobody there to listen the line is as good as said.
        Ok(()) | Err(tokio::sync::mpsc::error::TrySendError::Closed(_)) => true,
        Err(tokio::sync::mpsc::error::TrySendError::Full(_)) => false,
    }
}

/// Tells when anything in the log folder was written, so that silence costs nothing.
struct Writes(AsyncFd<OwnedFd>);

impl Writes {
    fn watch(inner: &Inner) -> Option<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        let watched = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .and_then(|fd| add_watch(&fd, inner.output.dir(), WatchFlags::MODIFY).map(|_| fd))
            .map_err(io::Error::from)
            .and_then(pollable::readable);
        match watched {
            Ok(fd) => Some(Self(fd)),
            Err(error) => {
                tracing::debug!(%error, "the log folder cannot be watched: it is looked at");
                None
            }
        }
    }

    async fn wait(&self) {
        let Ok(mut guard) = self.0.readable().await else {
            return tokio::time::sleep(LOOK_PERIOD_BLIND).await;
        };
        // What was written is seen by looking; the events are only taken out of the queue, and
        // the kernel merges those that are alike.
        let mut space = [MaybeUninit::uninit(); 4_096];
        for _ in 0..READS_MAX {
            if rustix::io::read(self.0.get_ref(), &mut space).is_err() {
                guard.clear_ready();
                return;
            }
        }
    }
}

/// Reads of the event queue in one go; what is left wakes us again at once.
const READS_MAX: usize = 16;
