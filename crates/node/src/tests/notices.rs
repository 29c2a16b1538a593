//! Every line of the journal has the notice that its words stand for.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_types::CommandAction;

use super::bench::{Bench, boot, group, release};
use crate::{Notice, Request};

/// What lines say of a group and its rollouts, and which notice each of them is. The first that is
/// found in a line counts.
const WORDS: [(&str, Notice); 17] = [
    ("is paused", Notice::RolloutPaused),
    ("paused by", Notice::GroupPaused),
    ("resumed", Notice::GroupResumed),
    ("is no longer cordoned", Notice::MemberUncordoned),
    ("is cordoned", Notice::MemberCordoned),
    ("the baseline is", Notice::BaselineChanged),
    ("is rejected", Notice::TargetRejected),
    ("begins for", Notice::RolloutBegins),
    ("is prepared: the turns begin", Notice::RolloutTurnsBegin),
    ("rolling back to", Notice::RolloutRollsBack),
    ("ended completed", Notice::RolloutCompleted),
    ("ended rolled_back", Notice::RolloutRolledBack),
    ("is offered its turn", Notice::TurnOffered),
    ("goes: ", Notice::TurnTaken),
    ("being monitored", Notice::TurnMonitoring),
    (" passed on ", Notice::TurnPassed),
    (" failed on ", Notice::TurnFailed),
];

#[test]
fn each_line_about_a_record_is_what_it_says() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.pass(LONG);
    bench.request(Request::Cordon(None), SHORT);
    bench.request(Request::Uncordon(None), SHORT);
    bench.request(command(CommandAction::Pause), SHORT);
    bench.request(command(CommandAction::Resume), SHORT);
    bench.head = Some(release(2));
    bench.pass(LONG);
    bench.head = Some(release(3));
    bench.broken = Some(release(3).digest);
    bench.pass(LONG);
    bench.request(command(CommandAction::Rollback { to: None }), SHORT);
    bench.pass(LONG);

    let mut seen = BTreeSet::new();
    for line in bench.lines() {
        let Some((_, notice)) = WORDS.iter().find(|(words, _)| line.text.contains(words)) else {
            continue;
        };
        assert_eq!(line.notice, *notice, "{line:?}");
        seen.insert(line.notice);
    }
    let lacking: Vec<_> = WORDS.iter().filter(|(_, notice)| !seen.contains(notice)).collect();
    assert!(lacking.is_empty(), "never said: {lacking:?}");
}

#[test]
fn no_two_notices_share_an_id() {
    let ids: BTreeSet<u128> = Notice::ALL.iter().map(|notice| notice.message_id()).collect();
    assert_eq!(ids.len(), Notice::ALL.len());
}

#[test]
fn the_catalog_explains_every_notice_and_nothing_else() {
    let mut explained = BTreeSet::new();
    for entry in CATALOG.split("\n# ").skip(2) {
        let (name, entry) = entry.split_once("\n-- ").expect(entry);
        let (head, text) = entry.split_once("\n\n").expect(entry);
        let mut head = head.lines();
        let id = head.next().and_then(|id| u128::from_str_radix(id, 16).ok()).expect(entry);
        let notice = Notice::ALL.iter().find(|notice| notice.message_id() == id);
        let notice = notice.unwrap_or_else(|| panic!("no notice has the id of {name}"));
        assert_eq!(format!("{notice:?}"), name);
        assert!(explained.insert(id), "{name} is explained twice");
        for key in ["Subject: ", "Defined-By: Baton", "Documentation: man:baton(1)"] {
            assert!(head.next().is_some_and(|line| line.starts_with(key)), "{name} lacks {key}");
        }
        assert!(text.contains('.'), "{name} has no text");
        for field in entry.split('@').skip(1).step_by(2) {
            assert!(FIELDS.contains(&field), "{name} names the field {field}");
        }
    }
    for notice in Notice::ALL {
        assert!(explained.contains(&notice.message_id()), "{notice:?} is not explained");
    }
}

fn command(action: CommandAction) -> Request {
    Request::Command { group: group("a.main"), action, id: None }
}

const CATALOG: &str = include_str!("../../../../config/systemd/baton.catalog");

/// What a line may have beside its words.
const FIELDS: [&str; 5] =
    ["BATON_GROUP", "BATON_ROLLOUT", "BATON_MEMBER", "BATON_RELEASE", "BATON_TERM"];

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(120);
