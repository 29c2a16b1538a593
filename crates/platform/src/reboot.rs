//! Rebooting this machine.

use std::io;
use std::path::Path;
use std::process::Stdio;

/// Why the machine does not reboot.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// The command could not be started.
    #[error("cannot run {program:?} to reboot this machine")]
    Start {
        /// Which program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The command said no.
    #[error("{program:?} did not reboot this machine: {status}")]
    Failed {
        /// Which program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The system call failed.
    #[error("cannot reboot this machine")]
    Kernel(#[source] io::Error),
    /// The command of the settings is empty.
    #[error("the reboot command is empty: a program is required")]
    Empty,
}

/// Reboots this machine: by `command` if one is given, else by `systemctl reboot` where systemd
/// runs, else by the system call after a sync. Returns when the reboot is under way.
pub async fn reboot(command: Option<&[String]>) -> Result<(), RebootError> {
    match command {
        Some([program, arguments @ ..]) => run(program, arguments).await,
        Some([]) => Err(RebootError::Empty),
        None if Path::new(SYSTEMD).is_dir() => run("systemctl", &["reboot".to_owned()]).await,
        None => by_kernel().await,
    }
}

async fn run(program: &str, arguments: &[String]) -> Result<(), RebootError> {
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .map_err(|source| RebootError::Start { program: program.to_owned(), source })?;
    if status.success() {
        Ok(())
    } else {
        Err(RebootError::Failed { program: program.to_owned(), status })
    }
}

async fn by_kernel() -> Result<(), RebootError> {
    let reboot = || {
        rustix::fs::sync();
        rustix::system::reboot(rustix::system::RebootCommand::Restart).map_err(io::Error::from)
    };
    tokio::task::spawn_blocking(reboot)
        .await
        .map_err(io::Error::other)
        .and_then(|done| done)
        .map_err(RebootError::Kernel)
}

/// Exists while systemd is the init of this machine; sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_takes_the_place_of_the_reboot() {
        let words = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        let dir = tempfile::tempdir().expect("a folder");
        let mark = dir.path().join("rebooted");
        let touch = words(&["touch", &mark.display().to_string()]);
        reboot(Some(&touch)).await.expect("done");
        assert!(mark.exists());
        let message = |e: RebootError| e.to_string();
        assert!(
            message(reboot(Some(&words(&["false"]))).await.expect_err("said no"))
                .contains("\"false\" did not reboot")
        );
        assert!(
            message(reboot(Some(&words(&["/no/such"]))).await.expect_err("missing"))
                .contains("/no/such")
        );
        assert!(matches!(reboot(Some(&[])).await, Err(RebootError::Empty)));
    }
}
