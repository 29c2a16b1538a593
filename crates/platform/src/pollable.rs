//! Descriptors that tokio waits for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for `fd` to become readable. To be called inside a tokio runtime.
#[allow(unsafe_code)]
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open and stay the same for as long as it is registered.
    // An `OwnedFd` owns its descriptor and never changes it, and it is moved into the `AsyncFd`,
    // which ends the registration before it drops (and so closes) it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
