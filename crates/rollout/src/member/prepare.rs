//! Fetching and verifying a rollout's target before anybody's turn: disrupts nothing.

use std::time::Duration;

use baton_types::member::Prepared;
use baton_types::{Moment, RolloutId, Target};

/// A fetch for a rollout; in memory only, the leader asks again.
#[derive(Debug)]
pub(super) struct Prepare {
    pub(super) rollout: RolloutId,
    pub(super) target: Target,
    pub(super) depot: String,
    pub(super) state: Prepared,
    /// When a failed fetch is tried again.
    pub(super) retry_at: Option<Moment>,
    pub(super) back_off: Duration,
}
