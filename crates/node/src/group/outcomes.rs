//! What every member came to in the rollouts that ended: too much for the ledger's record at a
//! thousand members, so each node that has a copy of the record keeps it in a file beside it.
//!
//! Invariant: it is made of a committed record alone, so all who keep it keep the same.

use baton_rollout::{Rollout, TurnState};
use baton_types::limits::HISTORY_MAX;
use baton_types::status::{MemberOutcome, OutcomesStatus};
use baton_types::{GroupName, NodeId, RolloutId};
use serde::{Deserialize, Serialize};

use crate::files::{self, Waiting};
use crate::group::Group;
use crate::shared::Shared;

/// The last of them, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcomes {
    ended: Vec<OutcomesStatus>,
}

impl Outcomes {
    /// What is kept of a rollout.
    pub(crate) fn of(&self, id: RolloutId) -> Option<&OutcomesStatus> {
        let id = id.to_string();
        self.ended.iter().find(|kept| kept.id == id)
    }

    /// Keeps `new`, in the place of what was known of that rollout; whether anything changed.
    fn keep(&mut self, new: OutcomesStatus) -> bool {
        match self.ended.iter_mut().find(|kept| kept.id == new.id) {
            Some(kept) if *kept == new => return false,
            // An outcome that is heard late changes what is known of it.
            Some(kept) => *kept = new,
            None => self.ended.push(new),
        }
        while self.ended.len() > HISTORY_MAX || self.members() > MEMBERS_MAX {
            self.ended.remove(0);
        }
        true
    }

    fn members(&self) -> usize {
        self.ended.iter().map(|kept| kept.members.len()).sum()
    }
}

impl Group {
    /// A committed record may tell of another rollout that ended.
    pub(super) fn keep_outcomes(&mut self, shared: &mut Shared) {
        let Some(last) = self.state.last.as_deref() else { return };
        let new = outcomes(last, |node| self.name_in_outcome(shared, last, node));
        if self.outcomes.keep(new) {
            shared.write(files::outcomes(&self.name), &self.outcomes, Waiting::Nobody);
        }
    }

    /// As it was called when the outcome was first known: a node may be forgotten meanwhile.
    fn name_in_outcome(&self, shared: &Shared, rollout: &Rollout, node: NodeId) -> String {
        let id = node.to_string();
        let known = self.outcomes.of(rollout.id).into_iter().flat_map(|kept| &kept.members);
        match known.into_iter().find(|member| member.node == id) {
            Some(member) => member.name.clone(),
            None => shared.name_of(node),
        }
    }

    /// As JSON, if this node keeps them.
    pub(crate) fn outcomes_json(&self, id: RolloutId) -> Option<String> {
        serde_json::to_string(self.outcomes.of(id)?).ok()
    }
}

/// What was found on disk; a damaged file is only a loss of history.
pub(super) fn open(boot: &mut crate::Boot, group: &GroupName) -> Outcomes {
    let found = boot.files.remove(&files::outcomes(group));
    files::read(found.as_ref()).ok().flatten().unwrap_or_default()
}

fn outcomes(rollout: &Rollout, name: impl Fn(NodeId) -> String) -> OutcomesStatus {
    let members = rollout.turns.iter().map(|turn| MemberOutcome {
        name: name(turn.node),
        node: turn.node.to_string(),
        turn: TurnState::to_string(&turn.state),
        phase: turn.phase,
        attempts: turn.attempts,
        reason: turn.reason.to_string(),
    });
    OutcomesStatus { id: rollout.id.to_string(), members: members.collect() }
}

/// Members of all rollouts together: the file stays below a megabyte, and four rollouts of the
/// largest group fit.
const MEMBERS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(id: usize, members: usize) -> OutcomesStatus {
        let members = vec![MemberOutcome::default(); members];
        OutcomesStatus { id: id.to_string(), members }
    }

    #[test]
    fn golden_bytes_of_version_1() {
        crate::tests::golden::check::<Outcomes>("outcomes");
    }

    #[test]
    fn the_oldest_go_first_and_the_last_one_stays() {
        let mut kept = Outcomes::default();
        for id in 0..HISTORY_MAX + 3 {
            assert!(kept.keep(ended(id, 5)));
        }
        assert_eq!((kept.ended.len(), kept.ended[0].id.as_str()), (HISTORY_MAX, "3"));
        assert!(kept.keep(ended(100, MEMBERS_MAX)));
        assert_eq!(kept.ended.len(), 1);
        assert!(kept.keep(ended(101, 1_000)));
        assert_eq!(kept.ended, [ended(101, 1_000)]);
    }

    #[test]
    fn the_same_again_is_no_news_and_a_late_outcome_is() {
        let mut kept = Outcomes::default();
        assert!(kept.keep(ended(1, 2)));
        assert!(!kept.keep(ended(1, 2)));
        let mut late = ended(1, 2);
        late.members[1].turn = "passed".to_owned();
        assert!(kept.keep(late.clone()));
        assert_eq!(kept.ended, [late]);
    }
}
