//! The command line of the real binary, typed at one node.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The `baton` command, typed at the node behind a control socket.
#[derive(Clone, Debug)]
pub struct Cli {
    socket: PathBuf,
}

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// The command, for messages.
    pub line: String,
    /// Its exit code; 128 + the signal if one ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A command that is still running.
pub struct Typed {
    line: String,
    child: Child,
    stdout: File,
    stderr: File,
}

impl Cli {
    /// For the daemon with this control socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Types a command that answers at once.
    pub fn run(&self, words: &[&str]) -> Answer {
        self.run_for(SHORT, words)
    }

    /// Types a command that may take up to `limit`.
    pub fn run_for(&self, limit: Duration, words: &[&str]) -> Answer {
        self.start(words).finish(limit)
    }

    /// Types a command and insists on exit code 0.
    pub fn ok(&self, words: &[&str]) -> String {
        self.run(words).expect_code(0).stdout
    }

    /// Types a reading command with `--json`; `Err` has the answer if it is no JSON or no success.
    pub fn json(&self, words: &[&str]) -> Result<Value, String> {
        let mut words = words.to_vec();
        words.push("--json");
        let answer = self.run(&words);
        if answer.code != 0 {
            return Err(answer.to_string());
        }
        serde_json::from_str(&answer.stdout).map_err(|fault| format!("{fault} in {answer}"))
    }

    /// Types a command and lets it run.
    pub fn start(&self, words: &[&str]) -> Typed {
        let mut command = Command::new(baton_binary());
        command.args(words).env("BATON_SOCKET", &self.socket);
        Typed::start(command, words)
    }
}

impl Typed {
    fn start(mut command: Command, words: &[&str]) -> Self {
        // Files, not pipes: nobody has to read while it runs, however much it prints.
        let (stdout, stderr) = (scratch(), scratch());
        let line = format!("baton {}", words.join(" "));
        let child = command
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().expect("a second handle of an open file"))
            .stderr(stderr.try_clone().expect("a second handle of an open file"))
            .spawn()
            .unwrap_or_else(|fault| panic!("{line}: cannot be started: {fault}"));
        Self { line, child, stdout, stderr }
    }

    /// Waits for its end. After `limit` it is killed and the test fails with what it printed.
    pub fn finish(mut self, limit: Duration) -> Answer {
        let end = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait().expect("waiting for an own child") {
                Some(status) => break Some(status),
                None if Instant::now() >= end => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let answer = Answer {
            code: status.map_or(-1, exit_code),
            stdout: read_back(&mut self.stdout),
            stderr: read_back(&mut self.stderr),
            line: self.line.clone(),
        };
        assert!(status.is_some(), "not ended within {limit:?}: {answer}");
        answer
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        // An error means that it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Answer {
    /// Insists on this exit code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// Insists on this exit code, and that standard output or error says each of `parts`.
    #[track_caller]
    pub fn expect(self, code: i32, parts: &[&str]) -> Self {
        let said = self.expect_code(code);
        for part in parts {
            let found = said.stdout.contains(part) || said.stderr.contains(part);
            assert!(found, "{part:?} is not said: {said}");
        }
        said
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, code, stdout, stderr } = self;
        write!(f, "`{line}` answered {code}\n--- stdout\n{stdout}--- stderr\n{stderr}---")
    }
}

/// Types a command that needs no daemon (`depot`, `check`, `ring keygen`), and insists on success.
pub fn baton(words: &[&str]) -> Answer {
    alone(words).expect_code(0)
}

/// Types a command that needs no daemon; or `run`, where it is to end by itself.
pub fn alone(words: &[&str]) -> Answer {
    let mut command = Command::new(baton_binary());
    command.args(words).env_remove("BATON_SOCKET").env_remove("NOTIFY_SOCKET");
    Typed::start(command, words).finish(SHORT)
}

/// The binary under test: `BATON_BIN`, or the one built beside this test.
pub fn baton_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("BATON_BIN").map(PathBuf::from) {
        assert!(path.is_file(), "BATON_BIN={} is no file", path.display());
        return path;
    }
    // The one beside this program, else that of the other profile.
    let (profile, target) = (profile_dir(), target_dir());
    let places = [profile.join("baton"), target.join("debug/baton"), target.join("release/baton")];
    places.iter().find(|path| path.is_file()).cloned().unwrap_or_else(|| {
        panic!("no baton binary: build it (cargo build) or set BATON_BIN; looked at {places:?}")
    })
}

/// The folder of the profile that this program was built with.
fn profile_dir() -> PathBuf {
    // target/debug/deps/this-test, or target/debug/this-tool
    let this = std::env::current_exe().expect("the path of this program");
    let folder = this.parent().expect("a folder of programs");
    let is_test = folder.file_name().is_some_and(|name| name == "deps");
    if is_test { folder.parent().expect("a profile") } else { folder }.to_owned()
}

/// The target directory of this build.
pub fn target_dir() -> PathBuf {
    profile_dir().parent().expect("a target directory").to_owned()
}

fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

fn scratch() -> File {
    tempfile::tempfile().expect("a temporary file")
}

fn read_back(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("rewinding a temporary file");
    file.read_to_end(&mut bytes).expect("reading a temporary file");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// For commands that answer at once, on a machine that is busy.
const SHORT: Duration = Duration::from_secs(30);
