//! Voters that are gone: replaced once they were dead for long, removed once they were forgotten.
//!
//! Invariant: a dead voter is removed only while a spare member waits for its place, so dead voters
//! alone never shrink the set; who still answers this leader is not gone, whatever the ring says.

use std::time::Duration;

use baton_types::{Moment, NodeId};
use baton_wire::ledger::{VOTERS_MAX, Voter};

use crate::ledger::Ledger;
use crate::settings::Liveness;

/// A voter that may be removed, and why.
pub(crate) struct Gone {
    pub(crate) node: NodeId,
    pub(crate) why: &'static str,
}

impl Ledger {
    /// Notes since when the ring has voters for gone, by this leader's own clock. Who comes back
    /// in between starts from nothing.
    pub(crate) fn watch_voters(&mut self, now: Moment) {
        let gone: Vec<NodeId> = self
            .other_voters()
            .into_iter()
            .map(|voter| voter.node)
            .filter(|node| self.is_away(*node))
            .collect();
        if let Some(lead) = &mut self.lead {
            lead.gone.retain(|node, _| gone.contains(node));
            for node in gone {
                lead.gone.entry(node).or_insert(now);
            }
        }
    }

    /// The next voter to remove because it is gone: a forgotten one soon, a dead one after
    /// `replace_dead_after` and only if its place can be filled.
    pub(crate) fn gone_voter(&self, now: Moment) -> Option<Gone> {
        let lead = self.lead.as_ref()?;
        let silent_for = |node: &NodeId, since: &Moment| {
            let answered = lead.peers.get(node).and_then(|peer| peer.answered);
            now.since(answered.unwrap_or(*since).max(*since))
        };
        let forgotten_after = self.patience().saturating_mul(FORGOTTEN_PATIENCE);
        let forgotten = lead.gone.iter().find(|(node, since)| {
            self.has_left(**node) && silent_for(node, since) >= forgotten_after
        });
        if let Some((node, _)) = forgotten {
            let why = "removed, because it left or was forgotten and does not answer";
            return Some(Gone { node: *node, why });
        }
        let is_due = |silence: Duration| silence >= self.settings.replace_dead_after;
        let (silence, node) =
            lead.gone.iter().map(|(node, since)| (silent_for(node, since), *node)).max()?;
        let why = "removed, because it is dead for too long; a spare member takes its place";
        (is_due(silence) && self.spare().is_some()).then_some(Gone { node, why })
    }

    /// Who was removed on request and has been gone since may ask anew when it comes back; also who
    /// does not go, because its departure was refused elsewhere, or it began anew unseen.
    pub(crate) fn let_back_in(&mut self, now: Moment) {
        let Some(lead) = self.lead.as_mut().filter(|lead| lead.is_idle(&self.file)) else { return };
        let (seen, asking) = (&self.seen, &mut lead.asking);
        lead.kept_out.retain(|voter, since| {
            let is_here = seen.get(&voter.node).is_some_and(|seen| seen.liveness != Liveness::Left);
            if !is_here {
                asking.remove(&voter.node);
            }
            is_here && now.since(*since) < GOING_TAKES
        });
    }

    /// A member that asked to be let in and may be.
    pub(crate) fn spare(&self) -> Option<Voter> {
        let lead = self.lead.as_ref()?;
        lead.asking.iter().find_map(|(node, (file, _))| {
            let may_vote = self.seen.get(node).is_some_and(|s| s.liveness == Liveness::Alive);
            let voter = Voter { node: *node, file: *file };
            (may_vote && !lead.kept_out.contains_key(&voter)).then_some(voter)
        })
    }

    /// Most voters that this group has.
    pub(crate) fn voter_limit(&self) -> usize {
        self.settings.voter_limit.clamp(1, VOTERS_MAX)
    }

    /// Dead, left, forgotten, or unknown to the ring.
    fn is_away(&self, node: NodeId) -> bool {
        self.seen
            .get(&node)
            .is_none_or(|seen| matches!(seen.liveness, Liveness::Dead | Liveness::Left))
    }

    fn has_left(&self, node: NodeId) -> bool {
        self.seen.get(&node).is_some_and(|seen| seen.liveness == Liveness::Left)
    }
}

/// Patiences for which a forgotten voter must not have answered: it may have been forgotten by
/// mistake, and then it says so within that time.
const FORGOTTEN_PATIENCE: u32 = 3;

/// From its removal on request until a node is gone: twice the longest time that its operator's
/// command may take in its other groups.
const GOING_TAKES: Duration = Duration::from_secs(60);
