//! Membership and facts by gossip: SWIM over datagrams, with streams for what does not fit one.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws randomness of its own. The same
//! seed, inputs and moments give the same outputs.
//!
//! In reading order: [`RingOutput`] and [`Member`] are what the outside sees; `ring` is the state
//! machine's frame and `send` its way out; `probe`, `relay` and `suspicion` find failures; `hear`
//! orders what is said about members and `save` keeps it; `own` and `facts` keep facts; `gossip`
//! queues rumours; `join`, `exchange` and `digest` bring everybody to the same knowledge; `leave`
//! is about going.

mod digest;
mod exchange;
mod facts;
mod gossip;
mod hear;
mod join;
mod leave;
mod member;
mod members;
mod output;
mod own;
mod probe;
mod relay;
mod ring;
mod save;
mod send;
mod suspicion;

pub use baton_wire::ring::{MemberRecord, MemberState};
pub use member::Member;
pub use output::{FactError, ForgetError, Me, RingCounters, RingOutput, SavedRing};
pub use ring::Ring;

#[cfg(test)]
mod tests;
