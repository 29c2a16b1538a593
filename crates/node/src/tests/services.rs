//! Services, their releases and their programs.

use std::time::Duration;

use baton_types::member::Health;
use baton_types::{CommandAction, CommandId};

use super::bench::{Bench, adopted, boot, group, release, settings};
use crate::event::Event;
use crate::{Effect, FoundFile, Reply, Request, Why};

#[test]
fn a_release_of_another_service_is_never_dropped() {
    let (a, b) = (group("a.main"), group("b.main"));
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1))), (&b, Some(&release(2)))]));
    bench.head = Some(release(3));
    bench.pass(seconds(120));
    assert!(bench.launched(&a).contains(&release(3).digest), "the rollout came through");
    let mut kept = 0;
    for effect in &bench.asked {
        if let Effect::KeepReleases { keep, .. } = effect {
            kept += 1;
            for needed in [release(1), release(2)] {
                assert!(keep.contains(&needed.digest), "{needed} is needed, kept are {keep:?}");
            }
        }
    }
    assert!(kept > 0);
}

#[test]
fn a_release_that_is_gone_is_brought_back_before_a_start() {
    let a = group("a.main");
    for what in [Request::ServiceStart(a.clone()), Request::ServiceRestart(a.clone())] {
        let mut found = boot(&[(&a, Some(&release(1)))]);
        found.unpacked.clear();
        let stopped = crate::files::ServiceFile { desired: baton_types::member::Desired::Stopped };
        let bytes = baton_wire::codec::encode(&stopped).expect("encodes");
        found.files.insert(crate::files::service(&a), FoundFile::Content(bytes));
        let mut bench = Bench::start(found);
        assert_eq!(bench.launched(&a), []);
        bench.request(what, seconds(1));
        let unpack = bench.position(|effect| matches!(effect, Effect::Unpack { .. }));
        let launch = bench.position(|effect| matches!(effect, Effect::Launch { .. }));
        assert!(unpack.is_some() && unpack < launch, "unpacked at {unpack:?}, {launch:?}");
        assert_eq!(bench.launched(&a).len(), 1);
    }
}

#[test]
fn a_restart_of_a_stopped_service_starts_it_once() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.request(Request::ServiceStop(a.clone()), seconds(1));
    bench.request(Request::ServiceRestart(a.clone()), seconds(1));
    assert_eq!(bench.launched(&a).len(), 2);
    bench.request(Request::ServiceRestart(a.clone()), seconds(1));
    assert_eq!(bench.launched(&a).len(), 3);
}

#[test]
fn a_program_that_nobody_knows_ends_before_another_starts() {
    let a = group("a.main");
    let mut found = boot(&[(&a, None)]);
    found.files.insert(crate::files::turn(&a), FoundFile::Damaged);
    found.adopted.insert(a.clone(), adopted(55, &release(1)));
    let mut bench = Bench::start(found);
    bench.pass(seconds(5));
    let halted = |effect: &Effect| matches!(effect, Effect::Halt { run: 0, .. });
    assert_eq!(bench.position(halted), None, "it serves until it must not");
    bench.head = Some(release(2));
    bench.pass(seconds(60));
    let (halt, launch) =
        (bench.position(halted), bench.position(|effect| matches!(effect, Effect::Launch { .. })));
    assert!(halt.is_some() && halt < launch, "halted at {halt:?}, launched at {launch:?}");
    assert_eq!(bench.launched(&a), [release(2).digest]);
}

#[test]
fn a_program_whose_release_was_lost_is_taken_over_once_it_is_back() {
    let a = group("a.main");
    let mut found = boot(&[(&a, Some(&release(1)))]);
    found.unpacked.clear();
    found.manifests.clear();
    found.adopted.insert(a.clone(), adopted(55, &release(1)));
    let mut bench = Bench::start(found);
    bench.pass(seconds(5));
    assert_eq!(bench.launched(&a), []);
    let state = bench.node.observe(&a).expect("the group").service().clone();
    assert_eq!((state.pid, state.health), (Some(55), Health::Ok));
}

#[test]
fn a_stop_by_the_operator_ends_a_turn_that_watches_the_program() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.head = Some(release(2));
    for _ in 0..200 {
        bench.pass(Duration::from_millis(100));
        if bench.launched(&a).contains(&release(2).digest) {
            break;
        }
    }
    bench.request(Request::ServiceStop(a.clone()), seconds(1));
    bench.pass(seconds(120));
    assert!(bench.has_logged("stopped from outside of the turn"));
    assert!(!bench.has_logged("its turn here ended: passed"));
    assert!(bench.node.observe(&a).expect("the group").service().pid.is_none());
}

#[test]
fn an_unloaded_service_leaves_nothing_and_cannot_come_half_way_back() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.pass(seconds(2));
    bench.stops = false;
    bench.request(Request::ServiceUnload { group: a.clone(), force: false }, seconds(1));
    for what in [
        Request::ServiceStart(a.clone()),
        Request::ServiceLoad(Box::new(settings(&a))),
        Request::ServiceRestart(a.clone()),
    ] {
        let reply = bench.request(what, seconds(1));
        assert!(matches!(reply, Reply::Refused { why: Why::State, .. }), "{reply:?}");
    }
    assert_eq!(bench.request(Request::Services, seconds(1)), Reply::Json("[]".to_owned()));
    bench.stops = true;
    bench.pass(seconds(60));
    assert!(bench.has_logged("the service is unloaded"));
    assert_eq!(bench.request(Request::Groups, seconds(1)), Reply::Json("[]".to_owned()));
    bench.request(Request::ServiceLoad(Box::new(settings(&a))), seconds(1));
    assert!(bench.node.observe(&a).is_some());
}

#[test]
fn the_census_follows_this_very_node() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.pass(seconds(60));
    let last = bench.asked.iter().rev().find_map(|effect| match effect {
        Effect::Census { json, .. } => Some(json.clone()),
        _ => None,
    });
    let last = last.expect("a census");
    assert!(last.contains("\"health\": \"ok\""), "{last}");
}

#[test]
fn one_command_id_is_answered_to_one_asker() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, None)]));
    bench.writes = false;
    bench.handle(Event::Services(vec![settings(&group("b.main"))]));
    let command = || Request::Command {
        group: group("b.main"),
        action: CommandAction::Pause,
        id: Some(CommandId::from_random(9)),
    };
    let first = bench.ask(command());
    let second = bench.ask(command());
    assert!(matches!(bench.reply(second), Some(Reply::Refused { why: Why::State, .. })));
    bench.pass(seconds(60));
    assert!(bench.reply(first).is_some());
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_stop_is_done_once_it_outlasts_the_daemon() {
    let a = group("a.main");
    let mut bench = Bench::start(boot(&[(&a, Some(&release(1)))]));
    bench.pass(seconds(5));
    bench.writes = false;
    let asked = bench.ask(Request::ServiceStop(a.clone()));
    bench.pass(seconds(1));
    assert_eq!(bench.reply(asked), None, "it is not on disk");
    let file = crate::files::service(&a);
    let newest = |bench: &Bench| {
        let writes = bench.asked.iter().filter_map(|effect| match effect {
            Effect::Write { write, file: of, .. } if *of == file => Some(*write),
            _ => None,
        });
        writes.collect::<Vec<u64>>()
    };
    let first = newest(&bench);
    let full = Err("no space left on device".into());
    bench.handle(Event::Written { write: first[0], result: full });
    let Some(Reply::Refused { text, .. }) = bench.reply(asked) else { panic!("not refused") };
    assert!(text.contains("no space left on device"), "{text}");
    let again = bench.ask(Request::ServiceStop(a.clone()));
    let second = newest(&bench);
    assert_eq!(second.len(), 2, "it is tried again");
    bench.handle(Event::Written { write: second[1], result: Ok(()) });
    assert!(matches!(bench.reply(again), Some(Reply::Done(_))));
}
