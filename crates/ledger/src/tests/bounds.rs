//! Bad input: refused, no panic, nothing changed.

use super::world::{World, ms, node};
use baton_types::{FileId, LineageId, Term};
use baton_wire::ledger::{Heard, LedgerBody, LedgerMessage, Mark, Proposal, Voter};

const END: Mark = Mark { term: Term(u64::MAX), version: u64::MAX };

fn bodies(world: &World) -> Vec<LedgerBody> {
    let record = world.checks.newest.clone().expect("a record");
    let file = FileId::from_random(1);
    let lineage = LineageId { members: u32::MAX, random: [255; 16] };
    let mut huge = record.clone();
    let voters: Vec<_> = (0..2_000).map(|n| Voter { node: node(n), file }).collect();
    huge.voters.clone_from(&voters);
    let append = |record: Option<baton_wire::ledger::Record>, newest, committed| {
        let next = ms(u64::MAX);
        LedgerBody::Append { voter: file, sequence: u64::MAX, next, newest, committed, record }
    };
    vec![
        append(None, END, Some(END)),
        append(None, record.mark(), Some(END)),
        append(Some(huge), record.mark(), None),
        LedgerBody::AppendAnswer { sequence: u64::MAX },
        LedgerBody::Vote { voter: file, probe: u64::MAX },
        LedgerBody::PreVote { probe: u64::MAX },
        LedgerBody::VoteAnswer { probe: 0, granted: true },
        LedgerBody::PreVoteAnswer { probe: 0, granted: true },
        LedgerBody::Stale { heard: Heard { file, term: Term(u64::MAX), held: END } },
        LedgerBody::Recalled { heard: Some(Heard { file, term: Term(u64::MAX), held: END }) },
        LedgerBody::Recall,
        LedgerBody::Introduce,
        LedgerBody::Pointer { leader: Some(node(9_999)) },
        LedgerBody::Refuse {
            lineage: record.lineage,
            own: Some(lineage),
            formed: true,
            durable: true,
        },
        LedgerBody::Accept { lineage: record.lineage },
        LedgerBody::Propose(Proposal {
            lineage,
            proposer: Voter { node: node(1), file },
            voters,
            reform: None,
        }),
    ]
}

#[test]
fn numbers_at_the_end_huge_lists_and_foreign_lineages_change_nothing() {
    let mut world = World::formed(1, 3);
    let leader = world.leader().expect("a leader");
    let own = world.checks.newest.as_ref().map(|record| record.lineage);
    let foreign = Some(LineageId { members: u32::MAX, random: [255; 16] });
    let file = FileId::from_random(77);
    let before = world.checks.newest.clone();
    for body in bodies(&world) {
        for lineage in [None, own, foreign] {
            for (term, held) in [(Term(u64::MAX), END), (Term(0), Mark::default())] {
                for (from, to) in [(0, 1), (1, 2), (2, 0), (50, 1)] {
                    let body = body.clone();
                    let message = LedgerMessage { lineage, file, term, held, body };
                    world.inject(node(from), to, message);
                }
            }
        }
    }
    // A node may have been taken for one whose file is new; then it is let in again.
    world.run(ms(5_000));
    let after = world.checks.newest.clone();
    assert_eq!(
        after.as_ref().map(|record| (record.lineage, &record.state)),
        before.as_ref().map(|record| (record.lineage, &record.state))
    );
    assert_eq!(after.map(|record| record.voters.len()), Some(3));
    assert_eq!(world.leader(), Some(leader));
    assert!(world.propose(leader, 1));
}

#[test]
fn strangers_fill_no_journal() {
    let mut world = World::formed(2, 3);
    world.hosts[0].notes.clear();
    let lineage = Some(LineageId { members: 9, random: [9; 16] });
    for _ in 0..100 {
        let message = LedgerMessage {
            lineage,
            file: FileId::from_random(3),
            term: Term(5),
            held: Mark { term: Term(5), version: 5 },
            body: LedgerBody::PreVote { probe: 1 },
        };
        world.inject(node(7), 0, message);
    }
    assert_eq!(world.hosts[0].notes.len(), 1, "{:?}", world.hosts[0].notes);
}
