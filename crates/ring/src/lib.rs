//! Membership and facts by gossip: SWIM over datagrams, with streams for what does not fit one.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws randomness of its own. The same
//! seed, inputs and moments give the same outputs.

mod member;
mod output;

pub use baton_wire::ring::{MemberRecord, MemberState};
pub use member::Member;
pub use output::{FactError, ForgetError, Me, RingCounters, RingOutput, SavedRing};
