//! The lists that the control API shows of the whole ring.

use baton_ring::Member;
use baton_types::status::{RingMemberStatus, ServiceStatus};
use baton_types::{NodeId, Now};
use baton_wire::ring::MemberState;

use super::Node;
use crate::peers::apart;

impl Node {
    pub(super) fn known_groups(&self) -> Vec<String> {
        let mut groups: Vec<String> =
            self.shared.directory.groups().map(ToString::to_string).collect();
        groups.extend(self.groups.keys().map(ToString::to_string));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    pub(super) fn ring_members(&self, now: Now) -> Vec<RingMemberStatus> {
        let ring = &self.shared.ring;
        let mut members: Vec<RingMemberStatus> = ring
            .members()
            .map(|member| RingMemberStatus {
                name: member.name.to_string(),
                node: member.node.to_string(),
                addr: member.addr.to_string(),
                state: member.state.to_string(),
                incarnation: member.incarnation.0,
                version: member.version.to_string(),
                protocol: member.versions.to_string(),
                groups: self
                    .shared
                    .directory
                    .groups_of(member.node)
                    .map(ToString::to_string)
                    .collect(),
                me: member.node == self.shared.me,
                since_seconds: member.age(now.moment).as_secs(),
                note: self.note_on(member),
            })
            .collect();
        members.extend(ring.missing().map(|record| RingMemberStatus {
            name: record.name.to_string(),
            node: record.node.to_string(),
            addr: record.addr.to_string(),
            state: MemberState::Dead.to_string(),
            incarnation: record.incarnation.0,
            version: record.version.to_string(),
            protocol: record.versions.to_string(),
            groups: self.groups_remembered(record.node),
            me: false,
            since_seconds: 0,
            note: "not heard of since this node started".to_owned(),
        }));
        members.sort_by(|a, b| (&a.name, &a.node).cmp(&(&b.name, &b.node)));
        members
    }

    /// What whoever looks at the members should know of one.
    fn note_on(&self, member: &Member) -> String {
        let (ring, ours) = (&self.shared.ring, self.shared.peers.ours());
        if ours.overlap(member.versions).is_none() {
            return format!("speaks {}", apart(member.versions, ours));
        }
        match ring.members().filter(|other| other.name == member.name).count() {
            0 | 1 => String::new(),
            _ => "another member has the same name".to_owned(),
        }
    }

    /// The groups of this node in which another one was a member when it was last heard of.
    fn groups_remembered(&self, node: NodeId) -> Vec<String> {
        let of = self.groups.values().filter(|group| group.remembers(node));
        of.map(|group| group.name.to_string()).collect()
    }

    pub(super) fn services(&self) -> Vec<ServiceStatus> {
        let mut services = Vec::new();
        for group in self.shared.directory.groups() {
            for (node, fact) in self.shared.directory.members(group) {
                services.push(ServiceStatus {
                    group: group.to_string(),
                    name: self.shared.name_of(node),
                    node: node.to_string(),
                    release: fact
                        .running
                        .as_ref()
                        .map(|target| target.release.to_string())
                        .unwrap_or_default(),
                    desired: fact.desired.to_string(),
                    process: fact.process.to_string(),
                    pid: fact.pid,
                    health: fact.health.to_string(),
                    health_text: fact.health_text.to_string(),
                    restarts: fact.restarts,
                    phase: fact.phase.to_string(),
                    pending_edit: fact.pending_edit,
                    ring: self.ring_state(node),
                    cordoned: self.groups.get(group).is_some_and(|group| group.is_cordoned(node)),
                });
            }
        }
        services.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
        services
    }

    /// What the ring says of a node, in one word.
    fn ring_state(&self, node: NodeId) -> String {
        if node == self.shared.me {
            return if self.has_left { MemberState::Left } else { MemberState::Alive }.to_string();
        }
        self.shared.ring.member(node).map(|member| member.state.to_string()).unwrap_or_default()
    }

    pub(super) fn summary_line(&self, now: Now) -> String {
        let alive = self.shared.ring.members().filter(|member| member.state.is_reachable()).count();
        let all = self.shared.ring.members().count() + self.shared.ring.missing().count();
        let mut parts = vec![match self.shared.ring.is_joined() || !self.has_seeds {
            true => format!("{alive} of {all} members alive"),
            false => "looking for the ring".to_owned(),
        }];
        if self.shared.is_booting {
            parts.push("no turns before the boot of this machine is complete".to_owned());
        }
        parts.extend(self.groups.values().map(|group| group.summary(now, &self.shared)));
        parts.join("; ")
    }
}
