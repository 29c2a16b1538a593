//! What a demo stands on: a directory of its own, free ports, configurations, releases.
//!
//! Invariant: everything lies below one new directory that only its owner can read, and every
//! address is one of loopback.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::rngs::SysRng;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::ask::random_bits;
use crate::exit::Failure;

/// The directory and what each node is called and listens on.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// Everything is below it.
    pub(crate) dir: PathBuf,
    /// This program, which is daemon, command line and service.
    pub(crate) program: PathBuf,
    /// In the order of their names.
    pub(crate) nodes: Vec<NodePlace>,
}

/// One node's places.
#[derive(Clone, Debug)]
pub(crate) struct NodePlace {
    /// `n1`.
    pub(crate) name: String,
    /// Configuration, data, log and socket are in it.
    pub(crate) dir: PathBuf,
    /// Where its ring sockets are.
    pub(crate) bind: SocketAddr,
    /// Where the others reach it: elsewhere, if something stands between them.
    pub(crate) reached_at: SocketAddr,
    /// Where its service answers.
    pub(crate) port: u16,
}

impl NodePlace {
    /// Its control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    /// What its daemon says.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The file that stands for its kernel's boot id.
    pub(crate) fn boot_id(&self) -> PathBuf {
        self.dir.join("boot_id")
    }
}

impl Ground {
    /// Makes the directory with the configuration of `count` nodes. With `relayed`, the others reach
    /// a node at another address than its own.
    pub(crate) fn new(count: usize, relayed: bool) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|cause| Failure::failed(format!("cannot find this program: {cause}")))?;
        let dir = new_dir()?;
        let mut ports = FreePorts::new()?;
        let mut nodes = Vec::new();
        for number in 1..=count {
            let name = format!("n{number}");
            let bind = ports.next()?;
            let reached_at = if relayed { ports.next()? } else { bind };
            let node_dir = dir.join(&name);
            nodes.push(NodePlace {
                name,
                dir: node_dir,
                bind,
                reached_at,
                port: ports.next()?.port(),
            });
        }
        let ground = Self { dir, program, nodes };
        ground.write_all().inspect_err(|_| ground.remove().unwrap_or_default())?;
        Ok(ground)
    }

    /// Removes the directory.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.dir).map_err(|cause| {
            Failure::failed(format!("cannot remove {}: {cause}", self.dir.display()))
        })
    }

    fn write_all(&self) -> Result<(), Failure> {
        for node in &self.nodes {
            self.make_dir(&node.dir)?;
            new_boot(node)?;
            write(&node.dir.join("baton.toml"), &self.config(node))?;
        }
        let program = toml_text(&self.program);
        for (version, extra) in [("1", ""), ("2", ""), ("3", BREAKS)] {
            let dir = self.dir.join(format!("web-{version}"));
            self.make_dir(&dir)?;
            write(
                &dir.join("release.toml"),
                &format!(
                    "name = \"web\"\nversion = \"{version}\"\n\n[run]\ncommand = [{program}, \
                     \"demo-service\", \"--version\", \"{version}\"{extra}]\nstop_timeout = \
                     \"2s\"\n\n[health]\nhttp = \"http://127.0.0.1:${{PORT}}/health\"\n"
                ),
            )?;
        }
        Ok(())
    }

    fn make_dir(&self, dir: &Path) -> Result<(), Failure> {
        fs::create_dir(dir)
            .map_err(|cause| Failure::failed(format!("cannot make {}: {cause}", dir.display())))
    }

    fn config(&self, node: &NodePlace) -> String {
        let seeds = self.nodes.iter().take(SEEDS).map(|node| format!("\"{}\"", node.reached_at));
        let (name, dir) = (&node.name, &self.dir);
        format!(
            "[node]\nname = \"{name}\"\ndata_dir = {data_dir}\non_stop = \"stop\"\n\n\
             [ring]\nbind = \"{bind}\"\nadvertise = \"{reached_at}\"\njoin = [{seeds}]\n\
             profile = \"local\"\nreconnect_interval = \"1s\"\n\n\
             [control]\nsocket = {socket}\n\n\
             [[service]]\nname = \"web\"\ndepot = {depot}\ntrusted_keys = [{key}]\n\
             runner = \"process\"\nexpect = {expect}\npoll = \"1s\"\n\
             env = {{ PORT = \"{port}\" }}\n\n\
             [service.health]\ninterval = \"200ms\"\ntimeout = \"1s\"\nunhealthy_after = 2\n\n\
             [service.update]\nstart_timeout = \"20s\"\nmonitor = \"2s\"\n",
            data_dir = toml_text(&node.dir.join("data")),
            bind = node.bind,
            reached_at = node.reached_at,
            seeds = seeds.collect::<Vec<_>>().join(", "),
            socket = toml_text(&node.socket()),
            depot = toml_text(Path::new(&format!("file://{}", dir.join("depot").display()))),
            key = toml_text(&dir.join("depot.pub")),
            expect = self.nodes.len(),
            port = node.port,
        )
    }
}

/// Gives a node's machine another boot id, as a reboot does.
pub(crate) fn new_boot(node: &NodePlace) -> Result<(), Failure> {
    let bits = format!("{:032x}", random_bits()?);
    let parts =
        [bits.get(..8), bits.get(8..12), bits.get(12..16), bits.get(16..20), bits.get(20..)];
    write(&node.boot_id(), &format!("{}\n", parts.map(Option::unwrap_or_default).join("-")))
}

/// A new directory that only we can look into. Short, as a socket's whole path has 107 bytes at
/// most.
fn new_dir() -> Result<PathBuf, Failure> {
    let wanted = std::env::temp_dir();
    let usual = wanted.to_str().is_some_and(|path| {
        path.len() < TEMP_DIR_MAX && path.starts_with('/') && !path.contains(['%', '"', '\\', ' '])
    });
    let root = if usual { wanted } else { PathBuf::from("/tmp") };
    let dir = root.join(format!("baton-demo-{:08x}", random_bits()? >> 96));
    DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(|cause| Failure::failed(format!("cannot make {}: {cause}", dir.display())))?;
    // What the kernel says of working directories has no links in it.
    dir.canonicalize()
        .map_err(|cause| Failure::failed(format!("cannot find {}: {cause}", dir.display())))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_mode(path, text, 0o644)
}

/// The same, for a script.
pub(crate) fn write_script(path: &Path, text: &str) -> Result<(), Failure> {
    write_mode(path, text, 0o755)
}

fn write_mode(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|cause| Failure::failed(format!("cannot write {}: {cause}", path.display())))
}

fn toml_text(path: &Path) -> String {
    // Rust and TOML escape the same way what a usual path may contain.
    format!("{:?}", path.to_string_lossy())
}

/// Ports that nobody listens on, from below the range that outgoing connections take theirs from.
struct FreePorts {
    random: StdRng,
    given: Vec<u16>,
}

impl FreePorts {
    fn new() -> Result<Self, Failure> {
        let random = StdRng::try_from_rng(&mut SysRng)
            .map_err(|cause| Failure::failed(format!("no random bytes: {cause}")))?;
        Ok(Self { random, given: Vec::new() })
    }

    fn next(&mut self) -> Result<SocketAddr, Failure> {
        for _ in 0..PORT_TRIES {
            let port = self.random.random_range(PORTS);
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if !self.given.contains(&port)
                && TcpListener::bind(addr).is_ok()
                && UdpSocket::bind(addr).is_ok()
            {
                self.given.push(port);
                return Ok(addr);
            }
        }
        Err(Failure::failed("found no free port on 127.0.0.1"))
    }
}

/// What makes release 3 fail: not at once, but while it is being watched.
const BREAKS: &str = ", \"--breaks-after\", \"700ms\"";

/// Any two that live are enough to find the ring.
const SEEDS: usize = 3;

/// Leaves room for `/baton-demo-12345678/n20/sock`.
const TEMP_DIR_MAX: usize = 70;

const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// So many in a row are taken only where nearly all are.
const PORT_TRIES: usize = 200;
