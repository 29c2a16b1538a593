//! In which order members take their turns.
//!
//! Invariant: the order is a total one and depends only on names, labels and who leads, so it can
//! be read off before the rollout starts.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use baton_types::NodeId;

use crate::rollout::{Rollout, Turn, TurnState};
use crate::view::{Liveness, MemberView, View};

/// Everybody in `view` but those who left: by zone (if the group has zones), by order label, the
/// leader last, by name.
pub fn order(view: &View, zones: bool) -> Vec<NodeId> {
    let mut members: Vec<_> =
        view.members.iter().filter(|(_, member)| member.liveness != Liveness::Left).collect();
    let place = |node: NodeId, member: &'_ MemberView| (member.order, node == view.me);
    members.sort_by(|(a, left), (b, right)| {
        let zone = left.zone.cmp(&right.zone);
        let zone = if zones { zone } else { Ordering::Equal };
        zone.then_with(|| place(**a, left).cmp(&place(**b, right)))
            .then_with(|| left.name.cmp(&right.name))
            .then_with(|| a.cmp(b))
    });
    members.into_iter().map(|(node, _)| *node).collect()
}

/// The waiting turns of the phase under way in the order in which they are offered: members in
/// `lasting` illness first, since a turn costs them nothing and may heal them. A member that fell
/// ill just now is left out: it restarts the release that it has, and is given time to heal. So is one
/// that may well serve and whose word is awaited: until it comes, its turn costs what is not known.
pub fn candidates(rollout: &Rollout, view: &View, lasting: &BTreeSet<NodeId>) -> Vec<NodeId> {
    let waiting = |turn: &&Turn| turn.state == TurnState::Waiting && turn.phase == rollout.phase;
    let ill = |turn: &&Turn| {
        view.members.get(&turn.node).is_some_and(|m| m.ever_ran() && !m.is_healthy())
    };
    let is_awaited =
        |turn: &&Turn| view.members.get(&turn.node).is_some_and(|member| member.may_serve);
    // Who had a turn, or goes back, is not expected to heal by itself. Before the first baseline, too, a
    // member may run what an earlier rollout brought, and serve.
    let lasts = |turn: &&Turn| {
        let heals = turn.attempts == 0 && rollout.phase < 2;
        lasting.contains(&turn.node) || !(heals || is_awaited(turn))
    };
    let first = rollout.turns.iter().filter(waiting).filter(ill).filter(lasts);
    let rest = rollout.turns.iter().filter(waiting).filter(|turn| !ill(turn));
    first.chain(rest).map(|turn| turn.node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{node, view};
    use baton_types::Text;
    use baton_types::member::Health;

    #[test]
    fn by_zone_then_label_then_leader_last_then_name() {
        let check = |zones: bool, change: fn(&mut View), want: &[&str]| {
            let mut view = view(&["n3", "n1", "n2", "n4"], "n2");
            change(&mut view);
            let names: Vec<_> = order(&view, zones).into_iter().map(|n| view.name(n)).collect();
            assert_eq!(names, want);
        };
        check(false, |_| (), &["n1", "n3", "n4", "n2"]);
        check(
            false,
            |v| v.members.values_mut().for_each(|m| m.order = i32::from(m.name.as_str() == "n1")),
            &["n3", "n4", "n2", "n1"],
        );
        check(
            true,
            |v| {
                v.members.values_mut().for_each(|m| {
                    m.zone = Some(Text::new(if m.name.as_str() == "n4" { "a" } else { "b" }));
                });
            },
            &["n4", "n1", "n3", "n2"],
        );
        check(
            false,
            |v| {
                v.members.values_mut().filter(|m| m.name.as_str() == "n3").for_each(|m| {
                    m.liveness = Liveness::Left;
                });
            },
            &["n1", "n4", "n2"],
        );
    }

    #[test]
    fn ill_members_go_first_and_newcomers_do_not() {
        let mut view = view(&["n1", "n2", "n3"], "n1");
        let rollout = crate::rules::start::tests::rollout(&view);
        for member in view.members.values_mut() {
            match member.name.as_str() {
                "n3" => member.health = Health::Critical,
                "n2" => member.running = None,
                _ => {}
            }
        }
        let names = |rollout: &Rollout, lasting: &[&str]| -> Vec<String> {
            let lasting = lasting.iter().map(|name| node(name)).collect();
            candidates(rollout, &view, &lasting).into_iter().map(|n| view.name(n)).collect()
        };
        assert_eq!(names(&rollout, &["n3"]), ["n3", "n2", "n1"]);
        assert_eq!(names(&rollout, &[]), ["n2", "n1"], "it may heal by itself");
        let first = Rollout { from: None, ..rollout };
        assert_eq!(names(&first, &[]), ["n2", "n1"], "what an earlier one brought may serve");
    }

    #[test]
    fn who_may_serve_and_has_not_said_so_is_waited_for() {
        let mut view = view(&["n1", "n2", "n3"], "n1");
        let mut rollout = crate::rules::start::tests::rollout(&view);
        rollout.turn_mut(node("n3")).expect("a turn").attempts = 1;
        let member = view.members.get_mut(&node("n3")).expect("a member");
        (member.health, member.may_serve) = (Health::Unknown, true);
        let names = |view: &View, lasting: &[&str]| -> Vec<String> {
            let lasting = lasting.iter().map(|name| node(name)).collect();
            candidates(&rollout, view, &lasting).into_iter().map(|n| view.name(n)).collect()
        };
        assert_eq!(names(&view, &[]), ["n2", "n1"]);
        assert_eq!(names(&view, &["n3"]), ["n3", "n2", "n1"], "it has had its time");
        view.members.get_mut(&node("n3")).expect("a member").may_serve = false;
        assert_eq!(names(&view, &[]), ["n3", "n2", "n1"], "it is known to be ill");
    }
}
