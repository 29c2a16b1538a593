//! A group's ledger: leader election and one replicated record, per group and node.
//!
//! Invariant: a record that was committed is never lost and never replaced by one with a smaller
//! (term, version); each term of a lineage has at most one leader; nothing that another node may
//! count on leaves this one before it is durable.

mod absorb;
mod admission;
mod election;
pub mod file;
mod follower;
mod formation;
mod lead;
mod leader;
pub mod ledger;
mod recall;
mod reform;
mod refusal;
mod replace;
pub mod settings;
mod standing;
mod survey;
#[cfg(test)]
mod tests;
pub mod view;
mod writing;

pub use file::{FormationFile, LedgerFile};
pub use ledger::Ledger;
pub use reform::NoReform;
pub use settings::{LedgerSettings, Liveness, Opened, Seen};
pub use survey::Survey;
pub use view::{LedgerOutput, NotNow, Role, View};
