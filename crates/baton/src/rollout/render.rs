//! A group's status for people: a head of a few lines and one row per member.
//!
//! Invariant: pure; what is not there is not shown, and what an operator must know (no quorum, a
//! pause, a reason) is never left out.

use baton_types::status::{
    GroupStatus, HistoryStatus, MemberStatus, OutcomesStatus, RolloutStatus, TargetStatus,
};
use jiff::Timestamp;

use crate::exit::code_of_state;
use crate::output::{Table, ago, local_time};

/// Everything about a group.
pub(crate) fn status(status: &GroupStatus, now: Timestamp) -> Vec<String> {
    let mut lines = vec![title(status)];
    lines.extend(head(status, now));
    let members = members(status);
    if !members.is_empty() {
        lines.push(String::new());
        lines.extend(member_table(&members).lines(2));
    }
    lines
}

/// One line: the group and where its rollout stands.
pub(crate) fn title(status: &GroupStatus) -> String {
    match &status.rollout {
        Some(rollout) => format!("{}: {}", status.group, headline(rollout)),
        None => format!("{}: no rollout yet", status.group),
    }
}

/// `update redis/7.0.14 → redis/7.0.15, running, 2 of 6 passed`.
pub(crate) fn headline(rollout: &RolloutStatus) -> String {
    let RolloutStatus { kind, state, passed, total, .. } = rollout;
    let what = what(kind, rollout.from.as_ref(), &rollout.to);
    format!("{what}, {state}, {passed} of {total} passed")
}

/// The rollout is under way: not in a state that only a new one can follow.
pub(crate) fn is_under_way(rollout: &RolloutStatus) -> bool {
    is_open_state(&rollout.state)
}

/// Whether a rollout in this state still has something to come. A paused one has.
pub(crate) fn is_open_state(state: &str) -> bool {
    code_of_state(state).is_none() || state.ends_with("paused")
}

/// The lines between title and table, as `name  value`.
pub(crate) fn head(status: &GroupStatus, now: Timestamp) -> Vec<String> {
    let mut head = Head::default();
    let leader = status.leader.as_deref().unwrap_or("none");
    head.add("leader", format!("{leader} (term {})", status.term));
    if status.quorum {
        head.add("quorum", format!("yes, voters {}", status.voters.join(" ")));
    } else {
        let reason = or(&status.quorum_reason, "no leader is heard");
        head.add("quorum", format!("NO: {reason}"));
        head.add("voters", status.voters.join(" "));
    }
    for met in &status.met {
        head.add("lineage", status.lineage.clone());
        let baseline = or(&met.baseline, "no baseline");
        let leader = met.leader.as_deref().unwrap_or("no leader");
        head.add("met", format!("{}: {baseline}, {leader}; one must give way", met.lineage));
    }
    head.add("baseline", status.baseline.as_ref().map_or_else(|| "none yet".to_owned(), target));
    if let Some(rollout) = &status.rollout {
        head.add("rollout", rollout_line(rollout, now));
        head.add("reason", rollout.reason.clone());
        if is_under_way(rollout) {
            head.add("waits for", rollout.waiting_for.clone());
        }
        if rollout.failures > 0 || is_under_way(rollout) {
            let RolloutStatus { failures, max_failures, .. } = rollout;
            head.add("failures", format!("{failures} (tolerated: {})", or(max_failures, "0")));
        }
    }
    if let Some(by) = &status.paused_by {
        head.add("pause", format!("typed by {by}; holds until `baton rollout resume`"));
    }
    if let Some(pending) = &status.pending {
        head.add("pending", format!("{}: {}", pending.release, pending.reason));
    }
    if !status.channel_error.is_empty() {
        head.add("channel", format!("cannot be read: {}", status.channel_error));
    }
    if !status.differing_files.is_empty() {
        let names = status.differing_files.join(" ");
        head.add("differing", format!("{names} (service file unlike the leader's)"));
    }
    head.add("cordoned", status.cordoned.join(" "));
    head.lines()
}

/// The members to show, in the rollout's order: with their turns, and as they are now.
pub(crate) fn members(status: &GroupStatus) -> Vec<MemberStatus> {
    let turns: &[MemberStatus] = status.rollout.as_ref().map_or(&[], |rollout| &rollout.members);
    let mut members: Vec<MemberStatus> = turns
        .iter()
        .map(|turn| {
            // Both lists come from one leader; that of the group is the one that goes on after a
            // rollout has ended.
            match status.members.iter().find(|member| member.node == turn.node) {
                Some(now) => MemberStatus {
                    turn: turn.turn.clone(),
                    phase: turn.phase,
                    attempts: turn.attempts,
                    reason: or(&turn.reason, &now.reason).to_owned(),
                    ..now.clone()
                },
                None => turn.clone(),
            }
        })
        .collect();
    for member in &status.members {
        if !members.iter().any(|known| known.node == member.node) {
            members.push(member.clone());
        }
    }
    members
}

/// One row per member.
pub(crate) fn member_table(members: &[MemberStatus]) -> Table {
    let mut table =
        Table::new(&["MEMBER", "TURN", "RELEASE", "HEALTH", "RING", "ATTEMPTS", "REASON"]);
    for member in members {
        let attempts =
            if member.attempts == 0 { String::new() } else { member.attempts.to_string() };
        table.row(vec![
            member.name.clone(),
            turn(member),
            or(&runs(member), "-").to_owned(),
            or(&member.health, "unknown").to_owned(),
            member.ring.clone(),
            attempts,
            reason(member),
        ]);
    }
    table
}

/// What stands in a member's way: its reason, else the words of an ill health check.
pub(crate) fn reason(member: &MemberStatus) -> String {
    let ill = !matches!(member.health.as_str(), "ok" | "");
    let health = if ill { member.health_text.as_str() } else { "" };
    // Its name stands before it in every place where it is shown.
    let said = member.reason.strip_prefix(&format!("{}: ", member.name)).unwrap_or(&member.reason);
    let mut reason = match (said, health) {
        (reason, "") => reason.to_owned(),
        ("", health) => health.to_owned(),
        (reason, health) if reason.contains(health) => reason.to_owned(),
        (reason, health) => match health.split_once("; before: ") {
            // What ended the turn is what the program is being started again after.
            Some((now, before)) if reason.contains(before) => format!("{reason}; {now}"),
            _ => format!("{reason}; {health}"),
        },
    };
    if member.cordoned {
        reason =
            if reason.is_empty() { "cordoned".to_owned() } else { format!("cordoned; {reason}") };
    }
    reason
}

/// `redis/7.0.15`, with the number of its configuration revision if it has one.
pub(crate) fn target(target: &TargetStatus) -> String {
    with_config(&target.release, target.config)
}

/// What a member runs, as [`target`] writes it; empty if that is nothing.
pub(crate) fn runs(member: &MemberStatus) -> String {
    with_config(&member.release, member.config)
}

fn with_config(release: &str, config: u32) -> String {
    match config {
        0 => release.to_owned(),
        number => format!("{release} config {number}"),
    }
}

/// `redis/7.0.14 → redis/7.0.15`; only where it goes if both are the same, or it is the first.
pub(crate) fn way(from: Option<&TargetStatus>, to: &TargetStatus) -> String {
    let to_text = target(to);
    match from.map(target) {
        Some(from) if from != to_text => format!("{from} → {to_text}"),
        _ => to_text,
    }
}

/// `update redis/7.0.14 → redis/7.0.15`, `restart on redis/7.0.15`.
pub(crate) fn what(kind: &str, from: Option<&TargetStatus>, to: &TargetStatus) -> String {
    match keeps(kind) {
        true => format!("{kind} on {}", target(to)),
        false => format!("{kind} {}", way(from, to)),
    }
}

/// Whether members of such a rollout keep what they run.
pub(crate) fn keeps(kind: &str) -> bool {
    matches!(kind, "restart" | "reboot")
}

/// The rollouts that ended, newest first.
pub(crate) fn history(history: &[HistoryStatus]) -> Vec<String> {
    let mut table =
        Table::new(&["ROLLOUT", "ENDED", "KIND", "TARGET", "STATE", "PASSED", "FAILED", "REASON"]);
    for entry in history {
        table.row(vec![
            short(&entry.id).to_owned(),
            local_time(&entry.ended_at),
            entry.kind.clone(),
            way(entry.from.as_ref(), &entry.to),
            entry.state.clone(),
            format!("{}/{}", entry.passed, entry.total),
            if entry.failures == 0 { String::new() } else { entry.failures.to_string() },
            entry.reason.clone(),
        ]);
    }
    table.lines(0)
}

/// One rollout that ended.
pub(crate) fn ended(entry: &HistoryStatus) -> Vec<String> {
    let mut head = Head::default();
    head.add("rollout", entry.id.clone());
    head.add("what", what(&entry.kind, entry.from.as_ref(), &entry.to));
    head.add("ended", format!("{}, {}", entry.state, local_time(&entry.ended_at)));
    head.add("passed", format!("{} of {}", entry.passed, entry.total));
    head.add("reason", entry.reason.clone());
    head.lines()
}

/// What every member came to.
pub(crate) fn outcomes(outcomes: &OutcomesStatus) -> Vec<String> {
    let mut table = Table::new(&["MEMBER", "TURN", "ATTEMPTS", "REASON"]);
    for member in &outcomes.members {
        let back = if member.phase == 2 { " (back)" } else { "" };
        table.row(vec![
            member.name.clone(),
            format!("{}{back}", member.turn),
            member.attempts.to_string(),
            member.reason.clone(),
        ]);
    }
    table.lines(2)
}

/// Enough of an id to tell two rollouts apart.
pub(crate) fn short(id: &str) -> &str {
    id.get(..ID_SHOWN_CHARS).unwrap_or(id)
}

/// `text`, or `other` if it is empty.
pub(crate) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn turn(member: &MemberStatus) -> String {
    match member.phase {
        2 if !member.turn.is_empty() => format!("{} (back)", member.turn),
        _ => member.turn.clone(),
    }
}

fn rollout_line(rollout: &RolloutStatus, now: Timestamp) -> String {
    let short = short(&rollout.id);
    let started = ago(&rollout.started_at, now);
    let updated = ago(&rollout.updated_at, now);
    format!("{short}, started {started}, last step {updated}")
}

/// Names and values, aligned; empty values are left out.
#[derive(Default)]
struct Head(Vec<(&'static str, String)>);

impl Head {
    fn add(&mut self, name: &'static str, value: String) {
        if !value.is_empty() {
            self.0.push((name, value));
        }
    }

    fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("  {name:9}  {value}")).collect()
    }
}

/// Enough of an id to tell two rollouts apart; `--json` has all of it.
const ID_SHOWN_CHARS: usize = 8;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A rollout of redis on n1 to n3: n1 passed, n2 in its turn.
    pub(crate) fn running() -> GroupStatus {
        let target = |version: &str| TargetStatus {
            release: format!("redis/{version}"),
            ..TargetStatus::default()
        };
        let member = |name: &str, turn: &str, version: &str| MemberStatus {
            name: name.to_owned(),
            node: format!("id-{name}"),
            turn: turn.to_owned(),
            phase: 1,
            release: format!("redis/{version}"),
            health: "ok".to_owned(),
            ring: "alive".to_owned(),
            attempts: u32::from(turn != "waiting"),
            ..MemberStatus::default()
        };
        let members = vec![
            member("n1", "passed", "2"),
            member("n2", "monitoring", "2"),
            member("n3", "waiting", "1"),
        ];
        let group_members =
            members.iter().map(|m| MemberStatus { turn: String::new(), ..m.clone() }).collect();
        GroupStatus {
            group: "redis.default".to_owned(),
            leader: Some("n3".to_owned()),
            term: 4,
            version: 17,
            quorum: true,
            voters: vec!["n1".to_owned(), "n2".to_owned(), "n3".to_owned()],
            lineage: "3-aa".to_owned(),
            baseline: Some(target("1")),
            members: group_members,
            rollout: Some(RolloutStatus {
                id: "0123456789abcdef0123456789abcdef".to_owned(),
                kind: "update".to_owned(),
                state: "running".to_owned(),
                from: Some(target("1")),
                to: target("2"),
                started_at: "2026-01-01T09:59:00Z".to_owned(),
                updated_at: "2026-01-01T09:59:50Z".to_owned(),
                max_failures: "0".to_owned(),
                total: 3,
                passed: 1,
                waiting_for: "n2: monitoring, healthy for 4s of 30s".to_owned(),
                members,
                ..RolloutStatus::default()
            }),
            ..GroupStatus::default()
        }
    }

    /// The rollout of [`running`].
    pub(crate) fn rollout(status: &mut GroupStatus) -> &mut RolloutStatus {
        status.rollout.as_mut().expect("a rollout")
    }

    fn now() -> Timestamp {
        "2026-01-01T10:00:00Z".parse().expect("a time")
    }

    #[test]
    fn a_running_rollout() {
        assert_eq!(
            status(&running(), now()).join("\n"),
            "\
redis.default: update redis/1 → redis/2, running, 1 of 3 passed
  leader     n3 (term 4)
  quorum     yes, voters n1 n2 n3
  baseline   redis/1
  rollout    01234567, started 1m ago, last step 10s ago
  waits for  n2: monitoring, healthy for 4s of 30s
  failures   0 (tolerated: 0)

  MEMBER  TURN        RELEASE  HEALTH  RING   ATTEMPTS
  n1      passed      redis/2  ok      alive  1
  n2      monitoring  redis/2  ok      alive  1
  n3      waiting     redis/1  ok      alive"
        );
    }

    #[test]
    fn everything_that_an_operator_must_know_is_shown() {
        let mut group = running();
        group.quorum = false;
        group.quorum_reason = "1 of 3 voters answers".to_owned();
        group.leader = None;
        group.paused_by = Some("n1 at 2026-01-01T09:58:00Z".to_owned());
        group.pending = Some(baton_types::status::PendingStatus {
            release: "redis/3".to_owned(),
            reason: "waits for resume".to_owned(),
        });
        group.differing_files = vec!["n2".to_owned()];
        group.cordoned = vec!["n3".to_owned()];
        group.channel_error = "there is no depot".to_owned();
        group.members[1].health = "critical".to_owned();
        group.members[1].health_text = "exec exited 2".to_owned();
        group.members[1].ring = "suspect".to_owned();
        group.members[2].cordoned = true;
        rollout(&mut group).state = "paused".to_owned();
        rollout(&mut group).reason = "1 failure, 0 tolerated".to_owned();
        rollout(&mut group).failures = 1;
        rollout(&mut group).members[1].turn = "failed".to_owned();
        let text = status(&group, now()).join("\n");
        for part in [
            "leader     none (term 4)",
            "quorum     NO: 1 of 3 voters answers",
            "voters     n1 n2 n3",
            "reason     1 failure, 0 tolerated",
            "failures   1 (tolerated: 0)",
            "pause      typed by n1 at",
            "pending    redis/3: waits for resume",
            "channel    cannot be read: there is no depot",
            "differing  n2 (service file",
            "cordoned   n3",
            "n2      failed   redis/2  critical  suspect  1         exec exited 2",
            "cordoned",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_group_without_rollout() {
        let group = GroupStatus { group: "redis.default".to_owned(), ..GroupStatus::default() };
        assert_eq!(
            status(&group, now()).join("\n"),
            "redis.default: no rollout yet\n  leader     none (term 0)\n  quorum     NO: no \
             leader is heard\n  baseline   none yet"
        );
    }

    #[test]
    fn turns_of_a_rollback_and_first_rollouts_are_told_apart() {
        let mut group = running();
        rollout(&mut group).members[0].phase = 2;
        rollout(&mut group).members[1].reason = "n2: monitoring for 2s".to_owned();
        let table = member_table(&members(&group)).lines(0).join("\n");
        assert!(table.contains("passed (back)"), "{table}");
        assert!(table.contains("1         monitoring for 2s"), "{table}");
        rollout(&mut group).from = None;
        assert!(title(&group).starts_with("redis.default: update redis/2, running"));
    }

    #[test]
    fn history_is_a_table() {
        let entry = HistoryStatus {
            kind: "update".to_owned(),
            state: "rolled_back".to_owned(),
            to: TargetStatus {
                release: "redis/2".to_owned(),
                config: 3,
                ..TargetStatus::default()
            },
            ended_at: "2026-01-01T10:00:00Z".to_owned(),
            reason: "n1 failed".to_owned(),
            total: 3,
            passed: 2,
            failures: 1,
            ..HistoryStatus::default()
        };
        let lines = history(&[entry]);
        assert_eq!(lines.len(), 2);
        for part in ["update", "redis/2 config 3", "rolled_back", "2/3", "n1 failed"] {
            assert!(lines[1].contains(part), "{lines:?}");
        }
    }
}
