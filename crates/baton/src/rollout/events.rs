//! What happened between two looks at a group: one plain line per event.
//!
//! Invariant: pure; nothing that an operator would want to know is told twice or not at all, and
//! numbers that only count on (seconds of monitoring) are no event.

use baton_types::status::{GroupStatus, MemberStatus, RolloutStatus};

use super::render::{headline, members, or, reason, title};

/// The events from `old` to `new`; without `old`, where things stand.
pub(crate) fn events(old: Option<&GroupStatus>, new: &GroupStatus) -> Vec<String> {
    let Some(old) = old else {
        return first(new);
    };
    let mut events = Vec::new();
    leadership(old, new, &mut events);
    if old.paused_by != new.paused_by {
        events.push(match &new.paused_by {
            Some(by) => format!("pause typed by {by}"),
            None => "the typed pause is over".to_owned(),
        });
    }
    if let Some(pending) = &new.pending
        && old.pending.as_ref() != Some(pending)
    {
        events.push(format!("{} waits: {}", pending.release, pending.reason));
    }
    if old.channel_error != new.channel_error && !new.channel_error.is_empty() {
        events.push(format!("the channel cannot be read: {}", new.channel_error));
    }
    if let Some(rollout) = &new.rollout {
        rollout_events(old.rollout.as_ref(), rollout, &mut events);
    }
    let (before, after) = (members(old), members(new));
    let phase = after.iter().map(|member| member.phase).max().unwrap_or(1);
    for member in after {
        match before.iter().find(|known| known.node == member.node) {
            Some(known) => member_events(known, &member, phase, &mut events),
            None => events.push(format!("{} is a new member", member.name)),
        }
    }
    if let Some(rollout) = &new.rollout {
        waiting_event(old.rollout.as_ref(), rollout, &mut events);
    }
    events
}

fn first(new: &GroupStatus) -> Vec<String> {
    let mut events = vec![title(new)];
    if !new.quorum {
        events.push(no_quorum(new));
    }
    if let Some(by) = &new.paused_by {
        events.push(format!("pause typed by {by}"));
    }
    if let Some(rollout) = &new.rollout {
        if !rollout.reason.is_empty() {
            events.push(format!("reason: {}", rollout.reason));
        }
        waiting_event(None, rollout, &mut events);
    }
    events
}

fn leadership(old: &GroupStatus, new: &GroupStatus, events: &mut Vec<String>) {
    match (&old.leader, &new.leader) {
        (before, Some(leader)) if before.as_ref() != Some(leader) => {
            events.push(format!("{leader} leads (term {})", new.term));
        }
        (Some(leader), None) => events.push(format!("{leader} leads no more")),
        _ => {}
    }
    match (old.quorum, new.quorum) {
        (true, false) => events.push(no_quorum(new)),
        (false, true) => events.push("there is a quorum again".to_owned()),
        _ => {}
    }
}

fn no_quorum(status: &GroupStatus) -> String {
    format!("no quorum: {}", or(&status.quorum_reason, "no leader is heard"))
}

fn rollout_events(old: Option<&RolloutStatus>, new: &RolloutStatus, events: &mut Vec<String>) {
    let old = old.filter(|old| old.id == new.id);
    let Some(old) = old else {
        events.push(headline(new));
        return;
    };
    if old.state != new.state {
        let because =
            if new.reason.is_empty() { String::new() } else { format!(": {}", new.reason) };
        events.push(format!("{} → {}{because}", old.state, new.state));
    } else if steady(&old.reason) != steady(&new.reason) && !new.reason.is_empty() {
        events.push(format!("reason: {}", new.reason));
    }
    if new.failures > old.failures {
        let RolloutStatus { failures, max_failures, .. } = new;
        events.push(format!("failures: {failures} (tolerated: {})", or(max_failures, "0")));
    }
}

fn waiting_event(old: Option<&RolloutStatus>, new: &RolloutStatus, events: &mut Vec<String>) {
    let before = old.map_or("", |old| old.waiting_for.as_str());
    // What a paused one waits for is an operator; its reason has been told.
    if new.state.ends_with("paused") {
        return;
    }
    if !new.waiting_for.is_empty() && steady(before) != steady(&new.waiting_for) {
        events.push(format!("waits for {}", new.waiting_for));
    }
}

fn member_events(old: &MemberStatus, new: &MemberStatus, phase: u8, events: &mut Vec<String>) {
    let name = &new.name;
    // It was not touched, so it has no way back; in a large group that would be a page of lines.
    let untouched = new.turn == "skipped" && new.phase < phase;
    if old.turn != new.turn && !untouched {
        let back = if new.phase == 2 { " (back)" } else { "" };
        let why = match new.turn.as_str() {
            "failed" | "skipped" | "absent" => reason(new),
            _ => String::new(),
        };
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let (from, to) = (or(&old.turn, "no turn"), or(&new.turn, "no turn"));
        events.push(format!("{name}: {from} → {to}{back}{why}"));
    } else if old.attempts != new.attempts {
        events.push(format!("{name}: attempt {}", new.attempts));
    }
    if old.release != new.release && !new.release.is_empty() {
        events.push(format!("{name}: runs {}", new.release));
    }
    if old.ring != new.ring && !new.ring.is_empty() {
        events.push(format!("{name}: {} → {} in the ring", or(&old.ring, "unknown"), new.ring));
    }
    if old.health != new.health && !new.health.is_empty() {
        let words = match new.health.as_str() {
            "ok" => String::new(),
            _ if new.health_text.is_empty() => String::new(),
            _ => format!(": {}", new.health_text),
        };
        events.push(format!(
            "{name}: health {} → {}{words}",
            or(&old.health, "unknown"),
            new.health
        ));
    }
    match (old.cordoned, new.cordoned) {
        (false, true) => events.push(format!("{name}: cordoned")),
        (true, false) => events.push(format!("{name}: no longer cordoned")),
        _ => {}
    }
}

/// `text` without numbers and durations: what stays the same while something only counts.
fn steady(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !is_count(word));
    words.collect::<Vec<_>>().join(" ")
}

/// `4`, `30s`, `108ms,`; not `n2:` or `redis/7.0.15`.
fn is_count(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ':', '.', ')']);
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && matches!(unit, "" | "ms" | "s" | "m" | "h" | "d")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::render::tests::{rollout, running};

    fn check(change: impl FnOnce(&mut GroupStatus), expected: &[&str]) {
        let old = running();
        let mut new = old.clone();
        change(&mut new);
        assert_eq!(events(Some(&old), &new), expected);
    }

    #[test]
    fn the_first_look_says_where_things_stand() {
        assert_eq!(
            events(None, &running()),
            [
                "redis.default: update redis/1 → redis/2, running, 1 of 3 passed",
                "waits for n2: monitoring, healthy for 4s of 30s"
            ]
        );
    }

    #[test]
    fn counting_on_is_no_event() {
        check(|_| {}, &[]);
        let later = "n2: monitoring, healthy for 108ms of 30s";
        check(|new| rollout(new).waiting_for = later.to_owned(), &[]);
        let other = "n3: monitoring, healthy for 12s of 30s";
        check(
            |new| rollout(new).waiting_for = other.to_owned(),
            &["waits for n3: monitoring, healthy for 12s of 30s"],
        );
    }

    #[test]
    fn each_step_is_one_line() {
        check(
            |new| rollout(new).members[2].turn = "offered".to_owned(),
            &["n3: waiting → offered"],
        );
        check(
            |new| {
                rollout(new).members[1].turn = "failed".to_owned();
                rollout(new).members[1].reason = "exec exited 2: refused".to_owned();
                rollout(new).failures = 1;
                rollout(new).state = "paused".to_owned();
                rollout(new).reason = "1 failure, 0 tolerated".to_owned();
            },
            &[
                "running → paused: 1 failure, 0 tolerated",
                "failures: 1 (tolerated: 0)",
                "n2: monitoring → failed: exec exited 2: refused",
            ],
        );
        check(
            |new| {
                rollout(new).state = "rolling_back".to_owned();
                rollout(new).members[1].phase = 2;
                rollout(new).members[1].turn = "waiting".to_owned();
                rollout(new).members[2].turn = "skipped".to_owned();
            },
            &["running → rolling_back", "n2: monitoring → waiting (back)"],
        );
        check(
            |new| {
                new.members[0].health = "critical".to_owned();
                new.members[0].health_text = "no answer".to_owned();
                new.members[0].ring = "suspect".to_owned();
                new.members[2].release = "redis/2".to_owned();
            },
            &[
                "n1: alive → suspect in the ring",
                "n1: health ok → critical: no answer",
                "n3: runs redis/2",
            ],
        );
        check(
            |new| {
                rollout(new).members[0].turn = "waiting".to_owned();
                rollout(new).members[0].phase = 2;
                rollout(new).members[2].attempts = 2;
            },
            &["n1: passed → waiting (back)", "n3: attempt 2"],
        );
    }

    #[test]
    fn leaders_pauses_and_new_rollouts_are_events() {
        check(
            |new| {
                new.leader = Some("n1".to_owned());
                new.term = 5;
            },
            &["n1 leads (term 5)"],
        );
        check(
            |new| {
                new.leader = None;
                new.quorum = false;
                new.quorum_reason = "1 of 3 voters answers".to_owned();
            },
            &["n3 leads no more", "no quorum: 1 of 3 voters answers"],
        );
        check(|new| new.paused_by = Some("n1".to_owned()), &["pause typed by n1"]);
        check(
            |new| rollout(new).id = "another".to_owned(),
            &["update redis/1 → redis/2, running, 1 of 3 passed"],
        );
    }
}
