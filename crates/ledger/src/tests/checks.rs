//! What must hold after every step, judged by an observer who sees all.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::{LineageId, NodeId, Term};
use baton_wire::ledger::{Mark, Record};

/// Keeps what was seen and says what contradicts it.
#[derive(Default)]
pub(super) struct Checks {
    leaders: BTreeMap<(LineageId, Term), NodeId>,
    records: BTreeMap<(LineageId, Mark), Record>,
    by_node: BTreeMap<NodeId, (LineageId, Mark)>,
    started: BTreeSet<NodeId>,
    pub(super) newest: Option<Record>,
    /// Lineages may form apart in this test; `newest` is then of the one that stays.
    pub(super) meeting: bool,
    /// Who gave way to whom.
    ended: BTreeMap<LineageId, LineageId>,
}

impl Checks {
    /// `node` leads `term`.
    pub(super) fn leads(
        &mut self,
        lineage: LineageId,
        term: Term,
        node: NodeId,
    ) -> Result<(), String> {
        match self.leaders.insert((lineage, term), node) {
            Some(other) if other != node => {
                Err(format!("term {term} is led by {other:?} and {node:?}"))
            }
            _ => Ok(()),
        }
    }

    /// `node` starts anew: it may say once more what it said last.
    pub(super) fn starts(&mut self, node: NodeId) {
        self.started.insert(node);
    }

    /// `node` says that `record` is committed.
    pub(super) fn committed(&mut self, node: NodeId, record: &Record) -> Result<(), String> {
        let (lineage, mark) = (record.lineage, record.mark());
        if let Some((of, before)) = self.by_node.insert(node, (lineage, mark))
            && of == lineage
            && (before > mark || (before == mark && !self.started.contains(&node)))
        {
            return Err(format!("{node:?} commits {mark:?} after {before:?}"));
        }
        self.started.remove(&node);
        if let Some(by) = record.absorbed_by {
            self.ended.insert(lineage, by);
            if self.ended.get(&by) == Some(&lineage) {
                return Err(format!("{lineage:?} and {by:?} give way to each other"));
            }
        } else if self.ended.contains_key(&lineage) && !self.records.contains_key(&(lineage, mark))
        {
            return Err(format!("{lineage:?} gave way, and commits {mark:?}"));
        }
        let known = self.records.insert((lineage, mark), record.clone());
        if known.as_ref().is_some_and(|known| known != record) {
            return Err(format!("{mark:?} is two records"));
        }
        let Some(newest) = &self.newest else {
            self.newest = Some(record.clone());
            return Ok(());
        };
        if newest.replaces.contains(&lineage) {
            // One that hears late of what was committed before is no commit.
            return match known {
                Some(_) => Ok(()),
                None => Err(format!("{lineage:?} was replaced, and commits {mark:?}")),
            };
        }
        if record.replaces.contains(&newest.lineage) {
            self.newest = Some(record.clone());
            return Ok(());
        }
        if newest.lineage != lineage && self.meeting {
            let follows = newest.absorbed_by == Some(record.lineage);
            if follows {
                self.newest = Some(record.clone());
            }
            return Ok(());
        }
        if newest.lineage != lineage {
            return Err(format!("two lineages: {:?} and {lineage:?}", newest.lineage));
        }
        let (older, newer) = if newest.mark() < mark { (newest, record) } else { (record, newest) };
        if older.mark() != newer.mark() && older.version >= newer.version {
            return Err(format!("{:?} replaces {:?}", newer.mark(), older.mark()));
        }
        if !newer.state.as_slice().starts_with(older.state.as_slice()) {
            return Err(format!("{:?} lost what {:?} held", newer.mark(), older.mark()));
        }
        self.newest = Some(newer.clone());
        Ok(())
    }
}

mod each_checker_catches {
    use super::*;
    use baton_types::FileId;
    use baton_wire::ledger::{StateBytes, Voter};

    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    fn record(term: u64, version: u64, state: &[u8]) -> Record {
        Record {
            lineage: LineageId { members: 3, random: [1; 16] },
            term: Term(term),
            version,
            voters: vec![Voter { node: node(1), file: FileId::from_random(1) }],
            absorbed_by: None,
            absorbs: Vec::new(),
            replaces: Vec::new(),
            state: StateBytes::new(state).expect("small"),
        }
    }

    fn check(trace: &[(u128, Record)], wanted: &str) {
        let mut checks = Checks::default();
        let mut verdict = Ok(());
        for (n, record) in trace {
            verdict = checks.committed(node(*n), record);
            if verdict.is_err() {
                break;
            }
        }
        let verdict = verdict.expect_err("a broken trace");
        assert!(verdict.contains(wanted), "{verdict}");
    }

    #[test]
    fn two_leaders_of_one_term() {
        let lineage = record(1, 1, b"").lineage;
        let mut checks = Checks::default();
        assert_eq!(checks.leads(lineage, Term(2), node(1)), Ok(()));
        assert_eq!(checks.leads(lineage, Term(2), node(1)), Ok(()));
        assert_eq!(checks.leads(lineage, Term(3), node(2)), Ok(()));
        assert!(checks.leads(lineage, Term(2), node(2)).is_err());
    }

    #[test]
    fn a_node_that_goes_back_or_repeats() {
        check(&[(1, record(2, 2, b"a")), (1, record(1, 1, b"a"))], "after");
        check(&[(1, record(2, 2, b"a")), (1, record(2, 2, b"a"))], "after");
    }

    #[test]
    fn two_records_in_one_place() {
        check(&[(1, record(1, 2, b"a")), (2, record(1, 2, b"b"))], "two records");
    }

    #[test]
    fn a_version_that_falls() {
        check(&[(1, record(1, 3, b"a")), (2, record(2, 3, b"a"))], "replaces");
    }

    #[test]
    fn a_lost_record() {
        check(&[(1, record(1, 2, b"ab")), (2, record(2, 3, b"a"))], "lost");
        check(&[(2, record(2, 3, b"a")), (1, record(1, 2, b"ab"))], "lost");
    }

    #[test]
    fn a_lineage_that_commits_after_it_was_replaced() {
        let old = record(1, 2, b"a");
        let mut new = record(2, 3, b"a");
        new.lineage.random = [2; 16];
        new.replaces = vec![old.lineage];
        let mut checks = Checks::default();
        for record in [&old, &new, &old] {
            checks.starts(node(1));
            assert_eq!(checks.committed(node(1), record), Ok(()));
        }
        check(&[(1, old), (2, new), (3, record(1, 4, b"ab"))], "was replaced");
    }

    #[test]
    fn a_second_lineage() {
        let mut other = record(1, 1, b"");
        other.lineage.random = [2; 16];
        check(&[(1, record(1, 1, b"")), (2, other)], "two lineages");
    }
}
