//! What is written down about a launch, so that the next daemon can take the process over.

use std::path::PathBuf;

use baton_types::{GroupName, WallTime};
use serde::{Deserialize, Serialize};

/// One launch. It is on disk before the program begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Whose process.
    pub group: GroupName,
    /// The release, as the caller names it.
    pub release: String,
    /// The command.
    pub argv: Vec<String>,
    /// The boot during which it was started; a pid means nothing in another one.
    pub boot_id: String,
    /// The marker that the process carries in its environment.
    pub instance: String,
    /// When it was started, for people.
    pub launched_at: WallTime,
    /// Its cgroup.
    pub cgroup: Option<PathBuf>,
    /// The user id that owns its notify socket, if it has one.
    pub notify: Option<NotifyOwner>,
    /// Its pid and start time in ticks since boot.
    pub process: ProcessId,
}

/// A process, told apart from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its pid.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time: u64,
}

/// Who may write to a notify socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyOwner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The format of run records.
pub const RECORD_FORMAT: u16 = 1;

/// The end of a run record's file name.
pub const RECORD_SUFFIX: &str = ".run";
