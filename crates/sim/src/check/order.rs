//! Invariant 2: no turn starts while `max_unavailable` earlier ones are unfinished, nor before the
//! earlier wave and zone have ended.
//!
//! Who is ill goes first, and who is thought ill is passed over; so the order itself is held only
//! against members that everybody must know to be well.

use std::collections::{BTreeMap, BTreeSet};

use baton_rollout::{GroupState, Rollout, Turn, TurnState};
use baton_types::NodeId;
use baton_types::policy::Strategy;

/// Needs no memory: turns, waves and zones are in the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderCheck;

/// What the observer knows of the members besides.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Members that have been well for longer than news of anything else takes.
    pub well: BTreeSet<NodeId>,
    /// Members that never were in a turn: they run nothing, so nobody can take them for ill.
    pub fresh: BTreeSet<NodeId>,
    /// Where members stand, by the label that makes zones.
    pub zones: BTreeMap<NodeId, String>,
    /// The places in the order of those that have a label of it.
    pub places: BTreeMap<NodeId, i32>,
}

impl Known {
    /// In how many zones members were offered turns of the phase under way.
    pub(crate) fn zones_begun(&self, state: Option<&GroupState>) -> usize {
        let Some(rollout) = state.and_then(|state| state.rollout.as_deref()) else { return 0 };
        let begun = rollout.turns.iter().filter(|turn| {
            turn.phase == rollout.phase && turn.attempts > 0 && turn.state != TurnState::Waiting
        });
        begun.filter_map(|turn| self.zones.get(&turn.node)).collect::<BTreeSet<_>>().len()
    }
}

impl OrderCheck {
    /// A rollout begins: whether it is in the order of the members' labels, which is not one alone.
    ///
    /// # Errors
    ///
    /// A member that is known to be well stands before one with an earlier place.
    pub fn begins(
        self,
        old: Option<&GroupState>,
        new: &GroupState,
        known: &Known,
    ) -> Result<bool, String> {
        let Some(rollout) = new.rollout.as_deref().filter(|_| old.is_some()) else {
            return Ok(false);
        };
        let was_there = |old: &GroupState| {
            let before = [&old.rollout, &old.next].into_iter().flatten();
            before.into_iter().any(|before| before.id == rollout.id)
        };
        if known.places.is_empty() || old.is_some_and(was_there) {
            return Ok(false);
        }
        let zoned = rollout.policy().zone_label.is_some();
        let place = |turn: &Turn| {
            let zone = known.zones.get(&turn.node).filter(|_| zoned);
            (zone, known.places.get(&turn.node).copied().unwrap_or_default())
        };
        let is_well = |turn: &&Turn| known.well.contains(&turn.node);
        let well: Vec<&Turn> = rollout.turns.iter().filter(is_well).collect();
        if let Some(pair) = well.windows(2).find(|pair| place(pair[0]) > place(pair[1])) {
            let [before, after] = [pair[0], pair[1]].map(|turn| (turn.node, place(turn)));
            return Err(format!("{before:?} stands before {after:?}"));
        }
        let places = || rollout.turns.iter().map(place);
        Ok(places().is_sorted() && places().next() != places().next_back())
    }

    /// A committed record follows another one.
    ///
    /// # Errors
    ///
    /// A turn that it offers comes too early.
    pub fn record(
        self,
        old: Option<&GroupState>,
        new: &GroupState,
        known: &Known,
    ) -> Result<(), String> {
        let Some(rollout) = new.rollout.as_deref() else { return Ok(()) };
        let before = old.and_then(|old| old.rollout.as_deref()).filter(|old| old.id == rollout.id);
        let fresh: BTreeSet<NodeId> = rollout
            .open_turns()
            .filter(|turn| {
                let offers = before.and_then(|before| before.turn(turn.node)).map(|t| t.attempts);
                offers.unwrap_or(0) < turn.attempts
            })
            .map(|turn| turn.node)
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        window(rollout)?;
        wave(before, rollout, &fresh)?;
        zone(rollout, &fresh, known)?;
        turn_by_turn(new, rollout, &fresh, known)
    }
}

/// No more turns are open than may be unavailable.
fn window(rollout: &Rollout) -> Result<(), String> {
    let open = rollout.open_turns().count();
    let most = rollout.policy().max_unavailable.budget(rollout.group_size as usize);
    let free = rollout.is_first() || rollout.plan.strategy == Strategy::AtOnce;
    match !free && open > most {
        true => Err(format!("{open} turns are open, at most {most} may be")),
        false => Ok(()),
    }
}

/// What is offered belongs to the wave under way, and the one before it has ended.
fn wave(
    before: Option<&Rollout>,
    rollout: &Rollout,
    fresh: &BTreeSet<NodeId>,
) -> Result<(), String> {
    let Some(wave) = rollout.policy().waves.get(rollout.wave as usize) else {
        return earlier_wave(before, rollout, fresh);
    };
    let had = rollout
        .turns
        .iter()
        .filter(|turn| turn.phase == rollout.phase && turn.state != TurnState::Waiting)
        .count();
    let end = wave.wave_end(rollout.concerned());
    if had > end {
        return Err(format!("{had} members had their turn in a wave that ends with {end}"));
    }
    earlier_wave(before, rollout, fresh)
}

fn earlier_wave(
    before: Option<&Rollout>,
    rollout: &Rollout,
    fresh: &BTreeSet<NodeId>,
) -> Result<(), String> {
    let next = before.is_some_and(|b| b.phase == rollout.phase && b.wave < rollout.wave);
    let open = rollout.open_turns().find(|turn| !fresh.contains(&turn.node));
    match open.filter(|_| next) {
        Some(turn) => Err(format!(
            "a wave begins while the turn of {:?} in the one before is {}",
            turn.node, turn.state
        )),
        None => Ok(()),
    }
}

/// Never two zones at once, and who is not ill waits for all of the zone before.
fn zone(rollout: &Rollout, fresh: &BTreeSet<NodeId>, known: &Known) -> Result<(), String> {
    if rollout.policy().zone_label.is_none() {
        return Ok(());
    }
    for node in fresh {
        let zone = known.zones.get(node);
        if let Some(other) = rollout.open_turns().find(|t| known.zones.get(&t.node) != zone) {
            return Err(format!(
                "{node:?} of zone {zone:?} is offered its turn beside {:?} of another",
                other.node
            ));
        }
        let before = rollout.turns.iter().take_while(|turn| turn.node != *node);
        let mut waiting = before
            .filter(|turn| turn.phase == rollout.phase && turn.state == TurnState::Waiting)
            .filter(|turn| known.zones.get(&turn.node) != zone);
        if (known.well.contains(node) || known.fresh.contains(node))
            && let Some(other) = waiting.next()
        {
            return Err(format!(
                "{node:?} of zone {zone:?} is offered its turn while {:?} of another waits for its own",
                other.node
            ));
        }
    }
    Ok(())
}

/// Who is known to be well does not go before another one who is, too.
fn turn_by_turn(
    state: &GroupState,
    rollout: &Rollout,
    fresh: &BTreeSet<NodeId>,
    known: &Known,
) -> Result<(), String> {
    let of_phase = || rollout.turns.iter().filter(|turn| turn.phase == rollout.phase);
    let waits = |turn: &&Turn| {
        turn.state == TurnState::Waiting
            && known.well.contains(&turn.node)
            && !state.cordons.contains(&turn.node)
    };
    let Some((at, first)) = of_phase().enumerate().find(|(_, turn)| waits(turn)) else {
        return Ok(());
    };
    let early = of_phase()
        .skip(at)
        .find(|turn| fresh.contains(&turn.node) && known.well.contains(&turn.node));
    match early {
        Some(turn) => Err(format!("{:?} is offered its turn before {:?}", turn.node, first.node)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{node, rollout, running, turn, with};
    use baton_types::policy::Limit;

    fn all_well() -> Known {
        let zones = (1..=3).map(|n| (node(n), if n < 3 { "a" } else { "b" }.to_owned()));
        let places = BTreeMap::new();
        let well = (1..=3).map(node).collect();
        Known { well, zones: zones.collect(), places, ..Known::default() }
    }

    #[test]
    fn a_turn_beyond_the_window_is_seen() {
        let one = with(&running(), 1, TurnState::Monitoring);
        let two = with(&one, 2, TurnState::Offered);
        let check =
            |old: &GroupState, new: &GroupState| OrderCheck.record(Some(old), new, &all_well());
        assert_eq!(check(&running(), &one), Ok(()));
        assert!(check(&one, &two).is_err_and(|what| what.contains("2 turns are open")));
        let mut wide = two.clone();
        rollout(&mut wide).plan.update.max_unavailable = Limit::Count(2);
        assert_eq!(check(&one, &wide), Ok(()));
        let mut first = two.clone();
        rollout(&mut first).from = None;
        assert_eq!(check(&one, &first), Ok(()), "nobody has anything to lose");
        assert_eq!(check(&two, &two), Ok(()), "nothing is offered");
    }

    #[test]
    fn a_turn_before_the_wave_before_has_ended_is_seen() {
        let waves = |state: &GroupState, wave: u32| {
            let mut state = state.clone();
            let rollout = rollout(&mut state);
            rollout.plan.update.waves = vec![Limit::Count(1), Limit::Percent(100)];
            rollout.plan.update.max_unavailable = Limit::Count(3);
            rollout.wave = wave;
            state
        };
        let open = with(&running(), 1, TurnState::Monitoring);
        let passed = with(&running(), 1, TurnState::Passed);
        let second = |state: &GroupState| with(state, 2, TurnState::Offered);
        for (old, new, fits) in [
            (waves(&running(), 0), waves(&open, 0), true),
            (waves(&open, 0), waves(&second(&open), 0), false),
            (waves(&open, 0), waves(&second(&open), 1), false),
            (waves(&open, 0), waves(&second(&passed), 1), true),
        ] {
            assert_eq!(OrderCheck.record(Some(&old), &new, &all_well()).is_ok(), fits);
        }
    }

    #[test]
    fn two_zones_at_once_are_seen() {
        let mut old = with(&running(), 2, TurnState::Monitoring);
        turn(&mut old, 1).state = TurnState::Passed;
        rollout(&mut old).plan.update.max_unavailable = Limit::Count(3);
        let new = with(&old, 3, TurnState::Offered);
        assert_eq!(OrderCheck.record(Some(&old), &new, &all_well()), Ok(()));
        let zoned = |state: &GroupState| {
            let mut state = state.clone();
            rollout(&mut state).plan.update.zone_label = Some("zone".to_owned());
            state
        };
        assert!(OrderCheck.record(Some(&zoned(&old)), &zoned(&new), &all_well()).is_err());
        // One of the first zone is passed over.
        let mut early = with(&running(), 3, TurnState::Offered);
        turn(&mut early, 1).state = TurnState::Passed;
        let mut known = all_well();
        known.well.remove(&node(2));
        assert_eq!(OrderCheck.record(Some(&running()), &early, &known), Ok(()));
        assert!(OrderCheck.record(Some(&zoned(&running())), &zoned(&early), &known).is_err());
        known.well.remove(&node(3));
        let ill = OrderCheck.record(Some(&zoned(&running())), &zoned(&early), &known);
        assert_eq!(ill, Ok(()), "who is ill waits for nobody");
        known.fresh.insert(node(3));
        let first = OrderCheck.record(Some(&zoned(&running())), &zoned(&early), &known);
        assert!(first.is_err(), "who never ran anything is not ill");
        let over = with(&new, 2, TurnState::Passed);
        assert_eq!(OrderCheck.record(Some(&zoned(&old)), &zoned(&over), &all_well()), Ok(()));
    }

    #[test]
    fn a_rollout_against_the_labels_is_seen() {
        let old = GroupState::default();
        let check = |places: [i32; 3], well: &[u128]| {
            let places = (1..=3).map(node).zip(places).collect();
            let well = well.iter().copied().map(node).collect();
            let known = Known { well, places, ..Known::default() };
            OrderCheck.begins(Some(&old), &running(), &known)
        };
        assert_eq!(check([-1, 0, 0], &[1, 2, 3]), Ok(true));
        assert_eq!(check([1, 1, 1], &[1, 2, 3]), Ok(false), "one place");
        assert!(check([1, 0, 2], &[1, 2, 3]).is_err());
        assert_eq!(check([1, 0, 2], &[1, 3]), Ok(false), "nobody knows of the second");
        let mut zoned = running();
        rollout(&mut zoned).plan.update.zone_label = Some("zone".to_owned());
        let places = [(node(1), 5), (node(3), -1)].into();
        let in_zones = |new: &GroupState, places: &BTreeMap<NodeId, i32>| {
            let known = Known { places: places.clone(), ..all_well() };
            OrderCheck.begins(Some(&old), new, &known)
        };
        assert!(in_zones(&zoned, &places).is_err(), "the second has place 0");
        let places = [(node(2), 5), (node(3), -1)].into();
        assert_eq!(in_zones(&zoned, &places), Ok(true), "its zone is the later one");
        assert!(in_zones(&running(), &places).is_err(), "without zones it comes first");
    }

    #[test]
    fn a_turn_out_of_order_is_seen() {
        let second = with(&running(), 2, TurnState::Offered);
        let check =
            |new: &GroupState, known: &Known| OrderCheck.record(Some(&running()), new, known);
        assert!(check(&second, &all_well()).is_err());
        let mut known = all_well();
        known.well.remove(&node(1));
        assert_eq!(check(&second, &known), Ok(()), "perhaps the first was not well");
        let mut known = all_well();
        known.well.remove(&node(2));
        assert_eq!(check(&second, &known), Ok(()), "the ill go first");
        let mut cordoned = second.clone();
        cordoned.cordons.insert(node(1));
        assert_eq!(check(&cordoned, &all_well()), Ok(()));
    }
}
