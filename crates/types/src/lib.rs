//! The words of Baton as types: identities, names, releases, targets, policies and limits.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws randomness. Every value that can
//! come from outside (network, disk, configuration, operator) has a fallible constructor, and its
//! `Deserialize` goes through the same check, so a value of these types is always within bounds.

pub mod command;
pub mod duration;
pub mod facts;
pub mod hex;
pub mod ids;
pub mod limits;
pub mod manifest;
pub mod member;
pub mod names;
pub mod policy;
pub mod revision;
pub mod service;
pub mod status;
pub mod target;
pub mod text;
pub mod time;
pub mod timing;

pub use command::{Command, CommandAction, CommandAnswer, CommandResult};
pub use duration::{DurationError, exact_duration, format_duration, parse_duration};
pub use facts::{FactKey, FactKeyError};
pub use ids::{
    BootNonce, ClaimId, CommandId, FileId, Incarnation, LineageId, NodeId, RolloutId, Term,
};
pub use names::{GroupName, Name, NodeName};
pub use policy::{Limit, Policy};
pub use revision::{Revision, RevisionFile};
pub use target::{ConfigRevision, Digest, Release, ReleaseId, Target, Version};
pub use text::Text;
pub use time::{Moment, Now, WallTime};
pub use timing::{Profile, RingTiming};
