//! Questions of this node's operators on their way to leaders.

use baton_types::{
    Command, CommandAction, CommandAnswer, CommandId, CommandResult, Digest, GroupName, NodeId,
    Now, RolloutId,
};
use baton_wire::Message;
use baton_wire::ask::{AnswerContent, Ask, Question};

use super::Node;
use crate::asks::{Asker, Due, Pending, Then};
use crate::effect::Effect;
use crate::group::{copy_of_nothing, leader_by_facts, lineages, revision_json};
use crate::request::{Reply, Why, no_such_service};
use crate::shared::text;

impl Node {
    /// Puts a question on its way.
    pub(super) fn ask(&mut self, now: Now, id: CommandId, question: Question, asker: Asker) {
        self.shared.asks.begin(now.moment, id, question, asker);
    }

    fn leader_of(&self, group: &GroupName) -> Option<NodeId> {
        match self.groups.get(group) {
            Some(group) => group.leader(),
            None => leader_by_facts(&self.shared, group),
        }
    }

    /// Tries, repeats and gives up what is due.
    pub(super) fn drive_questions(&mut self, now: Now) -> bool {
        for (group, digest, hint) in std::mem::take(&mut self.shared.sought) {
            let id = self.shared.random_id();
            self.ask(now, id, Question::Sealed(group, digest), Asker::Revision(hint));
        }
        let due = self.shared.asks.due(now.moment, |group| self.leader_of(group).is_some());
        let mut moved = false;
        for due in due {
            match due {
                Due::Try(id) => self.try_question(now, id),
                Due::GiveUp(id) => self.give_up(now, id),
            }
            moved = true;
        }
        moved
    }

    fn try_question(&mut self, now: Now, id: CommandId) {
        let Some(pending) = self.shared.asks.get(id).cloned() else { return };
        if let Question::Outcomes(group, rollout) = &pending.question {
            self.try_outcomes(now, id, group, *rollout, pending.tries);
            return;
        }
        if let Question::Sealed(group, digest) = &pending.question {
            self.try_sealed(now, id, group, *digest, &pending);
            return;
        }
        if let Question::Command(command) = &pending.question
            && command.action == CommandAction::Reform
        {
            self.try_reform(now, command.clone(), pending.tries);
            return;
        }
        if let Question::Command(command) = &pending.question
            && let CommandAction::Adopt { lineage } = &command.action
        {
            self.try_adopt(now, command.clone(), lineage.as_str());
            return;
        }
        let leader = self.leader_of(pending.group());
        match leader {
            None => self.shared.asks.not_sent(now.moment, id),
            Some(leader) if leader != self.shared.me => {
                let ask = Ask { id, question: pending.question };
                self.shared.send(leader, Message::Ask(ask));
                self.shared.asks.sent(now.moment, id, true);
            }
            Some(_) => {
                let leads = self.groups.get(pending.group()).is_some_and(|g| g.is_leading());
                match pending.question {
                    Question::Command(command) if leads => {
                        self.shared.asks.sent(now.moment, id, false);
                        let name = command.group.clone();
                        self.with(&name, |group, shared| {
                            group.command(now, shared, None, command);
                        });
                    }
                    Question::Command(_) => self.shared.asks.not_sent(now.moment, id),
                    question => match self.read(now, &question) {
                        Some(content) => self.shared.finish(id, content),
                        None => self.shared.asks.not_sent(now.moment, id),
                    },
                }
            }
        }
    }

    /// Carries a reform out if this node is a member of the group; else one of those is asked that
    /// have a copy of its record, or any member.
    fn try_reform(&mut self, now: Now, command: Command, tries: usize) {
        let (id, name) = (command.id, command.group.clone());
        if self.groups.get(&name).is_some_and(|group| !group.unloading) {
            self.shared.asks.sent(now.moment, id, false);
            self.with(&name, |group, shared| group.reform(now, shared, None, command));
            return;
        }
        let mut members: Vec<NodeId> = self.keepers(&name).collect();
        if members.is_empty() {
            let is_there = |node: &NodeId| {
                self.shared.ring.member(*node).is_some_and(|m| m.state.is_reachable())
            };
            let all = self.shared.directory.members(&name).map(|(node, _)| node);
            members = all.filter(is_there).collect();
        }
        // The same one each time, or two of them would propose: another one only if it stays
        // silent.
        match members.get((tries / TRIES_EACH) % members.len().max(1)).copied() {
            None => self.shared.asks.not_sent(now.moment, id),
            Some(member) => {
                let question = Question::Command(command);
                self.shared.send(member, Message::Ask(Ask { id, question }));
                self.shared.asks.sent(now.moment, id, true);
            }
        }
    }

    /// Gives `adopt` to the leader of the lineage that is meant.
    fn try_adopt(&mut self, now: Now, command: Command, wanted: &str) {
        let (id, name) = (command.id, command.group.clone());
        let all = lineages(&self.shared, &name);
        let fitting: Vec<_> =
            all.iter().filter(|(lineage, _)| lineage.to_string().starts_with(wanted)).collect();
        let known: Vec<String> = all.keys().map(ToString::to_string).collect();
        let refusal = match fitting.as_slice() {
            [(_, Some(leader))] if *leader == self.shared.me => {
                self.shared.asks.sent(now.moment, id, false);
                self.with(&name, |group, shared| group.command(now, shared, None, command));
                return;
            }
            [(_, Some(leader))] => {
                let question = Question::Command(command);
                self.shared.send(*leader, Message::Ask(Ask { id, question }));
                self.shared.asks.sent(now.moment, id, true);
                return;
            }
            // It may get one yet.
            [(_, None)] => {
                self.shared.asks.not_sent(now.moment, id);
                return;
            }
            [] => format!("no lineage of {name} begins with {wanted:?}"),
            _ => format!("several lineages of {name} begin with {wanted:?}"),
        };
        let message = format!("{refusal}; there are: {}; nothing was done", known.join(", "));
        let result = CommandResult::Refused;
        let answer = CommandAnswer { result, message: text(message), rollout: None };
        self.shared.finish(id, AnswerContent::Command(answer));
    }

    /// Asks the next one of those that have a copy of the group's record.
    fn try_outcomes(
        &mut self,
        now: Now,
        id: CommandId,
        group: &GroupName,
        rollout: RolloutId,
        tries: usize,
    ) {
        if let Some(json) = self.groups.get(group).and_then(|here| here.outcomes_json(rollout)) {
            self.shared.finish(id, AnswerContent::Json(json));
            return;
        }
        let keepers: Vec<NodeId> = self.keepers(group).collect();
        match keepers.get(tries % keepers.len().max(1)).copied() {
            None => self.shared.asks.not_sent(now.moment, id),
            Some(keeper) => {
                let question = Question::Outcomes(group.clone(), rollout);
                self.shared.send(keeper, Message::Ask(Ask { id, question }));
                self.shared.asks.sent(now.moment, id, true);
            }
        }
    }

    /// Asks the next member for a configuration revision: who may have it, the leader, all others.
    fn try_sealed(
        &mut self,
        now: Now,
        id: CommandId,
        name: &GroupName,
        digest: Digest,
        pending: &Pending,
    ) {
        let hint = match pending.asker {
            Asker::Revision(hint) => hint,
            _ => None,
        };
        let mut asked: Vec<NodeId> = Vec::new();
        let members = self.shared.directory.members(name).map(|(node, _)| node);
        for node in hint.into_iter().chain(self.leader_of(name)).chain(members) {
            let is_there =
                self.shared.ring.member(node).is_some_and(|member| member.state.is_reachable());
            if node != self.shared.me && is_there && !asked.contains(&node) {
                asked.push(node);
            }
        }
        match asked.get(pending.tries % asked.len().max(1)).copied() {
            Some(node) if pending.tries < asked.len() * ASKED_EACH => {
                let question = Question::Sealed(name.clone(), digest);
                self.shared.send(node, Message::Ask(Ask { id, question }));
                self.shared.asks.sent(now.moment, id, true);
            }
            _ => self.give_up(now, id),
        }
    }

    /// Other nodes that can be reached and have a copy of the group's record.
    fn keepers<'a>(&'a self, group: &GroupName) -> impl Iterator<Item = NodeId> + use<'a> {
        let ring = &self.shared.ring;
        let copies = self.shared.directory.ledgers(group).map(|(node, _)| node);
        let copies: Vec<NodeId> = copies.filter(|node| *node != self.shared.me).collect();
        copies.into_iter().filter(|node| ring.member(*node).is_some_and(|m| m.state.is_reachable()))
    }

    fn give_up(&mut self, now: Now, id: CommandId) {
        let Some(pending) = self.shared.asks.get(id).cloned() else { return };
        let name = pending.group().clone();
        let content = match pending.question {
            Question::Status(_) => AnswerContent::Json(match self.groups.get(&name) {
                Some(group) => group.status_json(now, &self.shared),
                None => copy_of_nothing(&self.shared, &name),
            }),
            Question::Config(_, digest) => {
                AnswerContent::Json(revision_json(&self.shared, &name, digest))
            }
            Question::History(_) => match self.groups.get(&name) {
                Some(group) => AnswerContent::Json(group.history_json()),
                None => {
                    if let Some(pending) = self.shared.asks.end(id)
                        && let Asker::Request(request) = pending.asker
                    {
                        let text =
                            format!("no leader of {name} answers, and this node has no copy");
                        self.shared.refuse(request, Why::NoQuorum, text);
                    }
                    return;
                }
            },
            Question::Outcomes(group, rollout) => {
                let keepers: Vec<String> =
                    self.keepers(&group).map(|node| self.shared.name_of(node)).collect();
                let text = format!(
                    "nobody who answers keeps what the members came to in {rollout}; asked: {}",
                    if keepers.is_empty() {
                        "nobody else is here".to_owned()
                    } else {
                        keepers.join(", ")
                    }
                );
                if let Some(pending) = self.shared.asks.end(id)
                    && let Asker::Request(request) = pending.asker
                {
                    self.shared.refuse(request, Why::Unknown, text);
                }
                return;
            }
            Question::Sealed(_, digest) => {
                self.shared.asks.end(id);
                self.with(&name, |group, shared| group.revision_not_found(now, shared, digest));
                return;
            }
            Question::Command(_) => {
                AnswerContent::Command(give_up_answer(&name, id, pending.was_sent))
            }
        };
        self.shared.finish(id, content);
    }

    /// Follows up requests that became several commands.
    pub(super) fn drive_gathered(&mut self, now: Now) -> bool {
        let gathered = std::mem::take(&mut self.shared.gathered);
        let moved = !gathered.is_empty();
        for gathering in gathered {
            let said = gathering.said.join("; ");
            match (gathering.failed, gathering.then) {
                (Some(why), _) => self.shared.refuse(gathering.request, why, said),
                (None, Then::Reply) => self.shared.reply(gathering.request, Reply::Done(said)),
                (None, Then::Leave) => self.leave_ring(now, gathering.request),
                (None, Then::Unload(group)) => self.unload(now, gathering.request, &group),
            }
        }
        moved
    }

    pub(super) fn leave_ring(&mut self, now: Now, request: u64) {
        if self.has_left || self.leaving.is_some() {
            let text = "this node has left the ring already, or is about to";
            self.shared.refuse(request, Why::State, text);
            return;
        }
        self.leaving = Some(request);
        self.shared.ring.leave(now.moment);
    }

    /// Unloads a service: its program is stopped, then it is gone.
    pub(super) fn unload(&mut self, now: Now, request: u64, name: &GroupName) {
        let Some(group) = self.groups.get_mut(name) else {
            let text = no_such_service(name, self.groups.keys());
            self.shared.refuse(request, Why::Unknown, text);
            return;
        };
        group.unload(now, &mut self.shared);
        self.shared.effects.push(Effect::Loaded { request, group: name.clone(), loaded: false });
        let said = format!("{name} is unloaded; its program is being stopped");
        self.shared.reply(request, Reply::Done(said));
    }
}

/// How often each member is asked for a configuration revision: a datagram may be lost.
const ASKED_EACH: usize = 2;

/// Questions to one member before another one is asked: several seconds on most networks, longer
/// than a survey takes.
const TRIES_EACH: usize = 40;

fn give_up_answer(group: &GroupName, id: CommandId, was_sent: bool) -> CommandAnswer {
    let (result, message) = if was_sent {
        let message = format!(
            "the leader of {group} did not answer in time; it may have been accepted: look at the \
             status, or repeat it under its id {id}"
        );
        (CommandResult::TimedOut, message)
    } else {
        (CommandResult::NoQuorum, format!("no quorum: {group} has no leader now; nothing was done"))
    };
    CommandAnswer { result, message: text(message), rollout: None }
}
