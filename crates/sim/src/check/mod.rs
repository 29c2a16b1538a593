//! The observer who sees everything: what Baton promises, checked after every event.
//!
//! Invariant: a checker never changes the run; it is told what happened and says what was wrong
//! with it. Each is a plain value, so that a test can feed it a run that must fail.

mod baseline;
mod budget;
mod count;
mod effect;
mod halt;
mod ledger;
mod lineage;
mod node;
mod order;
mod outcome;
mod program;
#[cfg(test)]
mod samples;
mod told;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use baton_rollout::GroupState;
use baton_types::{CommandAction, CommandId, LineageId, NodeId};
use baton_wire::ledger::Mark;

use lineage::Lineage;

pub use baseline::BaselineCheck;
pub use budget::{BudgetCheck, Disruption, Stop};
pub use count::CountCheck;
pub use effect::{EffectCheck, Typed};
pub use halt::HaltCheck;
pub use ledger::LedgerCheck;
pub use node::NodeCheck;
pub use order::{Known, OrderCheck};
pub use outcome::OutcomeCheck;
pub use program::ProgramCheck;
pub use told::ToldCheck;

/// A promise that was not kept, and how to see it again.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Of the run.
    pub seed: u64,
    /// Which promise.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
    /// World time.
    pub at: Duration,
    /// The last events in words.
    pub recent: Vec<String>,
    /// The command that plays the run again.
    pub replay: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} broken at {:?}: {}",
            self.seed, self.invariant, self.at, self.what
        )?;
        for line in &self.recent {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "replay: {}", self.replay)
    }
}

/// The newest committed record that any node has seen.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Of which history.
    pub lineage: LineageId,
    /// Where it stands in it.
    pub mark: Mark,
    /// Its content.
    pub state: GroupState,
}

/// All checkers, and what they have in common.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    lineages: BTreeMap<LineageId, Lineage>,
    /// In which of them something was committed last.
    newest: Option<LineageId>,
    ledger: LedgerCheck,
    told: ToldCheck,
    program: ProgramCheck,
    seen: Vec<Seen>,
    commands: Typed,
}

/// What was last seen of one host.
#[derive(Clone, Debug, Default)]
struct Seen {
    place: Option<Mark>,
    lineage: Option<LineageId>,
    leading: bool,
    /// It has met another lineage.
    met: bool,
}

impl Checks {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            lineages: BTreeMap::new(),
            newest: None,
            ledger: LedgerCheck::new(hosts),
            told: ToldCheck::default(),
            program: ProgramCheck::default(),
            seen: vec![Seen::default(); hosts],
            commands: Typed::new(),
        }
    }

    pub(crate) fn started(&mut self, host: usize) {
        self.seen[host] = Seen::default();
    }

    pub(crate) fn ended(&mut self, host: usize) {
        self.seen[host] = Seen::default();
    }

    pub(crate) fn rolled_back(&mut self, host: usize) {
        self.ledger.rolled_back(host);
    }

    /// What that host said with this file does not bind it any more.
    pub(crate) fn lost(&mut self, node: NodeId, host: usize, kind: &str) {
        match kind == "ledger" {
            true => self.ledger.rolled_back(host),
            false => self.told.lost(node),
        }
    }

    pub(crate) fn let_form_apart(&mut self) {
        self.ledger.let_form_apart();
    }

    pub(crate) fn typed(&mut self, id: CommandId, action: &CommandAction) {
        self.commands.insert(id, action.clone());
    }
}

const BUDGET: &str = "invariant 1 (budget)";
const ORDER: &str = "invariant 2 (order)";
const LEADER: &str = "invariant 3 (one leader per term)";
const RECORD: &str = "invariant 3 (committed records stay)";
const COUNT: &str = "invariant 4 (exact count)";
const HALT: &str = "invariant 5 (halt)";
const BASELINE: &str = "invariant 6 (baseline)";
const EFFECT: &str = "invariant 9 (effect of a command)";
const OUTCOME: &str = "a committed outcome stands";
const NODE: &str = "one turn at a time on a node";
pub(crate) const PROGRESS: &str = "invariant 7 (progress)";
const PROGRAM: &str = "a member runs only what it was told, once";
