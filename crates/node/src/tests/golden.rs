//! Golden bytes of what nodes keep and pass on: facts, the group's record, files.
//!
//! Each line of the list is a format of version 1, its bytes and what they say. They were written once
//! and are never written anew: docs/wire.md, "Versions", says how a format changes.

use std::fmt::Debug;

use baton_ledger::LedgerFile;
use baton_ring::SavedRing;
use baton_rollout::{GroupState, MemberFile, RolloutKind, RolloutState, TurnState};
use baton_types::member::{Desired, Health, LedgerFact, Prepared, ProcessState, ServiceFact};
use baton_types::policy::{Approve, OnDemote, OnFailure, OnNotReady, Strategy};
use baton_types::{CommandResult, Text, hex};
use baton_wire::ring::{MemberState, Way};
use baton_wire::{Manner, TurnOutcome, TurnStep, Versions, codec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::ServiceFile;

/// The bytes and the words of that line.
fn golden(name: &str) -> (Vec<u8>, &'static str) {
    let found = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let (digits, words) = found.and_then(|line| line.split_once(' ')).expect("a line of that name");
    let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("ASCII"));
    (pairs.map(|pair| hex::decode::<1>(pair).expect("hexadecimal")[0]).collect(), words)
}

/// Reads the golden bytes of that format, and writes the same ones.
pub(crate) fn check<T: Serialize + DeserializeOwned + Debug>(name: &str) {
    let (bytes, words) = golden(name);
    let value: T = codec::decode(&bytes).expect("decodes");
    assert_eq!(format!("{value:?}"), words, "{name}");
    assert_eq!(codec::encode(&value).expect("encodes"), bytes, "{name}");
}

#[test]
fn facts_and_files_of_version_1() {
    check::<ServiceFact>("service-fact");
    check::<LedgerFact>("ledger-fact");
    check::<SavedRing>("ring");
    check::<LedgerFile>("ledger");
    check::<MemberFile>("turn");
    check::<ServiceFile>("service");
}

#[test]
fn the_group_s_state_of_version_1() {
    let (bytes, words) = golden("state");
    let state = GroupState::decode(&bytes, Versions::OURS).expect("decodes");
    assert_eq!(format!("{state:?}"), words);
    assert_eq!(state.encode(1).expect("encodes"), bytes);
}

/// Values in the order of their numbers.
fn numbered<T: Serialize + Debug>(values: &[T]) {
    for (number, value) in (0..).zip(values) {
        assert_eq!(codec::encode(value).expect("encodes").first(), Some(&number), "{value:?}");
    }
}

/// Choices of the configuration, by their words in the order of their numbers.
fn choices<T: Serialize + Debug + Copy>(all: &[(T, &str)], words: &[&str]) {
    numbered(&all.iter().map(|(choice, _)| *choice).collect::<Vec<_>>());
    assert_eq!(all.iter().map(|(_, word)| *word).collect::<Vec<_>>(), words);
}

/// What stands within messages, facts and files: each variant has its number, also those that the
/// lines of the lists do not show.
#[test]
fn variants_of_version_1() {
    numbered(&[TurnOutcome::Passed, TurnOutcome::Failed, TurnOutcome::Skipped]);
    numbered(&[
        TurnStep::Unpacking,
        TurnStep::Installing,
        TurnStep::AskingReady,
        TurnStep::Claiming,
        TurnStep::Stopping,
        TurnStep::Rebooting,
        TurnStep::Starting,
        TurnStep::Verifying,
        TurnStep::Monitoring,
    ]);
    numbered(&[Manner::Bring, Manner::Restart, Manner::Reboot]);
    numbered(&[Way::Datagram, Way::Stream]);
    numbered(&[
        MemberState::Alive,
        MemberState::Suspect,
        MemberState::Restarting,
        MemberState::Dead,
        MemberState::Left,
    ]);
    numbered(&[Prepared::Fetching, Prepared::Ready, Prepared::Failed(Text::default())]);
    numbered(&[
        CommandResult::Done,
        CommandResult::Refused,
        CommandResult::NoQuorum,
        CommandResult::TimedOut,
    ]);
    numbered(&[
        TurnState::Waiting,
        TurnState::Offered,
        TurnState::Taken,
        TurnState::Monitoring,
        TurnState::Passed,
        TurnState::Failed,
        TurnState::Skipped,
        TurnState::Absent,
    ]);
    numbered(&[
        RolloutKind::Update,
        RolloutKind::Config,
        RolloutKind::Rollback,
        RolloutKind::Restart,
        RolloutKind::Reboot,
        RolloutKind::CatchUp,
    ]);
    numbered(&[
        RolloutState::Preparing,
        RolloutState::Running,
        RolloutState::Paused,
        RolloutState::Completed,
        RolloutState::CompletedWithExceptions,
        RolloutState::Cancelled,
        RolloutState::Superseded,
        RolloutState::RollingBack,
        RolloutState::RollbackPaused,
        RolloutState::RolledBack,
    ]);
    choices(OnFailure::ALL, &["pause", "rollback", "continue"]);
    choices(OnDemote::ALL, &["cancel", "rollback", "ignore"]);
    choices(OnNotReady::ALL, &["fail", "skip", "force"]);
    choices(Approve::ALL, &["auto", "manual"]);
    choices(Strategy::ALL, &["rolling", "at-once", "none"]);
    choices(Health::ALL, &["ok", "warning", "critical", "unknown"]);
    choices(ProcessState::ALL, &["stopped", "starting", "running", "stopping", "back-off"]);
    choices(Desired::ALL, &["running", "stopped"]);
}

/// Lines of a name, the bytes, and what they say.
const GOLDEN: &str = include_str!("golden.txt");
