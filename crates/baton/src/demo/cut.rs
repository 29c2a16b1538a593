//! A network between the daemons that can be cut, without root: every packet and stream from one
//! node to another goes through this process, which lets it pass or lets it vanish.
//!
//! Invariant: a cut drops in silence, as a pulled cable does; what it does not cut is passed on
//! unchanged, and seems to come from the node that sent it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ground::Ground;
use crate::exit::Failure;

/// The network; nodes are counted from 0. It is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Cut {
    parted: watch::Sender<BTreeSet<usize>>,
    _tasks: JoinSet<()>,
}

/// What its tasks share.
#[derive(Debug)]
struct Between {
    /// Where each node listens, and where the others reach it.
    nodes: Vec<(SocketAddr, SocketAddr)>,
    dirs: Vec<std::path::PathBuf>,
    sockets: Vec<UdpSocket>,
    parted: watch::Receiver<BTreeSet<usize>>,
}

impl Cut {
    /// Listens for every node at the address where the others reach it. Nothing is cut yet.
    pub(crate) fn start(ground: &Ground) -> Result<Self, Failure> {
        let failed = |cause: std::io::Error| {
            Failure::failed(format!("cannot stand between the daemons: {cause}"))
        };
        let (parted, receiver) = watch::channel(BTreeSet::new());
        let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
        for node in &ground.nodes {
            let socket = std::net::UdpSocket::bind(node.reached_at).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            sockets.push(UdpSocket::from_std(socket).map_err(failed)?);
            let listener = std::net::TcpListener::bind(node.reached_at).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            listeners.push(TcpListener::from_std(listener).map_err(failed)?);
        }
        let between = Arc::new(Between {
            nodes: ground.nodes.iter().map(|node| (node.bind, node.reached_at)).collect(),
            dirs: ground.nodes.iter().map(|node| node.dir.clone()).collect(),
            sockets,
            parted: receiver,
        });
        let mut tasks = JoinSet::new();
        for (to, listener) in listeners.into_iter().enumerate() {
            tasks.spawn(datagrams(Arc::clone(&between), to));
            tasks.spawn(streams(Arc::clone(&between), to, listener));
        }
        Ok(Self { parted, _tasks: tasks })
    }

    /// Parts these nodes from all others; an empty set joins everything again.
    pub(crate) fn part(&self, nodes: BTreeSet<usize>) {
        self.parted.send_replace(nodes);
    }
}

impl Between {
    fn is_cut(&self, from: usize, to: usize) -> bool {
        crosses(&self.parted.borrow(), from, to)
    }
}

fn crosses(parted: &BTreeSet<usize>, from: usize, to: usize) -> bool {
    parted.contains(&from) != parted.contains(&to)
}

async fn datagrams(between: Arc<Between>, to: usize) {
    let mut packet = vec![0; DATAGRAM_MAX_BYTES];
    let (Some(socket), Some((addr, _))) = (between.sockets.get(to), between.nodes.get(to)) else {
        return;
    };
    loop {
        // An error is the echo of an earlier packet to a daemon that is not there.
        let Ok((length, sender)) = socket.recv_from(&mut packet).await else { continue };
        let from = between.nodes.iter().position(|(bind, _)| *bind == sender);
        if let Some(from) = from.filter(|from| !between.is_cut(*from, to))
            && let (Some(out), Some(content)) = (between.sockets.get(from), packet.get(..length))
        {
            // Packets may be lost on any network.
            out.send_to(content, addr).await.ok();
        }
    }
}

async fn streams(between: Arc<Between>, to: usize, listener: TcpListener) {
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while open.try_join_next().is_some() {}
        open.spawn(pass(Arc::clone(&between), to, stream, peer));
    }
}

/// Passes one stream on until it ends or is cut. A cut one is held in silence until the cut is over.
async fn pass(between: Arc<Between>, to: usize, mut stream: TcpStream, peer: SocketAddr) {
    let Some(from) = caller(&between, peer).await else { return };
    let Some((addr, _)) = between.nodes.get(to).copied() else { return };
    let mut parted = between.parted.clone();
    if crosses(&parted.borrow_and_update(), from, to) {
        // Either it is joined again, or the demo is over.
        parted.wait_for(|parted| !crosses(parted, from, to)).await.ok();
        return;
    }
    let Ok(mut onward) = TcpStream::connect(addr).await else { return };
    let cut = async {
        parted.wait_for(|parted| crosses(parted, from, to)).await.ok();
    };
    let cut_off = tokio::select! {
        // However it ends, it ends on both sides.
        _ = copy_bidirectional(&mut stream, &mut onward) => false,
        () = cut => true,
    };
    if cut_off {
        let mut parted = between.parted.clone();
        parted.wait_for(|parted| !crosses(parted, from, to)).await.ok();
    }
}

/// Which node opened a stream. Its port is any; so the kernel is asked whose it is.
async fn caller(between: &Arc<Between>, peer: SocketAddr) -> Option<usize> {
    let between = Arc::clone(between);
    let found = tokio::task::spawn_blocking(move || {
        let socket =
            format!("socket:[{}]", inode(&std::fs::read_to_string("/proc/net/tcp").ok()?, peer)?);
        let pid = owner(&socket)?;
        let works_in = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        between.dirs.iter().position(|dir| *dir == works_in)
    });
    found.await.ok().flatten()
}

/// The inode of the socket with this local address, from the kernel's table.
fn inode(table: &str, local: SocketAddr) -> Option<String> {
    let SocketAddr::V4(local) = local else { return None };
    let ip = u32::from_ne_bytes(local.ip().octets());
    let wanted = format!("{ip:08X}:{:04X}", local.port());
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next()? == wanted).then(|| words.nth(7).map(ToOwned::to_owned))?
    })
}

/// The process that holds a socket.
fn owner(socket: &str) -> Option<String> {
    let holds = |entry: &std::fs::DirEntry| {
        let Ok(open) = std::fs::read_dir(entry.path().join("fd")) else { return false };
        open.filter_map(Result::ok)
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|link| link == Path::new(socket)))
    };
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc").ok()?.filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name().to_str()?.to_owned();
        let other = name.bytes().all(|byte| byte.is_ascii_digit()) && name != own;
        (other && holds(&entry)).then_some(name)
    })
}

/// The largest that UDP can carry.
const DATAGRAM_MAX_BYTES: usize = 65_535;

/// After an error of accept, which usually means that descriptors are short.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_crosses_is_cut() {
        let parted = BTreeSet::from([0, 4]);
        for (from, to, cut) in [(0, 1, true), (1, 0, true), (0, 4, false), (1, 2, false)] {
            assert_eq!(crosses(&parted, from, to), cut, "{from} → {to}");
        }
        assert!(!crosses(&BTreeSet::new(), 0, 1));
    }

    #[test]
    fn the_kernel_knows_whose_a_connection_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let stream = std::net::TcpStream::connect(addr).expect("connected");
        let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
        let found = inode(&table, stream.local_addr().expect("an address")).expect("a socket");
        let expected = format!("socket:[{found}]");
        let ours = std::fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(Result::ok);
        let links = ours.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        assert!(links.into_iter().any(|link| link == Path::new(&expected)), "{expected}");
    }
}
