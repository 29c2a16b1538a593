//! Forming the group anew, as an operator asks for it: survey, pause what the newest record has
//! under way, propose.
//!
//! Invariant: nothing is proposed while a leader is heard of; the answer "done" leaves only once the
//! first record of the new lineage is committed.

use std::collections::BTreeSet;

use baton_ledger::{NoReform, Survey};
use baton_rollout::GroupState;
use baton_types::{Command, CommandAnswer, CommandResult, LineageId, NodeId, Now, Text};
use baton_wire::ask::AnswerContent;
use baton_wire::ledger::{Record, StateBytes};

use super::Group;
use crate::effect::{Level, Line};
use crate::limits::ASKERS_MAX;
use crate::notice::Notice;
use crate::shared::Shared;

/// A reform under way.
#[derive(Debug)]
pub(super) struct Reforming {
    command: Command,
    askers: BTreeSet<Option<NodeId>>,
    /// The lineage that was proposed, once it was.
    proposed: Option<LineageId>,
}

impl Group {
    /// `rollout reform`, from an operator here (`None`) or passed on by another node.
    pub(crate) fn reform(
        &mut self,
        now: Now,
        shared: &mut Shared,
        from: Option<NodeId>,
        command: Command,
    ) {
        let id = command.id;
        if let Some(answer) = self.state.answer_to(id) {
            shared.answer(from, id, AnswerContent::Command(answer.clone()));
            return;
        }
        if let Some(reforming) = self.reforming.as_mut().filter(|r| r.command.id == id) {
            if reforming.askers.len() < ASKERS_MAX {
                reforming.askers.insert(from);
            }
            return;
        }
        if let Err(cause) = self.ledger.survey(now.moment) {
            let content = AnswerContent::Command(refused(self.no_reform(shared, cause)));
            shared.answer(from, id, content);
            return;
        }
        self.end_reform(shared, "another `reform` was typed and takes its place");
        let text = format!("reform, typed at {}: asks the members what they hold", command.by);
        shared.log(Line::new(Notice::GroupReformed, Level::Warning, text).of(&self.name));
        let askers = BTreeSet::from([from]);
        self.reforming = Some(Reforming { command, askers, proposed: None });
    }

    /// What the members hold, or why the group is not formed anew.
    pub(super) fn surveyed(
        &mut self,
        now: Now,
        shared: &mut Shared,
        result: Result<Survey, NoReform>,
    ) {
        let proposed = result
            .map_err(|cause| self.no_reform(shared, cause))
            .and_then(|survey| self.propose_reform(now, shared, &survey));
        match proposed {
            Ok(lineage) => {
                if let Some(reforming) = &mut self.reforming {
                    reforming.proposed = Some(lineage);
                }
            }
            Err(text) => self.end_reform(shared, &text),
        }
    }

    fn propose_reform(
        &mut self,
        now: Now,
        shared: &mut Shared,
        survey: &Survey,
    ) -> Result<LineageId, String> {
        let command = self.reforming.as_ref().map(|reforming| reforming.command.clone());
        let command = command.ok_or("nobody asked for it")?;
        let mut state = GroupState::decode(survey.state.as_slice(), shared.peers.ours())
            .map_err(|cause| format!("the newest record was written by a newer baton: {cause}"))?;
        let names = survey.voters.iter().map(|voter| shared.name_of(voter.node));
        let names: Vec<String> = names.collect();
        let message = format!(
            "{} is formed anew from the newest record that was left; its voters are {}, and it is \
             paused until `baton rollout resume {}`",
            self.name,
            names.join(", "),
            self.name
        );
        state.reformed(&command.by, now.wall, command.id, &message);
        let bytes = state.encode(self.version_of_all(shared)).map_err(|cause| cause.to_string())?;
        let bytes = StateBytes::new(bytes).map_err(|cause| cause.to_string())?;
        let lineage = self
            .ledger
            .reform(now.moment, survey, bytes)
            .map_err(|cause| self.no_reform(shared, cause))?;
        let text = format!(
            "reform: lineage {} is to go on as lineage {lineage}; voters: {}",
            survey.from,
            names.join(", ")
        );
        shared.log(Line::new(Notice::GroupReformed, Level::Warning, text).of(&self.name));
        Ok(lineage)
    }

    /// Whoever asked for a reform is told that it is done, or that another history goes on.
    pub(super) fn reform_committed(&mut self, shared: &mut Shared, record: &Record) {
        let Some(proposed) = self.reforming.as_ref().and_then(|r| r.proposed) else { return };
        if proposed != record.lineage {
            self.end_reform(shared, "a leader was there after all, and its history goes on");
            return;
        }
        let Some(reforming) = self.reforming.take() else { return };
        let id = reforming.command.id;
        let Some(answer) = self.state.answer_to(id).cloned() else { return };
        for asker in reforming.askers {
            shared.answer(asker, id, AnswerContent::Command(answer.clone()));
        }
    }

    pub(super) fn end_reform(&mut self, shared: &mut Shared, text: &str) {
        let Some(reforming) = self.reforming.take() else { return };
        for asker in reforming.askers {
            let content = AnswerContent::Command(refused(text.to_owned()));
            shared.answer(asker, reforming.command.id, content);
        }
    }

    fn no_reform(&self, shared: &Shared, cause: NoReform) -> String {
        let text = match cause {
            NoReform::Leader(node) => format!(
                "{} has a leader, {}: `reform` is for a group whose majority of voters is lost for \
                 good",
                self.name,
                shared.name_of(node)
            ),
            cause => format!("{}: {cause}", self.name),
        };
        format!("{text}; nothing was done")
    }
}

fn refused(text: String) -> CommandAnswer {
    CommandAnswer { result: CommandResult::Refused, message: Text::new(&text), rollout: None }
}
