//! The leader's side: commands and members' messages become inputs of a step, a step's record goes
//! to the ledger, and its answers leave once the record is committed.

use baton_rollout::{ChannelEntry, ChannelReading, Found, GroupState, LeadInput, narrate};
use baton_types::{
    Command, CommandAction, CommandAnswer, CommandId, CommandResult, NodeId, Now, Term, Text,
    Version,
};
use baton_wire::Message;
use baton_wire::ask::AnswerContent;
use baton_wire::ledger::{Record, StateBytes};

use super::Group;
use super::notices;
use crate::effect::{Effect, Level, Line};
use crate::event::{ChannelContent, DepotFault};
use crate::limits::{ASKERS_MAX, COMMANDS_MAX, INPUTS_MAX};
use crate::notice::Notice;
use crate::shared::Shared;

impl Group {
    /// Whether this node decides for the group now.
    pub(crate) fn is_leading(&self) -> bool {
        self.leading
    }

    /// A committed record.
    pub(super) fn committed(&mut self, now: Now, shared: &mut Shared, record: &Record) {
        let bytes = record.state.as_slice();
        let state = match GroupState::decode(bytes, shared.peers.ours()) {
            Ok(state) => state,
            Err(cause) => {
                if !self.unreadable {
                    let text = format!(
                        "the ledger's record {} was written by a newer version of baton: {cause}; this \
                         node decides nothing until its leader writes it again for all members",
                        record.version
                    );
                    shared.log(
                        Line::new(Notice::LedgerUnreadable, Level::Error, text).of(&self.name),
                    );
                }
                self.unreadable = true;
                return;
            }
        };
        self.unreadable = false;
        self.written_in = GroupState::version_of(bytes);
        let old = std::mem::replace(&mut self.state, state);
        // What another history had is no change of this one.
        let is_same = self.lineage.replace(record.lineage).is_none_or(|own| own == record.lineage);
        let old = (self.heard && is_same).then_some(&old);
        (self.term, self.version, self.heard) = (record.term, record.version, true);
        self.tell(shared, old, record.term);
        self.lead.committed(now, &self.state);
        self.keep_promises(shared, record.version);
        self.settle_removals(shared, record);
        self.keep_releases(shared);
        self.keep_outcomes(shared);
        self.stale = true;
        self.publish(now, shared);
    }

    /// One line for each thing that the record changed.
    fn tell(&mut self, shared: &mut Shared, old: Option<&GroupState>, term: Term) {
        let lines = narrate(old, &self.state, &|node| shared.name_of(node));
        for line in lines {
            let notice = notices::of(line.about);
            let level = match line.level {
                baton_rollout::Level::Info => Level::Info,
                baton_rollout::Level::Warning => Level::Warning,
            };
            shared.log(Line {
                notice,
                level,
                text: line.text,
                group: Some(self.name.clone()),
                rollout: line.rollout,
                member: line.member.map(|node| Text::new(&shared.name_of(node))),
                release: line.release.map(|id| Text::new(&id.to_string())),
                term: Some(term),
            });
        }
    }

    pub(super) fn leads(&mut self, now: Now, shared: &mut Shared) {
        self.leading = true;
        self.stale = true;
        shared.asks.retry_now(now.moment, &self.name);
    }

    /// One line on every voter when leadership changes hands.
    pub(super) fn tell_leader(&mut self, now: Now, shared: &mut Shared) {
        let view = self.ledger.view();
        let leader = view.leader;
        if leader == self.told_leader {
            return;
        }
        let (notice, level, text) = match leader {
            Some(node) => {
                // A member without a vote knows of no term but by what voters say.
                let told = shared.directory.ledger(&self.name, node).map(|fact| fact.term);
                let term = view.term.max(told.unwrap_or_default());
                let text = format!("{} leads in term {term}", shared.name_of(node));
                (Notice::LeaderElected, Level::Info, text)
            }
            None => {
                let reason = self.quorum_reason(shared, view.quorum_reason.clone());
                (Notice::LeaderLost, Level::Warning, format!("no leader: {reason}"))
            }
        };
        let mut line = Line::new(notice, level, text).of(&self.name);
        line.term = Some(view.term);
        line.member = leader.map(|node| Text::new(&shared.name_of(node)));
        self.told_leader = leader;
        shared.log(line);
        // Members without a vote know the leader by this fact alone.
        self.publish(now, shared);
    }

    pub(super) fn leads_no_more(&mut self) {
        self.leading = false;
        self.lead.step_down();
        self.inputs.clear();
        self.promised = None;
        self.starts.clear();
        self.channel_hints.clear();
        self.hints_read.clear();
        self.applications.clear();
        self.removals.clear();
        self.adoptions.clear();
        // Whoever asked asks the next leader by himself.
        self.owed.clear();
        self.wake = None;
    }

    /// Takes a command for this leader, from here (`None`) or from another node.
    pub(crate) fn command(
        &mut self,
        now: Now,
        shared: &mut Shared,
        from: Option<NodeId>,
        command: Command,
    ) {
        let is_meant = match &command.action {
            CommandAction::Adopt { lineage } => self.is_meant(lineage.as_str()),
            _ => true,
        };
        if !self.leading || !is_meant {
            // A question of our own stays pending and is tried again.
            if from.is_some() {
                shared.answer(from, command.id, AnswerContent::NotLeader);
            }
            return;
        }
        let known = self.owed.contains_key(&command.id);
        if !known && self.owed.len() >= COMMANDS_MAX {
            return;
        }
        let askers = self.owed.entry(command.id).or_default();
        if askers.len() < ASKERS_MAX {
            askers.insert(from);
        }
        if known {
            return;
        }
        match &command.action {
            CommandAction::Start { .. } if self.state.answer_to(command.id).is_none() => {
                self.starts.push(command);
                self.read_channel(shared);
            }
            CommandAction::ApplyConfig { .. } if self.state.answer_to(command.id).is_none() => {
                self.look_at_revision(shared, command);
            }
            CommandAction::ReadChannel => {
                self.channel_hints.push(command.id);
                self.read_channel(shared);
            }
            CommandAction::Adopt { .. } => self.adoptions.push(command.id),
            CommandAction::RemoveVoter { node } => {
                self.ask_removal(now, *node, command.id);
            }
            _ => self.inputs.push(LeadInput::Command { command, found: None }),
        }
        self.stale = true;
        self.drive_lead(now, shared);
    }

    /// A member's message for the leader; one that does not lead any more drops it.
    pub(crate) fn take_from_member(&mut self, from: NodeId, message: baton_wire::TurnMessage) {
        if self.leading && self.inputs.len() < INPUTS_MAX {
            self.inputs.push(LeadInput::FromMember(from, message));
        }
    }

    /// A reading of the channel ended.
    pub(crate) fn channel(
        &mut self,
        now: Now,
        shared: &mut Shared,
        result: Result<ChannelContent, DepotFault>,
    ) {
        self.reading_channel = false;
        // A version that was asked for while the reading was under way is not in it.
        let (starts, later) = std::mem::take(&mut self.starts)
            .into_iter()
            .partition(|command| was_looked_up(command, &self.looked_up));
        self.starts = later;
        let error = result.as_ref().err().map(|fault| fault.text.to_string()).unwrap_or_default();
        if error != self.channel_error && !error.is_empty() {
            let text = format!("channel {} cannot be read: {error}", self.settings.channel);
            shared.log(Line::new(Notice::ChannelUnreadable, Level::Warning, text).of(&self.name));
        } else if error.is_empty() && !self.channel_error.is_empty() {
            let text = format!("channel {} can be read again", self.settings.channel);
            shared.log(Line::new(Notice::ChannelReadable, Level::Info, text).of(&self.name));
        }
        self.channel_error = error;
        if !self.leading {
            return;
        }
        for command in starts {
            let found = Some(find(&command, &result, &self.settings.channel));
            self.inputs.push(LeadInput::Command { command, found });
        }
        let hints = std::mem::take(&mut self.channel_hints);
        let message = match &result {
            Ok(_) => "the channel was read".to_owned(),
            Err(fault) => format!("the channel cannot be read: {}", fault.text),
        };
        for id in hints {
            let result = if result.is_ok() { CommandResult::Done } else { CommandResult::Refused };
            let answer = CommandAnswer { result, message: Text::new(&message), rollout: None };
            // Whoever looks at the status next finds what the reading led to.
            self.hints_read.push((id, answer));
        }
        let reading = result.map(reading).map_err(|fault| fault.text);
        self.inputs.push(LeadInput::Channel(reading));
        if !self.starts.is_empty() {
            self.read_channel(shared);
        }
        self.drive_lead(now, shared);
    }

    fn read_channel(&mut self, shared: &mut Shared) {
        if !std::mem::replace(&mut self.reading_channel, true) {
            self.looked_up = self.starts.iter().filter_map(named_version).cloned().collect();
            shared.effects.push(Effect::ReadChannel {
                group: self.name.clone(),
                depot: self.settings.depot.clone(),
                name: self.settings.release.clone(),
                channel: self.settings.channel.clone(),
                versions: self.looked_up.clone(),
            });
        }
    }

    /// One step, if this node leads, something came in or is due, and no record is in flight.
    pub(super) fn drive_lead(&mut self, now: Now, shared: &mut Shared) -> bool {
        if !self.leading || self.unreadable || (!self.stale && self.inputs.is_empty()) {
            return false;
        }
        let ledger = self.ledger.view();
        if !ledger.ready || ledger.in_flight {
            return false;
        }
        self.settle_idle_removals(shared);
        if self.remove_voters(now, shared) || self.settle_meeting(now, shared) {
            return true;
        }
        let inputs = std::mem::take(&mut self.inputs);
        let view = self.view(shared);
        let step = self.lead.step(now, &self.state, &view, inputs);
        self.stale = false;
        self.wake = step.wake.filter(|wake| *wake > now.moment);
        if step.wake.is_some() && self.wake.is_none() {
            // Due already: with the next event, not in a circle within this one.
            self.wake = Some(now.moment + std::time::Duration::from_millis(1));
        }
        if !self.removals.is_empty() {
            // One that the group cannot do without now goes when more voters answer.
            let again = now.moment + shared.timing.heartbeat * 4;
            self.wake = Some(self.wake.map_or(again, |wake| wake.min(again)));
        }
        for (to, message) in step.sends {
            shared.send(to, Message::Turn(self.name.clone(), message));
        }
        if step.read_channel {
            self.read_channel(shared);
        }
        let mut answers = step.answers;
        answers.append(&mut self.hints_read);
        match step.next {
            None => {
                for (id, answer) in answers {
                    self.give(shared, id, answer);
                }
                if self.written_in.is_some_and(|version| version > self.version_of_all(shared)) {
                    let same = self.state.clone();
                    self.propose(now, shared, &same, Vec::new());
                }
            }
            Some(next) => self.propose(now, shared, &next, answers),
        }
        true
    }

    fn propose(
        &mut self,
        now: Now,
        shared: &mut Shared,
        next: &GroupState,
        answers: Vec<(CommandId, CommandAnswer)>,
    ) {
        let bytes = next
            .encode(self.version_of_all(shared))
            .map_err(|cause| cause.to_string())
            .and_then(|bytes| StateBytes::new(bytes).map_err(|cause| cause.to_string()));
        let proposed = bytes.and_then(|bytes| {
            self.ledger.propose(now.moment, bytes).map_err(|cause| cause.to_string())
        });
        match proposed {
            Ok(version) => self.promised = Some((version, answers)),
            Err(cause) => {
                // Whoever asked repeats it; nothing was decided.
                let text = format!("a decision could not be written: {cause}");
                shared
                    .log(Line::new(Notice::LedgerNotWritten, Level::Warning, text).of(&self.name));
                self.owed.clear();
            }
        }
    }

    fn keep_promises(&mut self, shared: &mut Shared, version: u64) {
        if self.promised.as_ref().is_some_and(|(promised, _)| *promised <= version)
            && let Some((_, answers)) = self.promised.take()
        {
            for (id, answer) in answers {
                self.give(shared, id, answer);
            }
        }
    }

    /// Answers everybody who asked for this command.
    pub(super) fn give(&mut self, shared: &mut Shared, id: CommandId, answer: CommandAnswer) {
        for asker in self.owed.remove(&id).unwrap_or_default() {
            shared.answer(asker, id, AnswerContent::Command(answer.clone()));
        }
    }
}

fn named_version(command: &Command) -> Option<&Version> {
    match &command.action {
        CommandAction::Start { version } => version.as_ref(),
        _ => None,
    }
}

fn was_looked_up(command: &Command, looked_up: &[Version]) -> bool {
    named_version(command).is_none_or(|version| looked_up.contains(version))
}

/// What a `start` names, in the channel's content.
fn find(
    command: &Command,
    result: &Result<ChannelContent, DepotFault>,
    channel: &baton_types::Name,
) -> Result<Found, Text> {
    let content = result.as_ref().map_err(|fault| fault.text.clone())?;
    let depot = Text::new(&content.depot_id);
    let CommandAction::Start { version } = &command.action else {
        return Err(Text::new("not a start"));
    };
    let Some(version) = version else {
        let head = content.entries.last().ok_or_else(|| {
            Text::new(&format!(
                "nothing is promoted in channel {channel}: promote a release, or name one with \
                 --release"
            ))
        })?;
        let promotion = Some(head.promotion);
        return Ok(Found { release: head.release.clone(), promotion, depot });
    };
    let promoted = content.entries.iter().rev().find(|entry| entry.release.id.version == *version);
    if let Some(entry) = promoted {
        let promotion = Some(entry.promotion);
        return Ok(Found { release: entry.release.clone(), promotion, depot });
    }
    match content.releases.iter().find(|release| release.id.version == *version) {
        Some(release) => Ok(Found { release: release.clone(), promotion: None, depot }),
        None => {
            let mut known: Vec<&str> =
                content.releases.iter().map(|release| release.id.version.as_str()).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(Text::new(&format!("the depot has no version {version}; it has: {known}")))
        }
    }
}

fn reading(content: ChannelContent) -> ChannelReading {
    let entries = content.entries.into_iter().map(|entry| ChannelEntry {
        release: entry.release,
        promotion: entry.promotion,
        again: entry.again,
    });
    ChannelReading {
        depot: Text::new(&content.depot_id),
        sequence: content.sequence,
        entries: entries.collect(),
    }
}
