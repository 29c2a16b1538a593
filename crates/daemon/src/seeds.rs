//! Join addresses: host names to socket addresses, and our own address towards them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// Resolves names, and says when one does not.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// Names that did not resolve the last time.
    failing: Mutex<BTreeSet<String>>,
}

impl Resolver {
    /// Every address behind `names` (`host:port`); a name that does not resolve now is left out and
    /// tried again later.
    pub(crate) async fn resolve(&self, names: &[String]) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        for name in names {
            let cause = match tokio::net::lookup_host(name.as_str()).await {
                Ok(addrs) => {
                    found.extend(addrs);
                    None
                }
                Err(cause) => Some(cause.to_string()),
            };
            self.note(name, cause.as_deref());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// One change is one line.
    fn note(&self, name: &str, cause: Option<&str>) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match cause {
            Some(cause) => {
                if failing.len() < FAILING_MAX && failing.insert(name.to_owned()) {
                    tracing::warn!(
                        "join address {name} does not resolve ({cause}); tried again from time to time"
                    );
                }
            }
            None => {
                if failing.remove(name) {
                    tracing::info!("join address {name} resolves again");
                }
            }
        }
    }
}

/// Names that are remembered as failing; `join` lists a handful.
const FAILING_MAX: usize = 256;

/// The address under which others reach us, if the configuration leaves it open: the one that the
/// kernel would send from towards `seeds`. Sends nothing.
pub(crate) fn advertised(bind: SocketAddr, seeds: &[SocketAddr]) -> SocketAddr {
    if !bind.ip().is_unspecified() {
        return bind;
    }
    // A documentation address (RFC 5737): any route out will do.
    let somewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
    let towards = seeds.iter().copied().chain([somewhere]);
    let ip = towards
        .filter_map(|to| {
            let socket = UdpSocket::bind(SocketAddr::new(bind.ip(), 0)).ok()?;
            socket.connect(to).ok()?;
            socket.local_addr().ok().map(|addr| addr.ip())
        })
        .find(|ip| !ip.is_unspecified());
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), bind.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_address_is_advertised_and_an_open_one_is_found() {
        let bound: SocketAddr = "127.0.0.2:7117".parse().expect("an address");
        assert_eq!(advertised(bound, &[]), bound);
        let open: SocketAddr = "0.0.0.0:7117".parse().expect("an address");
        let seed: SocketAddr = "127.0.0.1:7117".parse().expect("an address");
        assert_eq!(advertised(open, &[seed]), seed);
    }
}
