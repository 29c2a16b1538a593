//! When a disk may lose what it said it had kept.
//!
//! A durable write survives a power cut; a disk that lies breaks that. A group still promises to go
//! on if one voter's file is gone while the others have theirs: more is more than it can bear.

use std::time::Duration;

use baton_ledger::LedgerFile;
use baton_wire::codec;

use crate::departures::Standing;
use crate::program::micros;
use crate::world::World;

impl World {
    /// Whether what the disk wrote last is not the member's turn, and the groups that it may belong to
    /// can bear its loss.
    pub(crate) fn may_lose_a_file(&self, host: usize) -> bool {
        let Some(last) = self.hosts[host].disk.last_file() else { return false };
        let of = self.group_of_file(last);
        if of.is_some_and(|(_, kind)| kind == "turn") || !self.is_up(host) {
            return false;
        }
        match of {
            Some((group, _)) => self.is_whole(host, group),
            None => self.groups_on(host).all(|group| self.is_whole(host, group)),
        }
    }

    /// Whether every voter of the lineage that a host is in has the ledger file with which it is listed
    /// and the newest list of voters, none has left or is forgotten and so about to be removed, and there are enough of them
    /// to let one in again.
    fn is_whole(&self, host: usize, group: usize) -> bool {
        let leader =
            self.leader_with(group, host).and_then(|leader| self.hosts[leader].node.as_ref());
        let of = &self.groups[group].name;
        let Some(seen) = leader.and_then(|node| node.observe(of)) else { return false };
        let voters = seen.ledger().voters;
        let name = format!("ledger.{of}");
        let is_whole = |listed: &baton_wire::Voter| {
            let machine = self.hosts.iter().find(|host| host.id == listed.node);
            let machine = machine.filter(|host| {
                !host.wants_to_leave() && host.services[group].standing != Standing::Gone
            });
            let bytes = machine.and_then(|host| host.disk.read(&name));
            let file = bytes.and_then(|bytes| codec::decode::<LedgerFile>(bytes).ok());
            file.is_some_and(|file| {
                let listed_there = file.record.as_ref().map(|record| record.voters.as_slice());
                file.file == listed.file && listed_there == Some(voters)
            })
        };
        voters.len() >= VOTERS_MIN && voters.iter().all(is_whole)
    }

    /// Whether its daemon has run for that long, and did not stand still meanwhile.
    pub(crate) fn runs_for(&self, host: usize, span: Duration) -> bool {
        let machine = &self.hosts[host];
        let since = machine.daemon_since.max(machine.stood_still_until());
        self.is_up(host) && since + micros(span) <= self.now
    }
}

/// Two voters do not survive the loss of a file.
const VOTERS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Setup;

    /// Of two lineages one has two voters, whose group does not survive the loss of a file.
    #[test]
    fn a_file_is_lost_only_where_the_lineage_of_its_host_can_bear_it() {
        let mut setup = Setup::of(1, 5);
        setup.expect = 2;
        let mut world = World::apart(setup, &[0, 3]);
        world.pass(Duration::from_secs(40));
        let may_lose: Vec<bool> = world.all().map(|host| world.may_lose_a_file(host)).collect();
        assert_eq!(may_lose, [false, true, true, false, true]);
    }
}
