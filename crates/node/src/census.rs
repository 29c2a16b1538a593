//! The census: who is in a service's group, for the program itself.

use baton_ring::Ring;
use baton_types::GroupName;
use serde::Serialize;

use crate::directory::Directory;

#[derive(Serialize)]
struct Census<'a> {
    group: String,
    members: Vec<CensusMember<'a>>,
}

#[derive(Serialize)]
struct CensusMember<'a> {
    name: String,
    node: String,
    address: String,
    state: &'a str,
    release: String,
    health: String,
}

/// The census file's content: members that are known to the ring, in the order of their names.
pub(crate) fn census(group: &GroupName, ring: &Ring, directory: &Directory) -> String {
    let mut members: Vec<CensusMember<'_>> = directory
        .members(group)
        .filter_map(|(node, fact)| {
            let member = ring.member(node)?;
            Some(CensusMember {
                name: member.name.to_string(),
                node: node.to_string(),
                address: member.addr.ip().to_string(),
                state: member.state.as_str(),
                release: fact.running.as_ref().map(ToString::to_string).unwrap_or_default(),
                health: fact.health.to_string(),
            })
        })
        .collect();
    members.sort_by(|a, b| (&a.name, &a.node).cmp(&(&b.name, &b.node)));
    // Strings alone cannot fail to be written as JSON.
    serde_json::to_string_pretty(&Census { group: group.to_string(), members }).unwrap_or_default()
}
