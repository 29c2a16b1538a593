//! Configuration revisions and releases, each rolled out for itself and together.

use baton_types::policy::OnFailure;
use baton_types::{CommandAction, CommandAnswer, CommandResult, Digest, Target, Version};

use super::World;
use crate::rollout::RolloutKind;
use crate::rollout::RolloutState::{Completed, Paused, Preparing, RolledBack, Superseded};
use crate::rollout::TurnState::{Failed, Monitoring, Waiting};
use crate::view::tests::target;

/// The digest of revision `name`; behaviours of a release `v` with it are those of `v ^ name`.
fn digest(name: u8) -> Digest {
    Digest([name; 32])
}

fn apply(world: &mut World, name: u8) -> CommandAnswer {
    let answer = world.command(CommandAction::ApplyConfig { digest: digest(name) });
    assert_eq!(answer.result, CommandResult::Done, "{}", answer.message);
    answer
}

/// Every member runs this release with the revision of this number and digest (0 = none).
fn everybody_on(world: &World, version: u8, number: u32, name: u8) {
    let mut wanted: Target = target(version);
    wanted.config.number = number;
    wanted.config.digest = (number > 0).then(|| digest(name));
    for host in world.hosts.values() {
        assert_eq!(host.member.file().running.as_ref(), Some(&wanted));
        assert_eq!(host.running.as_ref(), Some(&wanted));
    }
    assert_eq!(world.state.baseline(), Some(&wanted));
}

#[test]
fn a_revision_reaches_one_member_after_the_other_and_stays_with_the_next_release() {
    let mut world = World::new(5);
    let answer = apply(&mut world, 0x10);
    assert!(answer.message.as_str().contains("redis/1 config 1 starts"), "{}", answer.message);
    world.run_until(|world| world.turn("n2") == Monitoring);
    assert_eq!(world.turn("n3"), Waiting);
    assert_eq!(world.settle(), Completed);
    assert_eq!(world.rollout().kind, RolloutKind::Config);
    everybody_on(&world, 1, 1, 0x10);

    let starts: u32 = world.hosts.values().map(|host| host.starts).sum();
    let again = apply(&mut world, 0x10);
    assert_eq!(again.rollout, None);
    assert!(again.message.as_str().contains("in force already"), "{}", again.message);
    world.run(60_000);
    assert_eq!(world.hosts.values().map(|host| host.starts).sum::<u32>(), starts);

    world.promote(2);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 2, 1, 0x10);
    let start = CommandAction::Start { version: Some(Version::new("3").expect("a version")) };
    assert_eq!(world.command(start).result, CommandResult::Done);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 3, 1, 0x10);
}

#[test]
fn a_bad_revision_stops_at_the_first_member_and_the_way_back_needs_no_depot() {
    let mut world = World::new(5);
    apply(&mut world, 0x10);
    assert_eq!(world.settle(), Completed);
    world.host("n2").behave(1 ^ 0x20, |behavior| behavior.healthy_after = None);
    apply(&mut world, 0x20);
    assert_eq!(world.settle(), Paused);
    assert_eq!((world.turn("n2"), world.turn("n3")), (Failed, Waiting));
    world.depot_up = false;
    let back = CommandAction::Rollback { to: None };
    assert_eq!(world.command(back).result, CommandResult::Done);
    assert_eq!(world.settle(), RolledBack);
    everybody_on(&world, 1, 1, 0x10);
    world.depot_up = true;
    // The release itself was never at fault: it is not what is rejected.
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 2, 1, 0x10);
    // Typed again by its operator it is tried again, under the number that it had.
    world.host("n2").behave(2 ^ 0x20, |behavior| behavior.healthy_after = Some(100));
    apply(&mut world, 0x20);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 2, 2, 0x20);
}

#[test]
fn an_update_and_a_revision_interleaved_come_together_and_go_back_together() {
    let mut world = World::new(5);
    apply(&mut world, 0x10);
    assert_eq!(world.settle(), Completed);
    world.promote(2);
    world.run_until(|world| world.turn("n3") == Monitoring);
    let answer = apply(&mut world, 0x20);
    let said = answer.message.as_str();
    assert!(said.contains("redis/2 config 2 supersedes redis/2 config 1"), "{said}");
    world.run_until(|world| world.state.history.iter().any(|line| line.state == Superseded));
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 2, 2, 0x20);
    // One step back is what completed before: the first release with the first revision.
    let back = CommandAction::Rollback { to: None };
    assert_eq!(world.command(back).result, CommandResult::Done);
    assert_eq!(world.settle(), RolledBack);
    everybody_on(&world, 1, 1, 0x10);
}

#[test]
fn a_release_that_follows_on_a_revision_under_way_takes_it_along_and_fails_with_it() {
    for name in [0x20, 0x40] {
        let mut world = World::new(5);
        world.view.settings.update.on_failure = OnFailure::Rollback;
        apply(&mut world, 0x10);
        assert_eq!(world.settle(), Completed);
        world.host("n4").behave(2 ^ name, |behavior| behavior.exits_after = Some(500));
        apply(&mut world, name);
        world.run_until(|world| world.turn("n2") == Monitoring);
        world.promote(2);
        assert_eq!(world.settle(), RolledBack, "{}", world.waits_for());
        assert_eq!(world.rollout().kind, RolloutKind::Update);
        everybody_on(&world, 1, 1, 0x10);
    }
}

#[test]
fn a_revision_that_failed_is_not_carried_along() {
    let mut world = World::new(3);
    world.host("n2").behave(1 ^ 0x10, |behavior| behavior.healthy_after = None);
    apply(&mut world, 0x10);
    assert_eq!(world.settle(), Paused);
    world.promote(2);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 2, 0, 0);
}

#[test]
fn nobody_is_touched_before_everybody_has_the_revision() {
    let mut world = World::new(3);
    world.host("n3").fetch_works = false;
    apply(&mut world, 0x10);
    world.run(20_000);
    assert_eq!((world.rollout_state(), world.on(1)), (Preparing, 3));
    assert!(world.waits_for().contains("n3"), "{}", world.waits_for());
    world.host("n3").fetch_works = true;
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 1, 1, 0x10);
}

#[test]
fn a_group_without_a_release_starts_with_the_revision_that_was_noted() {
    let mut world = World::empty(3);
    let answer = apply(&mut world, 0x10);
    assert!(answer.message.as_str().contains("revision 1 is noted"), "{}", answer.message);
    world.promote(1);
    assert_eq!(world.settle(), Completed);
    everybody_on(&world, 1, 1, 0x10);
}
