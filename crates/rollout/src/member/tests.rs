//! The member alone: what it does for each message, and in which order with the disk.

use std::time::Duration;

use baton_types::manifest::HookKind;
use baton_types::policy::OnNotReady;
use baton_types::{ClaimId, Moment, Now, RolloutId, WallTime};
use baton_wire::{Manner, Terms, TurnId, TurnMessage, TurnOutcome};

use super::file::{MemberFile, Stage};
use super::{
    FetchResult, HookVerdict, Member, MemberInput, MemberOutput, MemberSettings, ServiceNote,
};
use crate::view::tests::{node, target};

const TURN: TurnId = TurnId { rollout: RolloutId([7; 16]), phase: 1, attempt: 1 };

fn at(millis: u64) -> Now {
    Now { moment: Moment::from_millis(millis), wall: WallTime(0) }
}

fn open(file: MemberFile, now: Now) -> Member {
    let settings =
        MemberSettings { claim_window: Duration::from_secs(5), resend: Duration::from_millis(500) };
    Member::open(settings, node("n1"), [1; 16], file, 3, now)
}

fn say(member: &mut Member, now: Now, message: TurnMessage) {
    member.receive(now, node("n2"), message);
}

/// Lets the newest write succeed; gives back what was asked for before and after it.
fn saved(member: &mut Member, now: Now) -> (Vec<MemberOutput>, Vec<MemberOutput>) {
    let before = member.take_outputs();
    let token = before.iter().rev().find_map(|output| match output {
        MemberOutput::Persist { token, .. } => Some(*token),
        _ => None,
    });
    let token = token.expect("a write");
    member.input(now, MemberInput::Persisted { token, ok: true });
    (before, member.take_outputs())
}

fn has(outputs: &[MemberOutput], wanted: fn(&MemberOutput) -> bool) -> bool {
    outputs.iter().any(wanted)
}

/// A member on r1 that has claimed its turn to r2 at 100 ms.
fn claiming() -> (Member, ClaimId) {
    claiming_in(Manner::Bring)
}

fn claiming_in(manner: Manner) -> (Member, ClaimId) {
    let file = MemberFile { running: Some(target(1)), ..MemberFile::default() };
    let mut member = open(file, at(0));
    let terms = Box::new(Terms {
        manner,
        target: target(2),
        baseline: Some(target(1)),
        depot: "file:///srv/depot".to_owned(),
        start_timeout: Duration::from_secs(5),
        monitor: Duration::from_secs(5),
        ready_timeout: Duration::from_secs(5),
        on_not_ready: OnNotReady::Fail,
    });
    say(&mut member, at(1), TurnMessage::Offer { turn: TURN, terms });
    let (before, after) = saved(&mut member, at(2));
    assert!(!has(&before, |o| matches!(o, MemberOutput::Fetch { .. })), "the disk first");
    let verdict = HookVerdict::Yes { ran: false };
    let ready = MemberInput::HookDone { kind: HookKind::Ready, verdict: verdict.clone() };
    let claim = |member: &mut Member| {
        member.input(at(100), ready);
        let outputs = member.take_outputs().into_iter();
        let mut claim = outputs.filter_map(|output| match output {
            MemberOutput::Send(TurnMessage::Claim { claim, .. }) => Some(claim),
            _ => None,
        });
        claim.next().expect("a claim")
    };
    if manner.keeps() {
        let hook = |kind| MemberOutput::RunHook { kind, target: target(1) };
        assert!(after.contains(&hook(HookKind::Ready)), "what it runs is asked: {after:?}");
        let claim = claim(&mut member);
        return (member, claim);
    }
    assert!(has(&after, |o| matches!(o, MemberOutput::Fetch { .. })));
    let digest = target(2).release.digest;
    member.input(at(3), MemberInput::Fetched { digest, result: FetchResult::Done });
    member.input(at(4), MemberInput::Unpacked { digest, result: FetchResult::Done });
    member.input(at(5), MemberInput::HookDone { kind: HookKind::Install, verdict });
    let claim = claim(&mut member);
    (member, claim)
}

#[test]
fn the_old_release_stops_only_after_begun_is_on_disk() {
    let (mut member, claim) = claiming();
    say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
    let (before, after) = saved(&mut member, at(201));
    assert!(!has(&before, |o| matches!(o, MemberOutput::StopService)));
    assert!(has(&after, |o| matches!(o, MemberOutput::StopService)));
    assert_eq!(member.wants_running(), None, "a boot must not start the old one now");
    member.input(at(300), MemberInput::Service(ServiceNote::Stopped));
    let (before, after) = saved(&mut member, at(301));
    assert!(!has(&before, |o| matches!(o, MemberOutput::StartService(_))));
    assert!(has(&after, |o| *o == MemberOutput::StartService(target(2))));
    assert_eq!(member.wants_running(), Some(&target(2)));
}

#[test]
fn a_write_that_outlasts_the_window_begins_nothing() {
    let (mut member, claim) = claiming();
    say(&mut member, at(5_050), TurnMessage::Go { turn: TURN, claim });
    let (_, after) = saved(&mut member, at(5_200));
    assert!(!has(&after, |o| matches!(o, MemberOutput::StopService)));
    assert!(!member.is_disrupting());
}

#[test]
fn only_the_go_for_the_claim_in_memory_counts() {
    let (mut member, claim) = claiming();
    let other = TurnId { attempt: 2, ..TURN };
    for (turn, claim, when) in
        [(TURN, ClaimId::from_random(1), 200), (other, claim, 200), (TURN, claim, 5_101)]
    {
        say(&mut member, at(when), TurnMessage::Go { turn, claim });
        assert!(!member.is_disrupting() && member.take_outputs().is_empty(), "{turn:?} {when}");
    }
    let mut restarted = open(member.file().clone(), at(300));
    restarted.take_outputs();
    say(&mut restarted, at(301), TurnMessage::Go { turn: TURN, claim });
    assert!(!restarted.is_disrupting(), "a restart forgets its claim");
}

#[test]
fn a_withdrawal_is_acknowledged_only_before_begun() {
    let (mut member, claim) = claiming();
    say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
    for begun_on_disk in [false, true] {
        say(&mut member, at(201), TurnMessage::Withdraw { turn: TURN });
        assert!(member.is_disrupting(), "{begun_on_disk}");
        if !begun_on_disk {
            let (before, after) = saved(&mut member, at(202));
            for outputs in [before, after] {
                assert!(!has(&outputs, |o| {
                    matches!(o, MemberOutput::Send(TurnMessage::Withdrawn { .. }))
                }));
            }
        }
    }
    let (mut member, _) = claiming();
    say(&mut member, at(200), TurnMessage::Withdraw { turn: TURN });
    let (before, after) = saved(&mut member, at(201));
    let withdrawn = MemberOutput::Send(TurnMessage::Withdrawn { turn: TURN });
    assert!(!before.contains(&withdrawn), "the disk first");
    assert!(after.contains(&withdrawn));
    assert!(!member.in_turn());
}

/// After a restart the member is where its disk says: the node goes into no turn of another group before.
#[test]
fn a_turn_is_over_for_its_node_only_when_its_end_is_on_disk() {
    let (mut member, claim) = claiming();
    say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
    saved(&mut member, at(201));
    member.input(at(300), MemberInput::Service(ServiceNote::Stopped));
    saved(&mut member, at(301));
    member.tick(at(6_000));
    let ended = matches!(member.file().turn.as_ref().map(|t| &t.stage), Some(Stage::Ended { .. }));
    assert!(ended && member.in_turn(), "being written");
    member.take_outputs();
    let token = member.saving.expect("a write");
    member.input(at(6_001), MemberInput::Persisted { token, ok: false });
    assert!(member.in_turn(), "the disk refused it");
    member.tick(at(8_000));
    saved(&mut member, at(8_001));
    assert!(!member.in_turn());
}

#[test]
fn a_turn_that_has_begun_is_not_displaced() {
    let (mut member, claim) = claiming();
    say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
    saved(&mut member, at(201));
    let terms = Box::new(member.file().turn.as_ref().expect("a turn").terms.clone());
    let other = TurnId { rollout: RolloutId([8; 16]), ..TURN };
    say(&mut member, at(202), TurnMessage::Offer { turn: other, terms });
    assert_eq!(member.file().turn.as_ref().map(|turn| turn.turn), Some(TURN));
}

/// A member whose turn to reboot has stopped its program, with the write of that under way.
fn stopped_for_a_reboot() -> Member {
    let (mut member, claim) = claiming_in(Manner::Reboot);
    say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
    let (_, after) = saved(&mut member, at(201));
    assert!(has(&after, |o| matches!(o, MemberOutput::StopService)));
    member.input(at(300), MemberInput::Service(ServiceNote::Stopped));
    member
}

fn reboots(outputs: &[MemberOutput]) -> bool {
    has(outputs, |o| matches!(o, MemberOutput::Reboot))
}

fn starts(outputs: &[MemberOutput]) -> bool {
    outputs.contains(&MemberOutput::StartService(target(1)))
}

#[test]
fn a_machine_reboots_only_after_its_place_is_on_disk_and_starts_in_the_next_boot() {
    let mut member = stopped_for_a_reboot();
    let (before, after) = saved(&mut member, at(301));
    assert!(!reboots(&before) && reboots(&after) && !starts(&after));
    assert_eq!(member.wants_running(), None, "the turn starts it, in the next boot");
    // A new daemon in the same boot asks once more.
    let mut same = open(member.file().clone(), at(400));
    let outputs = same.take_outputs();
    assert!(reboots(&outputs) && !starts(&outputs));
    let settings = member.settings;
    let file = member.file().clone();
    let mut next = Member::open(settings, node("n1"), [2; 16], file, 3, at(50));
    saved(&mut next, at(51));
    let (before, after) = saved_of(&mut next, at(52));
    assert!(!reboots(&before) && !reboots(&after) && starts(&after), "{after:?}");
    assert_eq!(next.wants_running(), Some(&target(1)));
}

/// As [`saved`], for a write that was asked for before its outputs were taken.
fn saved_of(member: &mut Member, now: Now) -> (Vec<MemberOutput>, Vec<MemberOutput>) {
    let token = member.tokens;
    let before = member.take_outputs();
    member.input(now, MemberInput::Persisted { token, ok: true });
    (before, member.take_outputs())
}

#[test]
fn a_disk_that_refuses_keeps_the_machine_from_rebooting() {
    let mut member = stopped_for_a_reboot();
    for round in 0..10 {
        let now = at(1_400 + round * 1_100);
        let token = member.tokens;
        member.input(now, MemberInput::Persisted { token, ok: false });
        member.tick(at(1_400 + round * 1_100 + 1_000));
        let outputs = member.take_outputs();
        assert!(!reboots(&outputs), "{outputs:?}");
        let environment = |o: &MemberOutput| {
            matches!(o, MemberOutput::Send(TurnMessage::Progress { environment: true, .. }))
        };
        assert!(!outputs.iter().any(environment), "it is not true that nothing was stopped");
    }
    let (_, after) = saved_of(&mut member, at(20_000));
    assert!(reboots(&after));
}

#[test]
fn a_machine_that_does_not_reboot_fails_its_turn_and_serves_again() {
    let mut member = stopped_for_a_reboot();
    saved(&mut member, at(301));
    member.tick(at(300_299));
    assert!(!starts(&member.take_outputs()));
    assert_eq!(member.next_tick().map(|at| at <= Moment::from_millis(300_300)), Some(true));
    member.tick(at(300_300));
    let outputs = member.take_outputs();
    assert!(starts(&outputs), "{outputs:?}");
    let stage = &member.file().turn.as_ref().expect("a turn").stage;
    let why = format!("{stage:?}");
    assert!(why.contains("did not reboot within 5m"), "{why}");
    assert_eq!(member.wants_running(), Some(&target(1)));
}

#[test]
fn after_a_standstill_a_monitored_turn_waits_for_the_word_of_the_service() {
    for healthy in [true, false] {
        let (mut member, claim) = claiming();
        say(&mut member, at(200), TurnMessage::Go { turn: TURN, claim });
        saved(&mut member, at(300));
        member.input(at(400), MemberInput::Service(ServiceNote::Stopped));
        saved(&mut member, at(400));
        member.input(at(500), MemberInput::Service(ServiceNote::Healthy));
        let verify = MemberInput::HookDone {
            kind: HookKind::Verify,
            verdict: HookVerdict::Yes { ran: false },
        };
        member.input(at(500), verify);
        saved(&mut member, at(500));
        member.input(at(60_000), MemberInput::Service(ServiceNote::Unknown));
        member.tick(at(60_000));
        let ended = |member: &Member| {
            let stage = member.file().turn.as_ref().map(|turn| turn.stage.clone());
            match stage {
                Some(Stage::Ended { outcome, .. }) => Some(outcome),
                _ => None,
            }
        };
        assert_eq!(ended(&member), None, "nobody knows");
        let (note, outcome) = match healthy {
            true => (ServiceNote::Healthy, TurnOutcome::Passed),
            false => (ServiceNote::Unhealthy("refused".into()), TurnOutcome::Failed),
        };
        member.input(at(61_000), MemberInput::Service(note));
        assert_eq!(ended(&member), Some(outcome));
    }
}
