//! Requests of the control API.

use baton_types::limits::NODE_MAX_SERVICES;
use baton_types::{Command, CommandAction, CommandId, GroupName, NodeId, Now};
use baton_wire::ask::Question;

use super::Node;
use crate::asks::{Asker, Then};
use crate::effect::Effect;
use crate::files::Waiting;
use crate::request::{NodeRef, Reply, Request, Why, no_such_service};

impl Node {
    pub(super) fn request(&mut self, now: Now, request: u64, what: Request) {
        match what {
            Request::Command { group, action, id } => {
                self.command(now, request, group, action, id);
            }
            Request::Status(group) => self.reading(now, request, group, Question::Status),
            Request::History(group) => self.reading(now, request, group, Question::History),
            Request::Outcomes(group, rollout) => {
                self.reading(now, request, group, |group| Question::Outcomes(group, rollout));
            }
            Request::Config(group, digest) => {
                let question = |group| Question::Config(group, digest);
                self.reading(now, request, group, question);
            }
            Request::Groups => {
                let groups = self.known_groups();
                self.json(request, &groups);
            }
            Request::RingMembers => {
                let members = self.ring_members(now);
                self.json(request, &members);
            }
            Request::Services => {
                let services = self.services();
                self.json(request, &services);
            }
            Request::Summary => {
                let line = self.summary_line(now);
                self.json(request, &line);
            }
            Request::RingJoin { name, at } => self.ring_join(now, request, name, at),
            Request::RingLeave { force } => self.ring_leave(now, request, force),
            Request::RingForget(node) => self.ring_forget(now, request, node),
            Request::ServiceLoad(settings) => {
                let name = settings.name.clone();
                let full = self.groups.len() >= NODE_MAX_SERVICES;
                let refusal = match self.groups.get(&name) {
                    Some(group) if group.unloading => {
                        Some(format!("{name} is being unloaded; load it again in a moment"))
                    }
                    None if full => Some(format!(
                        "found {} services on this node; {NODE_MAX_SERVICES} are allowed",
                        self.groups.len()
                    )),
                    _ => None,
                };
                if let Some(text) = refusal {
                    self.shared.refuse(request, Why::State, text);
                    return;
                }
                let said = match self.groups.contains_key(&name) {
                    true => format!(
                        "{name} has new settings; what runs keeps the old ones until \
                                     its next turn or `service restart`"
                    ),
                    false => format!("{name} is loaded"),
                };
                // What the service asks for first needs its settings in force.
                let at = self.shared.effects.len();
                self.set_services(now, vec![*settings]);
                self.shared
                    .effects
                    .insert(at, Effect::Loaded { request, group: name, loaded: true });
                self.shared.reply(request, Reply::Done(said));
            }
            Request::ServiceUnload { group, force } => {
                self.service_unload(now, request, group, force);
            }
            Request::ServiceStart(group) => {
                self.service(request, &group, |group, shared| group.start(now, shared));
            }
            Request::ServiceStop(group) => {
                let warning = self.budget_warning(&group);
                self.service(request, &group, |group, shared| {
                    Ok(group.stop(now, shared) + &warning)
                });
            }
            Request::ServiceRestart(group) => {
                let warning = self.budget_warning(&group);
                self.service(request, &group, |group, shared| {
                    group.restart(now, shared).map(|said| said + &warning)
                });
            }
            Request::Cordon(node) => self.cordon(now, request, node, true),
            Request::Uncordon(node) => self.cordon(now, request, node, false),
        }
    }

    fn command(
        &mut self,
        now: Now,
        request: u64,
        group: GroupName,
        action: CommandAction,
        id: Option<CommandId>,
    ) {
        if !self.knows(request, &group) {
            return;
        }
        if self.has_left {
            let text = "this node has left the ring: type it at another one; a restart of the daemon \
                        joins the ring again";
            self.shared.refuse(request, Why::State, text.to_owned());
            return;
        }
        let id = id.unwrap_or_else(|| self.shared.random_id());
        if self.shared.asks.get(id).is_some() {
            let text = format!("the command {id} is under way; it is answered where it was given");
            self.shared.refuse(request, Why::State, text);
            return;
        }
        let command = self.make_command(id, group, action);
        self.ask(now, id, Question::Command(command), Asker::Request(request));
    }

    fn make_command(&self, id: CommandId, group: GroupName, action: CommandAction) -> Command {
        Command { id, group, by: self.shared.name.clone(), action }
    }

    fn reading(
        &mut self,
        now: Now,
        request: u64,
        group: GroupName,
        question: impl FnOnce(GroupName) -> Question,
    ) {
        if self.knows(request, &group) {
            let id = self.shared.random_id();
            self.ask(now, id, question(group), Asker::Request(request));
        }
    }

    /// Refuses a group that no member of the ring has.
    fn knows(&mut self, request: u64, group: &GroupName) -> bool {
        let known = self.known_groups();
        if known.iter().any(|name| *name == group.to_string()) {
            return true;
        }
        let known = match known.as_slice() {
            [] => "the ring has no groups: a service file makes one".to_owned(),
            known => format!("the ring has: {}", known.join(", ")),
        };
        self.shared.refuse(request, Why::Unknown, format!("no group {group}; {known}"));
        false
    }

    fn json(&mut self, request: u64, value: &impl serde::Serialize) {
        // Strings and numbers alone cannot fail.
        let json = serde_json::to_string(value).unwrap_or_default();
        self.shared.reply(request, Reply::Json(json));
    }

    fn service(
        &mut self,
        request: u64,
        name: &GroupName,
        act: impl FnOnce(&mut crate::group::Group, &mut crate::shared::Shared) -> Result<String, String>,
    ) {
        let Some(group) = self.groups.get_mut(name) else {
            let text = no_such_service(name, self.groups.keys());
            self.shared.refuse(request, Why::Unknown, text);
            return;
        };
        if group.unloading {
            let text = format!("{name} is being unloaded");
            self.shared.refuse(request, Why::State, text);
            return;
        }
        group.take_file_write();
        match (act(group, &mut self.shared), group.take_file_write()) {
            // What the operator wants must outlast this daemon before it is said to be done.
            (Ok(said), Some(write)) => {
                let waiting = Waiting::Operator(name.clone(), request, said);
                self.shared.writes.hand_over(write, waiting);
            }
            (Ok(said), None) => self.shared.reply(request, Reply::Done(said)),
            (Err(text), _) => self.shared.refuse(request, Why::State, text),
        }
    }

    /// `service stop` and `restart` obey their operator, but say what they do to the budget.
    fn budget_warning(&self, name: &GroupName) -> String {
        let Some(group) = self.groups.get(name) else { return String::new() };
        let members: Vec<_> = self.shared.directory.members(name).collect();
        let down = members
            .iter()
            .filter(|(node, fact)| {
                *node != self.shared.me
                    && (!fact.health.is_healthy()
                        || self.shared.ring.member(*node).is_none_or(|m| !m.state.is_reachable()))
            })
            .count();
        let budget = group.settings.update.max_unavailable.budget(members.len());
        if down + 1 > budget {
            format!(
                "; warning: with it {} of {} members are not healthy, the budget is {budget}",
                down + 1,
                members.len()
            )
        } else {
            String::new()
        }
    }

    fn find_node(&mut self, request: u64, node: &NodeRef) -> Option<NodeId> {
        let ring = &self.shared.ring;
        let known = || {
            let missing = ring.missing().map(|record| (record.node, record.name.as_str()));
            ring.members().map(|member| (member.node, member.name.as_str())).chain(missing)
        };
        let found: Vec<NodeId> = known()
            .filter(|(id, name)| match node {
                NodeRef::Id(wanted) => id == wanted,
                NodeRef::Name(wanted) => name == wanted,
            })
            .map(|(id, _)| id)
            .collect();
        match (found.as_slice(), node) {
            ([one], _) => return Some(*one),
            ([], NodeRef::Id(id)) => {
                self.shared.refuse(request, Why::Unknown, format!("no member has the id {id}"));
            }
            ([], NodeRef::Name(name)) => {
                let mut names: Vec<&str> = known().map(|(_, name)| name).collect();
                names.sort_unstable();
                let text =
                    format!("no member is called {name:?}; the ring has: {}", names.join(", "));
                self.shared.refuse(request, Why::Unknown, text);
            }
            (many, _) => {
                let ids: Vec<String> = many.iter().map(ToString::to_string).collect();
                let text = format!(
                    "several members have that name; name one by its id: {}",
                    ids.join(", ")
                );
                self.shared.refuse(request, Why::Unknown, text);
            }
        }
        None
    }

    fn cordon(&mut self, now: Now, request: u64, node: Option<NodeRef>, on: bool) {
        let node = match node {
            None => self.shared.me,
            Some(node) => match self.find_node(request, &node) {
                Some(node) => node,
                None => return,
            },
        };
        let groups: Vec<GroupName> = self.shared.directory.groups_of(node).cloned().collect();
        let action = |node| match on {
            true => CommandAction::Cordon { node },
            false => CommandAction::Uncordon { node },
        };
        if groups.is_empty() {
            let text = format!("{} has no service in any group", self.shared.name_of(node));
            self.shared.refuse(request, Why::State, text);
            return;
        }
        self.gather(now, request, groups, Then::Reply, || action(node));
    }

    /// Gives one command to each of several groups; the request is answered once all are.
    fn gather(
        &mut self,
        now: Now,
        request: u64,
        groups: Vec<GroupName>,
        then: Then,
        action: impl Fn() -> CommandAction,
    ) {
        let gathering = self.shared.gatherings.begin(request, groups.len(), then);
        for group in groups {
            let id = self.shared.random_id();
            let command = self.make_command(id, group, action());
            self.ask(now, id, Question::Command(command), Asker::Gathering(gathering));
        }
    }

    /// Groups in which this node has a vote beside others: it must be removed before it goes.
    fn votes(&self, name: Option<&GroupName>) -> Vec<GroupName> {
        let me = self.shared.me;
        self.groups
            .iter()
            .filter(|(group, _)| name.is_none_or(|name| name == *group))
            .filter(|(_, group)| {
                let others = || !group.others(&self.shared).is_empty();
                group.is_voter(me) && (group.ledger.view().voters.len() > 1 || others())
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn ring_leave(&mut self, now: Now, request: u64, force: bool) {
        let votes = if force { Vec::new() } else { self.votes(None) };
        let node = self.shared.me;
        if votes.is_empty() {
            self.leave_ring(now, request);
        } else {
            self.gather(now, request, votes, Then::Leave, || CommandAction::RemoveVoter { node });
        }
    }

    fn service_unload(&mut self, now: Now, request: u64, group: GroupName, force: bool) {
        let votes = if force { Vec::new() } else { self.votes(Some(&group)) };
        let node = self.shared.me;
        if votes.is_empty() {
            self.unload(now, request, &group);
        } else {
            let then = Then::Unload(group);
            self.gather(now, request, votes, then, || CommandAction::RemoveVoter { node });
        }
    }

    fn ring_forget(&mut self, now: Now, request: u64, node: NodeRef) {
        let Some(node) = self.find_node(request, &node) else { return };
        let name = self.shared.name_of(node);
        match self.shared.ring.forget(now.moment, node) {
            Ok(()) => {
                self.shared.reply(request, Reply::Done(format!("{name} is forgotten")));
            }
            Err(cause) => self.shared.refuse(request, Why::State, cause.to_string()),
        }
    }
}
