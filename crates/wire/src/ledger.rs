//! Placeholder until the first commit of this protocol.

use serde::{Deserialize, Serialize};

/// Placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerMessage {}
