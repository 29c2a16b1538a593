//! What the leader says.

use baton_types::{NodeId, Now};
use baton_wire::TurnMessage;

use super::Member;

impl Member {
    /// A message of the group's leader; `from` is who sent it.
    pub fn receive(&mut self, now: Now, from: NodeId, message: TurnMessage) {
        let _ = (now, from, message);
    }
}
