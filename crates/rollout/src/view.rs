//! What the leader sees of the group through the ring: a hint about who is well, never a
//! permission.

use std::collections::BTreeMap;

use baton_types::member::{Health, Prepared};
use baton_types::service::ServiceSettings;
use baton_types::{Digest, NodeId, NodeName, Target, Text};

/// The group as this node sees it now.
#[derive(Clone, Debug)]
pub struct View {
    /// Why nothing new is offered at all; empty if something is.
    pub held: String,
    /// This node.
    pub me: NodeId,
    /// Everybody whom the ring knows as a member of the group, dead ones included.
    pub members: BTreeMap<NodeId, MemberView>,
    /// What this node's own file says of the service.
    pub settings: ServiceSettings,
}

/// One member as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its name.
    pub name: NodeName,
    /// In the ring.
    pub liveness: Liveness,
    /// After thresholds.
    pub health: Health,
    /// It is not known to be healthy, but may well serve: its daemon has taken the program over and
    /// not checked it yet, or nothing was heard of it since the leader's node started.
    pub may_serve: bool,
    /// The last health output, or why the program is down.
    pub health_text: Text,
    /// What it runs, or ran last; `None` = it never ran a release of this group.
    pub running: Option<Target>,
    /// `baton service stop` was typed there.
    pub stopped_by_operator: bool,
    /// How far its fetch is, and of what.
    pub prepared: Option<(Digest, Prepared)>,
    /// The turn in which it is, in its own words; empty outside a turn.
    pub phase: Text,
    /// Place in a rollout's order: lower first.
    pub order: i32,
    /// Value of the group's zone label there; `None`: it has no such label.
    pub zone: Option<Text>,
    /// Whether it was heard of since the leader's node started; else its zone and much more are not
    /// known.
    pub heard: bool,
    /// It is in a turn of another group.
    pub in_turn_elsewhere: bool,
    /// Digest over what its file says of strategy, policy, channel and depot.
    pub file_digest: u64,
}

/// A member in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// Answers.
    Alive,
    /// Did not answer lately.
    Suspect,
    /// Said goodbye and is expected back.
    Restarting,
    /// Gone.
    Dead,
    /// Left for good.
    Left,
}

impl Liveness {
    /// The word in status answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Restarting => "restarting",
            Self::Dead => "dead",
            Self::Left => "left",
        }
    }

    /// Whether nobody waits for it.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Left)
    }
}

impl MemberView {
    /// Whether it serves: the measure of the budget.
    pub fn is_healthy(&self) -> bool {
        self.liveness == Liveness::Alive && self.health.is_healthy() && !self.stopped_by_operator
    }

    /// Whether a turn may take away something: not from one that is known to be ill.
    pub fn can_lose(&self) -> bool {
        self.ever_ran() && (self.is_healthy() || self.may_serve)
    }

    /// Whether it ever ran a release of this group.
    pub fn ever_ran(&self) -> bool {
        self.running.is_some()
    }

    /// Why it is not healthy, in words that follow its name: "is critical: exec exited 2".
    pub fn complaint(&self) -> String {
        if self.liveness != Liveness::Alive {
            return format!("is {}", self.liveness.word());
        }
        if self.stopped_by_operator {
            return "was stopped by its operator".to_owned();
        }
        match self.health_text.as_str() {
            "" => format!("is {}", self.health),
            text => format!("is {}: {text}", self.health),
        }
    }
}

impl View {
    /// The name of `node`, or its id for one that the ring no longer knows.
    pub fn name(&self, node: NodeId) -> String {
        match self.members.get(&node) {
            Some(member) => member.name.to_string(),
            None => node.to_string(),
        }
    }

    /// The group's name, as commands take it.
    pub fn group(&self) -> String {
        self.settings.name.to_string()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use baton_types::manifest::HealthTiming;
    use baton_types::policy::{Policy, Strategy};
    use baton_types::service::Runner;
    use baton_types::{Name, Release};
    use std::time::Duration;

    pub(crate) fn target(version: u8) -> Target {
        let id = format!("redis/{version}").parse().expect("a release");
        Target::of(Release { id, digest: Digest([version; 32]) })
    }

    pub(crate) fn member(name: &str) -> MemberView {
        MemberView {
            name: NodeName::new(name).expect("a name"),
            liveness: Liveness::Alive,
            health: Health::Ok,
            health_text: Text::default(),
            running: Some(target(1)),
            stopped_by_operator: false,
            prepared: None,
            phase: Text::default(),
            order: 0,
            zone: None,
            heard: true,
            may_serve: false,
            in_turn_elsewhere: false,
            file_digest: 0,
        }
    }

    /// A healthy group on r1, seen by `me`.
    pub(crate) fn view(names: &[&str], me: &str) -> View {
        let policy = Policy::default();
        View {
            held: String::new(),
            me: node(me),
            members: names.iter().map(|name| (node(name), member(name))).collect(),
            settings: ServiceSettings {
                name: "redis.default".parse().expect("a group"),
                depot: "file:///srv/depot".to_owned(),
                release: Name::new("redis").expect("a name"),
                channel: Name::new("stable").expect("a name"),
                poll: Duration::from_secs(10),
                trusted_keys: Vec::new(),
                strategy: Strategy::Rolling,
                runner: Runner::Process,
                expect: 1,
                run_as: None,
                keep_releases: 3,
                env: BTreeMap::new(),
                health: HealthTiming::default(),
                update: policy.clone(),
                rollback: policy,
                order: 0,
            },
        }
    }

    /// The node of the member called `name`.
    pub(crate) fn node(name: &str) -> NodeId {
        NodeId::from_random(name.bytes().fold(0, |id, byte| id << 8 | u128::from(byte)))
    }

    #[test]
    fn a_complaint_says_what_is_wrong() {
        let with = |change: fn(&mut MemberView)| {
            let mut view = member("n1");
            change(&mut view);
            (view.is_healthy(), view.complaint())
        };
        assert!(with(|_| ()).0);
        assert!(with(|m| m.health = Health::Warning).0);
        for (change, want) in [
            ((|m| m.liveness = Liveness::Dead) as fn(&mut MemberView), "is dead"),
            (|m| m.liveness = Liveness::Suspect, "is suspect"),
            (|m| m.stopped_by_operator = true, "was stopped by its operator"),
            (|m| m.health = Health::Unknown, "is unknown"),
            (
                |m| {
                    m.health = Health::Critical;
                    m.health_text = Text::new("exec exited 2: refused");
                },
                "is critical: exec exited 2: refused",
            ),
        ] {
            assert_eq!(with(change), (false, want.to_owned()));
        }
    }
}
