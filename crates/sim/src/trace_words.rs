//! Messages in words, for the trace.

use baton_wire::{Envelope, LedgerBody, Message, TurnMessage, Versions};

/// An envelope in words; empty for what comes all the time and says nothing new.
pub(crate) fn envelope_words(envelope: &Envelope) -> String {
    let words: Vec<String> = envelope.messages.iter().filter_map(words).collect();
    words.join("; ")
}

/// A number for what an envelope mainly is.
pub(crate) fn event_kind(envelope: &Envelope) -> u8 {
    match envelope.messages.first() {
        Some(Message::Ring(_)) => 16,
        Some(Message::Ledger(..)) => 17,
        Some(Message::Turn(..)) => 18,
        Some(_) => 19,
        None => 20,
    }
}

fn words(message: &Message) -> Option<String> {
    match message {
        Message::Ring(_) => None,
        Message::Ledger(_, message) => {
            let term = message.term;
            let body = match &message.body {
                LedgerBody::Append { record: None, .. } | LedgerBody::AppendAnswer { .. } => {
                    return None;
                }
                LedgerBody::Append { record: Some(record), .. } => {
                    format!("append {}.{}", record.term, record.version)
                }
                LedgerBody::Vote { .. } => "vote for me".to_owned(),
                LedgerBody::VoteAnswer { granted, .. } => format!("vote: {granted}"),
                LedgerBody::PreVote { .. } => "would you vote for me".to_owned(),
                LedgerBody::PreVoteAnswer { granted, .. } => format!("would vote: {granted}"),
                LedgerBody::Propose(proposal) => format!("propose {:?}", proposal.lineage),
                LedgerBody::Replaced { lineage, by } => format!("{lineage:?} gave way to {by:?}"),
                LedgerBody::Accept { lineage } => format!("accept {lineage:?}"),
                LedgerBody::Refuse { lineage, .. } => format!("refuse {lineage:?}"),
                other => {
                    let all = format!("{other:?}");
                    all.chars().take(60).collect()
                }
            };
            Some(format!("ledger in term {term}: {body}"))
        }
        Message::Relayed(relayed) => words(&relayed.open(Versions::OURS)?)
            .map(|inner| format!("for {:?} from {:?}: {inner}", relayed.to, relayed.from)),
        Message::Turn(_, message) => Some(turn_words(message)),
        Message::Ask(ask) => {
            let question = format!("{:?}", ask.question);
            Some(format!("ask {:?}: {}", ask.id, question.chars().take(120).collect::<String>()))
        }
        Message::Answer(answer) => {
            let content = format!("{:?}", answer.content);
            Some(format!(
                "answer {:?}: {}",
                answer.id,
                content.chars().take(120).collect::<String>()
            ))
        }
    }
}

fn turn_words(message: &TurnMessage) -> String {
    let name = |turn: &baton_wire::TurnId| {
        format!("{:?} phase {} attempt {}", turn.rollout, turn.phase, turn.attempt)
    };
    match message {
        TurnMessage::Prepare { rollout, target, .. } => format!("prepare {target} for {rollout:?}"),
        TurnMessage::PrepareReport { rollout, prepared, .. } => {
            format!("prepared for {rollout:?}: {prepared:?}")
        }
        TurnMessage::Offer { turn, terms } => format!("offer {} of {}", terms.target, name(turn)),
        TurnMessage::Progress { turn, step, text, .. } => {
            format!("progress of {}: {} {text}", name(turn), step.word())
        }
        TurnMessage::Claim { turn, claim } => format!("claim {claim:?} of {}", name(turn)),
        TurnMessage::Go { turn, claim } => format!("GO {claim:?} of {}", name(turn)),
        TurnMessage::Outcome { turn, outcome, reason, .. } => {
            format!("outcome {outcome:?} of {}: {reason}", name(turn))
        }
        TurnMessage::OutcomeKept { turn } => format!("outcome kept of {}", name(turn)),
        TurnMessage::Withdraw { turn } => format!("withdraw {}", name(turn)),
        TurnMessage::Withdrawn { turn } => format!("withdrawn {}", name(turn)),
    }
}
