//! What all parts of a node share: its identity, the ring, the facts, and what it wants done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_ring::Ring;
use baton_types::facts::FactKey;
use baton_types::timing::RingTiming;
use baton_types::{CommandId, Digest, GroupName, Moment, NodeId, NodeName, Text};
use baton_wire::ask::{Answer, AnswerContent, Question};
use baton_wire::{Message, Versions, codec};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde::Serialize;

use crate::asks::{Asker, Asks, Gathering, Gatherings};
use crate::directory::Directory;
use crate::effect::{Effect, Level, Line};
use crate::event::{Manifests, Revisions};
use crate::files::{Waiting, Writes};
use crate::notice::Notice;
use crate::peers::Peers;
use crate::relays::Relays;
use crate::request::{Reply, Why};

/// See the module's page.
pub(crate) struct Shared {
    pub(crate) me: NodeId,
    pub(crate) name: NodeName,
    pub(crate) machine_boot: [u8; 16],
    /// The boot of this machine is not complete: no turn begins or passes here.
    pub(crate) is_booting: bool,
    pub(crate) timing: RingTiming,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) ring: Ring,
    /// Members that were forgotten, as the ring saves them: it keeps only their tombstones.
    pub(crate) forgotten: BTreeSet<NodeId>,
    pub(crate) directory: Directory,
    pub(crate) manifests: Manifests,
    pub(crate) revisions: Revisions,
    pub(crate) unpacked: BTreeSet<Digest>,
    /// This service needs other releases than before: what nobody needs may go.
    pub(crate) keep_due: Option<GroupName>,
    pub(crate) writes: Writes,
    /// Services that were opened since the start.
    pub(crate) opened: u64,
    pub(crate) asks: Asks,
    pub(crate) relays: Relays,
    pub(crate) peers: Peers,
    pub(crate) gatherings: Gatherings,
    /// Gatherings whose last answer came; the node follows them up.
    pub(crate) gathered: Vec<Gathering>,
    /// Configuration revisions to be asked for among the members, and who may have them.
    pub(crate) sought: Vec<(GroupName, Digest, Option<NodeId>)>,
    /// Messages of this node to itself.
    pub(crate) inbox: VecDeque<Message>,
    pub(crate) rng: StdRng,
    /// When the event under way came.
    pub(crate) moment: Moment,
    pub(crate) effects: Vec<Effect>,
}

impl Shared {
    /// The name of `node`, or its id if the ring does not know it.
    pub(crate) fn name_of(&self, node: NodeId) -> String {
        if node == self.me {
            return self.name.to_string();
        }
        let member = self.ring.member(node).map(|member| &member.name);
        match member.or_else(|| Some(&self.ring.missing_member(node)?.name)) {
            Some(name) => name.to_string(),
            None => node.to_string(),
        }
    }

    /// What `node` speaks, by its record.
    pub(crate) fn versions_of(&self, node: NodeId) -> Option<Versions> {
        let member = self.ring.member(node).map(|member| member.versions);
        member.or_else(|| Some(self.ring.missing_member(node)?.versions))
    }

    /// Above which a service that is opened now numbers its launches, hooks and checks: the late
    /// answer to one that was unloaded must not be taken for an answer to its successor.
    pub(crate) fn first_number(&mut self) -> u64 {
        let first = self.opened << NUMBERS_OF_ONE;
        self.opened += 1;
        first
    }

    /// Sends one message to a node, this one included; lost if the ring does not know it.
    pub(crate) fn send(&mut self, to: NodeId, message: Message) {
        if to == self.me {
            self.inbox.push_back(message);
        } else if let Some(addr) = self.ring.addr_of(to) {
            self.relay(to, &message);
            self.send_to(addr, vec![message], false);
        }
    }

    /// Writes `value` as the content of `file`; whoever waits is told when it is durable. Answers
    /// the number of the write.
    pub(crate) fn write<T: Serialize>(
        &mut self,
        file: String,
        value: &T,
        waiting: Waiting,
    ) -> Option<u64> {
        match codec::encode(value) {
            Ok(content) => {
                let write = self.writes.begin(waiting);
                self.effects.push(Effect::Write { write, file, content: Some(content) });
                Some(write)
            }
            // Only a value above the limit of a frame; the file stays as it is, and what depends
            // on the write never happens.
            Err(cause) => {
                self.log(Line::new(Notice::WriteFailed, Level::Error, format!("{file}: {cause}")));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, file: String) {
        let write = self.writes.begin(Waiting::Nobody);
        self.effects.push(Effect::Write { write, file, content: None });
    }

    pub(crate) fn log(&mut self, line: Line) {
        self.effects.push(Effect::Log(line));
    }

    pub(crate) fn reply(&mut self, request: u64, reply: Reply) {
        self.effects.push(Effect::Reply { request, reply });
    }

    pub(crate) fn refuse(&mut self, request: u64, why: Why, text: impl Into<String>) {
        self.reply(request, Reply::Refused { why, text: text.into() });
    }

    pub(crate) fn random_id(&mut self) -> CommandId {
        CommandId::from_random(self.rng.random())
    }

    /// Publishes a fact; one that is too large is said and not published.
    pub(crate) fn set_fact(&mut self, now: Moment, key: Option<FactKey>, value: Option<Vec<u8>>) {
        if let (Some(key), Some(value)) = (key, value) {
            if let Err(cause) = self.ring.set_fact(now, key.clone(), value.clone()) {
                self.log(Line::new(Notice::FactTooLarge, Level::Error, cause.to_string()));
            }
            // The ring reports only the facts of others.
            self.directory.take(self.me, &key, Some(&value));
        }
    }

    pub(crate) fn remove_fact(&mut self, now: Moment, key: Option<FactKey>) {
        if let Some(key) = key {
            self.ring.remove_fact(now, &key);
            self.directory.take(self.me, &key, None);
        }
    }

    /// The answer to a question, for whoever waits: an operator here, or the node that passed it
    /// on.
    pub(crate) fn answer(&mut self, to: Option<NodeId>, id: CommandId, content: AnswerContent) {
        match to {
            Some(node) if node != self.me => {
                self.send(node, Message::Answer(Answer { id, content }));
            }
            _ => self.finish(id, content),
        }
    }

    /// A question of this node is answered.
    pub(crate) fn finish(&mut self, id: CommandId, content: AnswerContent) {
        let Some(pending) = self.asks.end(id) else {
            return;
        };
        match (pending.asker, content) {
            (Asker::Request(request), AnswerContent::Json(json)) => {
                self.reply(request, Reply::Json(json));
            }
            (Asker::Request(request), AnswerContent::Command(answer)) => {
                self.reply(request, Reply::Command { id, answer });
            }
            (Asker::Revision(_), AnswerContent::Sealed(Some(sealed))) => {
                if let Question::Sealed(group, digest) = pending.question {
                    self.effects.push(Effect::TakeRevision { group, digest, sealed });
                }
            }
            (Asker::Gathering(gathering), AnswerContent::Command(answer)) => {
                let failed = match answer.result {
                    baton_types::CommandResult::Done => None,
                    baton_types::CommandResult::Refused => Some(Why::State),
                    baton_types::CommandResult::NoQuorum => Some(Why::NoQuorum),
                    baton_types::CommandResult::TimedOut => Some(Why::TimedOut),
                };
                let sentence = format!("{}: {}", pending.group(), answer.message);
                let done = self.gatherings.answer(gathering, sentence, failed);
                self.gathered.extend(done);
            }
            _ => {}
        }
    }
}

/// A machine boot's id as the member's record keeps it: the UUID's digits, cut or filled.
pub(crate) fn boot_bytes(text: &str) -> [u8; 16] {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    baton_types::hex::decode(&digits).unwrap_or_else(|| {
        // Not a UUID, as in tests: any text that differs gives bytes that differ.
        let mut bytes = [0; 16];
        for (at, byte) in text.bytes().enumerate() {
            let rotated = bytes[at % 16] ^ byte.wrapping_add(at as u8);
            bytes[at % 16] = rotated.rotate_left(3);
        }
        bytes
    })
}

/// What an error that an operator sees is called.
pub(crate) fn text(text: impl AsRef<str>) -> Text {
    Text::new(text.as_ref())
}

/// Bits of the numbers of one service: a check every millisecond for a hundred years.
const NUMBERS_OF_ONE: u32 = 42;
