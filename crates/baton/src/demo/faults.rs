//! What goes wrong in the middle of a rollout: the leader's daemon is killed, a machine loses power,
//! the network is cut.
//!
//! Invariant: the fault is real as far as one machine can have it, and what stands for something
//! else is said to.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use baton_types::status::GroupStatus;

use super::GROUP;
use super::cut::Cut;
use super::stage::Stage;
use super::story::{
    ROLLOUT_LIMIT, beginning, each_updated_once, expect_state, promote, rollout, seconds,
    until_ended, with_turn,
};
use crate::exit::{Failure, NO_QUORUM, code_of_state};

/// The daemon of the update leader is killed while a member is in its turn.
pub(crate) async fn kill_leader(stage: &mut Stage<'_>) -> Result<(), Failure> {
    beginning(stage).await?;
    stage.chapter("The leader's daemon is killed in the middle of a rollout")?;
    promote(stage, "2").await?;
    let (leader, member) = in_the_middle(stage).await?;
    let (at, node) = stage.node(&leader)?;
    ask_another(stage, &[at]);
    let pid = stage.fleet.kill_daemon(&node).await?;
    let killed = Instant::now();
    stage.show_act(&format!("kill -9 {pid}: {leader} led; {member} was in its turn"))?;
    let (status, _) =
        stage.follow("a new leader", TAKE_OVER_LIMIT, |s| leads_now(s, &leader)).await?;
    let took = killed.elapsed();
    let new = status.leader.unwrap_or_default();
    stage.fact(true, &format!("{new} took over {} after the kill", seconds(took)), "")?;
    tokio::time::sleep(AWAY).await;
    let seen = stage.observer.seen();
    let untouched = seen.members().get(at).is_some_and(|watched| watched.outages == 0);
    let fact = format!("the service on {leader} answered all the time without its daemon");
    stage.fact(untouched, &fact, "it stopped answering")?;
    stage.show_act(&format!("the daemon of {leader} is started again"))?;
    stage.fleet.start(&node)?;
    finish(stage).await.map(drop)
}

/// The machine of the member in its turn loses power and comes back.
pub(crate) async fn reboot_member(stage: &mut Stage<'_>) -> Result<(), Failure> {
    beginning(stage).await?;
    stage.chapter("The machine of the member in its turn loses power")?;
    promote(stage, "2").await?;
    let (_, member) = in_the_middle(stage).await?;
    let (at, node) = stage.node(&member)?;
    ask_another(stage, &[at]);
    let ended = stage.fleet.cut_power(&node).await?;
    stage.show_act(&format!(
        "kill -9 on all {ended} processes of {member}, which was in its turn"
    ))?;
    stage.say(
        "That stands for a power cut: daemon and service die at once, and the daemon that comes \
         back finds another boot id, as after a reboot. The others wait:",
    )?;
    let others = |seen: &super::observer::Seen| {
        let others = seen.members().iter().enumerate().filter(|(other, _)| *other != at);
        others.filter(|(_, watched)| watched.answers.as_deref() == Some("2")).count()
    };
    let before = others(&stage.observer.seen());
    let (status, _) = stage
        .follow("the ring finds it dead", TAKE_OVER_LIMIT, |s| ring_state(s, &member) == "dead")
        .await?;
    tokio::time::sleep(AWAY).await;
    let waits = rollout(&status)?.waiting_for.clone();
    if !waits.is_empty() {
        stage.say(&format!("`baton rollout explain {GROUP}` says: {waits}"))?;
    }
    let seen = stage.observer.seen();
    let after = others(&seen);
    let fact = format!("while {member} was away no other member was touched");
    let found =
        format!("{before} others on web/2 before, {after} after; {} down", seen.most_down());
    stage.fact(before == after && seen.most_down() <= 1, &fact, &found)?;
    stage.show_act(&format!("the machine of {member} comes back"))?;
    stage.fleet.start(&node)?;
    let status = finish(stage).await?;
    let turn = rollout(&status)?.members.iter().find(|turn| turn.name == member);
    let fact = format!("{member} went on with the very turn that it had before the power cut");
    let found = format!("{:?}", turn.map(|turn| (&turn.turn, turn.attempts)));
    stage.fact(turn.is_some_and(|turn| turn.attempts == 1), &fact, &found)
}

/// The leader, and one more where there are five, is cut off from the majority.
pub(crate) async fn partition(stage: &mut Stage<'_>, cut: &Cut) -> Result<(), Failure> {
    beginning(stage).await?;
    stage.chapter("The network is cut in the middle of a rollout")?;
    stage.say(
        "In this demo every packet and stream between daemons passes through the demo's own \
         process, which can let them vanish. That stands for pulled cables; no root is needed.",
    )?;
    promote(stage, "2").await?;
    let (leader, member) = in_the_middle(stage).await?;
    let minority = minority(stage, &leader, &member)?;
    let names: Vec<String> = minority
        .iter()
        .filter_map(|at| stage.ground.nodes.get(*at).map(|node| node.name.clone()))
        .collect();
    let names = names.join(" and ");
    ask_another(stage, &minority.iter().copied().collect::<Vec<_>>());
    let majority_at = stage.at;
    cut.part(minority.clone());
    let parted = Instant::now();
    stage.show_act(&format!("{names} cut off; {leader} led, {member} was in its turn"))?;
    let (status, _) =
        stage.follow("a new leader", TAKE_OVER_LIMIT, |s| leads_now(s, &leader)).await?;
    let took = parted.elapsed();
    let new = status.leader.unwrap_or_default();
    stage.fact(
        true,
        &format!("the majority had {new} as its leader {} later", seconds(took)),
        "",
    )?;
    // The turn that was under way may end; then nothing more may begin.
    let quiet = |s: &GroupStatus| {
        let rollout = s.rollout.as_ref();
        rollout.is_some_and(|r| r.members.iter().all(|m| !is_open(&m.turn)))
    };
    let (status, _) = stage.follow("the open turn ends", ROLLOUT_LIMIT, quiet).await?;
    let passed = with_turn(rollout(&status)?, "passed").len();
    tokio::time::sleep(AWAY).await;
    let status = stage.fleet.status(&stage.asked()?).await?;
    let now_passed = with_turn(rollout(&status)?, "passed").len();
    match rollout(&status)?.waiting_for.as_str() {
        "" => stage.say("The majority is done with all that it can reach.")?,
        waits => stage.say(&format!("The majority waits: {waits}"))?,
    }
    stage.at = minority.first().copied().unwrap_or_default();
    let answered = stage.command(&["rollout", "pause", GROUP], i32::from(NO_QUORUM)).await?;
    stage
        .say(&format!("Typed at {names}: {}", answered.text.lines().next().unwrap_or_default()))?;
    stage.at = majority_at;
    let seen = stage.observer.seen();
    let fact = format!(
        "{names} had no quorum (exit code {NO_QUORUM}), no turn began on either side, and every \
         service went on answering"
    );
    let found = format!(
        "{passed} passed at first and {now_passed} later; {} services answer \"2\", {} were down \
         at once at most",
        seen.on("2"),
        seen.most_down()
    );
    let holds = passed == now_passed && seen.on("2") == passed && seen.most_down() <= 1;
    stage.fact(holds && seen.on("1") + seen.on("2") == stage.count(), &fact, &found)?;
    cut.part(BTreeSet::new());
    stage.show_act("the cables are plugged in again")?;
    finish(stage).await.map(drop)
}

/// Waits until one member has passed and the next one is in its turn, which is not the leader's.
/// Returns the leader and that member.
async fn in_the_middle(stage: &mut Stage<'_>) -> Result<(String, String), Failure> {
    let middle = |status: &GroupStatus| {
        let rollout = status.rollout.as_ref().filter(|rollout| rollout.to.release == "web/2")?;
        let member = with_turn(rollout, "monitoring").first().map(|name| (*name).to_owned())?;
        let leader = status.leader.clone().filter(|leader| *leader != member)?;
        (rollout.passed >= 1).then_some((leader, member))
    };
    let wanted = "a second member is in its turn";
    let (status, _) = stage.follow(wanted, ROLLOUT_LIMIT, |s| middle(s).is_some()).await?;
    middle(&status).ok_or_else(|| Failure::failed("the rollout went on too fast"))
}

/// The rest of the rollout to web/2, and what must be true at its end.
async fn finish(stage: &mut Stage<'_>) -> Result<GroupStatus, Failure> {
    let (status, _) = until_ended(stage, "2").await?;
    if expect_state(&status, "completed").is_ok() {
        let took = stage.elapsed();
        let seen = stage.all_on("2").await?;
        each_updated_once(stage, &status, &seen, "2", took)?;
        return Ok(status);
    }
    // In a group of three nobody may be left to wait while one is away.
    expect_state(&status, "completed_with_exceptions")?;
    let skipped = with_turn(rollout(&status)?, "skipped").join(" and ");
    stage
        .say(&format!("The rollout has ended without {skipped}, which gets a turn of its own:"))?;
    let caught_up = |status: &GroupStatus| {
        let idle = status.rollout.as_ref().is_some_and(|r| code_of_state(&r.state).is_some());
        idle && status.members.iter().all(|m| m.release == "web/2" && m.health == "ok")
    };
    let (status, _) = stage.follow("all members run web/2", ROLLOUT_LIMIT, caught_up).await?;
    let took = stage.elapsed();
    let seen = stage.all_on("2").await?;
    let changed = seen.members().iter().filter(|member| member.changes == 1).count();
    let fact = format!(
        "web/2 reached all {} members in {}, each updated exactly once, never two down at once",
        stage.count(),
        seconds(took)
    );
    let found = format!("{changed} changed once, {} down at once at most", seen.most_down());
    stage.fact(changed == stage.count() && seen.most_down() <= 1, &fact, &found)?;
    Ok(status)
}

/// The leader, and where more than one can be spared, one that is not in its turn.
fn minority(stage: &Stage<'_>, leader: &str, member: &str) -> Result<BTreeSet<usize>, Failure> {
    let mut minority = BTreeSet::from([stage.node(leader)?.0]);
    let spare = (stage.count() - 1) / 2;
    let others = stage.ground.nodes.iter().enumerate().rev();
    let others = others.filter(|(_, node)| node.name != leader && node.name != member);
    minority.extend(others.map(|(at, _)| at).take(spare.min(CUT_OFF) - 1));
    Ok(minority)
}

/// Types from now on at the first node that is none of these.
fn ask_another(stage: &mut Stage<'_>, not: &[usize]) {
    stage.at = (0..stage.count()).find(|at| !not.contains(at)).unwrap_or_default();
}

fn leads_now(status: &GroupStatus, old: &str) -> bool {
    status.quorum && status.leader.as_deref().is_some_and(|leader| leader != old)
}

fn ring_state<'a>(status: &'a GroupStatus, name: &str) -> &'a str {
    let member = status.members.iter().find(|member| member.name == name);
    member.map_or("", |member| member.ring.as_str())
}

fn is_open(turn: &str) -> bool {
    matches!(turn, "offered" | "taken" | "monitoring")
}

/// Suspicion and election take about a second; a busy machine takes longer.
const TAKE_OVER_LIMIT: Duration = Duration::from_secs(30);

/// How long something stays away: long enough that others would have gone on without it.
const AWAY: Duration = Duration::from_millis(1500);

/// How many are cut off.
const CUT_OFF: usize = 2;
