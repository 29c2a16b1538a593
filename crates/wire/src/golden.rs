//! Golden bytes of every message of version 1: builds that speak it must agree on them for ever.
//!
//! What fails here is a change of the format. docs/wire.md, "Versions", says how such a change is
//! made so that builds N and N+1 understand each other; never by new bytes for an old version.

use std::time::Duration;

use baton_types::member::Prepared;
use baton_types::policy::OnNotReady;
use baton_types::{
    BootNonce, ClaimId, Command, CommandAction, CommandAnswer, CommandId, CommandResult,
    ConfigRevision, Digest, FactKey, FileId, GroupName, Incarnation, LineageId, NodeId, NodeName,
    Release, RolloutId, Target, Term, Text,
};

use crate::ask::AnswerContent;
use crate::ledger::{Holding, Reform};
use crate::ring::{FactRecord, ForgetRecord, MemberRecord, MemberState, Way};
use crate::{
    Answer, Ask, Envelope, Head, Heard, LedgerBody, LedgerMessage, Manner, Mark, Message, Proposal,
    Question, Record, Relayed, RingMessage, StateBytes, Terms, TurnId, TurnMessage, TurnOutcome,
    TurnStep, Versions, Voter, codec,
};

fn node() -> NodeId {
    NodeId::from_random(0x0102)
}

fn digest() -> Digest {
    Digest([0xd1; 32])
}

fn record() -> MemberRecord {
    MemberRecord {
        node: node(),
        name: NodeName::new("n1").expect("a name"),
        addr: "10.0.0.1:7117".parse().expect("an address"),
        boot: BootNonce::from_random(1),
        version: Text::new("0.1.0"),
        incarnation: Incarnation(3),
        state: MemberState::Suspect,
        accusers: vec![node()],
        age_secs: 2,
        versions: Versions::new(1, 1).expect("a range"),
        more: vec![9],
    }
}

fn ring() -> Vec<RingMessage> {
    let key = FactKey::new("a/b").expect("a key");
    let fact = FactRecord { node: node(), key, version: 300, value: Some(vec![1, 2]) };
    let forgotten = ForgetRecord { node: node(), incarnation: Incarnation(4), age_secs: 5 };
    vec![
        RingMessage::Ping { number: 1, target: node(), digest: 2, way: Way::Stream },
        RingMessage::Ack { number: 1, digest: 2 },
        RingMessage::PingRequest { number: 1, target: node() },
        RingMessage::IndirectAck { number: 1 },
        RingMessage::Nack { number: 1 },
        RingMessage::Member(record()),
        RingMessage::Fact(fact.clone()),
        RingMessage::Forget(forgotten),
        RingMessage::Join(record()),
        RingMessage::State {
            members: vec![record()],
            forgotten: vec![forgotten],
            facts: vec![FactRecord { value: None, ..fact }],
            reply: true,
        },
    ]
}

fn lineage() -> LineageId {
    LineageId { members: 3, random: [0x11; 16] }
}

fn file() -> FileId {
    FileId::from_random(0x0f)
}

fn bodies() -> Vec<LedgerBody> {
    let mark = Mark { term: Term(2), version: 9 };
    let voter = Voter { node: node(), file: file() };
    let state = StateBytes::new(vec![1, 2]).expect("small");
    let heard = Heard { file: file(), term: Term(2), held: mark };
    let reform = Reform {
        from: lineage(),
        base: mark,
        before: Vec::new(),
        replaces: vec![lineage()],
        first: mark,
        state: state.clone(),
    };
    let record = Record {
        lineage: lineage(),
        term: Term(2),
        version: 9,
        voters: vec![voter],
        absorbed_by: Some(lineage()),
        absorbs: vec![lineage()],
        replaces: Vec::new(),
        state: state.clone(),
    };
    let holding = Holding {
        lineage: lineage(),
        mark,
        voters: vec![voter],
        replaces: Vec::new(),
        state: Some(state),
    };
    vec![
        LedgerBody::Propose(Proposal {
            lineage: lineage(),
            proposer: voter,
            voters: vec![voter],
            reform: Some(reform),
        }),
        LedgerBody::Accept { lineage: lineage() },
        LedgerBody::Refuse { lineage: lineage(), own: None, formed: true, durable: false },
        LedgerBody::Recall,
        LedgerBody::Recalled { heard: None },
        LedgerBody::Stale { heard },
        LedgerBody::PreVote { probe: 7 },
        LedgerBody::PreVoteAnswer { probe: 7, granted: true },
        LedgerBody::Vote { voter: file(), probe: 7 },
        LedgerBody::VoteAnswer { probe: 7, granted: false },
        LedgerBody::Append {
            voter: file(),
            sequence: 4,
            next: Duration::from_millis(150),
            newest: mark,
            committed: Some(mark),
            record: Some(record),
        },
        LedgerBody::AppendAnswer { sequence: 4 },
        LedgerBody::Introduce,
        LedgerBody::Pointer { leader: Some(node()) },
        LedgerBody::Survey { probe: 7 },
        LedgerBody::Surveyed {
            probe: 7,
            leader: None,
            holding: Some(holding),
            version: 9,
            others: vec![lineage()],
        },
        LedgerBody::Replaced { lineage: lineage(), by: lineage() },
    ]
}

fn turns() -> Vec<TurnMessage> {
    let rollout = RolloutId::from_random(0x22);
    let turn = TurnId { rollout, phase: 1, attempt: 2 };
    let claim = ClaimId::from_random(0x33);
    let release = Release { id: "app/1".parse().expect("a release"), digest: digest() };
    let config = ConfigRevision { number: 4, digest: Some(digest()) };
    let target = Target { release, config };
    let depot = "file:///d".to_owned();
    let text = Text::new("why");
    vec![
        TurnMessage::Prepare { rollout, target: target.clone(), depot: depot.clone() },
        TurnMessage::PrepareReport {
            rollout,
            digest: digest(),
            prepared: Prepared::Failed(text.clone()),
        },
        TurnMessage::Offer {
            turn,
            terms: Box::new(Terms {
                manner: Manner::Restart,
                target: target.clone(),
                baseline: Some(target),
                depot,
                start_timeout: Duration::from_secs(1),
                monitor: Duration::from_secs(2),
                ready_timeout: Duration::from_secs(3),
                on_not_ready: OnNotReady::Skip,
            }),
        },
        TurnMessage::Progress {
            turn,
            step: TurnStep::Starting,
            text: text.clone(),
            environment: true,
        },
        TurnMessage::Claim { turn, claim },
        TurnMessage::Go { turn, claim },
        TurnMessage::Outcome { turn, outcome: TurnOutcome::Skipped, begun: true, reason: text },
        TurnMessage::OutcomeKept { turn },
        TurnMessage::Withdraw { turn },
        TurnMessage::Withdrawn { turn },
    ]
}

fn group() -> GroupName {
    "a.b".parse().expect("a group")
}

fn questions() -> Vec<Question> {
    let action = CommandAction::Adopt { lineage: Text::new("3") };
    let by = NodeName::new("n1").expect("a name");
    let id = CommandId::from_random(0x44);
    vec![
        Question::Command(Command { id, group: group(), by, action }),
        Question::Status(group()),
        Question::History(group()),
        Question::Outcomes(group(), RolloutId::from_random(0x22)),
        Question::Config(group(), digest()),
        Question::Sealed(group(), digest()),
    ]
}

fn answers() -> Vec<AnswerContent> {
    let message = Text::new("done");
    let rollout = Some(RolloutId::from_random(0x22));
    vec![
        AnswerContent::Command(CommandAnswer { result: CommandResult::Done, message, rollout }),
        AnswerContent::Json("{}".to_owned()),
        AnswerContent::Sealed(Some(vec![1, 2])),
        AnswerContent::NotLeader,
    ]
}

/// Every message that version 1 has.
fn all() -> Vec<Message> {
    let id = CommandId::from_random(0x44);
    let ledger = bodies().into_iter().map(|body| {
        let held = Mark { term: Term(2), version: 8 };
        let (lineage, file) = (Some(lineage()), file());
        Message::Ledger(group(), LedgerMessage { lineage, file, term: Term(3), held, body })
    });
    let relayed = Message::Ask(Ask { id, question: Question::Status(group()) });
    let relayed = Relayed::new(node(), node(), 1, &relayed).expect("encodes");
    (ring().into_iter().map(Message::Ring))
        .chain(ledger)
        .chain(turns().into_iter().map(|message| Message::Turn(group(), message)))
        .chain(questions().into_iter().map(|question| Message::Ask(Ask { id, question })))
        .chain(answers().into_iter().map(|content| Message::Answer(Answer { id, content })))
        .chain([Message::Relayed(relayed)])
        .collect()
}

/// A place in [`all`] for each kind: a new one does not build until it has one there, too.
fn place(message: &Message) -> usize {
    match message {
        Message::Ring(message) => match message {
            RingMessage::Ping { .. } => 0,
            RingMessage::Ack { .. } => 1,
            RingMessage::PingRequest { .. } => 2,
            RingMessage::IndirectAck { .. } => 3,
            RingMessage::Nack { .. } => 4,
            RingMessage::Member(_) => 5,
            RingMessage::Fact(_) => 6,
            RingMessage::Forget(_) => 7,
            RingMessage::Join(_) => 8,
            RingMessage::State { .. } => 9,
        },
        Message::Ledger(_, message) => match message.body {
            LedgerBody::Propose(_) => 10,
            LedgerBody::Accept { .. } => 11,
            LedgerBody::Refuse { .. } => 12,
            LedgerBody::Recall => 13,
            LedgerBody::Recalled { .. } => 14,
            LedgerBody::Stale { .. } => 15,
            LedgerBody::PreVote { .. } => 16,
            LedgerBody::PreVoteAnswer { .. } => 17,
            LedgerBody::Vote { .. } => 18,
            LedgerBody::VoteAnswer { .. } => 19,
            LedgerBody::Append { .. } => 20,
            LedgerBody::AppendAnswer { .. } => 21,
            LedgerBody::Introduce => 22,
            LedgerBody::Pointer { .. } => 23,
            LedgerBody::Survey { .. } => 24,
            LedgerBody::Surveyed { .. } => 25,
            LedgerBody::Replaced { .. } => 26,
        },
        Message::Turn(_, message) => match message {
            TurnMessage::Prepare { .. } => 27,
            TurnMessage::PrepareReport { .. } => 28,
            TurnMessage::Offer { .. } => 29,
            TurnMessage::Progress { .. } => 30,
            TurnMessage::Claim { .. } => 31,
            TurnMessage::Go { .. } => 32,
            TurnMessage::Outcome { .. } => 33,
            TurnMessage::OutcomeKept { .. } => 34,
            TurnMessage::Withdraw { .. } => 35,
            TurnMessage::Withdrawn { .. } => 36,
        },
        Message::Ask(ask) => match ask.question {
            Question::Command(_) => 37,
            Question::Status(_) => 38,
            Question::History(_) => 39,
            Question::Outcomes(..) => 40,
            Question::Config(..) => 41,
            Question::Sealed(..) => 42,
        },
        Message::Answer(answer) => match answer.content {
            AnswerContent::Command(_) => 43,
            AnswerContent::Json(_) => 44,
            AnswerContent::Sealed(_) => 45,
            AnswerContent::NotLeader => 46,
        },
        Message::Relayed(_) => 47,
    }
}

fn hex(bytes: &[u8]) -> String {
    baton_types::hex::encode(bytes)
}

#[test]
fn messages_of_version_1() {
    let all = all();
    let places: Vec<usize> = all.iter().map(place).collect();
    assert_eq!(places, (0..all.len()).collect::<Vec<_>>(), "each once, in this order");
    let golden: Vec<&str> = GOLDEN.lines().collect();
    assert_eq!(golden.len(), all.len());
    for (message, golden) in all.iter().zip(golden) {
        let bytes = codec::encode(message).expect("encodes");
        assert_eq!(hex(&bytes), golden, "{message:?}");
        assert_eq!(codec::decode::<Message>(&bytes).ok().as_ref(), Some(message));
    }
}

#[test]
fn the_commands_of_version_1() {
    let version = Some("2".parse().expect("a version"));
    let actions = [
        CommandAction::Start { version: version.clone() },
        CommandAction::Pause,
        CommandAction::Resume,
        CommandAction::Cancel,
        CommandAction::Rollback { to: version },
        CommandAction::Retry,
        CommandAction::Approve,
        CommandAction::Restart,
        CommandAction::Reboot,
        CommandAction::Cordon { node: node() },
        CommandAction::Uncordon { node: node() },
        CommandAction::ReadChannel,
        CommandAction::RemoveVoter { node: node() },
        CommandAction::ApplyConfig { digest: digest() },
        CommandAction::Reform,
        CommandAction::Adopt { lineage: Text::new("3") },
    ];
    let id = "00000000000040008000000000000102";
    let wanted = [
        "00010132",
        "01",
        "02",
        "03",
        "04010132",
        "05",
        "06",
        "07",
        "08",
        &format!("09{id}"),
        &format!("0a{id}"),
        "0b",
        &format!("0c{id}"),
        &format!("0d{}", "d1".repeat(32)),
        "0e",
        "0f0133",
    ];
    for (action, wanted) in actions.iter().zip(wanted) {
        assert_eq!(hex(&codec::encode(action).expect("encodes")), wanted, "{action:?}");
    }
}

/// The head is the same in every version.
#[test]
fn an_envelope() {
    let head = Head {
        sender: node(),
        boot: BootNonce::from_random(1),
        counter: 300,
        versions: Versions::new(1, 2).expect("a range"),
        version: 1,
    };
    let nack = |number| Message::Ring(RingMessage::Nack { number });
    let envelope = Envelope { head, messages: vec![nack(1), nack(300)] };
    let bytes = envelope.encode().expect("encodes");
    let wanted = "00000000000040008000000000000102\
                  00000000000000000000000000000001\
                  fb2c01\
                  010201\
                  03000401\
                  050004fb2c01";
    assert_eq!(hex(&bytes), wanted);
    let opened = Envelope::decode(&bytes, Versions::OURS).expect("decodes");
    assert_eq!((opened.envelope, opened.skipped), (envelope, 0));
}

/// One line for each of [`all`], in that order.
const GOLDEN: &str = include_str!("golden.txt");
