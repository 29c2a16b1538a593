//! Commands and questions on their way to a group's leader.
//!
//! Invariant: each is answered once, at the latest when its patience ends. A command is repeated
//! under the same id until then, whoever leads, so it takes effect at most once.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::timing::RingTiming;
use baton_types::{CommandId, GroupName, Moment, NodeId};
use baton_wire::ask::Question;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A request of the control API.
    Request(u64),
    /// One of several commands of one request; see [`Gatherings`].
    Gathering(u64),
    /// This node's own group; the node that may know first.
    Revision(Option<NodeId>),
}

/// One question under way.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// What is asked.
    pub(crate) question: Question,
    /// Who waits.
    pub(crate) asker: Asker,
    /// Since when.
    since: Moment,
    next_try: Moment,
    /// Times that somebody was asked.
    pub(crate) tries: usize,
    /// Whether a leader was known at any time: then it may have been accepted.
    pub(crate) was_sent: bool,
}

/// What to do about a question now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask the leader (again).
    Try(CommandId),
    /// Give up.
    GiveUp(CommandId),
}

/// All questions under way.
#[derive(Debug)]
pub(crate) struct Asks {
    pending: BTreeMap<CommandId, Pending>,
    retry: Duration,
    leaderless: Duration,
}

impl Asks {
    pub(crate) fn new(timing: &RingTiming) -> Self {
        Self {
            pending: BTreeMap::new(),
            // Fast enough that a lost datagram is not felt, slow enough for a wide network.
            retry: timing.heartbeat.max(Duration::from_millis(50)) * 2,
            // An election takes two timeouts at most; one more for bad luck.
            leaderless: (timing.election_timeout * 4).max(Duration::from_secs(2)),
        }
    }

    pub(crate) fn begin(&mut self, now: Moment, id: CommandId, question: Question, asker: Asker) {
        let pending =
            Pending { question, asker, since: now, next_try: now, tries: 0, was_sent: false };
        self.pending.insert(id, pending);
    }

    pub(crate) fn end(&mut self, id: CommandId) -> Option<Pending> {
        self.pending.remove(&id)
    }

    pub(crate) fn get(&self, id: CommandId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Notes that the leader was asked; it is asked again after a while.
    pub(crate) fn sent(&mut self, now: Moment, id: CommandId, by_message: bool) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.was_sent = true;
            pending.tries += 1;
            // A question that this very node answers is not repeated: its answer cannot be lost,
            // unless leadership is, which the next try after the patience of an election notices.
            let wait = if by_message { self.retry } else { self.leaderless };
            pending.next_try = now + wait;
        }
    }

    /// Notes that there was nobody to ask.
    pub(crate) fn not_sent(&mut self, now: Moment, id: CommandId) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.next_try = now + self.retry;
        }
    }

    /// Whoever was asked does not know: the next one is asked at once.
    pub(crate) fn not_known(&mut self, now: Moment, id: CommandId) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.next_try = now;
        }
    }

    /// Every question is to be tried at once: leadership has changed.
    pub(crate) fn retry_now(&mut self, now: Moment, group: &GroupName) {
        for pending in self.pending.values_mut() {
            if pending.group() == group {
                pending.next_try = now;
            }
        }
    }

    /// What is due.
    pub(crate) fn due(&self, now: Moment, has_leader: impl Fn(&GroupName) -> bool) -> Vec<Due> {
        let mut due = Vec::new();
        for (id, pending) in &self.pending {
            if now >= pending.since + self.patience(pending, &has_leader) {
                due.push(Due::GiveUp(*id));
            } else if now >= pending.next_try {
                due.push(Due::Try(*id));
            }
        }
        due
    }

    /// When something is due next.
    pub(crate) fn next_tick(&self) -> Option<Moment> {
        self.pending.values().map(|pending| pending.next_try.min(pending.last_moment())).min()
    }

    fn patience(&self, pending: &Pending, has_leader: impl Fn(&GroupName) -> bool) -> Duration {
        match pending.question {
            Question::Status(_) | Question::History(_) | Question::Config(..)
                if has_leader(pending.group()) =>
            {
                READING
            }
            // A copy is at hand, and says that nobody leads.
            Question::Status(_) | Question::History(_) | Question::Config(..) => {
                READING.min(self.retry * 4)
            }
            Question::Outcomes(..) | Question::Sealed(..) => ROUND,
            Question::Command(_) if pending.was_sent || has_leader(pending.group()) => COMMAND,
            Question::Command(_) => COMMAND.min(self.leaderless),
        }
    }
}

impl Pending {
    /// When patience ends in any case: a tick before that, with nothing to do, would come again
    /// and again.
    fn last_moment(&self) -> Moment {
        match self.question {
            Question::Status(_) | Question::History(_) | Question::Config(..) => {
                self.since + READING
            }
            Question::Outcomes(..) | Question::Sealed(..) => self.since + ROUND,
            Question::Command(_) => self.since + COMMAND,
        }
    }

    /// The group that it is about.
    pub(crate) fn group(&self) -> &GroupName {
        match &self.question {
            Question::Command(command) => &command.group,
            Question::Status(group)
            | Question::History(group)
            | Question::Outcomes(group, _)
            | Question::Config(group, _)
            | Question::Sealed(group, _) => group,
        }
    }
}

/// A reading question: after it the node's own copy is shown instead.
const READING: Duration = Duration::from_secs(2);

/// A question that goes from one node to the next until one knows: several of them are asked.
const ROUND: Duration = Duration::from_secs(4);

/// A command: after it the operator is told that it may have been accepted. A leader that reads a
/// slow depot first needs some of it.
const COMMAND: Duration = Duration::from_secs(30);

/// Requests that became several commands, for example `member cordon` of a node with two services.
#[derive(Debug, Default)]
pub(crate) struct Gatherings {
    next: u64,
    open: BTreeMap<u64, Gathering>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// The request that waits.
    pub(crate) request: u64,
    /// What is done once all are answered.
    pub(crate) then: Then,
    /// Answers that are missing.
    left: usize,
    /// Sentences so far.
    pub(crate) said: Vec<String>,
    /// Whether any was refused, and how.
    pub(crate) failed: Option<crate::request::Why>,
}

/// What follows a gathering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The request is answered.
    Reply,
    /// The node leaves the ring, then the request is answered.
    Leave,
    /// The service is unloaded, then the request is answered.
    Unload(GroupName),
}

impl Gatherings {
    pub(crate) fn begin(&mut self, request: u64, left: usize, then: Then) -> u64 {
        self.next += 1;
        let gathering = Gathering { request, then, left, said: Vec::new(), failed: None };
        self.open.insert(self.next, gathering);
        self.next
    }

    /// One answer; the gathering once it was the last.
    pub(crate) fn answer(
        &mut self,
        gathering: u64,
        sentence: String,
        failed: Option<crate::request::Why>,
    ) -> Option<Gathering> {
        let open = self.open.get_mut(&gathering)?;
        open.left = open.left.saturating_sub(1);
        open.said.push(sentence);
        open.failed = open.failed.or(failed);
        if open.left == 0 { self.open.remove(&gathering) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::timing::Profile;

    fn group() -> GroupName {
        "redis.default".parse().expect("a group")
    }

    #[test]
    fn a_question_is_tried_repeated_and_given_up() {
        let mut asks = Asks::new(&Profile::Lan.timing());
        let id = CommandId::from_random(1);
        let start = Moment::from_millis(1_000);
        asks.begin(start, id, Question::Status(group()), Asker::Request(7));
        assert_eq!(asks.due(start, |_| true), [Due::Try(id)]);
        asks.sent(start, id, true);
        assert_eq!(asks.due(start, |_| true), []);
        assert_eq!(asks.due(start + Duration::from_millis(300), |_| true), [Due::Try(id)]);
        assert_eq!(asks.due(start + Duration::from_secs(2), |_| true), [Due::GiveUp(id)]);
        // Without a leader the copy is shown sooner.
        assert_eq!(asks.due(start + Duration::from_millis(1_200), |_| false), [Due::GiveUp(id)]);
        assert!(asks.end(id).is_some());
        assert!(asks.end(id).is_none());
    }

    #[test]
    fn every_tick_has_something_to_do() {
        let action = baton_types::CommandAction::Pause;
        let by = baton_types::NodeName::new("n1").expect("a name");
        let id = CommandId::from_random(1);
        let command = baton_types::Command { id, group: group(), by, action };
        for question in [Question::Status(group()), Question::Command(command)] {
            for (_, profile) in Profile::ALL.iter().map(|(profile, word)| (word, profile)) {
                for (leader, by_message) in [(true, true), (true, false), (false, false)] {
                    let mut asks = Asks::new(&profile.timing());
                    asks.begin(Moment(0), id, question.clone(), Asker::Request(7));
                    let mut ended = false;
                    for _ in 0..1_000 {
                        let Some(now) = asks.next_tick() else { break };
                        match asks.due(now, |_| leader).as_slice() {
                            [Due::GiveUp(id)] => ended = asks.end(*id).is_some(),
                            [Due::Try(id)] if leader => asks.sent(now, *id, by_message),
                            [Due::Try(id)] => asks.not_sent(now, *id),
                            other => panic!("nothing to do at {now:?}: {other:?}"),
                        }
                    }
                    assert!(ended);
                }
            }
        }
    }

    #[test]
    fn a_gathering_ends_with_its_last_answer_and_keeps_the_first_refusal() {
        let mut gatherings = Gatherings::default();
        let gathering = gatherings.begin(3, 2, Then::Reply);
        let why = crate::request::Why::NoQuorum;
        assert!(gatherings.answer(gathering, "a".into(), Some(why)).is_none());
        let done = gatherings.answer(gathering, "b".into(), None).expect("the last");
        assert_eq!((done.request, done.failed), (3, Some(why)));
        assert_eq!(done.said, ["a", "b"]);
        assert!(gatherings.answer(gathering, "c".into(), None).is_none());
    }
}
