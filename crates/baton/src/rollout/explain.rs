//! `baton rollout explain`: what a rollout waits for, on which node, with what was last heard from
//! there, and what can be typed next.
//!
//! Invariant: pure; whole sentences, and always at least one that says what to do or that nothing
//! has to be done.

use baton_types::status::{GroupStatus, MemberStatus, RolloutStatus};
use jiff::Timestamp;

use super::render::{is_under_way, keeps, members, or, reason, runs, target, what};
use crate::output::{ago, count};

/// The sentences.
pub(crate) fn explain(status: &GroupStatus, now: Timestamp) -> Vec<String> {
    let mut text = Explanation { group: &status.group, lines: Vec::new() };
    text.about_quorum(status);
    text.about_lineages(status);
    text.about_waiting_targets(status);
    match &status.rollout {
        None => text.about_no_rollout(status),
        Some(rollout) if is_under_way(rollout) => text.about_open(status, rollout, now),
        Some(rollout) => text.about_ended(status, rollout, now),
    }
    text.lines
}

struct Explanation<'a> {
    group: &'a str,
    lines: Vec<String>,
}

impl Explanation<'_> {
    fn say(&mut self, sentence: impl Into<String>) {
        self.lines.push(sentence.into());
    }

    /// `baton rollout WORD GROUP` with what it does.
    fn next(&mut self, word: &str, effect: &str) {
        let typed = format!("{word} {}", self.group);
        let width = WORD_MAX_CHARS + 1 + self.group.len();
        self.lines.push(format!("  baton rollout {typed:width$}  {effect}"));
    }

    fn about_quorum(&mut self, status: &GroupStatus) {
        if status.quorum {
            return;
        }
        let group = self.group;
        let reason = or(&status.quorum_reason, "no leader is heard");
        if status.lineage.is_empty() {
            self.say(format!("{group} is not formed yet: {reason}."));
            self.say(
                "It forms by itself once as many members as its service file expects have met; \
                 `baton ring members` shows who is there.",
            );
            return;
        }
        self.say(format!(
            "{group} has no quorum: {reason}. What runs goes on running, but nothing can be \
             decided until a majority of its voters ({}) answers.",
            status.voters.join(", ")
        ));
        self.say(
            "`baton ring members` shows which nodes are missing; bring them back. Only if a \
             majority is gone for good:",
        );
        self.next("reform", "forms the group anew from the newest record that is left");
    }

    fn about_lineages(&mut self, status: &GroupStatus) {
        if status.met.is_empty() {
            return;
        }
        let own = status.baseline.as_ref().map_or_else(|| "none yet".to_owned(), target);
        self.say(format!(
            "Histories of {} that were formed apart have met; nothing new is offered until one is \
             left. This one is {}, baseline {own}.",
            self.group, status.lineage
        ));
        for met in &status.met {
            let baseline = or(&met.baseline, "none yet");
            let leader = match &met.leader {
                Some(leader) => format!("led by {leader}"),
                None => "without a leader".to_owned(),
            };
            let nodes = met.nodes.join(", ");
            self.say(format!(
                "  The other is {}, baseline {baseline}, {leader}, on {nodes}.",
                met.lineage
            ));
        }
        self.say(
            "With the same baseline the smaller one gives way by itself, once its open turns have \
             ended. Else somebody decides which stays:",
        );
        let stays = format!("{} --lineage ID", self.group);
        self.lines.push(format!("  baton rollout adopt {stays}  lets that one stay"));
    }

    fn about_waiting_targets(&mut self, status: &GroupStatus) {
        if let Some(by) = &status.paused_by {
            self.say(format!("A pause typed by {by} holds: no further turn starts."));
            // A paused rollout proposes it below.
            if status.rollout.as_ref().is_none_or(|rollout| !rollout.state.ends_with("paused")) {
                self.next("resume", "ends the pause");
            }
        }
        if let Some(pending) = &status.pending {
            self.say(format!(
                "{} does not start by itself: {}.",
                pending.release,
                dotless(&pending.reason)
            ));
        }
        if !status.channel_error.is_empty() {
            self.say(format!("The channel cannot be read: {}.", dotless(&status.channel_error)));
        }
        if !status.differing_files.is_empty() {
            self.say(format!(
                "The service file on {} differs from the leader's; a rollout follows that of its \
                 leader at the start.",
                status.differing_files.join(", ")
            ));
        }
    }

    fn about_no_rollout(&mut self, status: &GroupStatus) {
        let group = self.group;
        self.say(format!("No rollout of {group} was ever started, so it waits for nothing."));
        if status.pending.is_none() {
            self.say("A promotion in its channel starts the first one, or:");
        }
        self.next("start", "starts one of the channel's newest release");
    }

    fn about_open(&mut self, status: &GroupStatus, rollout: &RolloutStatus, now: Timestamp) {
        self.say(opening(rollout, now));
        // What a paused one waits for is an operator, and is said at the end.
        if !rollout.waiting_for.is_empty() && !rollout.state.ends_with("paused") {
            self.say(format!("It waits for {}.", dotless(&rollout.waiting_for)));
        }
        let members = members(status);
        let blockers: Vec<&MemberStatus> =
            members.iter().filter(|m| stands_in_the_way(m)).collect();
        for member in blockers.iter().take(BLOCKERS_SHOWN) {
            self.say(format!("  {}", about_member(member)));
        }
        if blockers.len() > BLOCKERS_SHOWN {
            let more = count(blockers.len() - BLOCKERS_SHOWN, "more member");
            self.say(format!("  … and {more}."));
        }
        if status.quorum {
            self.about_next(rollout);
        } else {
            self.say("It goes on once there is a quorum again.");
        }
    }

    fn about_next(&mut self, rollout: &RolloutStatus) {
        match rollout.state.as_str() {
            "paused" => {
                self.say("It goes on only when somebody types one of:");
                self.next("resume", "accepts the failures so far and goes on");
                self.next("retry", "gives the failed members another attempt");
                if rollout.from.is_some() && !keeps(&rollout.kind) {
                    self.next("rollback", "brings every member back");
                }
                self.next("cancel", "ends it where it stands");
            }
            "rollback_paused" => {
                self.say("The way back is paused; it is never rolled back itself. Type one of:");
                self.next("resume", "accepts the failures so far and goes on");
                self.next("retry", "gives the failed members another attempt");
                self.next("start", "leaves it for the channel's newest release");
            }
            "preparing" => {
                self.say(
                    "Nothing was touched yet. A member that cannot fetch or verify the release is \
                     left out by `baton member cordon NODE`; `baton rollout cancel` ends it.",
                );
            }
            "rolling_back" => self.say("Nothing has to be done; it goes on by itself."),
            _ => self.say(
                "Nothing has to be done; it goes on by itself. `baton rollout pause` stops it \
                 after the turns under way.",
            ),
        }
    }

    fn about_ended(&mut self, status: &GroupStatus, rollout: &RolloutStatus, now: Timestamp) {
        self.say(opening(rollout, now));
        let members = members(status);
        let left: Vec<&MemberStatus> = members
            .iter()
            .filter(|m| matches!(m.turn.as_str(), "failed" | "skipped" | "absent"))
            .collect();
        for member in left.iter().take(BLOCKERS_SHOWN) {
            self.say(format!("  {}", about_member(member)));
        }
        match rollout.state.as_str() {
            "completed" => self.say("Nothing is under way and nothing is waited for."),
            "completed_with_exceptions" if keeps(&rollout.kind) => {
                self.say("Nothing is under way, and no member's release has changed.");
                self.next(&rollout.kind, "starts another one, for every member");
            }
            "cancelled" if keeps(&rollout.kind) => {
                self.say("No member's release has changed.");
                self.next(&rollout.kind, "starts another one, for every member");
            }
            "completed_with_exceptions" => {
                self.say(
                    "Nothing is under way. Members that were skipped or absent get their turn by \
                     themselves when they are back and not cordoned.",
                );
                self.next("retry", "gives the failed members another attempt");
            }
            "cancelled" => {
                self.say("Each member keeps what it runs now.");
                self.next("rollback", "brings all back to the baseline");
                self.next("retry", "allows the cancelled release again");
            }
            // One of its own, of something that had ended: it brought what it was to bring.
            "rolled_back" if rollout.kind == ROLLBACK => {
                let left = rollout.from.as_ref().filter(|from| **from != rollout.to);
                let Some(left) = left else {
                    self.say("Nothing is under way and nothing is waited for.");
                    return;
                };
                self.say(format!(
                    "{} is rejected and does not start again by itself.",
                    target(left)
                ));
                self.next("retry", "allows it again");
            }
            "rolled_back" => {
                let to = target(&rollout.to);
                self.say(format!("{to} is rejected and does not start again by itself."));
                self.next("retry", "allows it again");
            }
            "superseded" => self.say("Another rollout takes its place."),
            _ => {}
        }
    }
}

/// What this rollout is, in what state, since when and why.
fn opening(rollout: &RolloutStatus, now: Timestamp) -> String {
    let what = format!("The {}", what(&rollout.kind, rollout.from.as_ref(), &rollout.to));
    let RolloutStatus { passed, total, .. } = rollout;
    let passed = format!("{passed} of {} passed", count(*total, "member"));
    let started = ago(&rollout.started_at, now);
    let state = match rollout.state.as_str() {
        "preparing" => format!(
            "{what} is being prepared, started {started}: every member fetches and verifies it before the \
             first one is touched"
        ),
        "running" => format!("{what} runs, started {started}; {passed}"),
        "paused" => format!("{what} is paused; {passed}"),
        "rolling_back" => {
            format!("{what} is being rolled back to {}; {passed}", back_to(rollout))
        }
        "rollback_paused" => {
            format!("{what} was being rolled back to {} and is paused; {passed}", back_to(rollout))
        }
        "completed" => format!("{what} is complete; {passed}"),
        "completed_with_exceptions" => format!("{what} is complete with exceptions; {passed}"),
        "cancelled" => format!("{what} was cancelled; {passed}"),
        "superseded" => format!("{what} was superseded by another one; {passed}"),
        "rolled_back" if rollout.kind == ROLLBACK => format!("{what} is complete; {passed}"),
        "rolled_back" => format!("{what} was rolled back to {}", back_to(rollout)),
        other => format!("{what} is {other}; {passed}"),
    };
    match dotless(&rollout.reason) {
        "" => format!("{state}."),
        reason => format!("{state}. Reason: {reason}."),
    }
}

fn back_to(rollout: &RolloutStatus) -> String {
    rollout.from.as_ref().map_or_else(|| "what was before".to_owned(), target)
}

/// In a turn, failed, ill or away: what an operator looks at first.
fn stands_in_the_way(member: &MemberStatus) -> bool {
    let turn = member.turn.as_str();
    let in_turn = matches!(turn, "offered" | "taken" | "monitoring");
    // A member that waits for its first release has no health to speak of.
    let ill = !matches!(member.health.as_str(), "ok" | "warning") && !member.release.is_empty();
    let away = !matches!(member.ring.as_str(), "alive" | "");
    let says_why = turn == "waiting" && !member.reason.is_empty();
    !member.cordoned && (in_turn || turn == "failed" || ill || away || says_why)
}

/// `n4: failed in attempt 2, critical, suspect in the ring: exec exited 2.`
fn about_member(member: &MemberStatus) -> String {
    let mut parts = Vec::new();
    let why = reason(member);
    match member.turn.as_str() {
        "" => {}
        turn if member.attempts < 2 && why.starts_with(turn) => {}
        turn if member.attempts > 1 => parts.push(format!("{turn} in attempt {}", member.attempts)),
        turn => parts.push(turn.to_owned()),
    }
    if !matches!(member.health.as_str(), "ok" | "") {
        parts.push(format!("health {}", member.health));
    }
    if !matches!(member.ring.as_str(), "alive" | "") {
        parts.push(format!("{} in the ring", member.ring));
    }
    if !member.release.is_empty() {
        parts.push(format!("runs {}", runs(member)));
    }
    match dotless(&why) {
        "" => format!("{}: {}.", member.name, parts.join(", ")),
        why => format!("{}: {}: {why}.", member.name, parts.join(", ")),
    }
}

/// The kind of a rollout that goes back from something that had ended.
const ROLLBACK: &str = "rollback";

/// Without the full stop at its end, as the sentence around it has its own.
fn dotless(text: &str) -> &str {
    text.trim().trim_end_matches('.')
}

/// The longest word after `baton rollout` that is proposed: `rollback`.
const WORD_MAX_CHARS: usize = 8;

/// As many as a screen shows beside the sentences; `status` lists all.
const BLOCKERS_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::render::tests::{rollout, running};
    use baton_types::status::PendingStatus;

    fn check(change: impl FnOnce(&mut GroupStatus), parts: &[&str]) {
        let mut status = running();
        change(&mut status);
        let now = "2026-01-01T10:00:00Z".parse().expect("a time");
        let text = explain(&status, now).join("\n");
        for part in parts {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_running_rollout_names_who_is_in_turn() {
        let now = "2026-01-01T10:00:00Z".parse().expect("a time");
        assert_eq!(
            explain(&running(), now),
            [
                "The update redis/1 → redis/2 runs, started 1m ago; 1 of 3 members passed.",
                "It waits for n2: monitoring, healthy for 4s of 30s.",
                "  n2: monitoring, runs redis/2.",
                "Nothing has to be done; it goes on by itself. `baton rollout pause` stops it \
                 after the turns under way.",
            ]
        );
    }

    #[test]
    fn every_state_says_what_can_be_done() {
        for (state, parts) in [
            ("preparing", &["is being prepared", "Nothing was touched yet"][..]),
            ("paused", &["is paused", "rollout resume redis.default", "rollout rollback redis"]),
            ("rolling_back", &["is being rolled back to redis/1", "goes on by itself"]),
            ("rollback_paused", &["The way back is paused", "rollout retry redis.default"]),
            ("completed", &["is complete; 1 of 3", "nothing is waited for"]),
            ("completed_with_exceptions", &["with exceptions", "rollout retry"]),
            ("cancelled", &["was cancelled", "rollout rollback redis.default"]),
            ("superseded", &["was superseded", "takes its place"]),
            ("rolled_back", &["was rolled back to redis/1", "redis/2 is rejected"]),
        ] {
            check(|status| rollout(status).state = state.to_owned(), parts);
        }
    }

    #[test]
    fn a_rollback_of_its_own_brought_what_it_names_and_left_the_other() {
        let text = |from: &str| {
            let mut status = running();
            let ended = rollout(&mut status);
            (ended.kind, ended.state) = ("rollback".to_owned(), "rolled_back".to_owned());
            (ended.passed, ended.total) = (3, 3);
            ended.to.release = "redis/1".to_owned();
            ended.from = Some(ended.to.clone());
            ended.from.as_mut().expect("a from").release = from.to_owned();
            explain(&status, "2026-01-01T10:00:00Z".parse().expect("a time")).join("\n")
        };
        let left = text("redis/2");
        assert!(left.starts_with("The rollback redis/2 → redis/1 is complete; 3 of 3"), "{left}");
        assert!(left.contains("redis/2 is rejected and does not start again"), "{left}");
        assert!(left.contains("rollout retry redis.default"), "{left}");
        let cancelled = text("redis/1");
        assert!(!cancelled.contains("rejected"), "{cancelled}");
        assert!(cancelled.contains("nothing is waited for"), "{cancelled}");
    }

    #[test]
    fn a_restart_has_no_way_back_and_can_be_typed_again() {
        let text = |state: &str| {
            let mut status = running();
            let shown = rollout(&mut status);
            (shown.kind, shown.state) = ("restart".to_owned(), state.to_owned());
            shown.to = shown.from.clone().expect("one");
            explain(&status, "2026-01-01T10:00:00Z".parse().expect("a time")).join("\n")
        };
        assert!(text("running").starts_with("The restart on redis/1 runs, started 1m ago"));
        let paused = text("paused");
        assert!(paused.contains("rollout retry redis.default"), "{paused}");
        assert!(!paused.contains("rollback"), "{paused}");
        for state in ["cancelled", "completed_with_exceptions"] {
            let ended = text(state);
            assert!(ended.contains("rollout restart redis.default"), "{ended}");
            assert!(!ended.contains("rollback") && !ended.contains("retry"), "{ended}");
        }
    }

    #[test]
    fn what_stands_in_the_way_comes_with_its_last_output() {
        check(
            |status| {
                rollout(status).state = "paused".to_owned();
                rollout(status).reason = "1 failure, 0 tolerated.".to_owned();
                rollout(status).members[1].turn = "failed".to_owned();
                rollout(status).members[1].attempts = 2;
                rollout(status).members[1].reason = "not healthy within 60s".to_owned();
                status.members[1].health = "critical".to_owned();
                status.members[1].health_text = "exec exited 2: connection refused".to_owned();
                status.members[2].ring = "dead".to_owned();
            },
            &[
                "Reason: 1 failure, 0 tolerated.\n",
                "n2: failed in attempt 2, health critical, runs redis/2: not healthy within 60s; \
                 exec exited 2: connection refused.",
                "n3: waiting, dead in the ring, runs redis/1.",
            ],
        );
    }

    #[test]
    fn groups_without_quorum_rollout_or_with_a_pause_are_explained() {
        check(
            |status| {
                status.quorum = false;
                status.quorum_reason = "1 of 3 voters answers".to_owned();
            },
            &[
                "has no quorum: 1 of 3 voters answers.",
                "(n1, n2, n3)",
                "baton ring members",
                "goes on once there is a quorum again.",
            ],
        );
        check(
            |status| {
                status.quorum = false;
                status.lineage.clear();
                status.quorum_reason = "2 of 3 expected members are here".to_owned();
                status.rollout = None;
            },
            &["is not formed yet: 2 of 3 expected", "No rollout", "rollout start redis.default"],
        );
        check(
            |status| {
                status.paused_by = Some("n1".to_owned());
                status.pending = Some(PendingStatus {
                    release: "redis/3".to_owned(),
                    reason: "waits for resume".to_owned(),
                });
                status.channel_error = "there is no depot".to_owned();
                status.differing_files = vec!["n2".to_owned()];
            },
            &[
                "A pause typed by n1 holds",
                "rollout resume redis.default",
                "redis/3 does not start by itself: waits for resume.",
                "The channel cannot be read: there is no depot.",
                "file on n2 differs",
            ],
        );
    }
}
