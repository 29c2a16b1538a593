//! Limits of the wire, each with its reason.

/// Largest decoded content of one stream frame: a full-state exchange of the largest ring.
pub const FRAME_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Largest datagram that is read at all: the largest that UDP carries.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;

/// Default size that a datagram is packed to: below the MTU of Ethernet, tunnels included.
pub const PACKET_BYTES: usize = 1_400;

/// Keys in a key ring: the one in use, the one before and the next.
pub const KEYS_MAX: usize = 8;
