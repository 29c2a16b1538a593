//! Those whose packets cannot be opened: said once in a while, as a wrong key looks like silence.
//!
//! Invariant: strangers can neither fill the journal nor the memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a source was last named.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<BTreeMap<IpAddr, Instant>>);

impl Strangers {
    /// A packet from there did not open.
    pub(super) fn note(&self, from: SocketAddr) {
        if self.is_to_be_named(from.ip(), Instant::now()) {
            tracing::warn!(
                "what {from} sends cannot be opened: it has another ring key ([ring] key_file must \
                 be the same on every node), its build has another packet format, or it is no node of \
                 this ring"
            );
        }
    }

    fn is_to_be_named(&self, from: IpAddr, now: Instant) -> bool {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, at| now.saturating_duration_since(*at) < AGAIN);
        if named.contains_key(&from) || named.len() >= NAMED_MAX {
            return false;
        }
        named.insert(from, now);
        true
    }
}

/// How often one source is named.
const AGAIN: Duration = Duration::from_secs(600);

/// Sources named in that time: a handful of nodes with an old key, not a network of strangers.
const NAMED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_in_a_while_and_not_too_many_are() {
        let strangers = Strangers::default();
        let now = Instant::now();
        let named = |last: u8, now| strangers.is_to_be_named(IpAddr::from([10, 0, 0, last]), now);
        assert!(named(1, now) && !named(1, now + AGAIN / 2) && named(1, now + AGAIN));
        let later = now + AGAIN;
        assert_eq!((2..=200).filter(|last| named(*last, later)).count(), NAMED_MAX - 1);
    }
}
