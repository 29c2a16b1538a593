//! The model of the formation, explored whole; and each rule left out once.
#![allow(clippy::print_stdout, reason = "the state count is part of what is shown")]

use baton_model::formation::{Break, Formation};
use stateright::{Checker, HasDiscoveries, Model};

/// The bounds of the gate: more lineages, or fewer and a lost file. `BATON_MODEL_LINEAGES` names
/// others, with a lost file.
fn bounds() -> Vec<Formation> {
    let text = std::env::var("BATON_MODEL_LINEAGES").ok();
    match text.and_then(|text| text.parse().ok()) {
        Some(lineages) => vec![Formation { lineages, lost_files: 1, ..SMALL }],
        None => vec![Formation { lineages: 3, ..SMALL }, Formation { lost_files: 1, ..SMALL }],
    }
}

const SMALL: Formation =
    Formation { nodes: 4, expect: 2, lineages: 2, lost_files: 0, broken: None };

const ONE_LINEAGE: &str = "no voter is in two lineages that were founded";

#[test]
fn every_promise_holds_in_every_order() {
    for bounds in bounds() {
        let started = std::time::Instant::now();
        let checker = bounds.checker().threads(threads()).symmetry().spawn_dfs().join();
        println!(
            "{bounds:?}: {} states, {} of them different, {:?}",
            checker.state_count(),
            checker.unique_state_count(),
            started.elapsed()
        );
        assert!(checker.is_done(), "not explored whole");
        checker.assert_properties();
    }
}

#[test]
fn every_promise_can_be_broken() {
    for (broken, property) in [
        (Break::ProposalChanges, ONE_LINEAGE),
        (Break::AcceptanceNotDurable, ONE_LINEAGE),
        (Break::FoundsWithMajority, ONE_LINEAGE),
        (Break::FoundsWithMajority, "a voter belongs to what lists it, or is silent"),
        (Break::RecordNotDurable, ONE_LINEAGE),
        (Break::WithdrawsLate, ONE_LINEAGE),
        (Break::AcceptsAnother, ONE_LINEAGE),
        (Break::RefusalNotDurable, ONE_LINEAGE),
        (Break::LetsGoAlone, ONE_LINEAGE),
        (Break::HoldsRefused, ONE_LINEAGE),
        (Break::HoldsRefused, "a file that refused a lineage holds nothing of it"),
    ] {
        breaks(Formation { broken: Some(broken), ..SMALL }, property);
    }
    for broken in [Break::AcceptsForLostFile, Break::LostFileRefuses] {
        breaks(Formation { broken: Some(broken), lost_files: 1, ..SMALL }, ONE_LINEAGE);
    }
}

fn breaks(model: Formation, property: &'static str) {
    let wanted = std::collections::BTreeSet::from([property]);
    let wanted = HasDiscoveries::AnyOf(wanted);
    let checker = model.checker().threads(threads()).finish_when(wanted).spawn_bfs();
    let checker = checker.join();
    let found = checker.discovery(property).map(stateright::Path::into_actions);
    let states = checker.unique_state_count();
    println!("{model:?}: {states} states until \"{property}\" breaks by {found:?}");
    assert!(found.is_some(), "{model:?} does not break \"{property}\"");
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
