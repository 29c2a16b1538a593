//! One node as one state machine: an [`Event`] in, [`Effect`]s out.
//!
//! It joins the ring, each group's ledger, the leader's and the member's side of its rollouts and
//! the supervision of its services, which do not know each other.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws randomness of its own. The daemon
//! and the simulator run this very code.

mod asks;
pub mod boot;
mod census;
mod directory;
pub mod effect;
pub mod event;
pub mod files;
mod group;
mod limits;
mod node;
pub mod notice;
pub mod observe;
mod peers;
mod relays;
pub mod request;
mod shared;
#[cfg(test)]
mod tests;

pub use boot::{Adopted, Boot, FoundFile};
pub use effect::{Effect, Level, Line};
pub use event::{ChannelContent, ChannelEntry, DepotFault, Event, Manifests, Revisions};
pub use node::Node;
pub use notice::Notice;
pub use observe::Observation;
pub use request::{NodeRef, Reply, Request, Why};

pub use baton_supervise::{CheckResult, ExitKind, HookEnd, HookResult, Launch};
