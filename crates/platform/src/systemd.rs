//! What the daemon tells the service manager that started it.
//!
//! Outside systemd (no `NOTIFY_SOCKET`) everything here does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The line to the service manager.
#[derive(Clone, Copy, Debug)]
pub struct Notifier {
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_env() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled().filter(|span| !span.is_zero()) }
    }

    /// How often [`Notifier::watchdog`] is due: half of what the manager tolerates, as
    /// sd_watchdog_enabled(3) advises. `None`: no watchdog.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|span| span / 2)
    }

    /// The ring is joined or found alone.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// One line of what the node does.
    pub fn status(&self, text: &str) {
        let line = baton_types::Text::new(text);
        tell(&[NotifyState::Status(line.as_str())]);
    }

    /// The main loop lives.
    pub fn watchdog(&self) {
        if self.watchdog.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// The configuration is being read again; `ready` ends it.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "cannot tell systemd of a reload"),
        }
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// Whether standard error is the journal: `JOURNAL_STREAM` holds its device and inode,
/// systemd.exec(5). A redirected stderr keeps the variable but not the numbers.
pub fn journal_stream() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = rustix::fs::fstat(std::io::stderr()) else { return false };
    is_stream(&stream, stderr.st_dev, stderr.st_ino)
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    let Some((left, right)) = stream.split_once(':') else { return false };
    left.parse() == Ok(device) && right.parse() == Ok(inode)
}

fn tell(states: &[NotifyState<'_>]) {
    // A service manager that does not listen is its own fault; the daemon goes on.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager did not take a notification");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_stream_wants_both_numbers() {
        assert!(is_stream("8:1234", 8, 1234));
        for no in ["", "8", "8:", ":1234", "8:1235", "9:1234", "8:1234:1", "-8:1234"] {
            assert!(!is_stream(no, 8, 1234), "{no}");
        }
    }
}
