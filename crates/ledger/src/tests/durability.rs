//! Nothing leaves a node before what it rests on is on disk; after a failed write it never does.

use std::time::Duration;

use baton_types::{FileId, LineageId, Moment, Term};
use baton_wire::ledger::{LedgerBody, LedgerMessage, Mark, Proposal, Record, StateBytes, Voter};

use super::world::{World, ms, node};
use crate::{Ledger, LedgerFile, LedgerOutput, Liveness, Opened, Seen};

const NOW: Moment = Moment::from_millis(5_000);

fn voter(host: usize) -> Voter {
    Voter { node: node(host), file: FileId::from_random(host as u128 + 1) }
}

fn record(term: u64, version: u64) -> Record {
    Record {
        lineage: LineageId { members: 3, random: [3; 16] },
        term: Term(term),
        version,
        voters: (0..3).map(voter).collect(),
        absorbed_by: None,
        absorbs: Vec::new(),
        replaces: Vec::new(),
        state: StateBytes::default(),
    }
}

/// Host 0 of three, with a record of term 1, past its first questions.
fn follower() -> Ledger {
    let file = LedgerFile {
        term: Term(1),
        voted_for: Some(node(1)),
        record: Some(record(1, 1)),
        ..LedgerFile::new(voter(0).file, false)
    };
    let settings = World::new(1, 1, 3).settings;
    let mut ledger = Ledger::open(settings, Opened::File(Box::new(file)), 1, NOW);
    let answer = from(1, 1, LedgerBody::Recalled { heard: None });
    ledger.receive(NOW, node(1), answer);
    let answer = from(2, 1, LedgerBody::Recalled { heard: None });
    ledger.receive(NOW, node(2), answer);
    ledger.take_outputs();
    ledger
}

fn from(host: usize, term: u64, body: LedgerBody) -> LedgerMessage {
    let held = Mark { term: Term(1), version: 1 };
    let lineage = Some(record(1, 1).lineage);
    LedgerMessage { lineage, file: voter(host).file, term: Term(term), held, body }
}

fn append(term: u64, version: u64) -> LedgerMessage {
    let record = record(term, version);
    let body = LedgerBody::Append {
        voter: voter(0).file,
        sequence: 1,
        next: ms(40),
        newest: record.mark(),
        committed: None,
        record: Some(record),
    };
    from(1, term, body)
}

/// What was sent, and the token of the write that was asked for.
fn split(ledger: &mut Ledger) -> (Vec<LedgerMessage>, Option<u64>) {
    let mut sent = Vec::new();
    let mut token = None;
    for output in ledger.take_outputs() {
        match output {
            LedgerOutput::Send { message, .. } => sent.push(message),
            LedgerOutput::Persist { token: written, .. } => token = Some(written),
            _ => {}
        }
    }
    (sent, token)
}

fn check(mut ledger: Ledger, message: LedgerMessage, is_wanted: impl Fn(&LedgerMessage) -> bool) {
    let sender = match &message.body {
        LedgerBody::Propose(proposal) => proposal.proposer.node,
        _ => node(1),
    };
    ledger.receive(NOW, sender, message.clone());
    let (sent, token) = split(&mut ledger);
    assert!(!sent.iter().any(&is_wanted), "before the write: {sent:?}");
    ledger.persisted(NOW, token.expect("a write"), false);
    let (sent, _) = split(&mut ledger);
    assert!(!sent.iter().any(&is_wanted), "after a failed write: {sent:?}");
    assert!(ledger.view().degraded);
    // The sender repeats it; the disk is asked again after a pause.
    let later = NOW + Duration::from_millis(250);
    ledger.receive(later, sender, message);
    ledger.tick(later);
    let (sent, token) = split(&mut ledger);
    assert!(!sent.iter().any(&is_wanted), "before the second write: {sent:?}");
    ledger.persisted(later, token.expect("a write"), true);
    let (sent, _) = split(&mut ledger);
    assert!(sent.iter().any(is_wanted), "after the write: {sent:?}");
    assert!(!ledger.view().degraded);
}

#[test]
fn a_vote_waits_for_its_write() {
    let vote = from(1, 2, LedgerBody::Vote { voter: voter(0).file, probe: 9 });
    check(follower(), vote, |message| {
        message.body == LedgerBody::VoteAnswer { probe: 9, granted: true }
    });
}

#[test]
fn an_acknowledgement_waits_for_its_write() {
    check(follower(), append(2, 2), |message| {
        matches!(message.body, LedgerBody::AppendAnswer { .. })
            && message.held == Mark { term: Term(2), version: 2 }
    });
}

#[test]
fn an_acceptance_waits_for_its_write() {
    let settings = World::new(1, 1, 3).settings;
    let mut ledger = Ledger::open(settings, Opened::Missing, 1, NOW);
    let (_, token) = split(&mut ledger);
    ledger.persisted(NOW, token.expect("the new file"), true);
    let me = Voter { node: node(0), file: ledger.view().file };
    let proposal = Proposal {
        lineage: record(1, 1).lineage,
        proposer: voter(1),
        voters: vec![me, voter(1), voter(2)],
        reform: None,
    };
    let message = from(1, 1, LedgerBody::Propose(proposal.clone()));
    check(ledger, message, |message| {
        message.body == LedgerBody::Accept { lineage: proposal.lineage }
    });
}

#[test]
fn a_vote_of_a_term_that_is_not_on_the_voters_disk_is_none() {
    let mut ledger = follower();
    let at = NOW + ms(1_000);
    ledger.tick(at);
    let (sent, _) = split(&mut ledger);
    let probe = sent.iter().find_map(|message| match message.body {
        LedgerBody::PreVote { probe } => Some(probe),
        _ => None,
    });
    let probe = probe.expect("a question");
    ledger.receive(at, node(1), from(1, 1, LedgerBody::PreVoteAnswer { probe, granted: true }));
    let (_, token) = split(&mut ledger);
    ledger.persisted(at, token.expect("the own vote"), true);
    let (sent, _) = split(&mut ledger);
    let probe = sent.iter().find_map(|message| match message.body {
        LedgerBody::Vote { probe, .. } => Some(probe),
        _ => None,
    });
    let probe = probe.expect("a vote asked");
    let leads = |ledger: &Ledger| ledger.view().role == crate::Role::Leader;
    ledger.receive(at, node(1), from(1, 1, LedgerBody::VoteAnswer { probe, granted: true }));
    assert!(!leads(&ledger));
    ledger.receive(at, node(1), from(1, 2, LedgerBody::VoteAnswer { probe, granted: true }));
    assert!(leads(&ledger));
}

#[test]
fn one_vote_per_term_and_none_for_an_older_record() {
    let mut ledger = follower();
    let ask = |host, term| {
        let body = LedgerBody::Vote { voter: voter(0).file, probe: host as u64 };
        from(host, term, body)
    };
    let mut older = ask(1, 2);
    older.held = Mark::default();
    ledger.receive(NOW, node(1), older);
    ledger.receive(NOW, node(1), ask(1, 2));
    ledger.receive(NOW, node(2), ask(2, 2));
    let (mut sent, token) = split(&mut ledger);
    ledger.persisted(NOW, token.expect("a write"), true);
    let (more, token) = split(&mut ledger);
    sent.extend(more);
    if let Some(token) = token {
        ledger.persisted(NOW, token, true);
        sent.extend(split(&mut ledger).0);
    }
    let yes: Vec<_> = sent
        .iter()
        .filter(|m| matches!(m.body, LedgerBody::VoteAnswer { granted: true, .. }))
        .collect();
    assert_eq!(yes.len(), 1, "{sent:?}");
    assert_eq!(yes[0].body, LedgerBody::VoteAnswer { probe: 1, granted: true });
}

#[test]
fn an_older_record_and_one_of_another_term_are_not_taken() {
    let mut ledger = follower();
    ledger.receive(NOW, node(1), append(3, 3));
    for (term, version) in [(2, 9), (3, 2), (1, 1)] {
        let mut message = append(term, version);
        message.term = Term(3);
        ledger.receive(NOW, node(1), message);
    }
    assert_eq!(ledger.view().newest.map(Record::mark), Some(record(3, 3).mark()));
}

#[test]
fn the_first_record_waits_for_its_write() {
    let settings = World::new(1, 1, 3).settings;
    let mut ledger = Ledger::open(settings, Opened::Missing, 1, NOW);
    let (_, token) = split(&mut ledger);
    ledger.persisted(NOW, token.expect("the new file"), true);
    let seen = |host| Seen {
        node: node(host),
        liveness: Liveness::Alive,
        lineage: None,
        replaces: Vec::new(),
        absorbs: Vec::new(),
        leader: None,
        term: Term(1),
        heard_of_me: None,
    };
    ledger.see(NOW, &[seen(0), seen(1), seen(2)]);
    assert_eq!(split(&mut ledger), (vec![], None), "the view is not still yet");
    let at = NOW + ms(300);
    assert_eq!(ledger.next_tick(), at);
    ledger.tick(at);
    let (sent, token) = split(&mut ledger);
    assert_eq!(token, None, "the files of the others are not known");
    for (asked, host) in sent.into_iter().zip([1, 2]) {
        let LedgerBody::Survey { probe } = asked.body else { panic!("{asked:?}") };
        let body = LedgerBody::Surveyed {
            probe,
            leader: None,
            holding: None,
            version: 0,
            others: Vec::new(),
        };
        ledger.receive(at, node(host), from(host, 0, body));
    }
    let (sent, token) = split(&mut ledger);
    assert_eq!(sent, vec![], "the proposal is not on disk");
    ledger.persisted(at, token.expect("the proposal"), true);
    let (sent, _) = split(&mut ledger);
    assert_eq!(sent.len(), 2);
    let LedgerBody::Propose(proposal) = sent[0].body.clone() else { panic!("{sent:?}") };
    for host in [1, 2] {
        let mut accept = from(host, 1, LedgerBody::Accept { lineage: proposal.lineage });
        accept.lineage = Some(proposal.lineage);
        ledger.receive(at, node(host), accept);
    }
    let (sent, token) = split(&mut ledger);
    assert_eq!(sent, vec![], "the first record is not on disk");
    ledger.persisted(at, token.expect("the first record"), true);
    let (sent, _) = split(&mut ledger);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|m| matches!(m.body, LedgerBody::Append { record: Some(_), .. })));
}

#[test]
fn a_commitment_is_told_when_the_record_is_on_disk() {
    let mut ledger = follower();
    let mut message = append(2, 2);
    if let LedgerBody::Append { committed, newest, .. } = &mut message.body {
        *committed = Some(*newest);
    }
    let commits = |ledger: &mut Ledger| {
        let outputs = ledger.take_outputs();
        let token = outputs.iter().find_map(|output| match output {
            LedgerOutput::Persist { token, .. } => Some(*token),
            _ => None,
        });
        let is_commit = |output: &&LedgerOutput| matches!(output, LedgerOutput::Committed(_));
        (outputs.iter().filter(is_commit).count(), token)
    };
    ledger.receive(NOW, node(1), message.clone());
    let (count, token) = commits(&mut ledger);
    assert_eq!(count, 0);
    ledger.persisted(NOW, token.expect("a write"), true);
    assert_eq!(commits(&mut ledger).0, 1);
    ledger.receive(NOW, node(1), message);
    assert_eq!(commits(&mut ledger).0, 0, "once");
}
