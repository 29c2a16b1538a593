//! A member runs only what a committed record told it to, and one program at a time.

use std::collections::BTreeSet;

use baton_rollout::{GroupState, TurnState};
use baton_types::{Digest, NodeId};

/// What members were told to run.
#[derive(Clone, Debug, Default)]
pub struct ProgramCheck {
    told: BTreeSet<(NodeId, Digest)>,
}

impl ProgramCheck {
    /// A committed record: members whose turn it shows as taken may run its target from then on.
    pub fn record(&mut self, state: &GroupState) {
        let Some(rollout) = &state.rollout else { return };
        let digest = rollout.target().release.digest;
        let taken = rollout.turns.iter().filter(|turn| {
            turn.phase == rollout.phase
                && !matches!(turn.state, TurnState::Waiting | TurnState::Offered)
        });
        self.told.extend(taken.map(|turn| (turn.node, digest)));
    }

    /// A program is started.
    ///
    /// # Errors
    ///
    /// Another one still runs, or nobody told this member to run that release.
    pub fn launches(
        &self,
        node: NodeId,
        digest: &Digest,
        running: Option<u32>,
    ) -> Result<(), String> {
        if let Some(pid) = running {
            return Err(format!("while process {pid} still runs"));
        }
        match self.told.contains(&(node, *digest)) {
            true => Ok(()),
            false => Err("without having been told to".to_owned()),
        }
    }
}
