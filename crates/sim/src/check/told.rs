//! A member forgets a failed outcome only when it is committed (a part of invariant 4).

use std::collections::BTreeMap;

use baton_rollout::member::file::Stage;
use baton_rollout::{GroupState, MemberFile};
use baton_types::NodeId;
use baton_wire::{TurnId, TurnOutcome};

/// Failed outcomes that members' disks hold.
#[derive(Clone, Debug, Default)]
pub struct ToldCheck {
    told: BTreeMap<NodeId, TurnId>,
}

impl ToldCheck {
    /// A member's disk lost what it held.
    pub fn lost(&mut self, node: NodeId) {
        self.told.remove(&node);
    }

    /// A member's record is durable; its group stands as the state says.
    ///
    /// # Errors
    ///
    /// It forgot a failed outcome that no committed record holds.
    pub fn member(
        &mut self,
        node: NodeId,
        name: &str,
        file: &MemberFile,
        state: Option<&GroupState>,
    ) -> Result<(), String> {
        let failed = file
            .turn
            .as_ref()
            .filter(|turn| matches!(turn.stage, Stage::Ended { outcome: TurnOutcome::Failed, .. }));
        let told = match failed {
            Some(turn) => self.told.insert(node, turn.turn).filter(|told| *told != turn.turn),
            None => self.told.remove(&node),
        };
        let Some(told) = told else { return Ok(()) };
        let rollout = state.and_then(|state| state.rollout.as_deref());
        let rollout = rollout.filter(|of| of.id == told.rollout && of.phase == told.phase);
        let turn = rollout.and_then(|rollout| rollout.turn(node));
        match turn {
            Some(turn) if turn.attempts == told.attempt && turn.state.is_open() => Err(format!(
                "{name} forgot the failure of its turn, which stands as {}",
                turn.state
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{member_file, node, running, with};
    use baton_rollout::TurnState;

    #[test]
    fn a_failure_that_a_member_forgets_before_it_is_committed_is_seen() {
        let taken = with(&running(), 1, TurnState::Taken);
        let outcome = TurnOutcome::Failed;
        let file = member_file(Stage::Ended { outcome, begun: true, reason: "".into() });
        let mut check = ToldCheck::default();
        assert_eq!(check.member(node(1), "n1", &file, Some(&taken)), Ok(()));
        let failed = with(&taken, 1, TurnState::Failed);
        let forgot = MemberFile::default();
        assert_eq!(check.clone().member(node(1), "n1", &forgot, Some(&failed)), Ok(()));
        assert!(check.member(node(1), "n1", &forgot, Some(&taken)).is_err());
    }
}
