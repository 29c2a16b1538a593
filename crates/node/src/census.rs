//! The census: who is in a service's group, for the program itself.
//!
//! Invariant: after `update` the file's content is what facts and ring say of all members; only what
//! is written of marked ones was looked at, because a group may have a thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::IpAddr;

use baton_ring::Ring;
use baton_types::member::Health;
use baton_types::{GroupName, NodeId, NodeName, Target};
use serde::{Serialize, Serializer};

use crate::directory::Directory;

/// The census of one group as it was last written.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// What the file has of each member, in the order of their names.
    entries: BTreeMap<(NodeName, NodeId), String>,
    names: BTreeMap<NodeId, NodeName>,
    /// Members of whom it may have to say something else.
    marked: BTreeSet<NodeId>,
    is_written: bool,
}

impl Census {
    /// Facts or ring say something new of `node`.
    pub(crate) fn mark(&mut self, node: NodeId) {
        self.marked.insert(node);
    }

    /// Whether the file may have to be written.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_written || !self.marked.is_empty()
    }

    /// How many members it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Follows up what was marked; the file's content, if it is another one now.
    pub(crate) fn update(
        &mut self,
        group: &GroupName,
        ring: &Ring,
        directory: &Directory,
    ) -> Option<String> {
        let mut is_new = !std::mem::replace(&mut self.is_written, true);
        for node in std::mem::take(&mut self.marked) {
            let old = self.names.remove(&node).map(|name| (name, node));
            let old = old.and_then(|key| self.entries.remove_entry(&key));
            let new = entry(node, group, ring, directory);
            is_new |= old != new;
            if let Some((key, text)) = new {
                self.names.insert(node, key.0.clone());
                self.entries.insert(key, text);
            }
        }
        is_new.then(|| self.json(group))
    }

    fn json(&self, group: &GroupName) -> String {
        let length = self.entries.values().map(|text| text.len() + SEPARATOR_BYTES).sum::<usize>();
        let mut json = String::with_capacity(length + HEAD_BYTES);
        // A group's name has no character that JSON would escape.
        json.push_str(&format!("{{\n  \"group\": \"{group}\",\n  \"members\": ["));
        for (at, text) in self.entries.values().enumerate() {
            json.push_str(if at == 0 { "\n    " } else { ",\n    " });
            json.push_str(text);
        }
        json.push_str(if self.entries.is_empty() { "]\n}" } else { "\n  ]\n}" });
        json
    }
}

/// What the file has of a member that the ring knows.
fn entry(
    node: NodeId,
    group: &GroupName,
    ring: &Ring,
    directory: &Directory,
) -> Option<((NodeName, NodeId), String)> {
    let (fact, member) = (directory.member(group, node)?, ring.member(node)?);
    let shown = CensusMember {
        name: &member.name,
        node,
        address: member.addr.ip(),
        state: member.state.as_str(),
        release: fact.running.as_ref(),
        health: fact.health,
    };
    // Strings alone cannot fail to be written as JSON.
    let text = serde_json::to_string_pretty(&shown).unwrap_or_default();
    Some(((member.name.clone(), node), text.replace('\n', "\n    ")))
}

#[derive(Serialize)]
struct CensusMember<'a> {
    #[serde(serialize_with = "shown")]
    name: &'a NodeName,
    #[serde(serialize_with = "shown")]
    node: NodeId,
    #[serde(serialize_with = "shown")]
    address: IpAddr,
    state: &'a str,
    #[serde(serialize_with = "release")]
    release: Option<&'a Target>,
    #[serde(serialize_with = "shown")]
    health: Health,
}

/// As people write it.
fn shown<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn release<S: Serializer>(value: &Option<&Target>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(target) => serializer.collect_str(target),
        None => serializer.serialize_str(""),
    }
}

/// Between two entries.
const SEPARATOR_BYTES: usize = 8;

/// Around the entries: brackets, and the group's name.
const HEAD_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use baton_ring::{Me, SavedRing};
    use baton_types::{BootNonce, Moment, Profile, Text};
    use baton_wire::Versions;

    use super::*;
    use crate::directory::{fact_bytes, service_key};
    use crate::tests::bench::service_fact;

    fn fact(health: Health) -> Option<Vec<u8>> {
        fact_bytes(&service_fact(health))
    }

    #[test]
    fn only_what_was_marked_is_looked_at_and_the_file_is_written_when_it_differs() {
        let group: GroupName = "app.main".parse().expect("a group");
        let key = service_key(&group).expect("a key");
        let me = NodeId::from_random(7);
        let ring = Ring::new(
            Me {
                node: me,
                name: NodeName::new("n1").expect("a name"),
                addr: "10.0.0.1:7117".parse().expect("an address"),
                boot: BootNonce::from_random(1),
                version: Text::default(),
                versions: Versions::OURS,
            },
            Profile::Lan.timing(),
            SavedRing::default(),
            1,
            Moment(0),
        );
        let mut directory = Directory::default();
        let mut census = Census::default();
        let update =
            |census: &mut Census, directory: &Directory| census.update(&group, &ring, directory);
        let head = "{\n  \"group\": \"app.main\",\n  \"members\": [";
        let empty = Some(format!("{head}]\n}}"));
        let with = |health: &str| {
            let lines = [
                "\"name\": \"n1\"",
                "\"node\": \"00000000-0000-4000-8000-000000000007\"",
                "\"address\": \"10.0.0.1\"",
                "\"state\": \"alive\"",
                "\"release\": \"\"",
                &format!("\"health\": \"{health}\""),
            ];
            let lines = lines.join(",\n      ");
            Some(format!("{head}\n    {{\n      {lines}\n    }}\n  ]\n}}"))
        };
        assert!(census.is_due());
        assert_eq!(update(&mut census, &directory), empty);
        assert!(!census.is_due());
        directory.take(me, &key, fact(Health::Ok).as_deref());
        assert_eq!(update(&mut census, &directory), None, "nobody was marked");
        census.mark(me);
        assert!(census.is_due());
        assert_eq!(update(&mut census, &directory), with("ok"));
        census.mark(me);
        assert_eq!(update(&mut census, &directory), None, "it is the same");
        directory.take(me, &key, fact(Health::Critical).as_deref());
        census.mark(me);
        assert_eq!(update(&mut census, &directory), with("critical"));
        directory.take(me, &key, None);
        census.mark(me);
        assert_eq!(update(&mut census, &directory), empty);
        assert_eq!(census.len(), 0);
    }
}
