//! Every limit of the configuration, each with its reason.

use std::time::Duration;

/// Largest configuration file. A thousand services fit; a log file given by mistake does not.
pub const FILE_MAX_BYTES: usize = 1024 * 1024;

/// Faults (and warnings) shown for one file; nobody reads more before mending the first ones.
pub const FAULTS_MAX: usize = 100;

/// Faults remembered for one file, to show the first ones by line; the rest is counted only.
pub const FAULTS_KEPT_MAX: usize = 1_000;

/// Longest duration of any key. A longer wait is a typing error.
pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Shortest period of anything that repeats on the ring: below it the daemon keeps a core busy.
pub const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Shortest interval of health checks and channel reads: each starts a process or a request.
pub const CHECK_MIN: Duration = Duration::from_millis(100);

/// Addresses in `ring.join`. Three reach any ring; more than this is a member list kept by hand.
pub const JOIN_MAX: usize = 64;

/// Longest host name in DNS (RFC 1035, section 2.3.4, in text form).
pub const HOST_NAME_MAX_BYTES: usize = 253;

/// Labels of one node: all of them are gossiped as one fact.
pub const LABELS_MAX: usize = 32;

/// Keys that may sign for one service: an old one and a new one, for several signers.
pub const TRUSTED_KEYS_MAX: usize = 16;

/// Variables in one service's `env`.
pub const ENV_MAX: usize = 256;

/// Longest value of a variable; the kernel takes 128 KiB for name and value together.
pub const ENV_VALUE_MAX_BYTES: usize = 32 * 1024;

/// Waves of one rollout: more than this is one member at a time written out.
pub const WAVES_MAX: usize = 16;

/// Longest path or URL; PATH_MAX of Linux without its final NUL.
pub const PATH_MAX_BYTES: usize = 4_095;

/// Longest path of a Unix socket (`sun_path` of unix(7) without its final NUL).
pub const SOCKET_PATH_MAX_BYTES: usize = 107;

/// Longest user name that useradd(8) makes.
pub const USER_MAX_BYTES: usize = 32;

/// Unpacked releases kept by one service: each costs its whole size on the disk.
pub const KEEP_RELEASES_MAX: u32 = 100;

/// Consecutive checks that a health threshold may ask for.
pub const HEALTH_THRESHOLD_MAX: u32 = 1_000;

/// Relays or gossip targets per round; more is a broadcast.
pub const FANOUT_MAX: usize = 16;

/// Largest suspicion multiplier; at 1,000 members and the `lan` profile this is five minutes.
pub const SUSPICION_MULTIPLIER_MAX: u32 = 100;

/// Smallest datagram that still carries a ping with a few rumours.
pub const PACKET_MIN_BYTES: usize = 512;

/// Largest datagram: UDP over IPv4 ends at 65,507.
pub const PACKET_MAX_BYTES: usize = 65_000;
