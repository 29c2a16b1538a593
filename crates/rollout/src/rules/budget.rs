//! Who may be offered a turn: the budget of members that are not available.
//!
//! Invariant: a healthy member is offered a turn only if it, the members in turn and the members
//! not healthy for any reason together number at most `max_unavailable`.

use std::collections::BTreeSet;

use baton_types::NodeId;
use baton_types::policy::Strategy;

use crate::rollout::{Rollout, TurnState};
use crate::state::GroupState;
use crate::view::{Liveness, View};

/// Why `node` may not be offered a turn of `rollout` now, in words; `None` if it may. The same
/// question is asked again before a claim is taken: then `node` itself is in turn already.
pub fn blocker(state: &GroupState, rollout: &Rollout, view: &View, node: NodeId) -> Option<String> {
    let Some(member) = view.members.get(&node) else {
        return Some(format!("{node} is not known to the ring"));
    };
    // A turn that was offered before may go on.
    let is_open = rollout.turn(node).is_some_and(|turn| turn.state.is_open());
    if !view.held.is_empty() && !is_open {
        return Some(view.held.clone());
    }
    if member.liveness != Liveness::Alive {
        return Some(format!("{} {}", member.name, member.complaint()));
    }
    if member.in_turn_elsewhere {
        return Some(format!("{} is in a turn of another group", member.name));
    }
    let can_lose = member.can_lose();
    if rollout.plan.strategy == Strategy::AtOnce || (rollout.is_first() && !can_lose) {
        return None;
    }
    let mut taken: BTreeSet<NodeId> = rollout.open_turns().map(|turn| turn.node).collect();
    taken.extend(astray(rollout, view));
    taken.remove(&node);
    let in_turn = taken.len();
    if can_lose {
        taken.extend(unavailable(state, rollout, view).filter(|ill| *ill != node));
    }
    let budget = rollout.policy().max_unavailable.budget(rollout.group_size as usize);
    if taken.len() < budget {
        return None;
    }
    let names: Vec<String> = if taken.len() > in_turn {
        let ill: BTreeSet<NodeId> = unavailable(state, rollout, view).collect();
        let open = |node: &NodeId| rollout.turn(*node).is_some_and(|turn| turn.state.is_open());
        let ill = taken.iter().filter(|node| ill.contains(*node) && !open(node));
        ill.map(|node| complaint(view, *node)).collect()
    } else {
        taken.iter().map(|node| format!("{} is in its turn", view.name(*node))).collect()
    };
    Some(shorten(names))
}

/// Members that say that they are in a turn of which this record knows nothing: their leader was
/// lost together with the record that gave it.
fn astray<'a>(rollout: &'a Rollout, view: &'a View) -> impl Iterator<Item = NodeId> + 'a {
    view.members
        .iter()
        .filter(|(node, member)| {
            let waits = |turn: &crate::rollout::Turn| turn.state == TurnState::Waiting;
            member.liveness != Liveness::Left
                && !member.phase.is_empty()
                && rollout.turn(**node).is_none_or(waits)
        })
        .map(|(node, _)| *node)
}

/// The members that count as unavailable without being in turn.
pub fn unavailable<'a>(
    state: &'a GroupState,
    rollout: &'a Rollout,
    view: &'a View,
) -> impl Iterator<Item = NodeId> + 'a {
    view.members
        .iter()
        .filter(|(node, member)| {
            member.liveness != Liveness::Left
                && member.ever_ran()
                && !member.is_healthy()
                && !state.cordons.contains(*node)
                && !rollout.turn(**node).is_some_and(|turn| turn.let_pass)
        })
        .map(|(node, _)| *node)
}

/// "n4 is critical: exec exited 2: connection refused".
fn complaint(view: &View, node: NodeId) -> String {
    match view.members.get(&node) {
        Some(member) => format!("{} {}", member.name, member.complaint()),
        None => format!("{node} is not known to the ring"),
    }
}

/// The first few of `names` and how many more there are.
fn shorten(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(SHOWN_MAX);
    names.truncate(SHOWN_MAX);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Members named in one sentence; more would hide the first.
const SHOWN_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::start::tests::rollout;
    use crate::view::MemberView;
    use crate::view::tests::{node, view};
    use baton_types::member::Health;

    type Change = fn(&mut GroupState, &mut Rollout, &mut View);

    fn check(what: &str, max_unavailable: &str, asked: &str, change: Change, want: Option<&str>) {
        let mut view = view(&["n1", "n2", "n3", "n4", "n5"], "n1");
        let mut rollout = rollout(&view);
        rollout.plan.update.max_unavailable = max_unavailable.parse().expect("a limit");
        let mut state = GroupState::default();
        change(&mut state, &mut rollout, &mut view);
        assert_eq!(blocker(&state, &rollout, &view, node(asked)).as_deref(), want, "{what}");
    }

    fn of<'a>(view: &'a mut View, name: &str) -> &'a mut MemberView {
        view.members.get_mut(&node(name)).expect("a member")
    }

    fn open(rollout: &mut Rollout, name: &str) {
        rollout.turn_mut(node(name)).expect("a turn").state = TurnState::Offered;
    }

    #[test]
    fn the_rule() {
        check("all well", "1", "n2", |_, _, _| (), None);
        check("one in turn", "1", "n2", |_, r, _| open(r, "n3"), Some("n3 is in its turn"));
        check("one of two in turn", "2", "n2", |_, r, _| open(r, "n3"), None);
        check("40% of 5 is two", "40%", "n2", |_, r, _| open(r, "n3"), None);
        check(
            "sick members count",
            "40%",
            "n2",
            |_, r, v| {
                open(r, "n3");
                of(v, "n4").liveness = Liveness::Dead;
            },
            Some("n4 is dead"),
        );
        check(
            "one sick",
            "1",
            "n2",
            |_, _, v| of(v, "n4").health = Health::Critical,
            Some("n4 is critical"),
        );
        check(
            "a sick one loses nothing",
            "1",
            "n4",
            |_, _, v| {
                of(v, "n4").health = Health::Critical;
                of(v, "n3").health = Health::Critical;
            },
            None,
        );
        check(
            "but a turn counts for it",
            "1",
            "n4",
            |_, r, v| {
                of(v, "n4").health = Health::Critical;
                open(r, "n2");
            },
            Some("n2 is in its turn"),
        );
        check(
            "a sick member in turn counts once",
            "2",
            "n2",
            |_, r, v| {
                of(v, "n4").health = Health::Critical;
                open(r, "n4");
            },
            None,
        );
        check(
            "a suspect cannot be offered one",
            "1",
            "n2",
            |_, _, v| of(v, "n2").liveness = Liveness::Suspect,
            Some("n2 is suspect"),
        );
        check(
            "an ill one loses nothing",
            "1",
            "n2",
            |_, _, v| {
                of(v, "n2").health = Health::Critical;
                of(v, "n4").health = Health::Critical;
            },
            None,
        );
        check(
            "one that is not known to be ill may lose what it has",
            "1",
            "n2",
            |_, _, v| {
                of(v, "n2").health = Health::Unknown;
                of(v, "n2").may_serve = true;
                of(v, "n4").health = Health::Critical;
            },
            Some("n4 is critical"),
        );
        check(
            "another group",
            "1",
            "n2",
            |_, _, v| of(v, "n2").in_turn_elsewhere = true,
            Some("n2 is in a turn of another group"),
        );
        check(
            "a turn that no record knows of",
            "1",
            "n2",
            |_, _, v| of(v, "n4").phase = baton_types::Text::new("monitoring"),
            Some("n4 is in its turn"),
        );
        let held: Change = |_, _, v| v.held = "two histories have met".to_owned();
        check("held", "1", "n2", held, Some("two histories have met"));
        let under_way: Change = |_, r, v| {
            v.held = "two histories have met".to_owned();
            open(r, "n2");
        };
        check("held, but offered before", "1", "n2", under_way, None);
        check("its own open turn does not block a claim", "1", "n2", |_, r, _| open(r, "n2"), None);
    }

    #[test]
    fn who_does_not_count() {
        check(
            "cordoned",
            "1",
            "n2",
            |s, _, v| {
                of(v, "n4").liveness = Liveness::Dead;
                s.cordons.insert(node("n4"));
            },
            None,
        );
        check(
            "never ran",
            "1",
            "n2",
            |_, _, v| {
                of(v, "n4").running = None;
                of(v, "n4").health = Health::Unknown;
            },
            None,
        );
        check("left", "1", "n2", |_, _, v| of(v, "n4").liveness = Liveness::Left, None);
        check(
            "let pass",
            "1",
            "n2",
            |_, r, v| {
                of(v, "n4").health = Health::Critical;
                r.turn_mut(node("n4")).expect("a turn").let_pass = true;
            },
            None,
        );
        check(
            "at once",
            "1",
            "n2",
            |_, r, _| {
                open(r, "n3");
                r.plan.strategy = Strategy::AtOnce;
            },
            None,
        );
        check(
            "a first rollout, nothing running",
            "1",
            "n2",
            |_, r, v| {
                open(r, "n3");
                r.from = None;
                of(v, "n2").running = None;
            },
            None,
        );
        check(
            "a first rollout disrupts no healthy member",
            "1",
            "n2",
            |_, r, _| {
                open(r, "n3");
                r.from = None;
            },
            Some("n3 is in its turn"),
        );
    }
}
