//! What the ring wants done.
//!
//! Invariant: what the ring sends after a save leaves only once the save is durable.

use baton_ring::{MemberState, RingOutput};
use baton_types::{NodeId, Now};
use baton_wire::Message;

use super::Node;
use crate::directory::News;
use crate::effect::{Level, Line};
use crate::files::{self, Waiting};
use crate::group::Group;
use crate::notice::Notice;
use crate::request::Reply;

impl Node {
    pub(super) fn drive_ring(&mut self, now: Now) -> bool {
        let outputs = self.shared.ring.take_outputs();
        let mut moved = !outputs.is_empty();
        for output in outputs {
            match output {
                RingOutput::Send { .. } => self.held.push_back(output),
                RingOutput::Save(saved) => {
                    let forgotten = saved.forgotten.iter().map(|record| record.node).collect();
                    if forgotten != self.shared.forgotten {
                        self.shared.forgotten = forgotten;
                        self.groups.values_mut().for_each(Group::voters_forgotten);
                    }
                    self.held.push_back(RingOutput::Save(saved));
                }
                RingOutput::MemberChanged { node, old, new } => {
                    self.member_changed(node, old, new);
                }
                RingOutput::FactChanged { node, key } => {
                    let value = self.shared.ring.fact(node, &key);
                    let told = self.shared.directory.take(node, &key, value);
                    if let Some((group, news)) = told {
                        self.with(&group, |group, _| match news {
                            News::Gone => group.strike(node),
                            news => group.take_news(node, news),
                        });
                        self.shared.asks.retry_now(now.moment, &group);
                    }
                }
                RingOutput::Left => {
                    self.has_left = true;
                    for group in self.groups.values_mut() {
                        group.leave(&mut self.shared);
                    }
                    let text = "this node has left the ring";
                    self.shared.log(Line::new(Notice::RingLeft, Level::Info, text));
                    if let Some(request) = self.leaving.take() {
                        let services = match self.groups.is_empty() {
                            true => "",
                            false => {
                                "; its programs go on, out of every rollout: `baton service stop G` \
                                 stops one, and a restart of the daemon joins the ring again"
                            }
                        };
                        self.shared.reply(request, Reply::Done(format!("{text}{services}")));
                    }
                }
                RingOutput::Warning(text) => {
                    self.shared.log(Line::new(Notice::RingWarning, Level::Warning, text));
                }
            }
        }
        let incarnation = self.shared.ring.incarnation();
        if std::mem::replace(&mut self.incarnation, incarnation) != incarnation {
            // It was taken for dead or suspect: what it said before counts no more, so it says it
            // again.
            for group in self.groups.values_mut() {
                group.publish(now, &mut self.shared);
            }
        }
        while self.saving.is_none() {
            match self.held.pop_front() {
                Some(RingOutput::Send { to, messages, stream }) => {
                    let messages = messages.into_iter().map(Message::Ring).collect();
                    self.shared.send_to(to, messages, stream);
                }
                Some(RingOutput::Save(saved)) => {
                    self.saving = self.shared.write(files::RING.to_owned(), &saved, Waiting::Ring);
                }
                Some(_) => {}
                None => break,
            }
            moved = true;
        }
        moved
    }

    fn member_changed(&mut self, node: NodeId, old: Option<MemberState>, new: Option<MemberState>) {
        if let Some(member) = self.shared.ring.member(node) {
            self.shared.peers.recorded(member.addr, member.versions);
        }
        for group in self.groups.values_mut() {
            match new {
                None => group.strike(node),
                Some(_) => group.take_news(node, News::Member),
            }
        }
        if old == new {
            return;
        }
        let name = self.shared.name_of(node);
        let (level, text) = match (old, new) {
            (None, Some(MemberState::Alive)) => (Level::Info, format!("{name} is in the ring")),
            (_, Some(state @ (MemberState::Suspect | MemberState::Dead))) => {
                (Level::Warning, format!("{name} is {state}"))
            }
            (_, Some(state)) => (Level::Info, format!("{name} is {state}")),
            (_, None) => (Level::Info, format!("{node} is forgotten")),
        };
        let mut line = Line::new(Notice::MemberChanged, level, text);
        line.member = Some(baton_types::Text::new(&name));
        self.shared.log(line);
    }
}
