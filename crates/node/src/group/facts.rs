//! What this node tells the ring of the service, and the view of the group that a leader decides
//! by.

use std::collections::BTreeMap;
use std::hash::Hasher;

use baton_ring::MemberState;
use baton_rollout::{Liveness, MemberView, View};
use baton_types::member::{Desired, Health, LedgerFact, ProcessState, ServiceFact};
use baton_types::service::ServiceSettings;
use baton_types::{GroupName, NodeId, Now, Text};
use baton_wire::{Message, RingMessage, codec};

use super::Group;
use crate::directory::{News, fact_bytes, ledger_key, service_key};
use crate::effect::{Effect, Level, Line};
use crate::limits::LEDGER_FACT_PACE;
use crate::notice::Notice;
use crate::shared::Shared;

impl Group {
    /// Publishes what has changed of the service and its ledger.
    pub(crate) fn publish(&mut self, now: Now, shared: &mut Shared) {
        if self.unloading {
            return;
        }
        let bytes = fact_bytes(&self.service_fact(shared));
        if bytes != self.fact {
            self.fact.clone_from(&bytes);
            shared.set_fact(now.moment, service_key(&self.name), bytes);
            self.take_news(shared.me, News::Member);
            self.tell_the_leader_first(shared);
        }
        self.publish_ledger(now, shared);
    }

    /// Publishes what has changed of the ledger. Each record has a version of its own, and what is
    /// waited for changes all the time: only the leader tells of that, and not more often than
    /// people can read, because a fact is told to every member of the ring.
    pub(super) fn publish_ledger(&mut self, now: Now, shared: &mut Shared) {
        self.ledger_fact_due = false;
        if self.unloading {
            return;
        }
        let Some(mut fact) = self.ledger_fact() else {
            if self.ledger_fact.take().is_some() {
                shared.remove_fact(now.moment, ledger_key(&self.name));
            }
            return;
        };
        let is_news = self.ledger_fact.as_ref().is_none_or(|told| !told.stands_like(&fact));
        if !is_news && !self.leading {
            return;
        }
        if !is_news && now.moment < self.ledger_fact_next {
            self.ledger_fact_due = true;
            return;
        }
        if self.leading
            && let Some((_, _, waiting)) = &mut fact.rollout
        {
            // Only the leader knows what is waited for; its fact is the one that is read.
            *waiting = Text::new(&self.waiting_for(now, shared));
        }
        if self.ledger_fact.as_ref() != Some(&fact) {
            shared.set_fact(now.moment, ledger_key(&self.name), fact_bytes(&fact));
            self.ledger_fact = Some(fact);
            self.ledger_fact_next = now.moment + LEDGER_FACT_PACE;
        }
    }

    /// The leader counts the budget by this fact: it gets it at once, gossip brings it to the rest.
    fn tell_the_leader_first(&self, shared: &mut Shared) {
        let record = service_key(&self.name).and_then(|key| shared.ring.my_fact(&key));
        if let (Some(record), Some(leader)) = (record, self.leader())
            && leader != shared.me
        {
            shared.send(leader, Message::Ring(RingMessage::Fact(record)));
        }
    }

    /// Takes back what was published: the service is unloaded.
    pub(crate) fn unpublish(&mut self, now: Now, shared: &mut Shared) {
        shared.remove_fact(now.moment, service_key(&self.name));
        shared.remove_fact(now.moment, ledger_key(&self.name));
    }

    fn service_fact(&self, shared: &Shared) -> ServiceFact {
        let status = self.service.status();
        let zone = self.settings.update.zone_label.as_ref();
        let desired = if self.wants_stopped() { Desired::Stopped } else { Desired::Running };
        ServiceFact {
            running: self.member.file().running.clone(),
            desired,
            process: status.process,
            pid: status.pid,
            health: status.health,
            health_text: status.health_text.clone(),
            restarts: status.restarts,
            phase: self.phase.clone(),
            prepared: self.member.prepared(),
            pending_edit: self.has_pending_edit(shared),
            file_digest: file_digest(&self.settings),
            order: self.settings.order,
            incarnation: shared.ring.incarnation(),
            zone: zone.and_then(|label| shared.labels.get(label)).map(|value| Text::new(value)),
        }
    }

    /// Whether a local edit waits for the next turn or `service restart`.
    fn has_pending_edit(&self, shared: &Shared) -> bool {
        let Some(launched) = &self.launched else { return false };
        self.launch_of(shared, &launched.target).is_some_and(|today| !today.same_program(launched))
    }

    /// How the ledger stands here, without what is waited for.
    fn ledger_fact(&self) -> Option<LedgerFact> {
        let view = self.ledger.view();
        let record = view.committed?;
        let leader = view.leader;
        let rollout = self.state.rollout.as_ref();
        let rollout = rollout.map(|r| (r.id, Text::new(r.state.word()), Text::default()));
        Some(LedgerFact {
            lineage: record.lineage,
            replaces: self.replaced_lineages(),
            absorbs: record.absorbs.clone(),
            baseline: self.baseline_fact(),
            term: record.term,
            version: record.version,
            leader,
            rollout,
        })
    }

    /// The group as this node sees it.
    pub(super) fn view(&self, shared: &Shared) -> View {
        let mut members: BTreeMap<NodeId, MemberView> = BTreeMap::new();
        for (node, fact) in shared.directory.members(&self.name) {
            let Some(member) = shared.ring.member(node) else { continue };
            let liveness = liveness(member.state);
            // What it said before it was taken for dead or suspect need not be so any more.
            let outdated = fact.incarnation < member.incarnation;
            let (health, health_text) = match outdated {
                true => (Health::Unknown, Text::new("its word about its health is awaited")),
                false => (fact.health, fact.health_text.clone()),
            };
            let in_turn_elsewhere = shared.directory.groups_of(node).any(|other| {
                *other != self.name
                    && shared.directory.member(other, node).is_some_and(|f| !f.phase.is_empty())
            });
            members.insert(
                node,
                MemberView {
                    name: member.name.clone(),
                    liveness,
                    health,
                    may_serve: health == Health::Unknown
                        && (outdated || fact.process == ProcessState::Running),
                    health_text,
                    running: fact.running.clone(),
                    stopped_by_operator: fact.desired == Desired::Stopped,
                    prepared: fact.prepared.clone(),
                    phase: fact.phase.clone(),
                    order: fact.order,
                    zone: fact.zone.clone(),
                    heard: true,
                    in_turn_elsewhere,
                    file_digest: fact.file_digest,
                },
            );
        }
        self.add_unheard(shared, &mut members);
        let held = self.held_by_meeting(shared);
        View { held, me: shared.me, members, settings: self.settings.clone() }
    }

    /// Voters that the ring knows and members of the roster whose facts have not been heard since
    /// this node started. They may run what the ledger has for them, so until they are heard they
    /// count as not healthy.
    fn add_unheard(&self, shared: &Shared, members: &mut BTreeMap<NodeId, MemberView>) {
        let voters = self.ledger.view().voters.iter().filter_map(|voter| {
            let member = shared.ring.member(voter.node)?;
            Some((voter.node, &member.name, true))
        });
        let remembered = self.roster.iter().filter(|(node, ..)| !shared.forgotten.contains(node));
        for (node, name, ran) in remembered.chain(voters) {
            // One that the ring has not seen since this node started is not there.
            let state = shared.ring.member(node).map_or(MemberState::Dead, |member| member.state);
            members.entry(node).or_insert_with(|| MemberView {
                name: name.clone(),
                liveness: liveness(state),
                health: Health::Unknown,
                may_serve: true,
                health_text: Text::new("not heard of since the leader's node started"),
                running: self.state.target_of(node).filter(|_| ran).cloned(),
                stopped_by_operator: false,
                prepared: None,
                phase: Text::default(),
                order: 0,
                zone: None,
                heard: false,
                in_turn_elsewhere: false,
                file_digest: file_digest(&self.settings),
            });
        }
    }

    /// Keeps the census file current.
    pub(super) fn update_census(&mut self, shared: &mut Shared) {
        if let Some(json) = self.census.update(&self.name, &shared.ring, &shared.directory) {
            shared.effects.push(Effect::Census { group: self.name.clone(), json });
        }
    }

    /// A member without a vote tells of rollouts what the voters' facts say.
    pub(super) fn tell_from_facts(&mut self, shared: &mut Shared) {
        if self.is_voter(shared.me) {
            return;
        }
        let newest = shared
            .directory
            .ledgers(&self.name)
            .filter(|(node, fact)| fact.leader == Some(*node))
            .max_by_key(|(_, fact)| (fact.term, fact.version));
        let Some((leader, fact)) = newest else { return };
        let Some((id, state, waiting)) = &fact.rollout else { return };
        let text = format!("rollout {id} is {state}: {waiting}");
        if text != self.told {
            let mut line =
                Line::new(Notice::RolloutHeardOf, Level::Info, text.clone()).of(&self.name);
            line.rollout = Some(*id);
            line.term = Some(fact.term);
            line.member = Some(Text::new(&shared.name_of(leader)));
            self.told = text;
            shared.log(line);
        }
    }
}

/// Who leads a group according to the facts of its voters: the newest term in which a living voter
/// names a living node. What a dead one said last would name a leader that leads no longer, and what
/// is said of a lineage that was replaced counts no more.
pub(crate) fn leader_by_facts(shared: &Shared, group: &GroupName) -> Option<NodeId> {
    let lives = |node: NodeId| {
        node == shared.me
            || shared.ring.member(node).is_some_and(|member| member.state.is_reachable())
    };
    let of_today = |fact: &LedgerFact| {
        shared.directory.ledgers(group).all(|(_, other)| !other.replaces.contains(&fact.lineage))
    };
    shared
        .directory
        .ledgers(group)
        .filter(|(voter, fact)| lives(*voter) && of_today(fact))
        .filter_map(|(_, fact)| Some((fact.term, fact.leader?)))
        .filter(|(_, leader)| lives(*leader))
        .max()
        .map(|(_, leader)| leader)
}

fn liveness(state: MemberState) -> Liveness {
    match state {
        MemberState::Alive => Liveness::Alive,
        MemberState::Suspect => Liveness::Suspect,
        MemberState::Restarting => Liveness::Restarting,
        MemberState::Dead => Liveness::Dead,
        MemberState::Left => Liveness::Left,
    }
}

/// Digest over what all files of a group should agree on.
fn file_digest(settings: &ServiceSettings) -> u64 {
    let agreed = (
        &settings.depot,
        &settings.release,
        &settings.channel,
        settings.strategy,
        &settings.update,
        &settings.rollback,
    );
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    hasher.write(&codec::encode(&agreed).unwrap_or_default());
    hasher.finish()
}

/// FNV-1a, 64 bits: the same on every node and in every version, which the standard library's
/// hasher does not promise. It only has to find files that differ by mistake.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
