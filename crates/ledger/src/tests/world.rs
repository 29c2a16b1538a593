//! Ledgers on a virtual clock, network and disk. A seed replays byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::{LineageId, Moment, NodeId};
use baton_wire::ledger::{LedgerMessage, StateBytes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::checks::Checks;
use crate::{Ledger, LedgerFile, LedgerOutput, LedgerSettings, NoReform, Opened, Role};

/// What goes wrong, in parts of a thousand, and how slow things are, in milliseconds.
#[derive(Clone)]
pub(super) struct Faults {
    pub(super) loss: u32,
    pub(super) duplication: u32,
    pub(super) delay_max: u64,
    pub(super) write_max: u64,
    pub(super) write_fails: u32,
}

pub(super) const CALM: Faults =
    Faults { loss: 0, duplication: 0, delay_max: 2, write_max: 3, write_fails: 0 };

/// What is on a host's disk.
#[derive(Clone, Debug)]
pub(super) enum Disk {
    Nothing,
    Damaged,
    Holds(Box<LedgerFile>),
}

pub(super) struct Host {
    pub(super) disk: Disk,
    pub(super) ledger: Option<Ledger>,
    pub(super) boot: u64,
    writes_fail: bool,
    pub(super) notes: Vec<String>,
    pub(super) commits: usize,
    pub(super) leading: bool,
    /// What came of the last reform asked of it.
    pub(super) reformed: Option<Result<LineageId, NoReform>>,
}

pub(super) enum Event {
    Deliver { from: usize, to: usize, message: Box<LedgerMessage> },
    Written { host: usize, boot: u64, token: u64, file: Box<LedgerFile>, ok: bool },
    Gossip,
}

pub(super) struct World {
    pub(super) now: Moment,
    pub(super) rng: StdRng,
    pub(super) hosts: Vec<Host>,
    pub(super) faults: Faults,
    pub(super) checks: Checks,
    /// Links that carry nothing, in this direction.
    pub(super) cut: BTreeSet<(usize, usize)>,
    pub(super) settings: LedgerSettings,
    pub(super) sent: BTreeMap<&'static str, usize>,
    pub(super) records_sent: usize,
    pub(super) left: BTreeSet<usize>,
    pub(super) lost_one: bool,
    pub(super) events: BTreeMap<(Moment, u64), Event>,
    pub(super) sequence: u64,
    /// Ticks without time going by: a live-lock fails the test.
    pub(super) spins: u32,
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn node(host: usize) -> NodeId {
    NodeId::from_random((host as u128 + 1) << 112)
}

impl World {
    /// `hosts` machines, all off.
    pub(super) fn new(seed: u64, hosts: usize, expect: u32) -> Self {
        let settings = LedgerSettings {
            me: node(0),
            heartbeat: ms(40),
            election_timeout: ms(300),
            settle: ms(300),
            expect,
            voter_limit: 7,
            replace_dead_after: ms(600_000),
            initial_state: StateBytes::default(),
        };
        let host = |_| Host {
            disk: Disk::Nothing,
            ledger: None,
            boot: 0,
            writes_fail: false,
            notes: Vec::new(),
            commits: 0,
            leading: false,
            reformed: None,
        };
        let mut world = Self {
            now: Moment::from_millis(1_000),
            rng: StdRng::seed_from_u64(seed),
            hosts: (0..hosts).map(host).collect(),
            faults: CALM,
            checks: Checks::default(),
            cut: BTreeSet::new(),
            settings,
            sent: BTreeMap::new(),
            records_sent: 0,
            left: BTreeSet::new(),
            lost_one: false,
            events: BTreeMap::new(),
            sequence: 0,
            spins: 0,
        };
        world.schedule(ms(1), Event::Gossip);
        world
    }

    /// A group that has formed and has a leader.
    pub(super) fn formed(seed: u64, hosts: usize) -> Self {
        let mut world = Self::new(seed, hosts, hosts as u32);
        (0..hosts).for_each(|host| world.boot(host));
        world.run_until("a leader", ms(10_000), |world| {
            world.leader().is_some() && world.hosts.iter().all(|host| host.commits > 0)
        });
        world
    }

    pub(super) fn boot(&mut self, host: usize) {
        let opened = match &self.hosts[host].disk {
            Disk::Nothing => Opened::Missing,
            Disk::Damaged => Opened::Damaged,
            Disk::Holds(file) => Opened::File(file.clone()),
        };
        let settings = LedgerSettings { me: node(host), ..self.settings.clone() };
        let ledger = Ledger::open(settings, opened, self.rng.random(), self.now);
        self.checks.starts(node(host));
        self.hosts[host].boot += 1;
        self.hosts[host].ledger = Some(ledger);
        self.after(host);
    }

    /// Power off. A write under way is lost or done, but nobody was told.
    pub(super) fn crash(&mut self, host: usize) {
        let (boot, coin) = (self.hosts[host].boot, self.rng.random::<bool>());
        self.hosts[host].ledger = None;
        self.hosts[host].leading = false;
        let under_way = self.events.values().find_map(|event| match event {
            Event::Written { host: h, boot: b, file, ok: true, .. }
                if (*h, *b) == (host, boot) && coin =>
            {
                Some(file.clone())
            }
            _ => None,
        });
        if let Some(file) = under_way {
            self.hosts[host].disk = Disk::Holds(file);
        }
    }

    pub(super) fn fail_writes(&mut self, host: usize, fail: bool) {
        self.hosts[host].writes_fail = fail;
    }

    pub(super) fn ledger(&mut self, host: usize) -> &mut Ledger {
        self.hosts[host].ledger.as_mut().expect("the host is up")
    }

    /// The host whose ledger would take a proposal, or is about to.
    pub(super) fn leader(&self) -> Option<usize> {
        self.hosts.iter().position(|host| host.leading)
    }

    pub(super) fn up(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].ledger.is_some()).collect()
    }

    /// The leader adds a byte to the committed content, if it may.
    pub(super) fn propose(&mut self, host: usize, byte: u8) -> bool {
        let now = self.now;
        let Some(ledger) = &mut self.hosts[host].ledger else { return false };
        let Some(record) = ledger.view().committed else { return false };
        let mut state = record.state.as_slice().to_vec();
        state.push(byte);
        let done = ledger.propose(now, StateBytes::new(state).expect("small")).is_ok();
        self.after(host);
        done
    }

    /// An operator types `reform` there; what comes of it is in `reformed`.
    pub(super) fn reform(&mut self, host: usize) {
        let now = self.now;
        self.hosts[host].reformed = self.ledger(host).survey(now).err().map(Err);
        self.after(host);
    }

    pub(super) fn isolate(&mut self, host: usize) {
        for other in 0..self.hosts.len() {
            self.cut.extend([(host, other), (other, host)]);
        }
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until `done`, and fails when that takes longer than `limit`.
    pub(super) fn run_until(&mut self, what: &str, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.step(end), "{what} within {limit:?}:\n{}", self.picture());
        }
    }

    pub(super) fn picture(&self) -> String {
        let line = |host: usize| match &self.hosts[host].ledger {
            None => format!("{host} down\n"),
            Some(ledger) => {
                let view = ledger.view();
                format!(
                    "{host} {:?} file {:?} {:?} t{} leader {:?} committed {:?} newest {:?} voters {:?} {} {}\n",
                    view.role,
                    view.file,
                    view.lineage,
                    view.term,
                    view.leader,
                    view.committed.map(|r| (r.term.0, r.version)),
                    view.newest.map(|r| (r.term.0, r.version)),
                    view.voters.iter().map(|v| (v.node, v.file)).collect::<Vec<_>>(),
                    view.quorum_reason,
                    self.hosts[host].notes.join("; ")
                )
            }
        };
        (0..self.hosts.len()).map(line).collect()
    }

    /// Delivers one message as if it had come from `from`.
    pub(super) fn inject(&mut self, from: NodeId, to: usize, message: LedgerMessage) {
        let now = self.now;
        self.ledger(to).receive(now, from, message);
        self.after(to);
    }

    pub(super) fn after(&mut self, host: usize) {
        let now = self.now;
        let Some(ledger) = &mut self.hosts[host].ledger else { return };
        for output in ledger.take_outputs() {
            match output {
                LedgerOutput::Send { to, message } => self.post(host, to, message),
                LedgerOutput::Persist { token, file } => {
                    let fails = self.hosts[host].writes_fail
                        || self.rng.random_range(0..1_000) < self.faults.write_fails;
                    let delay = self.rng.random_range(0..=self.faults.write_max * 1_000);
                    let boot = self.hosts[host].boot;
                    let event = Event::Written { host, boot, token, file, ok: !fails };
                    self.schedule(Duration::from_micros(delay), event);
                }
                LedgerOutput::Committed(record) => {
                    self.hosts[host].commits += 1;
                    let verdict = self.checks.committed(node(host), &record);
                    assert_eq!(verdict, Ok(()), "at {now:?} on {host}\n{}", self.picture());
                }
                LedgerOutput::Leading { .. } => self.hosts[host].leading = true,
                LedgerOutput::NotLeading => {
                    assert!(self.hosts[host].leading, "not leading without leading");
                    self.hosts[host].leading = false;
                }
                LedgerOutput::Note(note) | LedgerOutput::Warning(note) => {
                    self.hosts[host].notes.push(note);
                }
                LedgerOutput::Surveyed(result) => {
                    let reformed = result.and_then(|survey| {
                        self.ledger(host).reform(now, &survey, survey.state.clone())
                    });
                    self.hosts[host].reformed = Some(reformed);
                    self.after(host);
                }
            }
        }
        let Some(ledger) = &self.hosts[host].ledger else { return };
        let view = ledger.view();
        if view.role == Role::Leader
            && let Some(lineage) = view.lineage
        {
            assert_eq!(self.checks.leads(lineage, view.term, node(host)), Ok(()));
        }
    }
}
