//! How a command ends: the exit codes, which scripts rely on, and what is said on stderr.
//!
//! Invariant: every failure says in its first line what was found, and a failure whose outcome is
//! unknown never looks like one that changed nothing.

use std::os::unix::fs::FileTypeExt;

use baton_daemon::api::ErrorKind;
use baton_daemon::client::ClientError;
use baton_depot::DepotError;

/// Done.
pub(crate) const DONE: u8 = 0;
/// The thing asked for failed.
pub(crate) const FAILED: u8 = 1;
/// The command line itself is wrong.
pub(crate) const USAGE: u8 = 2;
/// No daemon answers.
pub(crate) const NO_DAEMON: u8 = 3;
/// No quorum: nobody can decide now.
pub(crate) const NO_QUORUM: u8 = 4;
/// No answer in time; it may have been accepted.
pub(crate) const TIMED_OUT: u8 = 5;
/// The rollout was rolled back.
pub(crate) const ROLLED_BACK: u8 = 10;
/// The rollout, or its rollback, is paused.
pub(crate) const PAUSED: u8 = 11;
/// The rollout was cancelled.
pub(crate) const CANCELLED: u8 = 12;
/// Another rollout took its place.
pub(crate) const SUPERSEDED: u8 = 13;
/// Completed with members that were skipped, absent or tolerated as failed.
pub(crate) const WITH_EXCEPTIONS: u8 = 14;
/// Ctrl-C while watching: 128 + SIGINT, as shells have it.
pub(crate) const DETACHED: u8 = 130;
/// The reader of our output is gone: 128 + SIGPIPE, as shells have it.
pub(crate) const PIPE_GONE: u8 = 141;

/// Why a command did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// What is said on stderr, each cause or hint on a line of its own; empty: nothing.
    pub(crate) text: String,
}

impl Failure {
    /// The thing asked for failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { code: FAILED, text: text.into() }
    }

    /// With this code.
    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The reader of our output has gone away; there is nobody to tell.
    pub(crate) fn pipe_gone() -> Self {
        Self { code: PIPE_GONE, text: String::new() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::NoDaemon { socket, cause } => {
                let shown = socket.display();
                if cause.kind() == std::io::ErrorKind::PermissionDenied {
                    let text = format!(
                        "permission denied on the control socket {shown}\nonly root and members \
                         of its group (`baton`) may use it"
                    );
                    return Self::with_code(NO_DAEMON, text);
                }
                if std::fs::metadata(socket).is_ok_and(|found| !found.file_type().is_socket()) {
                    let text = format!(
                        "no daemon answers on {shown}: it is no socket\n--socket PATH or \
                         BATON_SOCKET name the daemon's control socket"
                    );
                    return Self::with_code(NO_DAEMON, text);
                }
                let text = format!(
                    "{error}\nis the daemon running (`systemctl status baton`)? --socket PATH or \
                     BATON_SOCKET choose another socket than {shown}"
                );
                Self::with_code(NO_DAEMON, text)
            }
            ClientError::Broken { .. } => Self::with_code(NO_DAEMON, error.to_string()),
            ClientError::Refused(text, kind) => Self::with_code(code_of(*kind), text.clone()),
        }
    }
}

impl From<DepotError> for Failure {
    fn from(error: DepotError) -> Self {
        Self::failed(error.to_string())
    }
}

/// The exit code for a refusal of the daemon.
pub(crate) const fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NoQuorum => NO_QUORUM,
        ErrorKind::TimedOut => TIMED_OUT,
        ErrorKind::BadRequest | ErrorKind::Unknown | ErrorKind::State | ErrorKind::Failed => FAILED,
    }
}

/// What `--watch` and `--wait` answer for the state in which a rollout ended; `None` while it is
/// under way.
pub(crate) fn code_of_state(state: &str) -> Option<u8> {
    match state {
        "completed" => Some(DONE),
        "rolled_back" => Some(ROLLED_BACK),
        "paused" | "rollback_paused" => Some(PAUSED),
        "cancelled" => Some(CANCELLED),
        "superseded" => Some(SUPERSEDED),
        "completed_with_exceptions" => Some(WITH_EXCEPTIONS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn every_state_has_its_code() {
        for (state, code) in [
            ("preparing", None),
            ("running", None),
            ("rolling_back", None),
            ("completed", Some(0)),
            ("rolled_back", Some(10)),
            ("paused", Some(11)),
            ("rollback_paused", Some(11)),
            ("cancelled", Some(12)),
            ("superseded", Some(13)),
            ("completed_with_exceptions", Some(14)),
        ] {
            assert_eq!(code_of_state(state), code, "{state}");
        }
    }

    #[test]
    fn every_refusal_has_its_code() {
        for (kind, code) in [
            (ErrorKind::BadRequest, 1),
            (ErrorKind::Unknown, 1),
            (ErrorKind::State, 1),
            (ErrorKind::Failed, 1),
            (ErrorKind::NoQuorum, 4),
            (ErrorKind::TimedOut, 5),
        ] {
            let failure = Failure::from(ClientError::Refused("why".to_owned(), kind));
            assert_eq!(failure, Failure::with_code(code, "why"), "{kind:?}");
        }
    }

    #[test]
    fn no_daemon_says_which_socket_and_what_to_try() {
        let failure = |kind: io::ErrorKind| {
            let (socket, cause) = ("/run/x.sock".into(), io::Error::from(kind));
            Failure::from(ClientError::NoDaemon { socket, cause })
        };
        let absent = failure(io::ErrorKind::NotFound);
        assert_eq!(absent.code, 3);
        assert!(absent.text.starts_with("no daemon answers on /run/x.sock: "), "{}", absent.text);
        assert!(absent.text.contains("BATON_SOCKET"), "{}", absent.text);
        let denied = failure(io::ErrorKind::PermissionDenied);
        assert_eq!(denied.code, 3);
        assert!(denied.text.starts_with("permission denied on"), "{}", denied.text);
    }
}
