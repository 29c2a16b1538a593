//! The turn itself.

use baton_types::{Moment, Now};

use super::{Member, MemberInput};

impl Member {
    /// Something happened on this node.
    pub fn input(&mut self, now: Now, input: MemberInput) {
        let _ = (now, input);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        let _ = now;
    }

    /// When to call [`Member::tick`] next.
    pub fn next_tick(&self) -> Option<Moment> {
        None
    }

    pub(super) fn resume(&mut self, now: Now) {
        let _ = now;
    }
}
