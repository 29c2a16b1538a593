//! Messages from other nodes, and of this node to itself.

use std::net::SocketAddr;

use baton_types::{BootNonce, CommandAction, GroupName, NodeId, Now};
use baton_wire::ask::{AnswerContent, Ask, Question};
use baton_wire::{Envelope, Message, TurnMessage};

use super::Node;
use crate::effect::Effect;
use crate::group::revision_json;

impl Node {
    pub(super) fn packet(&mut self, now: Now, from: SocketAddr, envelope: Envelope) {
        let (head, messages) = self.shared.open(from, envelope);
        for message in messages {
            self.message(now, Some(from), head.sender, head.boot, message);
        }
    }

    pub(super) fn drive_inbox(&mut self, now: Now) -> bool {
        let mut moved = false;
        while let Some(message) = self.shared.inbox.pop_front() {
            moved = true;
            self.message(now, None, self.shared.me, self.boot.nonce, message);
        }
        moved
    }

    fn message(
        &mut self,
        now: Now,
        from: Option<SocketAddr>,
        sender: NodeId,
        boot: BootNonce,
        message: Message,
    ) {
        // From the network only a copy of this node speaks in its name; the ring reports it.
        if from.is_some() && sender == self.shared.me && !matches!(message, Message::Ring(_)) {
            return;
        }
        // One that has left takes part in nothing, whatever is still said to it.
        if self.has_left && !matches!(message, Message::Ring(_)) {
            return;
        }
        match message {
            Message::Ring(message) => {
                if let Some(from) = from {
                    self.shared.ring.receive(now.moment, from, sender, boot, message);
                }
            }
            Message::Relayed(relayed) => {
                let author = relayed.from;
                if let Some(message) = self.shared.take_relayed(sender, relayed) {
                    self.for_groups(now, author, message);
                }
            }
            message => {
                self.shared.relays.heard(sender);
                self.for_groups(now, sender, message);
            }
        }
    }

    /// A message of any protocol but the ring's.
    fn for_groups(&mut self, now: Now, sender: NodeId, message: Message) {
        match message {
            Message::Ring(_) | Message::Relayed(_) => {}
            Message::Ledger(group, message) => {
                self.with(&group, |group, _| group.ledger_message(now, sender, message));
            }
            Message::Turn(group, message) => self.turn_message(now, sender, &group, message),
            Message::Ask(ask) => self.asked(now, sender, ask),
            Message::Answer(answer) => match answer.content {
                // The question stays: it is tried again with whoever leads by then.
                AnswerContent::NotLeader => {}
                AnswerContent::Sealed(None) => self.shared.asks.not_known(now.moment, answer.id),
                content => self.shared.finish(answer.id, content),
            },
        }
    }

    fn turn_message(&mut self, now: Now, sender: NodeId, group: &GroupName, message: TurnMessage) {
        if self.groups.get(group).is_some_and(|group| group.unloading) {
            return;
        }
        if !message.is_for_member() {
            self.with(group, |group, _| group.take_from_member(sender, message));
            return;
        }
        // A node is in one turn at a time over all its groups. The leader repeats the offer.
        let elsewhere = matches!(message, TurnMessage::Offer { .. })
            && self.groups.iter().any(|(name, other)| name != group && other.in_turn());
        if !elsewhere {
            self.with(group, |group, _| group.take_from_leader(now, sender, message));
        }
    }

    /// A question that another node passed on to this one as a group's leader.
    fn asked(&mut self, now: Now, sender: NodeId, ask: Ask) {
        match ask.question {
            Question::Command(command) if command.id == ask.id => {
                let here = self.groups.get_mut(&command.group).filter(|group| !group.unloading);
                match here {
                    Some(group) if command.action == CommandAction::Reform => {
                        group.reform(now, &mut self.shared, Some(sender), command);
                    }
                    Some(group) => group.command(now, &mut self.shared, Some(sender), command),
                    None => self.shared.answer(Some(sender), ask.id, AnswerContent::NotLeader),
                }
            }
            // The command's id is what repeats are known by; another one around it is a forgery
            // or a fault.
            Question::Command(_) => {}
            Question::Outcomes(group, rollout) => {
                let here = self.groups.get(&group);
                if let Some(json) = here.and_then(|group| group.outcomes_json(rollout)) {
                    self.shared.answer(Some(sender), ask.id, AnswerContent::Json(json));
                }
            }
            Question::Sealed(group, digest) => match self.groups.contains_key(&group) {
                true => self.shared.effects.push(Effect::ReadRevision {
                    group,
                    digest,
                    to: sender,
                    id: ask.id,
                }),
                false => self.shared.answer(Some(sender), ask.id, AnswerContent::Sealed(None)),
            },
            question @ (Question::Status(_) | Question::History(_) | Question::Config(..)) => {
                let content = self.read(now, &question).unwrap_or(AnswerContent::NotLeader);
                self.shared.answer(Some(sender), ask.id, content);
            }
        }
    }

    /// The answer to a reading question, if this node leads the group.
    pub(super) fn read(&self, now: Now, question: &Question) -> Option<AnswerContent> {
        let (Question::Status(name) | Question::History(name) | Question::Config(name, _)) =
            question
        else {
            return None;
        };
        let group = self.groups.get(name).filter(|group| group.is_leading())?;
        Some(AnswerContent::Json(match question {
            Question::History(_) => group.history_json(),
            Question::Config(_, digest) => revision_json(&self.shared, name, *digest),
            _ => group.status_json(now, &self.shared),
        }))
    }
}
