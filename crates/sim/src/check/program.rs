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
    /// A committed record: members whose turn it shows as taken may run its target from then on. In
    /// a restart they may run nothing that they did not run before.
    pub fn record(&mut self, state: &GroupState) {
        let moves = state.rollout.as_deref().filter(|rollout| !rollout.kind.keeps());
        let Some(rollout) = moves else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{node, running, with};
    use crate::depot::release;

    #[test]
    fn a_start_that_nobody_told_or_that_is_one_too_many_is_seen() {
        let digest = release("2").digest;
        let mut check = ProgramCheck::default();
        check.record(&with(&running(), 1, TurnState::Offered));
        assert!(check.launches(node(1), &digest, None).is_err(), "only offered");
        check.record(&with(&running(), 1, TurnState::Taken));
        assert_eq!(check.launches(node(1), &digest, None), Ok(()));
        assert!(check.launches(node(2), &digest, None).is_err(), "another member");
        assert!(check.launches(node(1), &release("3").digest, None).is_err(), "another release");
        assert!(check.launches(node(1), &digest, Some(7)).is_err(), "two at once");
    }
}
