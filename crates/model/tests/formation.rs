//! The model of the formation, explored whole; and each rule left out once.
#![allow(clippy::print_stdout, reason = "the state count is part of what is shown")]

use baton_model::formation::{Break, Formation};
use stateright::{Checker, HasDiscoveries, Model};

const BOUNDS: Formation =
    Formation { nodes: 4, expect: 2, lineages: 3, lost_files: 0, broken: None };

const ONE_LINEAGE: &str = "no voter is in two lineages that were founded";

#[test]
fn every_promise_holds_in_every_order() {
    let checker = BOUNDS.checker().threads(2).spawn_dfs().join();
    println!(
        "{BOUNDS:?}: {} states, {} of them different",
        checker.state_count(),
        checker.unique_state_count()
    );
    assert!(checker.is_done(), "not explored whole");
    checker.assert_properties();
}

#[test]
fn every_promise_can_be_broken() {
    for (broken, property) in [
        (Break::ProposalChanges, ONE_LINEAGE),
        (Break::AcceptanceNotDurable, ONE_LINEAGE),
        (Break::FoundsWithMajority, ONE_LINEAGE),
        (Break::RecordNotDurable, ONE_LINEAGE),
        (Break::WithdrawsLate, ONE_LINEAGE),
        (Break::AcceptsAnother, ONE_LINEAGE),
        (Break::RefusalNotDurable, ONE_LINEAGE),
        (Break::LetsGoAlone, ONE_LINEAGE),
        (Break::HoldsRefused, ONE_LINEAGE),
    ] {
        let model = Formation { broken: Some(broken), lineages: 2, ..BOUNDS };
        let wanted = std::collections::BTreeSet::from([property]);
        let checker =
            model.checker().threads(2).finish_when(HasDiscoveries::AnyOf(wanted)).spawn_bfs();
        let checker = checker.join();
        let found = checker.discovery(property);
        println!(
            "{broken:?}: {} states until \"{property}\" breaks: {:?}",
            checker.unique_state_count(),
            found.as_ref().map(|path| path.clone().into_actions())
        );
        assert!(found.is_some(), "{broken:?} does not break \"{property}\"");
    }
}
