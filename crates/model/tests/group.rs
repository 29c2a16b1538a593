//! The model of election, register and turns, explored whole; and each rule left out once.
#![allow(clippy::print_stdout, reason = "the state count is part of what is shown")]

use baton_model::group::{Break, Group};
use stateright::{Checker, Model};

/// The bounds of the gate. `BATON_MODEL_TERMS`, `_VERSIONS` and `_CLAIMS` change them.
fn bounds() -> Group {
    Group {
        terms: number("BATON_MODEL_TERMS", 3),
        versions: number("BATON_MODEL_VERSIONS", 4),
        claims: number("BATON_MODEL_CLAIMS", 2),
        broken: None,
    }
}

#[test]
fn every_promise_holds_in_every_order() {
    let started = std::time::Instant::now();
    let checker = bounds().checker().threads(threads()).spawn_dfs().join();
    println!(
        "{:?}: {} states, {} of them different, {:?}",
        bounds(),
        checker.state_count(),
        checker.unique_state_count(),
        started.elapsed()
    );
    assert!(checker.is_done(), "not explored whole");
    checker.assert_properties();
}

#[test]
fn every_promise_can_be_broken() {
    let small = Group { terms: 2, versions: 4, claims: 1, broken: None };
    for (broken, property, bounds) in [
        (Break::VoteNotPersisted, "one leader a term", Group { versions: 2, ..small }),
        (
            Break::CommitForeignTerm,
            "a committed record is never lost",
            Group { terms: 3, versions: 2, ..small },
        ),
        (Break::CountsItselfEarly, "a committed record is never lost", small),
        (Break::VotesForOlder, "a committed record is never lost", small),
        (Break::GoWithoutCommit, "a go is acted on only when committed", small),
        (Break::NoClaimWindow, "a go is acted on in its window of its boot", small),
        (Break::NoClaimWindow, "never two turns disrupting at once", small),
        (Break::CountsTwice, "an outcome is counted once", small),
        (Break::NoBudget, "never two turns disrupting at once", small),
    ] {
        let model = Group { broken: Some(broken), ..bounds };
        let wanted = std::collections::BTreeSet::from([property]);
        let checker = model
            .checker()
            .threads(threads())
            .finish_when(stateright::HasDiscoveries::AnyOf(wanted))
            .spawn_bfs()
            .join();
        let found = checker.discovery(property);
        println!(
            "{broken:?}: {} states until \"{property}\" breaks in {} steps",
            checker.unique_state_count(),
            found.as_ref().map_or(0, |path| path.clone().into_actions().len())
        );
        assert!(found.is_some(), "{broken:?} does not break \"{property}\"");
    }
}

fn number(name: &str, usual: u8) -> u8 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
