//! How fast the ring and the ledgers go: three profiles, each a full set of timings.
//!
//! Invariant: the timings of a profile fit together: a probe's answer is due before the next
//! probe, an election waits for several heartbeats. `baton check` holds changed ones to the same.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::choice;

choice!(
    /// A set of timings for a kind of network; see [`Profile::timing`].
    Profile {
        /// All nodes on one machine: loopback and tests.
        Local = "local",
        /// One site: round trips of a few milliseconds.
        Lan = "lan",
        /// Several sites: round trips of up to about a second.
        Wan = "wan",
    }
);

/// Every timing of the ring and of the ledgers, resolved: profile first, then what the
/// configuration sets on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingTiming {
    /// From one probe to the next. One member is probed in each.
    pub probe_period: Duration,
    /// From a direct ping to the indirect probes; below `probe_period`.
    pub probe_timeout: Duration,
    /// Relays asked to probe a member that did not answer. Default 3.
    pub indirect_probes: usize,
    /// From one gossip packet to the next while there is news.
    pub gossip_interval: Duration,
    /// Members that each round of gossip goes to.
    pub gossip_fanout: usize,
    /// A suspicion lasts at most this × log10(members) × `probe_period`.
    pub suspicion_multiplier: u32,
    /// A suspicion lasts at least this, however many confirm it.
    pub suspicion_floor: Duration,
    /// How long dead members stay known. Default 72 h.
    pub reap_after: Duration,
    /// From one probe of a dead member to the next. Default 30 s.
    pub reconnect_interval: Duration,
    /// How long a member that said goodbye counts as restarting. Default 30 s.
    pub restart_grace: Duration,
    /// Largest datagram in bytes, sealing included. Default 1,400.
    pub max_packet: usize,
    /// After it a dead voter is replaced. Default 10 min.
    pub replace_dead_after: Duration,
    /// From one message of a leader to the next while a turn is open.
    pub heartbeat: Duration,
    /// Without a leader for this long (and up to twice as long, drawn at random) a voter stands
    /// for election; a leader without answers from a majority for this long steps down.
    pub election_timeout: Duration,
    /// From a member's claim to the last moment at which it acts on the *go* for it.
    pub claim_window: Duration,
}

impl Profile {
    /// The timings of this profile.
    pub const fn timing(self) -> RingTiming {
        let ms = Duration::from_millis;
        let (probe, gossip, suspicion_multiplier, ledger) = match self {
            Self::Local => ((200, 80), (50, 3), 3, (40, 300, 2_000)),
            Self::Lan => ((1_000, 300), (200, 3), 4, (150, 1_200, 5_000)),
            Self::Wan => ((3_000, 1_500), (500, 4), 6, (500, 4_000, 10_000)),
        };
        RingTiming {
            probe_period: ms(probe.0),
            probe_timeout: ms(probe.1),
            indirect_probes: 3,
            gossip_interval: ms(gossip.0),
            gossip_fanout: gossip.1,
            suspicion_multiplier,
            suspicion_floor: self.suspicion_floor(ms(probe.0)),
            reap_after: Duration::from_secs(72 * 3_600),
            reconnect_interval: Duration::from_secs(30),
            restart_grace: Duration::from_secs(30),
            max_packet: 1_400,
            replace_dead_after: Duration::from_secs(600),
            heartbeat: ms(ledger.0),
            election_timeout: ms(ledger.1),
            claim_window: ms(ledger.2),
        }
    }

    /// The default suspicion floor for a probe period: 1.5 of it, 2 on `wan`. So a changed period
    /// takes its floor along.
    pub const fn suspicion_floor(self, probe_period: Duration) -> Duration {
        let halves = match self {
            Self::Local | Self::Lan => 3,
            Self::Wan => 4,
        };
        match probe_period.checked_mul(halves) {
            Some(doubled) => Duration::from_millis(doubled.as_millis() as u64 / 2),
            None => probe_period,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_fits_together() {
        for (profile, word) in Profile::ALL {
            let timing = profile.timing();
            assert!(timing.probe_timeout < timing.probe_period, "{word}");
            assert!(timing.gossip_interval < timing.probe_period, "{word}");
            assert!(timing.heartbeat * 3 <= timing.election_timeout, "{word}");
            assert!(timing.election_timeout < timing.claim_window, "{word}");
            assert!(timing.probe_period < timing.suspicion_floor, "{word}");
        }
    }

    #[test]
    fn the_floor_follows_the_period() {
        let second = Duration::from_secs(1);
        assert_eq!(Profile::Lan.suspicion_floor(second), Duration::from_millis(1_500));
        assert_eq!(Profile::Wan.suspicion_floor(second), Duration::from_secs(2));
        assert_eq!(Profile::Local.timing().suspicion_floor, Duration::from_millis(300));
    }
}
