//! The member alone: what it does for each message, and in which order with the disk.

use std::time::Duration;

use baton_types::manifest::HookKind;
use baton_types::policy::OnNotReady;
use baton_types::{ClaimId, Moment, Now, RolloutId, WallTime};
use baton_wire::{Manner, Terms, TurnId, TurnMessage};

use super::file::MemberFile;
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
    let file = MemberFile { running: Some(target(1)), ..MemberFile::default() };
    let mut member = open(file, at(0));
    let terms = Box::new(Terms {
        manner: Manner::Bring,
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
    assert!(has(&after, |o| matches!(o, MemberOutput::Fetch { .. })));
    let digest = target(2).release.digest;
    member.input(at(3), MemberInput::Fetched { digest, result: FetchResult::Done });
    member.input(at(4), MemberInput::Unpacked { digest, result: FetchResult::Done });
    let verdict = HookVerdict::Yes { ran: false };
    member
        .input(at(5), MemberInput::HookDone { kind: HookKind::Install, verdict: verdict.clone() });
    member.input(at(100), MemberInput::HookDone { kind: HookKind::Ready, verdict });
    let claim = member.take_outputs().into_iter().find_map(|output| match output {
        MemberOutput::Send(TurnMessage::Claim { claim, .. }) => Some(claim),
        _ => None,
    });
    (member, claim.expect("a claim"))
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
