//! Zones: one is finished before the next, and never are two under way at once.
//!
//! Invariant: where a member stands that was not heard of yet is not known, so it counts as standing
//! elsewhere: nobody goes beside it, and who comes later waits for it.

use baton_types::{NodeId, Text};

use crate::rollout::{Rollout, TurnState};
use crate::view::View;

/// Whether a turn is open in another zone than that of `node`.
pub fn other_is_open(rollout: &Rollout, view: &View, node: NodeId) -> bool {
    rollout.policy().zone_label.is_some()
        && rollout.open_turns().any(|turn| !together(view, node, turn.node))
}

/// Who of another zone comes before `node` and still waits. An ill member waits for nobody: it goes
/// first, wherever it stands.
pub fn earlier_waits(rollout: &Rollout, view: &View, node: NodeId) -> Option<NodeId> {
    let member = view.members.get(&node)?;
    if rollout.policy().zone_label.is_none() || (member.ever_ran() && !member.is_healthy()) {
        return None;
    }
    let before = rollout.turns.iter().take_while(|turn| turn.node != node);
    let mut waiting = before
        .filter(|turn| turn.phase == rollout.phase && turn.state == TurnState::Waiting)
        .map(|turn| turn.node);
    waiting.find(|other| !together(view, node, *other))
}

/// Whether both are known to stand in one zone.
fn together(view: &View, one: NodeId, other: NodeId) -> bool {
    let zone = zone(view, one);
    zone.is_some() && zone == self::zone(view, other)
}

fn zone(view: &View, node: NodeId) -> Option<Option<&Text>> {
    view.members.get(&node).filter(|member| member.heard).map(|member| member.zone.as_ref())
}
