//! One node alone, driven by hand: what it does when services, daemon and operators end things.

pub(crate) mod bench;
mod booting;
mod ending;
pub(crate) mod golden;
mod members;
mod notices;
mod relays;
mod revisions;
mod services;
mod versions;
