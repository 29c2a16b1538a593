//! The story: a ring forms, a good release reaches every member, a bad one stops at the first, and
//! everything is rolled back.
//!
//! Invariant: every command that is shown was run as it stands there.

use std::time::{Duration, Instant};

use baton_types::status::{GroupStatus, RolloutStatus};

use super::GROUP;
use super::observer::Seen;
use super::pace::Pace;
use super::stage::Stage;
use crate::exit::{Failure, code_of_state};

/// All of it, for a newcomer.
pub(crate) async fn whole(stage: &mut Stage<'_>) -> Result<(), Failure> {
    beginning(stage).await?;
    good_release(stage).await?;
    bad_release(stage, "2").await
}

/// Depot, ring and the first rollout: what every demo begins with.
pub(crate) async fn beginning(stage: &mut Stage<'_>) -> Result<(), Failure> {
    depot(stage).await?;
    ring(stage).await?;
    first_rollout(stage).await
}

async fn depot(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("A depot, and three signed releases of a small HTTP service")?;
    let url = format!("file://{}", stage.ground.dir.join("depot").display());
    stage.say("Commands are typed in the demo's directory, with these three set:")?;
    stage.lines(&[
        "   $ export BATON_SOCKET=n1/sock BATON_DEPOT_KEY=depot.key".to_owned(),
        format!("   $ export BATON_DEPOT={url}"),
    ])?;
    stage.command(&["depot", "init", &url], 0).await?;
    stage.command(&["depot", "keygen", "--out", "depot"], 0).await?;
    for dir in ["web-1", "web-2", "web-3"] {
        stage.command(&["depot", "publish", dir], 0).await?;
    }
    Ok(())
}

async fn ring(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let (count, nodes) = (stage.count(), stage.ground.nodes.clone());
    stage.chapter("The daemons start and find each other")?;
    stage
        .lines(&[format!("   $ baton run --config n1/baton.toml      (and so on, to n{count})")])?;
    let began = Instant::now();
    for node in &nodes {
        stage.fleet.start(node)?;
    }
    let end = began + RING_LIMIT;
    for node in &nodes {
        loop {
            stage.fleet.check_alive()?;
            let members = stage.fleet.members(node).await;
            let alive = members.iter().filter(|member| member.state == "alive").count();
            if alive == count {
                break;
            }
            if Instant::now() >= end {
                let limit = RING_LIMIT.as_secs();
                return Err(Failure::failed(format!(
                    "expected: {} sees {count} members alive within {limit} s\nfound: {alive}",
                    node.name
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let fact = format!(
        "{count} daemons started, and each of them saw all {count} alive, within {}",
        seconds(began.elapsed())
    );
    stage.fact(true, &fact, "")?;
    let (status, _) = stage
        .follow("the group has a leader", RING_LIMIT, |s| s.quorum && s.leader.is_some())
        .await?;
    let leader = status.leader.unwrap_or_default();
    stage.say(&format!(
        "The group {GROUP} has elected {leader} to lead its updates; {} of them vote.",
        status.voters.len()
    ))
}

async fn first_rollout(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("The first rollout: nothing runs yet, so all members start at once")?;
    promote(stage, "1").await?;
    let (status, _) = until_ended(stage, "1").await?;
    let took = stage.elapsed();
    expect_state(&status, "completed")?;
    stage.all_on("1").await?;
    let fact = format!("web/1 ran on all {} members after {}", stage.count(), seconds(took));
    stage.fact(true, &fact, "")
}

async fn good_release(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("A new release, one member at a time")?;
    stage.say(
        "Each member stops the old release only when it is told to, starts the new one, must \
         become healthy and stay so for 2s. Only then the next one is told.",
    )?;
    promote(stage, "2").await?;
    let (status, _) = until_ended(stage, "2").await?;
    let took = stage.elapsed();
    expect_state(&status, "completed")?;
    let seen = stage.all_on("2").await?;
    each_updated_once(stage, &status, &seen, "2", took)?;
    if let Some(pace) = Pace::read(stage, "web/2") {
        let fact = pace.to_string();
        stage.fact(true, &fact, "")?;
    }
    Ok(())
}

/// A release that fails while it is watched, over one that is good; and the way back.
pub(crate) async fn bad_release(stage: &mut Stage<'_>, good: &str) -> Result<(), Failure> {
    stage.chapter("A bad release: it answers at first, and crashes 0.7s later")?;
    promote(stage, "3").await?;
    let (status, _) = until_ended(stage, "3").await?;
    let took = stage.elapsed();
    expect_state(&status, "paused")?;
    // Long enough that a second turn would have begun.
    tokio::time::sleep(LINGER).await;
    let seen = stage.observer.seen();
    let count = stage.count();
    let rollout = rollout(&status)?;
    let failed: Vec<&str> = with_turn(rollout, "failed");
    let found = format!(
        "failed {failed:?}; \"3\" was answered by {} services, {} answer \"{good}\", {} were down \
         at once at most",
        seen.ever_on("3"),
        seen.on(good),
        seen.most_down()
    );
    let touched = failed.len() == 1 && rollout.failures == 1 && seen.ever_on("3") <= 1;
    let untouched = seen.members().iter().filter(|member| member.outages == 0).count();
    let fact = format!(
        "web/3 failed on {}, and the rollout paused after {}: one member touched, the other {} \
         answered \"{good}\" all the time",
        failed.first().unwrap_or(&"?"),
        seconds(took),
        count - 1
    );
    stage.fact(touched && untouched == count - 1 && seen.most_down() <= 1, &fact, &found)?;
    let answered = stage.command(&["rollout", "explain", GROUP], 0).await?;
    stage.quote(answered.text.lines().take(EXPLAIN_LINES))?;
    rollback(stage, good).await
}

async fn rollback(stage: &mut Stage<'_>, good: &str) -> Result<(), Failure> {
    stage.chapter(&format!("The way back, to web/{good}: only the member that was touched"))?;
    let words = ["rollout", "rollback", GROUP, "--wait"];
    stage.say_command(&words)?;
    stage.begin_rollout();
    let typed = tokio::spawn(stage.started(&words)?);
    let ended = |status: &GroupStatus| {
        let state = status.rollout.as_ref().map(|rollout| rollout.state.as_str());
        matches!(state, Some("rolled_back" | "rollback_paused"))
    };
    let (status, _) = stage.follow("the rollback ends", ROLLOUT_LIMIT, ended).await?;
    let took = stage.elapsed();
    expect_state(&status, "rolled_back")?;
    let answered = typed.await.map_err(|cause| Failure::failed(cause.to_string()))??;
    stage.insist(&words, &answered, 0)?;
    let seen = stage.all_on(good).await?;
    let untouched =
        seen.members().iter().filter(|member| member.outages == 0 && member.changes == 0).count();
    let baseline = status.baseline.map(|target| target.release).unwrap_or_default();
    let fact = format!(
        "rolled back in {}: all {} members answer \"{good}\" again, and no other service was \
         interrupted",
        seconds(took),
        stage.count()
    );
    let found = format!("{untouched} of {} uninterrupted; baseline {baseline}", stage.count());
    let holds = untouched + 1 >= stage.count() && baseline == format!("web/{good}");
    stage.fact(holds, &fact, &found)
}

/// Puts a release at the head of the channel that the group follows.
pub(crate) async fn promote(stage: &mut Stage<'_>, version: &str) -> Result<(), Failure> {
    let release = format!("web/{version}");
    let words = ["depot", "promote", &release, "--channel", "stable"];
    stage.say_command(&words)?;
    stage.begin_rollout();
    let answered = stage.started(&words)?.await?;
    stage.insist(&words, &answered, 0)
}

/// Shows the rollout to this version until it has ended or is paused.
pub(crate) async fn until_ended(
    stage: &mut Stage<'_>,
    version: &str,
) -> Result<(GroupStatus, Seen), Failure> {
    let release = format!("web/{version}");
    let ended = |status: &GroupStatus| {
        let ours = status.rollout.as_ref().filter(|rollout| rollout.to.release == release);
        ours.is_some_and(|rollout| code_of_state(&rollout.state).is_some())
    };
    let limit = ROLLOUT_LIMIT + PER_MEMBER * u32::try_from(stage.count()).unwrap_or(u32::MAX);
    stage.follow(&format!("the rollout of {release} ends"), limit, ended).await
}

/// Insists on how a rollout has ended.
pub(crate) fn expect_state(status: &GroupStatus, state: &str) -> Result<(), Failure> {
    if status.rollout.as_ref().is_some_and(|rollout| rollout.state == state) {
        return Ok(());
    }
    let found = super::stage::described(status);
    Err(Failure::failed(format!("expected: the rollout is {state}\nfound: {found}")))
}

/// Insists that each member took one turn, that each service changed once, and that never two were
/// down.
pub(crate) fn each_updated_once(
    stage: &mut Stage<'_>,
    status: &GroupStatus,
    seen: &Seen,
    version: &str,
    took: Duration,
) -> Result<(), Failure> {
    let (count, rollout) = (stage.count(), rollout(status)?);
    let once = rollout.members.iter().filter(|member| member.attempts == 1).count();
    let changed = seen.members().iter().filter(|member| member.changes == 1).count();
    let found = format!(
        "{once} took one turn, {changed} changed once, {} down at once at most, {} passed, {} \
         failed",
        seen.most_down(),
        rollout.passed,
        rollout.failures
    );
    let fact = format!(
        "web/{version} reached all {count} members in {}, each updated exactly once",
        seconds(took)
    );
    let holds = once == count && changed == count && rollout.passed == count;
    stage.fact(holds && rollout.failures == 0, &fact, &found)?;
    let fact = format!(
        "never was more than one service down at once, and none for longer than {}",
        seconds(seen.longest_down())
    );
    stage.fact(seen.most_down() <= 1, &fact, &found)
}

/// The rollout that a status tells of.
pub(crate) fn rollout(status: &GroupStatus) -> Result<&RolloutStatus, Failure> {
    status.rollout.as_ref().ok_or_else(|| Failure::failed("the daemons know of no rollout"))
}

/// Names of the members whose turn is in this state.
pub(crate) fn with_turn<'a>(rollout: &'a RolloutStatus, turn: &str) -> Vec<&'a str> {
    let members = rollout.members.iter().filter(|member| member.turn == turn);
    members.map(|member| member.name.as_str()).collect()
}

/// `1.2s`; below a second with two digits, as that is where the difference is.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{seconds:.2}s") } else { format!("{seconds:.1}s") }
}

/// Usually well under a second; a busy machine takes longer.
const RING_LIMIT: Duration = Duration::from_secs(30);

/// What a rollout may take, beside its turns.
pub(crate) const ROLLOUT_LIMIT: Duration = Duration::from_secs(40);

/// A turn takes about 2 s; a busy machine takes longer.
const PER_MEMBER: Duration = Duration::from_secs(8);

/// A next turn follows within milliseconds.
const LINGER: Duration = Duration::from_secs(1);

/// What stands in the way is said first.
const EXPLAIN_LINES: usize = 8;
