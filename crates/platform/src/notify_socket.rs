//! The sd_notify protocol from the other side: a service tells how it is.
//!
//! Invariant: a message counts only if the kernel says that a process of the service sent it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use baton_types::Text;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::NOTIFY_MAX_BYTES;
use crate::pollable;
use crate::record::NotifyOwner;

/// What a service told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// READY=1.
    pub ready: bool,
    /// STOPPING=1.
    pub stopping: bool,
    /// STATUS=.
    pub status: Option<Text>,
}

/// Why a message was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Nothing in it.
    #[error("an empty message")]
    Empty,
    /// Longer than the limit.
    #[error("a message of more than {NOTIFY_MAX_BYTES} bytes")]
    TooLong,
    /// Not text.
    #[error("a message that is not UTF-8 or holds NUL")]
    NotText,
    /// Nothing in it that is known here.
    #[error("a message without READY, STOPPING or STATUS")]
    Nothing,
}

/// Reads one message: lines of `KEY=value`, sd_notify(3). Keys that are unknown here are skipped.
pub fn parse(message: &[u8]) -> Result<Note, NoteError> {
    if message.len() > NOTIFY_MAX_BYTES {
        return Err(NoteError::TooLong);
    }
    // Some clients send the terminating NUL of the C string.
    let message = message.strip_suffix(b"\0").unwrap_or(message);
    if message.is_empty() {
        return Err(NoteError::Empty);
    }
    let text = std::str::from_utf8(message).map_err(|_| NoteError::NotText)?;
    if text.contains('\0') {
        return Err(NoteError::NotText);
    }
    let mut note = Note::default();
    let mut known = false;
    for line in text.lines() {
        match line.split_once('=') {
            Some(("READY", "1")) => note.ready = true,
            Some(("STOPPING", "1")) => note.stopping = true,
            Some(("STATUS", status)) => note.status = Some(Text::new(status)),
            _ => continue,
        }
        known = true;
    }
    if known { Ok(note) } else { Err(NoteError::Nothing) }
}

/// A socket that one service may write to.
#[derive(Debug)]
pub struct NotifySocket {
    socket: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl NotifySocket {
    /// Makes the socket at `path`, writable for `owner` alone; one that is left there from before
    /// is replaced.
    pub fn bind(path: &Path, owner: NotifyOwner) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if own != (owner.uid, owner.gid) {
            std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid))?;
        }
        let socket = pollable::readable(socket.into())?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// The next message and the pid of its sender; a message without a sender is dropped by the
    /// caller.
    pub async fn receive(&self) -> io::Result<(Result<Note, NoteError>, Option<u32>)> {
        self.socket.async_io(Interest::READABLE, receive_now).await
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        // A socket file without a reader does no harm; the next bind replaces it.
        std::fs::remove_file(&self.path).ok();
    }
}

fn receive_now(socket: &OwnedFd) -> io::Result<(Result<Note, NoteError>, Option<u32>)> {
    let mut bytes = [0; NOTIFY_MAX_BYTES];
    // Descriptors may be sent along (FDSTORE=1): there is no room for them here, so the kernel
    // closes them.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    let note = if received.flags.contains(ReturnFlags::TRUNC) {
        Err(NoteError::TooLong)
    } else {
        parse(&bytes[..received.bytes])
    };
    Ok((note, sender.map(|pid| pid.as_raw_nonzero().get().unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_good_and_bad() {
        let note = |ready, stopping, status: Option<&str>| {
            Ok(Note { ready, stopping, status: status.map(Text::new) })
        };
        let check = |message: &[u8], want: Result<Note, NoteError>| {
            assert_eq!(parse(message), want, "{:?}", String::from_utf8_lossy(message));
        };
        check(b"READY=1", note(true, false, None));
        check(b"READY=1\nSTATUS=up \x1b[1m and well\n", note(true, false, Some("up [1m and well")));
        check(b"STOPPING=1\n\nX=y\0", note(false, true, None));
        check(b"STATUS=", note(false, false, Some("")));
        check(b"STATUS=a=b", note(false, false, Some("a=b")));
        check(b"", Err(NoteError::Empty));
        check(b"\0", Err(NoteError::Empty));
        check(b"READY=1\0READY=1", Err(NoteError::NotText));
        check(b"STATUS=\xff", Err(NoteError::NotText));
        check(b"READY=0", Err(NoteError::Nothing));
        check(b"ready=1", Err(NoteError::Nothing));
        check(b"WATCHDOG=1", Err(NoteError::Nothing));
        check(&[b'x'; NOTIFY_MAX_BYTES + 1], Err(NoteError::TooLong));
        check(&[b'x'; NOTIFY_MAX_BYTES], Err(NoteError::Nothing));
    }

    #[tokio::test]
    async fn the_kernel_names_the_sender() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("n.sock");
        let owner = NotifyOwner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let socket = NotifySocket::bind(&path, owner).expect("bound");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let client = UnixDatagram::unbound().expect("a socket");
        for message in [b"READY=1".as_slice(), &[b'x'; 2 * NOTIFY_MAX_BYTES], b""] {
            client.send_to(message, &path).expect("sent");
        }
        let me = Some(std::process::id());
        let ready = Note { ready: true, ..Note::default() };
        assert_eq!(socket.receive().await.expect("received"), (Ok(ready), me));
        assert_eq!(socket.receive().await.expect("received"), (Err(NoteError::TooLong), me));
        assert_eq!(socket.receive().await.expect("received"), (Err(NoteError::Empty), me));
        drop(socket);
        assert!(!path.exists());
    }
}
