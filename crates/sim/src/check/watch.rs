//! The observer looks at the world: after each event at the node that it happened to.
//!
//! Invariant: looking changes nothing but what the observer knows and counts.

use baton_ledger::LedgerFile;
use baton_node::Reply;
use baton_rollout::{GroupState, MemberFile, Turn, TurnState};
use baton_types::{CommandAction, CommandResult, Digest, NodeId};
use baton_wire::codec;
use baton_wire::ledger::{Mark, Record};

use super::budget::NEWS_TAKES;
use super::{
    BUDGET, COUNT, Disruption, HALT, HaltCheck, Known, LEADER, NODE, NodeCheck, OrderCheck,
    PROGRAM, RECORD, Seen, Stop, Truth,
};
use crate::group::FIRST;
use crate::tally::Occurrence;
use crate::world::World;

impl World {
    /// The content of the newest committed record, as somebody sees who sees everything.
    pub fn state(&self) -> Option<&GroupState> {
        self.state_of(FIRST)
    }

    /// The same of any group.
    pub(crate) fn state_of(&self, group: usize) -> Option<&GroupState> {
        self.groups[group].checks.truth().map(|truth| &truth.state)
    }

    fn verdict(&mut self, invariant: &'static str, result: Result<(), String>) {
        if let Err(what) = result {
            self.violate(invariant, what);
        }
    }

    /// Looks at one node after an event, before what it wants done is done.
    pub(crate) fn check(&mut self, host: usize) {
        for group in self.all_groups() {
            if self.setup.carries(host, group) {
                self.look_for_those_back(host, group);
                if self.is_in_turn(host, group) {
                    self.hosts[host].services[group].in_turn_at = Some(self.now);
                }
                self.check_group(host, group);
                self.look_for_meeting(host, group);
            }
        }
    }

    /// A leader notices another lineage.
    fn look_for_meeting(&mut self, host: usize, group: usize) {
        let of = &mut self.groups[group];
        if of.checks.going_on().len() < 2 {
            return;
        }
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let seen = node.observe(&of.name);
        let met = seen.is_some_and(|seen| seen.is_leading() && seen.has_met());
        let was = std::mem::replace(&mut of.checks.seen[host].met, met);
        if met && !was {
            self.tally.count(Occurrence::LineagesMet);
        }
    }

    /// Whether the daemon of a host has a turn of that group.
    fn is_in_turn(&self, host: usize, group: usize) -> bool {
        let node = self.hosts[host].node.as_ref();
        let seen = node.and_then(|node| node.observe(&self.groups[group].name));
        seen.is_some_and(|seen| seen.member().turn.is_some())
    }

    fn check_group(&mut self, host: usize, group: usize) {
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let of = &mut self.groups[group];
        let Some(seen) = node.observe(&of.name) else { return };
        let place = seen.place().map(|(term, version)| Mark { term, version });
        let leading = seen.is_leading();
        let before = &of.checks.seen[host];
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
            let led = of.checks.ledger.leads(host, &name, lineage, ledger.term);
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
            match of.checks.ledger.committed(&name, record) {
                Ok(true) => news = Some((record.clone(), mark, seen.state().clone())),
                Ok(false) => {}
                Err(what) => results.push((RECORD, Err(what))),
            }
        }
        let is_new = leading && !before.leading;
        let met = before.met;
        of.checks.seen[host] = Seen { place, lineage, leading, met };
        if is_new {
            self.tally.count(Occurrence::LeaderChanged);
            self.count_leaders(host, group);
        }
        for (invariant, result) in results {
            self.verdict(invariant, result);
        }
        if let Some((record, mark, state)) = news {
            let truth = Truth { lineage: record.lineage, mark, state };
            self.count_written(group, &record);
            self.new_truth(host, group, truth, &record);
        }
    }

    fn new_truth(&mut self, host: usize, group: usize, truth: Truth, record: &Record) {
        let known = self.known(group);
        let words = format!(
            "{}commits {}.{}: {}",
            self.of_group(group),
            truth.mark.term,
            truth.mark.version,
            self.state_words(group, &truth.state)
        );
        let new = truth.state.clone();
        let checks = &mut self.groups[group].checks;
        checks.program.record(&new);
        let commands = std::mem::take(&mut checks.commands);
        let lineage = checks.lineage(truth.lineage, &record.replaces);
        let old = lineage.state().cloned();
        let verdicts = lineage.record(self.now, truth, &known, &commands);
        checks.commands = commands;
        self.mutter(host, &words);
        self.count_news(group, old.as_ref(), &new, &known);
        if old.is_none() && !record.replaces.is_empty() {
            self.tally.count(Occurrence::Reformed);
        }
        for (invariant, result) in verdicts {
            self.verdict(invariant, result);
        }
    }

    /// Counts what a record shows that the one before it in its lineage did not.
    fn count_news(
        &mut self,
        group: usize,
        old: Option<&GroupState>,
        new: &GroupState,
        known: &Known,
    ) {
        self.tally.record(old, new);
        if known.zones_begun(old) == 1 && known.zones_begun(Some(new)) == 2 {
            self.tally.count(Occurrence::NextZone);
        }
        if OrderCheck.begins(old, new, known) == Ok(true) {
            self.tally.count(Occurrence::InOrder);
        }
        self.count_rollouts(group);
    }

    /// A node leads a group: whether it leads another one, too, or others lead these.
    fn count_leaders(&mut self, host: usize, group: usize) {
        for other in self.all_groups().filter(|other| *other != group) {
            match self.leader_of(other) {
                Some(leader) if leader == host => self.tally.count(Occurrence::LeadsTwo),
                Some(_) => self.tally.count(Occurrence::LedApart),
                None => {}
            }
        }
    }

    /// A record of a group is committed: whether another one rolls at the same time, and whether one of
    /// its members waits for a turn of another group.
    fn count_rollouts(&mut self, group: usize) {
        let rolls = |group: usize| {
            let rollout = self.state_of(group).and_then(|state| state.rollout.as_deref());
            rollout.is_some_and(|rollout| rollout.open_turns().next().is_some())
        };
        let others = || self.all_groups().filter(|other| *other != group);
        let at_once = rolls(group) && others().any(rolls);
        let elsewhere = |host: usize| others().any(|other| self.is_in_turn(host, other));
        let waits = |turn: &Turn| {
            turn.state == TurnState::Waiting
                && self.ids.get(&turn.node).is_some_and(|host| elsewhere(*host))
        };
        let rollout = self.state_of(group).and_then(|state| state.rollout.as_deref());
        let passed_over = rollout.is_some_and(|rollout| rollout.turns.iter().any(waits));
        if at_once {
            self.tally.count(Occurrence::RollAtOnce);
        }
        if passed_over {
            self.tally.count(Occurrence::TurnElsewhere);
        }
    }

    /// What the observer knows of the members beside the record.
    fn known(&self, group: usize) -> Known {
        let long_ago = |since: u64| since + NEWS_TAKES <= self.now;
        let settled = self.net.is_open() && long_ago(self.unsettled);
        let well = |host: &usize| {
            let machine = &self.hosts[*host];
            settled
                && machine.node.is_some()
                && long_ago(machine.daemon_since)
                && self
                    .counts_since(*host, group)
                    .is_some_and(|since| since == 0 || long_ago(since))
                && long_ago(machine.stood_still_until())
                && self.in_turn_elsewhere(*host, group).is_none_or(long_ago)
                && self.well_since(*host, group).is_some_and(long_ago)
        };
        let well =
            self.setup.carriers(group).filter(well).map(|host| self.hosts[host].id).collect();
        let ids = || self.setup.carriers(group).map(|host| (host, self.hosts[host].id));
        let never_in_turn = |at: usize| self.hosts[at].services[group].in_turn_at.is_none();
        let fresh = ids().filter(|(at, _)| never_in_turn(*at)).map(|(_, id)| id).collect();
        let zone = |(at, id)| Some((id, self.setup.zone(at, group)?.clone()));
        let zones = ids().filter_map(zone).collect();
        let places = ids().filter_map(|(at, id)| Some((id, self.setup.place(at)?))).collect();
        Known { well, fresh, zones, places }
    }

    /// When the daemon of `host` last had a turn of another group: who is in one is passed over.
    fn in_turn_elsewhere(&self, host: usize, group: usize) -> Option<u64> {
        let services = self.hosts[host].services.iter().enumerate();
        let others = services.filter(|(other, _)| *other != group);
        others.filter_map(|(_, service)| service.in_turn_at).max()
    }

    fn state_words(&self, group: usize, state: &GroupState) -> String {
        let version = |digest: &Digest| self.groups[group].depot.version(digest);
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
        match self.group_of_file(file) {
            Some((group, "ledger")) => self.ledger_changed(host, group, file),
            Some((group, "turn")) => self.turn_changed(host, group, file),
            _ => {}
        }
    }

    fn ledger_changed(&mut self, host: usize, group: usize, file: &str) {
        let Some(bytes) = self.hosts[host].disk.read(file) else { return };
        let (id, name) = (self.hosts[host].id, &self.hosts[host].name);
        let check = &mut self.groups[group].checks.ledger;
        let over = check.gave_way();
        let result = match codec::decode::<LedgerFile>(bytes) {
            Ok(content) => check.written(host, id, name, &content),
            Err(cause) => Err(format!("{name} wrote a ledger file that does not read: {cause}")),
        };
        if over < check.gave_way() {
            self.tally.count(Occurrence::GaveWay);
        }
        self.verdict(RECORD, result);
    }

    fn turn_changed(&mut self, host: usize, group: usize, file: &str) {
        let Some(bytes) = self.hosts[host].disk.read(file) else { return };
        let (id, name) = (self.hosts[host].id, self.hosts[host].name.clone());
        let content = match codec::decode::<MemberFile>(bytes) {
            Ok(content) => content,
            Err(cause) => {
                let what = format!("{name} wrote a turn that does not read: {cause}");
                return self.verdict(COUNT, Err(what));
            }
        };
        let others = self.groups.iter().enumerate().filter(|(other, _)| *other != group);
        let others = others.filter_map(|(_, other)| {
            let bytes = self.hosts[host].disk.read(&format!("turn.{}", other.name))?;
            Some((&other.name, codec::decode::<MemberFile>(bytes).ok()?))
        });
        let alone = NodeCheck.turn(&content, &others.collect::<Vec<_>>());
        self.verdict(NODE, alone.map_err(|what| format!("{name} {what}")));
        let checks = &mut self.groups[group].checks;
        let mut told = std::mem::take(&mut checks.told);
        let result = told.member(id, &name, &content, checks.state_for(host));
        checks.told = told;
        self.verdict(COUNT, result);
    }

    pub(crate) fn check_reply(&mut self, host: usize, reply: &Reply) {
        let Reply::Command { id, answer } = reply else { return };
        if answer.result != CommandResult::Done {
            self.tally.count(Occurrence::CommandRefused);
            return;
        }
        self.tally.count(Occurrence::CommandDone);
        let mut groups = self.groups.iter();
        let typed = groups.find_map(|of| Some((&of.checks, of.checks.commands.get(id)?)));
        let Some((checks, action)) = typed else { return };
        if matches!(action, CommandAction::Adopt { .. }) {
            self.tally.count(Occurrence::Adopted);
        }
        let result = HaltCheck.acknowledged(*id, action, checks.all_states());
        let name = self.hosts[host].name.clone();
        self.verdict(HALT, result.map_err(|what| format!("{name} acknowledged {what}")));
    }

    pub(crate) fn check_launch(&mut self, host: usize, group: usize, digest: &Digest) {
        let running = self.hosts[host].services[group].process.as_ref().map(|process| process.pid);
        let version = self.groups[group].depot.version(digest);
        let name = self.hosts[host].name.clone();
        let id = self.hosts[host].id;
        let result = self.groups[group].checks.program.launches(id, digest, running);
        self.verdict(PROGRAM, result.map_err(|what| format!("{name} starts {version} {what}")));
    }

    /// A program is told to stop: by a turn it may only be within the budget.
    pub(crate) fn check_halt(&mut self, host: usize, group: usize) {
        if !self.is_well(host, group) {
            return;
        }
        let Some(node) = self.hosts[host].node.as_ref() else { return };
        let of = &self.groups[group];
        let Some(seen) = node.observe(&of.name) else { return };
        let Some(turn) = seen.member().turn.as_ref().filter(|turn| turn.stage.is_disrupting())
        else {
            return;
        };
        let rollout = turn.turn.rollout;
        let phase = turn.turn.phase;
        // Members that never ran a release lose nothing and count for nothing.
        let ran = |other: &usize| of.launches.iter().any(|(on, _)| on == other);
        let others = (0..self.hosts.len()).filter(|other| *other != host).filter(ran);
        let others = others.filter(|other| of.checks.are_together(host, *other));
        let others = others.filter_map(|other| {
            let counts_since = self.counts_since(other, group)?;
            let unwell_since = self.unwell_since(other, group).map(|since| since.max(counts_since));
            Some(Disruption { node: self.hosts[other].id, unwell_since })
        });
        let others: Vec<Disruption> = others.collect();
        let stop = Stop {
            at: self.now,
            node: self.hosts[host].id,
            well_since: self.well_since(host, group).unwrap_or(self.now),
            turn: (rollout, phase),
        };
        let checks = &mut self.groups[group].checks;
        let result = checks.disrupts(stop, &others);
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
