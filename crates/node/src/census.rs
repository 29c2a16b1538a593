//! The census: who is in a service's group, for the program itself.

use std::fmt::Display;
use std::net::IpAddr;

use baton_ring::Ring;
use baton_types::member::Health;
use baton_types::{GroupName, NodeId, NodeName, Target};
use serde::{Serialize, Serializer};

use crate::directory::Directory;

#[derive(Serialize)]
struct Census<'a> {
    group: String,
    members: Vec<CensusMember<'a>>,
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

/// As people write it. A group may have a thousand members: nothing is copied on the way.
fn shown<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn release<S: Serializer>(value: &Option<&Target>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(target) => serializer.collect_str(target),
        None => serializer.serialize_str(""),
    }
}

/// The census file's content: members that are known to the ring, in the order of their names.
pub(crate) fn census(group: &GroupName, ring: &Ring, directory: &Directory) -> String {
    let mut members: Vec<CensusMember<'_>> = directory
        .members(group)
        .filter_map(|(node, fact)| {
            let member = ring.member(node)?;
            Some(CensusMember {
                name: &member.name,
                node,
                address: member.addr.ip(),
                state: member.state.as_str(),
                release: fact.running.as_ref(),
                health: fact.health,
            })
        })
        .collect();
    members.sort_by(|a, b| (a.name, a.node).cmp(&(b.name, b.node)));
    // Strings alone cannot fail to be written as JSON.
    serde_json::to_string_pretty(&Census { group: group.to_string(), members }).unwrap_or_default()
}
