//! Starting one program, and saying exactly why it could not be started.
//!
//! Invariants: the program inherits nothing from the daemon but what the plan names: its own
//! session, an environment of its own, /dev/null as input, no other descriptors, no ignored
//! signals, umask 022. Until it is let go it is nothing but a held process that dies with the
//! daemon; from then on it does not die with it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid};

use crate::cgroup::Cgroup;
use crate::durable::DurableError;
use crate::procfs::Stat;
use crate::reaper::{Tracked, track};
use crate::user::{User, UserError};

/// Why a program could not be started. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The group has a process already.
    #[error("{0} runs already")]
    Running(String),
    /// No words in the command.
    #[error("the command is empty: a program is required")]
    Empty,
    /// No such file.
    #[error("there is no program {}", .0.display())]
    Missing(PathBuf),
    /// A name without a slash that is nowhere in PATH.
    #[error("there is no program {program:?} in PATH ({path})")]
    NotInPath {
        /// The program.
        program: String,
        /// The search path.
        path: String,
    },
    /// Not a file that may be executed.
    #[error("{} is not executable{detail}", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// What it is, or for whom.
        detail: String,
    },
    /// The script's first line names something that is not there.
    #[error("the interpreter or loader of {} is missing", .0.display())]
    Interpreter(PathBuf),
    /// A file that is neither a binary for this machine nor a script.
    #[error("{} is no program for this machine (a script needs a first line like #!/bin/sh)", .0.display())]
    Format(PathBuf),
    /// No such folder.
    #[error("the working directory {} cannot be used: {source}", path.display())]
    WorkingDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No such user.
    #[error("cannot run {program:?} as another user: {source}")]
    User {
        /// The program.
        program: String,
        /// Why.
        source: UserError,
    },
    /// Only root may become somebody else.
    #[error("cannot run {program:?} as {user}: the daemon is not root")]
    NotRoot {
        /// The program.
        program: String,
        /// The user.
        user: String,
    },
    /// A name or value that no environment can hold.
    #[error("{0:?} cannot be set in an environment")]
    Environment(String),
    /// Its log file could not be opened.
    #[error("cannot open the log {}: {source}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its notify socket could not be made.
    #[error("cannot make the notify socket {}: {source}", path.display())]
    Notify {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What must be written down before a start could not be.
    #[error("cannot write down the start: {0}")]
    Record(#[from] DurableError),
    /// Everything else that fork, exec or the kernel may say.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The daemon is going down.
    #[error("cannot start {0}: the daemon ends")]
    Ending(String),
}

/// What to start.
pub(crate) struct Plan<'a> {
    pub(crate) argv: &'a [String],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) cwd: &'a Path,
    pub(crate) user: Option<&'a User>,
    pub(crate) output: OwnedFd,
    pub(crate) cgroup: Option<&'a Cgroup>,
}

/// A program that was started by us and must be waited for.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
    pub(crate) handle: OwnedFd,
    pub(crate) tracked: Tracked,
}

/// The user that `run_as` names, or `None` when nothing has to change.
pub(crate) fn user_for(argv: &[String], run_as: Option<&str>) -> Result<Option<User>, LaunchError> {
    let Some(name) = run_as else { return Ok(None) };
    let program = argv.first().cloned().unwrap_or_default();
    let user = crate::user::lookup(name)
        .map_err(|source| LaunchError::User { program: program.clone(), source })?;
    let own = rustix::process::geteuid();
    if own.is_root() {
        Ok(Some(user))
    } else if own.as_raw() == user.uid {
        Ok(None)
    } else {
        Err(LaunchError::NotRoot { program, user: user.name })
    }
}

/// A process that will be the program: it has everything that the program gets, and waits. Dropped
/// instead of let go, it ends without a trace; so it does if the daemon dies.
#[derive(Debug)]
pub(crate) struct Held {
    // Dropped in this order: it is tracked until it is waited for.
    hold: Hold,
    process: Spawned,
    program: PathBuf,
    user: Option<User>,
}

/// What keeps a process from going on.
#[derive(Debug)]
struct Hold {
    /// Takes the word to go on; closed without one, the process gives up.
    go: Option<File>,
    /// Waits in `Command::spawn` until the process is the program or has given up.
    spawning: Option<JoinHandle<io::Result<Child>>>,
}

/// Makes the process and holds it before the program begins, so that its pid can be written down
/// first. Blocks until the kernel made it.
pub(crate) fn hold(plan: Plan<'_>) -> Result<Held, LaunchError> {
    let Some(name) = plan.argv.first() else { return Err(LaunchError::Empty) };
    for (key, value) in plan.env {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(LaunchError::Environment(key.clone()));
        }
    }
    let is_dir = std::fs::metadata(plan.cwd).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    is_dir.map_err(|source| LaunchError::WorkingDirectory { path: plan.cwd.into(), source })?;
    let program = find_program(name, plan.env, plan.cwd)?;
    let start = |source| LaunchError::Start { program: program.display().to_string(), source };
    let errors = plan.output.try_clone().map_err(start)?;
    let mut command = Command::new(&program);
    command
        .current_dir(plan.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::from(plan.output))
        .stderr(Stdio::from(errors));
    let zero = || start(io::Error::new(io::ErrorKind::InvalidInput, "a word has a zero byte"));
    let image = Image::new(&program, plan.argv, plan.env).ok_or_else(zero)?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| start(errno.into()));
    let ((told, tell), (may_go, go)) = (pipe()?, pipe()?);
    let give_up = tell.try_clone().map_err(start)?;
    let gate = Gate { tell, may_go, daemon: rustix::process::getpid() };
    prepare_child(&mut command, plan.user, plan.cgroup, image, gate);
    let spawn = move || {
        let spawned = command.spawn();
        // Whoever waits for the pid hears of a failure before it; after the pid nobody reads on.
        rustix::io::write(&give_up, &NOBODY.to_ne_bytes()).ok();
        spawned
    };
    let (tracked, spawning) = track(|| {
        // The process dies with the thread that made it, so this one lives until it is let go.
        let spawning = std::thread::Builder::new().name("spawn".to_owned()).spawn(spawn);
        let spawning = spawning.map_err(start)?;
        match read_pid(File::from(told)) {
            Some(pid) => Ok((pid, spawning)),
            None => Err(match joined(spawning) {
                Err(error) => explain(error, &program, plan.user),
                Ok(_) => start(io::ErrorKind::UnexpectedEof.into()),
            }),
        }
    })?;
    let hold = Hold { go: Some(File::from(go)), spawning: Some(spawning) };
    let pid = tracked.pid();
    // Without a handle it could not be watched, so it must not run.
    let (handle, start_time) = identify(pid).map_err(start)?;
    let process = Spawned { pid, start_time, handle, tracked };
    Ok(Held { hold, process, program, user: plan.user.cloned() })
}

impl Held {
    /// Its pid and start time.
    pub(crate) fn id(&self) -> (u32, u64) {
        (self.process.pid, self.process.start_time)
    }

    /// Lets it be the program; blocks until the kernel took that or refused it.
    pub(crate) fn let_go(self) -> Result<Spawned, LaunchError> {
        let Self { mut hold, process, program, user } = self;
        if let Some(mut go) = hold.go.take() {
            // One that was killed meanwhile does not read it, and has a status like any program.
            go.write_all(&[GO]).ok();
        }
        let spawned = hold.spawning.take().map(joined);
        match spawned.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into())) {
            Ok(_) => Ok(process),
            Err(error) => Err(explain(error, &program, user.as_ref())),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.go.take());
        if let Some(spawning) = self.spawning.take()
            && let Ok(mut child) = joined(spawning)
        {
            // Somebody killed it before it could give up.
            child.kill().and_then(|()| child.wait()).ok();
        }
    }
}

fn joined(spawning: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    spawning.join().unwrap_or_else(|_| Err(io::Error::other("the thread that forks panicked")))
}

fn read_pid(mut told: File) -> Option<u32> {
    let mut pid = [0; size_of::<i32>()];
    told.read_exact(&mut pid).ok()?;
    u32::try_from(i32::from_ne_bytes(pid)).ok().filter(|pid| *pid != 0)
}

fn identify(pid: u32) -> io::Result<(OwnedFd, u64)> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.ok_or(io::ErrorKind::InvalidData)?;
    // The child was not waited for yet, so its pid cannot have been given away.
    let handle = rustix::process::pidfd_open(raw, PidfdFlags::NONBLOCK)?;
    let stat = Stat::read(pid).ok_or(io::ErrorKind::NotFound)?;
    Ok((handle, stat.start_time))
}

/// What the child becomes: everything that `execve` needs, made before the fork.
///
/// The standard library would go through `execvp`, which hands a file that the kernel does not
/// take as a program, such as one cut short, to the shell.
struct Image {
    program: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// What the pointers point into; strings on the heap stay where they are.
    _owned: Vec<CString>,
}

// SAFETY: the pointers point into `_owned`, which moves with them and is never changed.
#[allow(unsafe_code)]
unsafe impl Send for Image {}
// SAFETY: as above; a shared image is only read.
#[allow(unsafe_code)]
unsafe impl Sync for Image {}

impl Image {
    /// `None` for a word with a zero byte, which no program can be given.
    fn new(program: &Path, argv: &[String], env: &BTreeMap<String, String>) -> Option<Self> {
        let words = argv.iter().map(|word| CString::new(word.as_str()).ok());
        let path = ("PATH".to_owned(), DEFAULT_PATH.to_owned());
        let env = BTreeMap::from([path]).into_iter().chain(env.clone());
        // Of two with one key the later one holds, as in a map.
        let env: BTreeMap<String, String> = env.collect();
        let pairs = env.iter().map(|(key, value)| CString::new(format!("{key}={value}")).ok());
        let (words, pairs): (Option<Vec<_>>, Option<Vec<_>>) = (words.collect(), pairs.collect());
        let (words, pairs) = (words?, pairs?);
        let pointers = |strings: &[CString]| {
            let all = strings.iter().map(|string| string.as_ptr());
            all.chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let (argv, envp) = (pointers(&words), pointers(&pairs));
        let program = CString::new(program.as_os_str().as_bytes()).ok()?;
        Some(Self { program, argv, envp, _owned: words.into_iter().chain(pairs).collect() })
    }

    /// Becomes it, or says why not.
    #[allow(unsafe_code)]
    fn exec(&self) -> io::Error {
        // SAFETY: both lists end in a null and point to strings that `_owned` keeps.
        unsafe { libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// The child's side of a hold.
struct Gate {
    tell: OwnedFd,
    may_go: OwnedFd,
    daemon: Pid,
}

impl Gate {
    /// Between fork and exec, as the last thing before the program: tells the pid, and waits for the
    /// word to go on. Only system calls on values that were made before the fork.
    fn pass(&self) -> io::Result<()> {
        // The pipes do not tell that the daemon died: another held process may have copies of both
        // ends. After the change of user, which would take this back.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.daemon) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let pid = rustix::process::getpid().as_raw_pid();
        rustix::io::write(&self.tell, &pid.to_ne_bytes())?;
        let mut word = [0];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.may_go, &mut word))?;
        if length != 1 {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        rustix::process::set_parent_process_death_signal(None)?;
        Ok(())
    }
}

#[allow(unsafe_code)]
fn prepare_child(
    command: &mut Command,
    user: Option<&User>,
    cgroup: Option<&Cgroup>,
    image: Image,
    gate: Gate,
) {
    // Opened here, as root: the child writes to it when it may be somebody else already.
    let procs = cgroup.and_then(|cgroup| {
        File::options().write(true).open(cgroup.procs_path()).map(OwnedFd::from).ok()
    });
    let user = user.map(|user| {
        let groups: Vec<Gid> = user.groups.iter().map(|id| Gid::from_raw(*id)).collect();
        (Uid::from_raw(user.uid), Gid::from_raw(user.gid), groups)
    });
    let between_fork_and_exec = move || -> io::Result<()> {
        if let Some(procs) = &procs {
            // Without its cgroup the program is still found through /proc.
            rustix::io::write(procs.as_fd(), b"0").ok();
        }
        rustix::process::setsid()?;
        for number in 1..=libc::SIGRTMAX() {
            // SAFETY: signal(2) is async-signal-safe, and SIG_DFL installs no code of ours. For
            // numbers that cannot be changed it fails, which is as good as done.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        if let Some((uid, gid, groups)) = &user {
            // The raw per-thread calls are right here: after fork there is one thread.
            rustix::thread::set_thread_groups(groups)?;
            rustix::thread::set_thread_gid(*gid)?;
            rustix::thread::set_thread_uid(*uid)?;
        }
        // SAFETY: only marks descriptors as close-on-exec; every owner in this process image is
        // about to be replaced. Kernels before 5.11 refuse, and there all descriptors that Rust
        // opened are marked already.
        unsafe {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC);
        }
        gate.pass()?;
        Err(image.exec())
    };
    // SAFETY: between fork and exec the closure only makes system calls on values that were made
    // before the fork: it does not allocate, lock or touch memory that another thread changes.
    unsafe { command.pre_exec(between_fork_and_exec) };
}

fn find_program(
    name: &str,
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<PathBuf, LaunchError> {
    if name.is_empty() || name.contains('\0') {
        return Err(LaunchError::Empty);
    }
    if name.contains('/') {
        let path = cwd.join(name);
        return check_program(&path).map(|()| path);
    }
    let search = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let found = std::env::split_paths(OsStr::new(search))
        .map(|dir| cwd.join(dir).join(name))
        .find(|path| check_program(path).is_ok());
    found
        .ok_or_else(|| LaunchError::NotInPath { program: name.to_owned(), path: search.to_owned() })
}

fn check_program(path: &Path) -> Result<(), LaunchError> {
    use std::os::unix::fs::PermissionsExt;

    let refuse = |detail: &str| {
        Err(LaunchError::NotExecutable { program: path.to_owned(), detail: detail.to_owned() })
    };
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse(": it is a folder"),
        Ok(found) if !found.is_file() => refuse(": it is no regular file"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            refuse(&format!(" (mode {:o})", found.permissions().mode() & 0o7777))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            refuse(": a folder on the way cannot be entered")
        }
        Err(_) => Err(LaunchError::Missing(path.to_owned())),
    }
}

/// What the error number of fork or exec means for this program.
fn explain(source: io::Error, program: &Path, user: Option<&User>) -> LaunchError {
    let owned = program.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT) => LaunchError::Interpreter(owned),
        Some(libc::ENOEXEC) => LaunchError::Format(owned),
        Some(libc::EACCES) => {
            let detail = user.map_or(String::new(), |user| format!(" for {}", user.name));
            LaunchError::NotExecutable { program: owned, detail }
        }
        _ => LaunchError::Start { program: program.display().to_string(), source },
    }
}

/// Told instead of a pid when there is no process.
const NOBODY: i32 = 0;
/// The word to go on.
const GO: u8 = 1;

/// What a program finds when its environment names no PATH.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `CLOSE_RANGE_CLOEXEC` of linux/close_range.h; libc does not name it for every target.
const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
