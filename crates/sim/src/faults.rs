//! Daemons and machines that die and come back.
//!
//! Invariant: a dead daemon leaves its program alone, a dead machine takes it along; writes under
//! way are done or not, each by chance.

use std::sync::Arc;
use std::time::Duration;

use baton_node::Event;
use baton_types::Digest;

use crate::group::FIRST;
use crate::net::Weather;
use crate::program::micros;
use crate::tally::Occurrence;
use crate::world::{What, World};

/// Something that befalls a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL for the daemon; it is started again after so many microseconds, or by hand.
    Kill { host: usize, back: Option<u64> },
    /// The daemon of that life ends after its goodbye.
    Ends { host: usize, life: u64 },
    /// The power fails.
    PowerOff { host: usize, back: Option<u64> },
    /// The machine reboots in good order: nothing is lost, but its programs end.
    Reboot { host: usize, back: u64 },
    /// The daemon is started, unless another plan was made meanwhile.
    Start { host: usize, plan: u64 },
}

impl World {
    pub(crate) fn befall(&mut self, fault: Fault) {
        match fault {
            Fault::Kill { host, back } => self.kill_back(host, back),
            Fault::Ends { host, life } => {
                if self.is_life(host, life) {
                    self.kill_back(host, None);
                }
            }
            Fault::PowerOff { host, back } => {
                self.say(host, "the power fails");
                self.tally.count(Occurrence::PowerFailed);
                self.lose_power(host, back);
            }
            Fault::Reboot { host, back } => {
                if self.hosts[host].powered {
                    self.say(host, "the machine reboots");
                    self.tally.count(Occurrence::Rebooted);
                    self.lose_power(host, Some(back));
                }
            }
            Fault::Start { host, plan } => {
                if self.hosts[host].plan != plan {
                    return;
                }
                match self.hosts[host].suspended_until(self.now) {
                    // Nobody starts a daemon on a machine that stands still.
                    Some(until) => {
                        self.later(until - self.now, What::Fault(Fault::Start { host, plan }));
                    }
                    None => self.switch_on(host),
                }
            }
        }
    }

    fn kill_back(&mut self, host: usize, back: Option<u64>) {
        if self.hosts[host].node.is_none() {
            return;
        }
        self.say(host, "the daemon is killed");
        self.tally.count(Occurrence::DaemonKilled);
        self.stop_daemon(host);
        self.come_back(host, back);
    }

    fn lose_power(&mut self, host: usize, back: Option<u64>) {
        self.stop_daemon(host);
        for pid in self.processes(host) {
            self.end_process(host, pid);
        }
        self.hosts[host].powered = false;
        for (file, is_lost) in self.hosts[host].disk.lose_unsynced(&mut self.rng) {
            match is_lost {
                true => self.tally.count(Occurrence::UnsyncedLost),
                false => self.file_changed(host, &file),
            }
        }
        self.come_back(host, back);
    }

    fn stop_daemon(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        machine.node = None;
        machine.tick_at = None;
        // A killed daemon is stopped no more, and who pulls the plug ends a suspension.
        machine.go_on(self.now);
        machine.plan += 1;
        machine.hooks.clear();
        machine.disk.busy_until = 0;
        let under_way = machine.disk.under_way();
        let kept = machine.disk.crash(&mut self.rng);
        for _ in kept.len()..under_way {
            self.tally.count(Occurrence::WriteLost);
        }
        for file in kept {
            self.tally.count(Occurrence::WriteKept);
            self.file_changed(host, &file);
        }
        self.groups.iter_mut().for_each(|group| group.checks.ended(host));
    }

    /// A machine that is off is switched on again `after`.
    pub(crate) fn come_back_in(&mut self, host: usize, after: Duration) {
        self.come_back(host, Some(micros(after)));
    }

    fn come_back(&mut self, host: usize, back: Option<u64>) {
        if let Some(after) = back {
            let plan = self.hosts[host].plan;
            self.later(after, What::Fault(Fault::Start { host, plan }));
        }
    }

    /// The machine runs and its daemon, too.
    pub(crate) fn switch_on(&mut self, host: usize) {
        self.hosts[host].plan += 1;
        if !self.hosts[host].powered {
            let now = self.now;
            self.hosts[host].power_on(now);
            self.say(host, "the machine boots");
        }
        self.start_daemon(host);
    }

    /// Kills the daemon; it stays down until [`World::start`].
    pub fn kill_daemon(&mut self, host: usize) {
        self.befall(Fault::Kill { host, back: None });
    }

    /// Kills the daemon and starts it again `after`.
    pub fn bounce_daemon(&mut self, host: usize, after: Duration) {
        self.befall(Fault::Kill { host, back: Some(micros(after)) });
    }

    /// Takes the machine's power; it stays off until [`World::start`].
    pub fn power_off(&mut self, host: usize) {
        self.befall(Fault::PowerOff { host, back: None });
    }

    /// Takes the machine's power and gives it back `after`.
    pub fn power_cycle(&mut self, host: usize, after: Duration) {
        self.befall(Fault::PowerOff { host, back: Some(micros(after)) });
    }

    /// Takes the machine's power, and its disk had lied about the last write: it is lost, or torn and
    /// found damaged. The file, if there is one to lose.
    pub fn lose_last_write(&mut self, host: usize, torn: bool) -> Option<String> {
        self.power_off(host);
        let disk = &mut self.hosts[host].disk;
        let file = if torn { disk.tear_last() } else { disk.lose_last() }?;
        if let Some((group, kind)) = self.group_of_file(&file) {
            self.groups[group].checks.lost(self.hosts[host].id, host, kind);
        }
        self.tally.count(if torn { Occurrence::LastWriteTorn } else { Occurrence::LastWriteLost });
        let what = if torn { "torn" } else { "lost" };
        self.say(host, &format!("the last write of {file} is {what}: the disk had lied"));
        Some(file)
    }

    /// Switches the machine and its daemon on, if they are not.
    pub fn start(&mut self, host: usize) {
        self.switch_on(host);
    }

    /// Stops the daemon in good order and starts it again `after`.
    pub fn restart_daemon(&mut self, host: usize, after: Duration) {
        if self.hosts[host].node.is_some() {
            self.say(host, "the daemon is restarted in good order");
            self.tally.count(Occurrence::DaemonRestarted);
            self.handle(host, Event::Goodbye { stop_services: false });
            self.befall(Fault::Kill { host, back: Some(micros(after)) });
        }
    }

    /// The whole machine stands still for `span`, its program with it; its clocks go on.
    pub fn suspend(&mut self, host: usize, span: Duration) {
        if !self.hosts[host].powered || self.hosts[host].is_suspended(self.now) {
            return;
        }
        self.say(host, &format!("the machine is suspended for {span:?}"));
        self.tally.count(Occurrence::MachineSuspended);
        self.hosts[host].stand_still(self.now, self.now + micros(span), true);
    }

    /// The daemon gets no turn to run for `span`, as under SIGSTOP; its program serves on.
    pub fn stop_for(&mut self, host: usize, span: Duration) {
        if self.hosts[host].node.is_none() || self.hosts[host].is_suspended(self.now) {
            return;
        }
        self.say(host, &format!("the daemon is stopped for {span:?}"));
        self.tally.count(Occurrence::DaemonStopped);
        self.hosts[host].stand_still(self.now, self.now + micros(span), false);
    }

    /// Whatever stands still goes on, and what waited for that comes at once.
    pub fn go_on(&mut self, host: usize) {
        let now = self.now;
        let until = self.hosts[host].still_until(now);
        self.hosts[host].go_on(now);
        if let Some(until) = until {
            self.hasten(host, until);
        }
    }

    /// People's clock on this machine jumps by so many milliseconds.
    pub fn step_clock(&mut self, host: usize, by: i64) {
        self.say(host, &format!("people's clock jumps by {by} ms"));
        self.tally.count(Occurrence::ClockStepped);
        let skew = &mut self.hosts[host].skew;
        *skew = skew.saturating_add(by).clamp(-SKEW_MAX, SKEW_MAX);
    }

    /// Nothing passes from one host to another.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.trace.say(self.now, "net", &format!("cut: {from} to {to}"));
        self.tally.count(Occurrence::LinkCut);
        self.net.cut(from, to);
    }

    /// The first group's program on this host dies.
    pub fn crash_program(&mut self, host: usize) {
        self.crash(host, FIRST);
    }

    /// The program of a group on this host dies.
    pub(crate) fn crash(&mut self, host: usize, group: usize) {
        let process = self.hosts[host].services[group].process.as_ref();
        if let Some(pid) = process.map(|process| process.pid) {
            self.exits(host, pid);
        }
    }

    /// Whether the machine and its daemon run.
    pub fn is_up(&self, host: usize) -> bool {
        self.hosts[host].node.is_some()
    }

    /// No link between the two sides carries anything.
    pub fn partition(&mut self, side: &[usize]) {
        self.tally.count(Occurrence::Partition);
        let all: Vec<usize> = (0..self.hosts.len()).collect();
        self.trace.say(self.now, "net", &format!("partition: {side:?} against the others"));
        for one in all.iter().filter(|host| side.contains(host)) {
            for other in all.iter().filter(|host| !side.contains(host)) {
                self.net.cut(*one, *other);
                self.net.cut(*other, *one);
            }
        }
    }

    /// The network is as good or bad as that from now on.
    pub fn set_weather(&mut self, weather: Weather) {
        self.unsettled = self.now;
        self.net.weather = weather;
    }

    /// Every link carries again, and the depot is in reach of everybody.
    pub fn heal(&mut self) {
        self.trace.say(self.now, "net", "every link carries again");
        if !self.net.is_open() {
            self.unsettled = self.now;
        }
        self.net.heal();
        self.groups.iter_mut().for_each(|group| group.depot.unreachable.clear());
    }

    /// The depot is out of reach, of these hosts.
    pub fn lose_depot(&mut self, hosts: &[usize]) {
        self.trace.say(self.now, "depot", &format!("out of reach of {hosts:?}"));
        self.groups.iter_mut().for_each(|group| group.depot.unreachable.extend(hosts));
        self.tally.count(Occurrence::DepotLost);
    }

    /// An operator hands a configuration revision to the daemon of a host; no depot has it.
    pub fn hand_in(&mut self, host: usize, digest: Digest) {
        self.say(host, &format!("is given the revision {digest}"));
        let revision = crate::depot::revision(digest);
        self.hosts[host].revisions.insert(digest, Arc::new(revision));
    }

    /// A ledger file rots on a machine that is off; its daemon finds that at its start.
    pub fn damage_ledger(&mut self, host: usize) {
        let file = format!("ledger.{}", self.groups[FIRST].name);
        self.hosts[host].disk.damage(&file);
        self.say(host, "the ledger's file is damaged");
    }

    /// The ledger's file as it is now.
    pub fn copy_ledger(&self, host: usize) -> Option<Vec<u8>> {
        self.hosts[host]
            .disk
            .read(&format!("ledger.{}", self.groups[FIRST].name))
            .map(<[u8]>::to_vec)
    }

    /// An earlier copy of the ledger's file is put back while its daemon is down.
    pub fn restore_ledger(&mut self, host: usize, content: Vec<u8>) {
        let file = format!("ledger.{}", self.groups[FIRST].name);
        self.hosts[host].disk.restore(&file, content);
        self.groups[FIRST].checks.rolled_back(host);
        self.say(host, "an older copy of the ledger's file is put back");
    }
}

/// How far people's clock may be off, in milliseconds: two years, either way.
const SKEW_MAX: i64 = 2 * 365 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Behaviour;
    use crate::scenario::MINUTE;
    use crate::settings::Setup;

    /// A daemon that goes on early hears at once of what happened meanwhile, as by SIGCONT.
    #[test]
    fn who_goes_on_hears_at_once_what_happened_meanwhile() {
        let mut world = World::on_release_1(Setup::of(1, 3), Behaviour::healthy());
        world.stop_for(0, MINUTE);
        world.pass(Duration::from_secs(2));
        world.crash_program(0);
        world.pass(Duration::from_secs(2));
        assert!(!world.story().contains("exited with code 1"));
        world.go_on(0);
        world.pass(Duration::from_millis(1));
        assert!(world.story().contains("exited with code 1"), "{}", world.story());
    }
}
