//! Configuration revisions on their way through a node.

use std::time::Duration;

use baton_rollout::MemberFile;
use baton_types::{CommandAction, CommandResult, ConfigRevision, Digest, Target};
use baton_wire::codec;

use super::bench::{Bench, boot, group, release};
use crate::{Effect, FoundFile, Reply, Request};

const REVISION: Digest = Digest([0x77; 32]);

#[test]
fn a_revision_is_looked_at_then_rolled_out_then_kept_and_shown() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.head = Some(release(2));
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.launched(&a).last(), Some(&release(2).digest));
    let before = bench.asked.len();
    let action = CommandAction::ApplyConfig { digest: REVISION };
    let what = Request::Command { group: a.clone(), action, id: None };
    let Reply::Command { answer, .. } = bench.request(what, Duration::from_secs(60)) else {
        panic!("no answer to the command")
    };
    assert_eq!(answer.result, CommandResult::Done, "{}", answer.message);
    let asked = &bench.asked[before..];
    let position = |what: &dyn Fn(&Effect) -> bool| asked.iter().position(what);
    let looked = position(&|effect| matches!(effect, Effect::FetchRevision { .. }));
    let fetched = position(&|effect| matches!(effect, Effect::Fetch { .. }));
    let launched = position(&|effect| {
        matches!(effect, Effect::Launch { launch, .. }
            if launch.target.config.number == 1 && launch.revision.is_some())
    });
    assert!(looked.is_some() && looked < fetched && fetched < launched, "{asked:#?}");
    let looks = asked.iter().filter(|effect| matches!(effect, Effect::FetchRevision { .. }));
    assert!(looks.count() >= 2, "the leader and the member look, each for itself");
    for effect in asked {
        if let Effect::KeepReleases { keep, .. } = effect {
            assert!(keep.contains(&REVISION), "{keep:?}");
        }
    }
    let what = Request::Config(a.clone(), REVISION);
    let shown = bench.request(what, Duration::from_secs(5));
    assert!(matches!(&shown, Reply::Json(json) if json.contains(&REVISION.to_string())));
    let what = Request::Config(a, Digest([1; 32]));
    assert_eq!(bench.request(what, Duration::from_secs(5)), Reply::Json("null".to_owned()));
}

#[test]
fn a_revision_that_is_gone_is_brought_back_before_its_release_starts() {
    let a = group("a.main");
    let mut found = boot(&[(&a, Some(&release(1)))]);
    let config = ConfigRevision { number: 3, digest: Some(REVISION) };
    let running = Some(Target { release: release(1), config });
    let file = MemberFile { running, ..MemberFile::default() };
    let bytes = codec::encode(&file).expect("encodes");
    found.files.insert(crate::files::turn(&a), FoundFile::Content(bytes));
    let bench = Bench::start(found);
    let revision = bench.position(|effect| matches!(effect, Effect::FetchRevision { .. }));
    let launch = bench.position(|effect| matches!(effect, Effect::Launch { .. }));
    assert!(revision.is_some() && revision < launch, "{revision:?} {launch:?}");
}
