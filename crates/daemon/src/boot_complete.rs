//! Whether the boot of this machine is complete: where the unit says so, somebody else makes a file
//! once it is.
//!
//! Invariant: without [`VARIABLE`] nothing is waited for, as outside a service manager nobody would
//! make the file.

use std::path::PathBuf;
use std::time::Duration;

use baton_node::Event;
use tokio::sync::mpsc;

/// The file to wait for; `None`: the boot is complete, or it is nobody's business.
pub(crate) fn awaited() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(VARIABLE)?);
    (!path.exists()).then_some(path)
}

/// Tells the node once the file is there.
pub(crate) async fn wait(path: PathBuf, done: mpsc::UnboundedSender<Event>) {
    while !matches!(tokio::fs::try_exists(&path).await, Ok(true)) {
        tokio::time::sleep(INTERVAL).await;
    }
    // Nobody waits once the daemon stops.
    done.send(Event::BootComplete).ok();
}

/// Names the file; set by the unit.
const VARIABLE: &str = "BATON_BOOT_COMPLETE";

/// A turn may wait for it this much longer than it must.
const INTERVAL: Duration = Duration::from_secs(1);
