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
mod order;
mod outcome;
mod program;
#[cfg(test)]
mod samples;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use baton_ledger::LedgerFile;
use baton_node::Reply;
use baton_rollout::{GroupState, MemberFile};
use baton_types::{CommandAction, CommandId, CommandResult, Digest, LineageId, NodeId};
use baton_wire::codec;
use baton_wire::ledger::Mark;

use crate::tally::Occurrence;
use crate::world::World;
use budget::NEWS_TAKES;

pub use baseline::BaselineCheck;
pub use budget::{BudgetCheck, Disruption, Stop};
pub use count::CountCheck;
pub use effect::{EffectCheck, Typed};
pub use halt::HaltCheck;
pub use ledger::LedgerCheck;
pub use order::{Known, OrderCheck};
pub use outcome::OutcomeCheck;
pub use program::ProgramCheck;

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
    pub(crate) truth: Option<Truth>,
    ledger: LedgerCheck,
    count: CountCheck,
    halt: HaltCheck,
    budget: BudgetCheck,
    program: ProgramCheck,
    order: OrderCheck,
    baseline: BaselineCheck,
    effect: EffectCheck,
    outcome: OutcomeCheck,
    seen: Vec<Seen>,
    commands: Typed,
}

/// What was last seen of one host.
#[derive(Clone, Debug, Default)]
struct Seen {
    place: Option<Mark>,
    lineage: Option<LineageId>,
    leading: bool,
}

impl Checks {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            truth: None,
            ledger: LedgerCheck::new(hosts),
            count: CountCheck::default(),
            halt: HaltCheck,
            budget: BudgetCheck::default(),
            program: ProgramCheck::default(),
            order: OrderCheck,
            baseline: BaselineCheck::default(),
            effect: EffectCheck::default(),
            outcome: OutcomeCheck,
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
    pub(crate) fn lost(&mut self, node: NodeId, host: usize, file: &str) {
        match file.starts_with("ledger.") {
            true => self.ledger.rolled_back(host),
            false => self.count.lost(node),
        }
    }

    pub(crate) fn let_form_apart(&mut self) {
        self.ledger.let_form_apart();
    }

    pub(crate) fn typed(&mut self, id: CommandId, action: &CommandAction) {
        self.commands.insert(id, action.clone());
    }
}

impl World {
    /// The content of the newest committed record, as somebody sees who sees everything.
    pub fn state(&self) -> Option<&GroupState> {
        self.checks.truth.as_ref().map(|truth| &truth.state)
    }

    fn verdict(&mut self, invariant: &'static str, result: Result<(), String>) {
        if let Err(what) = result {
            self.violate(invariant, what);
        }
    }

    /// Looks at one node after an event, before what it wants done is done.
    pub(crate) fn check(&mut self, host: usize) {
        self.look_for_those_back(host);
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let Some(seen) = node.observe(&self.group) else { return };
        let place = seen.place().map(|(term, version)| Mark { term, version });
        let leading = seen.is_leading();
        let before = &self.checks.seen[host];
        if before.place == place && before.leading == leading {
            return;
        }
        let name = self.hosts[host].name.clone();
        let mut results = Vec::new();
        let ledger = seen.ledger();
        if leading
            && !before.leading
            && let Some(lineage) = ledger.lineage
        {
            let led = self.checks.ledger.leads(host, &name, lineage, ledger.term);
            results.push((LEADER, led));
        }
        let mut news = None;
        let committed = ledger.committed.map(|record| record.lineage);
        let lineage = committed.or(before.lineage);
        if before.place != place
            && let (Some(mark), Some(record)) = (place, ledger.committed)
        {
            let same = before.lineage == Some(record.lineage);
            if same && before.place.is_some_and(|before| before > mark) {
                let what = format!("{name} goes back from {:?} to {mark:?}", before.place);
                results.push((RECORD, Err(what)));
            }
            match self.checks.ledger.committed(&name, record) {
                Ok(true) => {
                    let written = GroupState::version_of(record.state.as_slice());
                    news = Some((record.lineage, mark, seen.state().clone(), written));
                }
                Ok(false) => {}
                Err(what) => results.push((RECORD, Err(what))),
            }
        }
        if leading && !before.leading {
            self.tally.count(Occurrence::LeaderChanged);
        }
        self.checks.seen[host] = Seen { place, lineage, leading };
        for (invariant, result) in results {
            self.verdict(invariant, result);
        }
        if let Some((lineage, mark, state, written)) = news {
            self.count_written(written);
            self.new_truth(host, Truth { lineage, mark, state });
        }
    }

    fn new_truth(&mut self, host: usize, truth: Truth) {
        // What a lost majority had committed last is not in a lineage that was formed anew.
        let anew = self.checks.truth.as_ref().is_some_and(|old| old.lineage != truth.lineage);
        let before = self.checks.truth.take().filter(|old| old.lineage == truth.lineage);
        let old = before.as_ref().map(|truth| &truth.state);
        let known = self.known();
        let checks = &mut self.checks;
        let results = [
            (ORDER, checks.order.record(old, &truth.state, &known)),
            (COUNT, checks.count.record(old, &truth.state)),
            (HALT, checks.halt.record(old, &truth.state)),
            (BASELINE, checks.baseline.record(old, &truth.state)),
            (
                EFFECT,
                match anew {
                    // Records of two sides follow each other here without being of one group.
                    true if checks.ledger.may_form_apart() => Ok(()),
                    true => checks.effect.formed_anew(&truth.state, &checks.commands),
                    false => checks.effect.record(old, &truth.state, &checks.commands),
                },
            ),
            (OUTCOME, checks.outcome.record(old, &truth.state)),
        ];
        self.tally.record(old, &truth.state);
        if known.zones_begun(old) == 1 && known.zones_begun(Some(&truth.state)) == 2 {
            self.tally.count(Occurrence::NextZone);
        }
        self.checks.budget.record(self.now, &truth.state);
        self.checks.program.record(&truth.state);
        let words = format!(
            "commits {}.{}: {}",
            truth.mark.term,
            truth.mark.version,
            self.state_words(&truth.state)
        );
        self.checks.truth = Some(truth);
        self.mutter(host, &words);
        for (invariant, result) in results {
            self.verdict(invariant, result);
        }
    }

    /// What the observer knows of the members beside the record.
    fn known(&self) -> Known {
        let long_ago = |since: u64| since + NEWS_TAKES <= self.now;
        let settled = self.net.is_open() && long_ago(self.unsettled);
        let well = |host: &usize| {
            let machine = &self.hosts[*host];
            settled
                && machine.node.is_some()
                && long_ago(machine.daemon_since)
                && self.counts_since(*host).is_some_and(|since| since == 0 || long_ago(since))
                && long_ago(machine.stood_still_until())
                && self.well_since(*host).is_some_and(long_ago)
        };
        let well = (0..self.hosts.len()).filter(well).map(|host| self.hosts[host].id).collect();
        let zones = match self.setup.zoned {
            true => self.hosts.iter().map(|host| (host.id, host.zone.to_owned())).collect(),
            false => BTreeMap::new(),
        };
        Known { well, zones }
    }

    fn state_words(&self, state: &GroupState) -> String {
        let version = |digest: &Digest| self.depot.version(digest);
        let baseline = state.baseline().map(|target| version(&target.release.digest));
        let pause = if state.pause.is_some() { ", paused by hand" } else { "" };
        let rollout = state.rollout.as_ref().map_or(String::new(), |rollout| {
            let turns: Vec<String> = rollout
                .turns
                .iter()
                .map(|turn| {
                    let name = self.name_of(turn.node);
                    format!("{name} {}{}", turn.state, if turn.let_pass { " let pass" } else { "" })
                })
                .collect();
            format!(
                ", {} {:?} to {} {} phase {} ({}) [{}]",
                rollout.kind,
                rollout.id,
                version(&rollout.target().release.digest),
                rollout.state,
                rollout.phase,
                rollout.reason,
                turns.join(", ")
            )
        });
        format!("baseline {}{pause}{rollout}", baseline.unwrap_or_else(|| "none".to_owned()))
    }

    pub(crate) fn name_of(&self, node: NodeId) -> String {
        match self.ids.get(&node) {
            Some(host) => self.hosts[*host].name.clone(),
            None => format!("{node:?}"),
        }
    }

    /// A durable file changed.
    pub(crate) fn file_changed(&mut self, host: usize, file: &str) {
        let name = self.hosts[host].name.clone();
        if file.starts_with("ledger.") {
            let result = match self.hosts[host].disk.read(file).map(codec::decode::<LedgerFile>) {
                None => Ok(()),
                Some(Ok(content)) => {
                    let id = self.hosts[host].id;
                    self.checks.ledger.written(host, id, &name, &content)
                }
                Some(Err(cause)) => {
                    Err(format!("{name} wrote a ledger file that does not read: {cause}"))
                }
            };
            self.verdict(RECORD, result);
        } else if file.starts_with("turn.") {
            let id = self.hosts[host].id;
            let result = match self.hosts[host].disk.read(file).map(codec::decode::<MemberFile>) {
                None => Ok(()),
                Some(Ok(content)) => {
                    let state = self.checks.truth.as_ref().map(|truth| &truth.state);
                    self.checks.count.member(id, &name, &content, state)
                }
                Some(Err(cause)) => Err(format!("{name} wrote a turn that does not read: {cause}")),
            };
            self.verdict(COUNT, result);
        }
    }

    pub(crate) fn check_reply(&mut self, host: usize, reply: &Reply) {
        let Reply::Command { id, answer } = reply else { return };
        if answer.result != CommandResult::Done {
            self.tally.count(Occurrence::CommandRefused);
            return;
        }
        self.tally.count(Occurrence::CommandDone);
        let Some(action) = self.checks.commands.get(id) else { return };
        let state = self.checks.truth.as_ref().map(|truth| &truth.state);
        let result = self.checks.halt.acknowledged(*id, action, state);
        let name = self.hosts[host].name.clone();
        self.verdict(HALT, result.map_err(|what| format!("{name} acknowledged {what}")));
    }

    pub(crate) fn check_launch(&mut self, host: usize, digest: &Digest) {
        let running = self.hosts[host].process.as_ref().map(|process| process.pid);
        let version = self.depot.version(digest);
        let name = self.hosts[host].name.clone();
        let id = self.hosts[host].id;
        let result = self.checks.program.launches(id, digest, running);
        self.verdict(PROGRAM, result.map_err(|what| format!("{name} starts {version} {what}")));
    }

    /// A program is told to stop: by a turn it may only be within the budget.
    pub(crate) fn check_halt(&mut self, host: usize) {
        if !self.is_well(host) {
            return;
        }
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let Some(seen) = node.observe(&self.group) else { return };
        let Some(turn) = seen.member().turn.as_ref().filter(|turn| turn.stage.is_disrupting())
        else {
            return;
        };
        let rollout = turn.turn.rollout;
        let phase = turn.turn.phase;
        let state = self.checks.truth.as_ref().map(|truth| &truth.state);
        // Members that never ran a release lose nothing and count for nothing.
        let ran = |other: &usize| self.launches.iter().any(|(on, _)| on == other);
        let others = (0..self.hosts.len()).filter(|other| *other != host).filter(ran);
        let others = others.filter_map(|other| {
            let counts_since = self.counts_since(other)?;
            let unwell_since = self.unwell_since(other).map(|since| since.max(counts_since));
            Some(Disruption { node: self.hosts[other].id, unwell_since })
        });
        let others: Vec<Disruption> = others.collect();
        let stop = Stop {
            at: self.now,
            node: self.hosts[host].id,
            well_since: self.well_since(host).unwrap_or(self.now),
            turn: (rollout, phase),
        };
        let result = self.checks.budget.disrupts(stop, &others, state);
        let result = result.map_err(|nodes| {
            let names: Vec<String> = nodes.iter().map(|node| self.name_of(*node)).collect();
            format!(
                "{} is disrupted while {} are not well",
                self.hosts[host].name,
                names.join(", ")
            )
        });
        self.verdict(BUDGET, result);
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
const PROGRAM: &str = "a member runs only what it was told, once";
