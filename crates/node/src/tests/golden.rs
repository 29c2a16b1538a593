//! Golden bytes of what nodes keep and pass on: facts, the group's record, files.
//!
//! Each line of the list is a format of version 1, its bytes and what they say. They were written once
//! and are never written anew: docs/wire.md, "Versions", says how a format changes.

use std::fmt::Debug;

use baton_ledger::LedgerFile;
use baton_ring::SavedRing;
use baton_rollout::{GroupState, MemberFile};
use baton_types::hex;
use baton_types::member::{LedgerFact, ServiceFact};
use baton_wire::{Versions, codec};
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

/// Lines of a name, the bytes, and what they say.
const GOLDEN: &str = include_str!("golden.txt");
