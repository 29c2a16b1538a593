//! Invariant 3: one leader per term of a lineage; a committed record is never lost and never
//! replaced by one with a smaller (term, version). A second lineage exists only if its record says
//! that it replaces the first one, or if the world lets groups form apart; and from the commit that
//! ends a lineage on nothing is committed in it but that same last word.

use std::collections::{BTreeMap, BTreeSet};

use baton_ledger::LedgerFile;
use baton_types::{FileId, LineageId, NodeId, Term};
use baton_wire::ledger::{Mark, Record};

/// What was seen of leaders, commits and files.
#[derive(Clone, Debug)]
pub struct LedgerCheck {
    leaders: BTreeMap<(LineageId, Term), usize>,
    commits: BTreeMap<LineageId, BTreeMap<Mark, u64>>,
    /// Lineages that are over, and by which.
    replaced: BTreeMap<LineageId, LineageId>,
    /// Those of them that committed that they give way: their last word.
    gave_way: BTreeSet<LineageId>,
    /// Groups may form apart in this world, and meet.
    meeting: bool,
    files: Vec<Option<OnDisk>>,
    nodes: BTreeMap<(NodeId, FileId), (LineageId, Mark)>,
    /// Who ever had exactly that record on disk.
    held: BTreeMap<(LineageId, Mark), BTreeSet<(NodeId, FileId)>>,
}

#[derive(Clone, Debug)]
struct OnDisk {
    file: FileId,
    term: Term,
    voted_for: Option<NodeId>,
    lineage: Option<LineageId>,
    mark: Mark,
}

impl LedgerCheck {
    /// A checker of so many hosts.
    pub fn new(hosts: usize) -> Self {
        Self {
            leaders: BTreeMap::new(),
            commits: BTreeMap::new(),
            replaced: BTreeMap::new(),
            gave_way: BTreeSet::new(),
            meeting: false,
            files: vec![None; hosts],
            nodes: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Rings form apart in this world: their lineages are no mistake.
    pub fn let_form_apart(&mut self) {
        self.meeting = true;
    }

    /// The lineage that goes on instead of that one; itself if none took its place.
    pub fn successor(&self, mut lineage: LineageId) -> LineageId {
        // None takes the place of one that is over, so this comes to an end.
        while let Some(by) = self.replaced.get(&lineage) {
            lineage = *by;
        }
        lineage
    }

    /// The lineage of the file that a host has on its disk.
    pub fn lineage_on(&self, host: usize) -> Option<LineageId> {
        self.files[host].as_ref()?.lineage
    }

    /// The lineage that counts that host among its members, by its file. Of groups that formed apart none
    /// need have heard of a host that was off when they met, before it joins the one that stays.
    pub fn lineage_of(&self, host: usize) -> Option<LineageId> {
        let lineage = self.lineage_on(host)?;
        Some(if self.meeting { lineage } else { self.successor(lineage) })
    }

    /// Whether nodes of that lineage, which is to give way, leave it one by one because it has no
    /// leader: those that are left may find one, and what they decide is forgotten in the end.
    fn was_left(&self, lineage: LineageId) -> bool {
        self.meeting && self.replaced.contains_key(&lineage) && !self.gave_way.contains(&lineage)
    }

    /// A host leads.
    ///
    /// # Errors
    ///
    /// Another one led in that term.
    pub fn leads(
        &mut self,
        host: usize,
        name: &str,
        lineage: LineageId,
        term: Term,
    ) -> Result<(), String> {
        match self.leaders.insert((lineage, term), host) {
            Some(other) if other != host => {
                Err(format!("{name} leads in term {term}, as host {} did", other + 1))
            }
            _ => Ok(()),
        }
    }

    /// A host holds this record as committed; whether that is the newest yet.
    ///
    /// # Errors
    ///
    /// The record contradicts what was committed before, or is not on a majority of disks.
    pub fn committed(&mut self, name: &str, record: &Record) -> Result<bool, String> {
        let mark = record.mark();
        let content = hash(record);
        let lineage = record.lineage;
        let over = self.replaced.get(&lineage).filter(|_| !self.was_left(lineage));
        if let Some(by) = over {
            // One that hears late of what was committed before is no commit.
            let known = self.commits.get(&lineage).and_then(|commits| commits.get(&mark));
            return match known {
                Some(known) if *known == content => Ok(false),
                // A leader that follows repeats the last word.
                _ if record.absorbed_by == Some(*by) => Ok(false),
                _ => Err(format!("{name} commits {mark:?} in {lineage:?}, which {by:?} replaced")),
            };
        }
        if !self.commits.contains_key(&lineage) {
            let over = |lineage: &&LineageId| !self.replaced.contains_key(lineage);
            let others: Vec<LineageId> = self.commits.keys().filter(over).copied().collect();
            for other in others {
                if !record.replaces.contains(&other) && self.meeting {
                    continue;
                }
                if !record.replaces.contains(&other) {
                    return Err(format!("{name} commits in {lineage:?}, others in {other:?}"));
                }
                self.replaced.insert(other, lineage);
            }
        }
        if let Some(by) = record.absorbed_by {
            self.gives_way(name, lineage, by)?;
        }
        // What it says of another one is known to it from somebody who left that.
        for other in record.replaces.iter().filter(|other| self.commits.contains_key(other)) {
            if self.successor(lineage) != *other {
                self.replaced.entry(*other).or_insert(lineage);
            }
        }
        let commits = self.commits.entry(record.lineage).or_default();
        match commits.get(&mark) {
            Some(known) if *known != content => {
                return Err(format!("{name} holds another record {mark:?} than was committed"));
            }
            Some(_) => return Ok(false),
            None => {}
        }
        if let Some((newest, _)) = commits.last_key_value() {
            if *newest > mark {
                return self.late(name, record);
            }
            if newest.version > mark.version {
                return Err(format!("{name} replaces {newest:?} by {mark:?}: the version falls"));
            }
        }
        commits.insert(mark, content);
        on_a_majority(name, record, |voter| {
            self.nodes
                .get(voter)
                .is_some_and(|(lineage, held)| *lineage == record.lineage && *held >= mark)
        })?;
        Ok(true)
    }

    /// Lineages that committed that they give way.
    pub fn gave_way(&self) -> usize {
        self.gave_way.len()
    }

    fn gives_way(&mut self, name: &str, lineage: LineageId, by: LineageId) -> Result<(), String> {
        if self.successor(by) == lineage {
            return Err(format!("{name} gives {lineage:?} up for {by:?}, which is over"));
        }
        self.gave_way.insert(lineage);
        self.replaced.insert(lineage, by);
        Ok(())
    }

    /// A host notices only now, after later commits, that a record was committed: a leader that
    /// stood still reads the answers that had come meanwhile. That is so if a majority once had
    /// that very record; and what was committed later is built on it.
    fn late(&mut self, name: &str, record: &Record) -> Result<bool, String> {
        let mark = record.mark();
        let held = self.held.get(&(record.lineage, mark));
        on_a_majority(name, record, |voter| held.is_some_and(|held| held.contains(voter)))?;
        let commits = self.commits.entry(record.lineage).or_default();
        let before = commits.range(..mark).next_back().map(|(mark, _)| mark.version);
        let after = commits.range(mark..).next().map(|(mark, _)| mark.version);
        if before.is_some_and(|before| before > mark.version)
            || after.is_some_and(|after| after < mark.version)
        {
            return Err(format!("{name} commits {mark:?} between {before:?} and {after:?}"));
        }
        commits.insert(mark, hash(record));
        Ok(false)
    }

    /// A ledger file is durable.
    ///
    /// # Errors
    ///
    /// It takes back what the same file said before.
    pub fn written(
        &mut self,
        host: usize,
        node: NodeId,
        name: &str,
        file: &LedgerFile,
    ) -> Result<(), String> {
        if let Some(record) = &file.record {
            self.nodes.insert((node, file.file), (record.lineage, record.mark()));
            let held = self.held.entry((record.lineage, record.mark())).or_default();
            held.insert((node, file.file));
            // Who commits the last word of a lineage leaves it in the same breath.
            let is_held = |voter: &(NodeId, FileId)| held.contains(voter);
            if let Some(by) = record.absorbed_by
                && on_a_majority(name, record, is_held).is_ok()
            {
                self.gives_way(name, record.lineage, by)?;
            }
        }
        let new = OnDisk {
            file: file.file,
            term: file.term,
            voted_for: file.voted_for,
            lineage: file.lineage(),
            mark: file.mark(),
        };
        let old = self.files[host].replace(new.clone());
        // Terms count within a lineage: a node that gave up a formation begins anew.
        let Some(old) = old.filter(|old| old.file == new.file && old.lineage == new.lineage) else {
            return Ok(());
        };
        if new.term < old.term {
            return Err(format!("{name}'s term falls from {} to {}", old.term, new.term));
        }
        if new.term == old.term && old.voted_for.is_some() && new.voted_for != old.voted_for {
            return Err(format!("{name} votes twice in term {}", new.term));
        }
        if new.mark < old.mark {
            return Err(format!("{name}'s record falls from {:?} to {:?}", old.mark, new.mark));
        }
        Ok(())
    }

    /// Somebody put an older file back: the host's own words before it do not bind that file.
    pub fn rolled_back(&mut self, host: usize) {
        self.files[host] = None;
    }
}

/// A record is on the disks of most of its voters; one without voters is a test's.
fn on_a_majority(
    name: &str,
    record: &Record,
    holds: impl Fn(&(NodeId, FileId)) -> bool,
) -> Result<(), String> {
    let of = record.voters.len();
    let holders = record.voters.iter().filter(|voter| holds(&(voter.node, voter.file))).count();
    match of > 0 && holders * 2 <= of {
        true => Err(format!(
            "{name} commits {:?} with {holders} of {of} voters holding it",
            record.mark()
        )),
        false => Ok(()),
    }
}

/// FNV-1a over what a record says.
fn hash(record: &Record) -> u64 {
    let voters = record.voters.iter().flat_map(|voter| voter.node.as_bytes().iter());
    voters.chain(record.state.as_slice()).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_wire::ledger::{StateBytes, Voter};

    fn record(term: u64, version: u64, state: u8) -> Record {
        Record {
            lineage: LineageId { members: 3, random: [1; 16] },
            term: Term(term),
            version,
            voters: Vec::new(),
            absorbed_by: None,
            absorbs: Vec::new(),
            replaces: Vec::new(),
            state: StateBytes::new(vec![state]).expect("small"),
        }
    }

    fn file(term: u64, voted_for: Option<u128>, record: Option<Record>) -> LedgerFile {
        let mut file = LedgerFile::new(FileId::from_random(7), false);
        file.term = Term(term);
        file.voted_for = voted_for.map(NodeId::from_random);
        file.record = record;
        file
    }

    #[test]
    fn two_leaders_of_one_term_are_seen() {
        let lineage = record(1, 1, 0).lineage;
        let mut check = LedgerCheck::new(3);
        assert_eq!(check.leads(0, "n1", lineage, Term(2)), Ok(()));
        assert_eq!(check.leads(0, "n1", lineage, Term(2)), Ok(()));
        assert_eq!(check.leads(1, "n2", lineage, Term(3)), Ok(()));
        let found = check.leads(2, "n3", lineage, Term(3));
        assert_eq!(found, Err("n3 leads in term 3, as host 2 did".to_owned()));
    }

    #[test]
    fn commits_that_contradict_are_seen() {
        let mut check = LedgerCheck::new(3);
        assert_eq!(check.committed("n1", &record(1, 1, 1)), Ok(true));
        assert_eq!(check.committed("n2", &record(1, 1, 1)), Ok(false));
        assert_eq!(check.committed("n1", &record(3, 2, 2)), Ok(true));
        for (wrong, why) in [
            (record(3, 2, 9), "another content"),
            (record(2, 3, 2), "a smaller term, and a version that falls after it"),
            (record(4, 1, 2), "a smaller version in a greater term"),
        ] {
            assert!(check.clone().committed("n3", &wrong).is_err(), "{why}");
        }
        let mut other = record(5, 5, 5);
        other.lineage.random = [9; 16];
        assert!(check.committed("n3", &other).is_err(), "another lineage");
    }

    #[test]
    fn a_commit_in_a_lineage_that_was_replaced_is_seen() {
        let old = record(3, 2, 2);
        let mut new = record(4, 3, 2);
        new.lineage.random = [9; 16];
        new.replaces = vec![old.lineage];
        let mut check = LedgerCheck::new(3);
        assert_eq!(check.committed("n1", &old), Ok(true));
        assert_eq!(check.committed("n2", &new), Ok(true));
        assert_eq!(check.committed("n3", &old), Ok(false), "heard late");
        assert!(check.committed("n3", &record(3, 3, 3)).is_err());
    }

    #[test]
    fn two_lineages_that_give_way_to_each_other_are_seen() {
        let (mut one, mut other) = (record(1, 1, 1), record(1, 1, 1));
        other.lineage.random = [9; 16];
        let mut check = LedgerCheck::new(3);
        check.let_form_apart();
        assert_eq!(check.committed("n1", &one), Ok(true));
        assert_eq!(check.committed("n2", &other), Ok(true));
        (one.version, one.absorbed_by) = (2, Some(other.lineage));
        (other.version, other.absorbed_by) = (2, Some(one.lineage));
        assert_eq!(check.committed("n1", &one), Ok(true));
        assert!(check.clone().committed("n2", &other).is_err());
        assert!(check.committed("n1", &record(1, 3, 1)).is_err(), "after its last word");
    }

    /// Whoever commits the last word leaves the lineage in the same breath: the disks show it.
    #[test]
    fn a_last_word_on_most_disks_ends_a_lineage() {
        let voter = |n| Voter { node: NodeId::from_random(n), file: FileId::from_random(7) };
        let mut other = record(1, 1, 1);
        other.lineage.random = [9; 16];
        let voters = vec![voter(1), voter(2), voter(3)];
        let last = Record { voters, absorbed_by: Some(other.lineage), ..record(1, 2, 1) };
        let mut check = LedgerCheck::new(3);
        check.let_form_apart();
        assert_eq!(check.committed("n1", &record(1, 1, 1)), Ok(true));
        assert_eq!(check.committed("n9", &other), Ok(true));
        let held = file(1, None, Some(last.clone()));
        for (host, ends) in [(0, false), (1, true)] {
            let node = NodeId::from_random(host as u128 + 1);
            assert_eq!(check.written(host, node, "n", &held), Ok(()));
            let by = if ends { other.lineage } else { last.lineage };
            assert_eq!((check.gave_way(), check.successor(last.lineage)), (usize::from(ends), by));
        }
        assert!(check.clone().committed("n1", &record(1, 3, 1)).is_err(), "after its last word");
        let back = Record { absorbed_by: Some(last.lineage), ..other.clone() };
        assert!(check.committed("n9", &Record { version: 2, ..back }).is_err(), "both give way");
    }

    /// Nodes of a lineage without a leader leave it one by one: the others may find one.
    #[test]
    fn a_lineage_that_was_left_may_decide_and_is_over() {
        let mut other = record(1, 1, 1);
        other.lineage.random = [9; 16];
        let mut check = LedgerCheck::new(3);
        check.let_form_apart();
        assert_eq!(check.committed("n1", &record(1, 1, 1)), Ok(true));
        assert_eq!(check.committed("n9", &other), Ok(true));
        let left = record(1, 1, 1).lineage;
        (other.version, other.replaces) = (2, vec![left]);
        assert_eq!(check.committed("n9", &other), Ok(true));
        assert_eq!(check.successor(left), other.lineage);
        assert_eq!(check.committed("n1", &record(1, 2, 1)), Ok(true));
        check
            .written(0, NodeId::from_random(1), "n1", &file(1, None, Some(record(1, 2, 1))))
            .expect("fits");
        assert_eq!(check.lineage_of(0), Some(left), "that one counts it");
    }

    #[test]
    fn a_commit_without_a_majority_on_disk_is_seen() {
        let voter = |n| Voter { node: NodeId::from_random(n), file: FileId::from_random(7) };
        let mut check = LedgerCheck::new(3);
        let mut record = record(1, 1, 1);
        record.voters = vec![voter(1), voter(2), voter(3)];
        let held = file(1, None, Some(record.clone()));
        check.written(0, NodeId::from_random(1), "n1", &held).expect("fits");
        assert!(check.clone().committed("n1", &record).is_err());
        check.written(1, NodeId::from_random(2), "n2", &held).expect("fits");
        assert_eq!(check.committed("n1", &record), Ok(true));
    }

    #[test]
    fn a_commit_that_is_noticed_late_must_have_been_one() {
        let voter = |n| Voter { node: NodeId::from_random(n), file: FileId::from_random(7) };
        let of = |term, version| {
            let voters = vec![voter(1), voter(2), voter(3)];
            Record { voters, ..record(term, version, 1) }
        };
        let (old, new) = (of(1, 4), of(2, 5));
        let mut check = LedgerCheck::new(3);
        for (host, record) in [(0, &old), (0, &new), (1, &new), (2, &new)] {
            let id = NodeId::from_random(host as u128 + 1);
            let held = file(3, None, Some(record.clone()));
            check.written(host, id, "n", &held).expect("fits");
        }
        assert_eq!(check.committed("n1", &new), Ok(true));
        assert!(check.clone().committed("n3", &old).is_err(), "one of three had it");
        let id = NodeId::from_random(2);
        check.held.entry((old.lineage, old.mark())).or_default().insert((id, voter(2).file));
        assert_eq!(check.committed("n3", &old), Ok(false));
    }

    #[test]
    fn a_file_that_takes_its_word_back_is_seen() {
        let before = file(4, Some(1), Some(record(4, 7, 1)));
        for (after, fits) in [
            (file(4, Some(1), Some(record(4, 8, 1))), true),
            (file(5, None, Some(record(4, 7, 1))), true),
            (file(4, Some(2), Some(record(4, 7, 1))), false),
            (file(4, None, Some(record(4, 7, 1))), false),
            (file(3, None, Some(record(4, 7, 1))), false),
            (file(5, None, Some(record(4, 6, 1))), false),
        ] {
            let node = NodeId::from_random(1);
            let mut check = LedgerCheck::new(1);
            check.written(0, node, "n1", &before).expect("the first");
            assert_eq!(check.written(0, node, "n1", &after).is_ok(), fits, "{after:?}");
        }
    }
}
