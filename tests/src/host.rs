//! One host: a directory, a configuration, a daemon, in a network namespace or on loopback.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use toml::{Table, Value};

use crate::cli::{Cli, baton_binary};
use crate::leftovers;
use crate::namespace::run_inside;
use crate::wait;

/// One host with at most one daemon.
pub struct Host {
    name: String,
    ring: SocketAddr,
    home: PathBuf,
    namespace: Option<String>,
    daemon: Option<Child>,
}

/// What differs from test to test in a host's `baton.toml`.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Ring addresses to join.
    pub join: Vec<SocketAddr>,
    /// local, lan or wan.
    pub profile: &'static str,
    /// The ring key; without one the ring must be on loopback.
    pub key_file: Option<PathBuf>,
    /// Where the status page with its metrics is, if anywhere.
    pub http: Option<SocketAddr>,
    /// Its services, each as a service file says it.
    pub services: Vec<Table>,
}

impl Default for HostSettings {
    /// Alone on loopback, without a service.
    fn default() -> Self {
        Self { join: vec![], profile: "local", key_file: None, http: None, services: vec![] }
    }
}

impl Host {
    pub(crate) fn new(
        name: &str,
        ring: SocketAddr,
        home: PathBuf,
        namespace: Option<String>,
    ) -> Self {
        fs::create_dir_all(&home).unwrap_or_else(|fault| panic!("{}: {fault}", home.display()));
        Self { name: name.to_owned(), ring, home, namespace, daemon: None }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its daemon is reached by others.
    pub fn ring(&self) -> SocketAddr {
        self.ring
    }

    /// The directory that holds everything of this host.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The command line, typed at this host.
    pub fn cli(&self) -> Cli {
        Cli::new(self.home.join("control.sock"))
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.home.join("baton.toml")
    }

    /// Writes its configuration; a running daemon is not told.
    pub fn configure(&self, settings: &HostSettings) {
        let text = |value: &str| Value::String(value.to_owned());
        let path = |name: &str| text(&self.home.join(name).display().to_string());
        let addr = |addr: &SocketAddr| text(&addr.to_string());
        let mut ring = Table::from_iter([
            ("bind".to_owned(), addr(&self.ring)),
            ("advertise".to_owned(), addr(&self.ring)),
            ("join".to_owned(), Value::Array(settings.join.iter().map(addr).collect())),
            ("profile".to_owned(), text(settings.profile)),
        ]);
        if let Some(key) = &settings.key_file {
            ring.insert("key_file".to_owned(), text(&key.display().to_string()));
        }
        let node = Table::from_iter([
            ("name".to_owned(), text(&self.name)),
            ("data_dir".to_owned(), path("data")),
        ]);
        let mut control = Table::from_iter([("socket".to_owned(), path("control.sock"))]);
        if let Some(http) = &settings.http {
            control.insert("http".to_owned(), addr(http));
        }
        let services = settings.services.iter().cloned().map(Value::Table).collect();
        let config = Table::from_iter([
            ("node".to_owned(), Value::Table(node)),
            ("ring".to_owned(), Value::Table(ring)),
            ("control".to_owned(), Value::Table(control)),
            ("service".to_owned(), Value::Array(services)),
        ]);
        let config = toml::to_string(&config).expect("a table is TOML");
        fs::write(self.config_file(), config).expect("writing baton.toml");
    }

    /// Starts the daemon and waits until it answers. Its output goes to `daemon.log`.
    pub fn start(&mut self) {
        assert!(self.daemon.is_none(), "{}: its daemon runs already", self.name);
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the log");
        if !self.boot_id_file().exists() {
            self.new_boot();
        }
        let mut command = Command::new(baton_binary());
        command
            .args(["run", "--config"])
            .arg(self.config_file())
            .env("BATON_BOOT_ID_FILE", self.boot_id_file())
            .env("BATON_REBOOT_COMMAND", format!("touch {}", self.reboot_file().display()))
            .env_remove("NOTIFY_SOCKET")
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of an open file"))
            .stderr(log);
        let child = run_inside(self.namespace.as_deref(), || command.spawn());
        self.daemon = Some(child.unwrap_or_else(|fault| panic!("{command:?}: {fault}")));
        let cli = self.cli();
        wait::until(&format!("an answer of {}", self.name), START, || {
            if let Ok(Some(status)) = self.child().try_wait() {
                panic!("{}: its daemon ended at once ({status}):\n{}", self.name, self.log_tail());
            }
            cli.json(&["ring", "members"]).map(drop)
        });
    }

    /// The process id of its daemon.
    pub fn pid(&self) -> i32 {
        self.daemon.as_ref().expect("the daemon runs").id() as i32
    }

    /// Whether its daemon was started and not stopped by the test.
    pub fn runs(&self) -> bool {
        self.daemon.is_some()
    }

    /// SIGKILL to the daemon, and to nothing else.
    pub fn kill(&mut self) {
        assert!(self.runs(), "{}: no daemon to kill", self.name);
        self.kill_if_running();
    }

    /// Whether something asked for a reboot of this machine: then [`Host::cut_power`] and
    /// [`Host::start`] play it.
    pub fn wants_reboot(&self) -> bool {
        self.reboot_file().exists()
    }

    /// Kills the daemon and all that it started; the next daemon finds another boot id.
    pub fn cut_power(&mut self) {
        self.kill();
        leftovers::kill_all(|| leftovers::processes_of(&self.home));
        fs::remove_file(self.reboot_file()).ok();
        self.new_boot();
    }

    /// SIGTERM to the daemon; fails the test if it does not end within 30 s.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let mut child = self.daemon.take().expect("the daemon runs");
        wait::until(&format!("the end of {}", self.name), START, || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// SIGSTOP: the daemon stands still, its sockets stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT after [`Host::freeze`].
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Everything that its daemons printed.
    pub fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines that the daemon printed.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Sends `signal` to the daemon, if there is one.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.daemon {
            leftovers::signal(child.id() as i32, signal);
        }
    }

    pub(crate) fn kill_if_running(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            // An error means that it has ended already.
            child.kill().ok();
            child.wait().ok();
        }
    }

    fn child(&mut self) -> &mut Child {
        self.daemon.as_mut().expect("the daemon runs")
    }

    fn new_boot(&self) {
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a random UUID");
        fs::write(self.boot_id_file(), id).expect("writing the boot id");
    }

    fn boot_id_file(&self) -> PathBuf {
        self.home.join("boot_id")
    }

    fn reboot_file(&self) -> PathBuf {
        self.home.join("reboot-wanted")
    }

    fn log_file(&self) -> PathBuf {
        self.home.join("daemon.log")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill_if_running();
        if std::thread::panicking() && self.log_file().exists() {
            println!("--- the last lines of {}:\n{}", self.name, self.log_tail());
        }
    }
}

/// A debug build on a busy machine.
const START: Duration = Duration::from_secs(30);
/// Enough to see a whole turn, little enough to read six of them.
const LOG_LINES: usize = 60;
