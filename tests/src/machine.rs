//! A machine of its own: a systemd of a Debian root, booted by `systemd-nspawn` with its own first
//! process, journal and host name, and a network of its own: nothing but loopback, or the namespace that
//! it is put into.
//!
//! Invariant: a machine is gone when its owner is dropped, after a panic too. It ends by its own
//! first process, whose end is the end of everything in it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::cli::Answer;
use crate::machine_root::Base;
use crate::{leftovers, machine_root, wait};

/// A machine with its root. It is off until it is booted, and keeps its disk over boots.
pub struct Machine {
    name: String,
    root: PathBuf,
    /// Where it is, and what it sees of others' folders: arguments of nspawn.
    place: Vec<String>,
    running: Option<Running>,
}

/// A machine that is on.
struct Running {
    nspawn: Child,
    /// Its first process, by the number that it has outside.
    first: i32,
}

impl Machine {
    /// A new machine with a root of its own, alone on its network.
    pub fn new() -> Self {
        Self::made(&machine_root::PLAIN, vec!["--private-network".to_owned()])
    }

    /// One in this network namespace, with the folder `shared` of this machine at `/srv/depot`.
    pub fn within(base: &Base, namespace: &str, shared: &Path) -> Self {
        let place = vec![
            format!("--network-namespace-path=/run/netns/{namespace}"),
            format!("--bind-ro={}:/srv/depot", shared.display()),
        ];
        Self::made(base, place)
    }

    fn made(base: &Base, place: Vec<String>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("baton-{}-{number}", std::process::id());
        let root = machine_root::copy_for(&name, base);
        Self { name, root, place, running: None }
    }

    /// Its disk, as seen from outside.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Switches it on and waits until its boot has come to an end, well or not.
    pub fn boot(&mut self) {
        assert!(self.running.is_none(), "{} is on", self.name);
        let console = File::create(self.root.with_extension("console")).expect("a console");
        // Should this process be killed, the machine must not outlive it: SIGTERM makes nspawn shut it
        // down, while a nspawn that is killed leaves it behind.
        let mut nspawn = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "systemd-nspawn", "--boot", "--quiet"])
            .args(["--register=no", "--keep-unit", "--link-journal=no"])
            .args(&self.place)
            .args(["--machine", &self.name, "--directory"])
            .arg(&self.root)
            .stdin(Stdio::null())
            .stdout(console.try_clone().expect("a second handle of an open file"))
            .stderr(console)
            .spawn()
            .expect("systemd-nspawn");
        let first = wait::until("the first process", LIMIT, || {
            if let Some(status) = nspawn.try_wait().expect("waiting for an own child") {
                panic!("systemd-nspawn ended, {status}: {}", self.console());
            }
            first_process(nspawn.id()).ok_or("none yet")
        });
        self.running = Some(Running { nspawn, first });
        wait::until("the end of the boot", LIMIT, || {
            let answer = self.run(&["systemctl", "is-system-running"]);
            match answer.stdout.trim() {
                "running" | "degraded" => Ok(()),
                _ => Err(format!("{answer} {}", self.console())),
            }
        });
    }

    /// Shuts it down in good order.
    ///
    /// Panics if it is off.
    pub fn shut_down(&mut self) {
        self.ok(&["systemctl", "poweroff"]);
        let Some(mut running) = self.running.take() else { return };
        wait::until("the shutdown", LIMIT, || match running.nspawn.try_wait() {
            Ok(Some(_)) => Ok(()),
            _ => Err(self.console()),
        });
    }

    /// Takes the power away.
    pub fn cut_power(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // All others of its process namespace end with the first one.
        leftovers::signal(running.first, Signal::KILL);
        running.nspawn.wait().expect("the end of an own child");
    }

    /// Boots it again if it has asked for that, as a machine with power does; whether it had.
    pub fn follow_reboot(&mut self) -> bool {
        let Some(running) = self.running.as_mut() else { return false };
        let Some(status) = running.nspawn.try_wait().expect("waiting for an own child") else {
            return false;
        };
        let console = self.console();
        self.running = None;
        assert_eq!(status.code(), Some(WANTS_REBOOT), "{} is off: {console}", self.name);
        self.boot();
        true
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Types a command in it as root.
    pub fn run(&self, words: &[&str]) -> Answer {
        let running = self.running.as_ref().expect("a machine that is on");
        let target = running.first.to_string();
        let output = Command::new("nsenter")
            .args(["--target", &target, "--mount", "--uts", "--ipc", "--net", "--pid", "--"])
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .env("SYSTEMD_PAGER", "")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .output()
            .expect("nsenter");
        Answer {
            line: format!("{}: {}", self.name, words.join(" ")),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Types a command and insists on exit code 0.
    pub fn ok(&self, words: &[&str]) -> String {
        self.run(words).expect_code(0).stdout
    }

    /// Types a line of the shell and insists on exit code 0.
    pub fn sh(&self, line: &str) -> String {
        self.ok(&["sh", "-euc", line])
    }

    /// The last lines of its console.
    fn console(&self) -> String {
        let text = fs::read_to_string(self.root.with_extension("console")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() && self.running.is_some() {
            let journal = self.run(&["journalctl", "--no-pager", "-b", "-n", "60"]);
            println!("{}: its journal:\n{}", self.name, journal.stdout);
        }
        if let Some(mut running) = self.running.take() {
            leftovers::signal(running.first, Signal::KILL);
            // An error means that it has ended already.
            running.nspawn.kill().ok();
            running.nspawn.wait().ok();
        }
        machine_root::remove(&self.root);
    }
}

/// Whether machines can be booted here; see [`crate::requirements`].
pub fn can_boot(test: &str) -> bool {
    let programs = ["debootstrap", "systemd-nspawn", "nsenter", "setpriv"];
    crate::requirements::is_root(test) && crate::requirements::programs_exist(test, &programs)
}

/// The child of `nspawn` that has become the machine's systemd.
fn first_process(nspawn: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children")).ok()?;
    let first = children.split_whitespace().next()?.parse().ok()?;
    let comm = fs::read_to_string(format!("/proc/{first}/comm")).ok()?;
    (comm.trim() == "systemd").then_some(first)
}

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A boot takes some seconds, on a busy machine some more.
const LIMIT: Duration = Duration::from_secs(120);

/// How nspawn ends when a reboot is asked for from inside.
const WANTS_REBOOT: i32 = 133;

const CONSOLE_LINES: usize = 20;
