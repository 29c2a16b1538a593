//! A group's ledger: leader election and one replicated record, per group and node.
//!
//! Invariant: a record that was committed is never lost and never replaced by one with a smaller
//! (term, version); each term of a lineage has at most one leader; nothing that another node may
//! count on leaves this one before it is durable.

pub mod file;
pub mod ledger;
pub mod settings;
pub mod view;

pub use file::{FormationFile, LedgerFile};
pub use ledger::Ledger;
pub use settings::{LedgerSettings, Liveness, Opened, Seen};
pub use view::{LedgerOutput, NotNow, Role, View};
