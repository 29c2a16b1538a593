//! Launches on their way to the runner.
//!
//! Invariant: what is begun is ended once, however the launch came out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_types::GroupName;

/// Launches under way. What is to be halted may still be on its way to the runner: its files are
/// written first, and a disk may take its time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launching(Arc<Mutex<BTreeMap<GroupName, usize>>>);

impl Launching {
    /// One more is on its way.
    pub(crate) fn begin(&self, group: &GroupName) {
        *self.lock().entry(group.clone()).or_insert(0) += 1;
    }

    /// The runner knows of one of them, or it came to nothing.
    pub(crate) fn end(&self, group: &GroupName) {
        let mut launching = self.lock();
        let left = launching.get(group).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => launching.remove(group),
            left => launching.insert(group.clone(), left),
        };
    }

    /// Whether one is on its way.
    pub(crate) fn is_under_way(&self, group: &GroupName) -> bool {
        self.lock().contains_key(group)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupName, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
