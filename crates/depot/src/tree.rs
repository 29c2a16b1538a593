//! The paths of one release, checked before anything is made of them.
//!
//! Invariant: every entry lies in a folder that was added before it, no path is there twice, and no
//! link leads out. It knows no file system: what holds here holds wherever the release is unpacked.

use std::collections::BTreeMap;

use crate::archive_fault::ArchiveFault;
use crate::limits::{ArchiveLimits, COMPONENT_MAX_BYTES, LINK_HOPS_MAX};

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A folder.
    Folder,
    /// A file, or a hard link to one.
    File,
    /// A symbolic link and where it points.
    Link(String),
}

/// All paths so far.
#[derive(Debug)]
pub(crate) struct Tree {
    limits: ArchiveLimits,
    nodes: BTreeMap<String, Node>,
    names_bytes: usize,
}

impl Tree {
    pub(crate) fn new(limits: ArchiveLimits) -> Self {
        Self { limits, nodes: BTreeMap::new(), names_bytes: 0 }
    }

    /// Adds one entry; `path` is relative to the release's root, without a slash at its end.
    pub(crate) fn add(&mut self, path: &str, node: Node) -> Result<(), ArchiveFault> {
        self.check_path(path)?;
        if self.nodes.contains_key(path) {
            return Err(ArchiveFault::Duplicate(path.to_owned()));
        }
        self.check_parent(path)?;
        let mut bytes = path.len();
        if let Node::Link(target) = &node {
            self.check_link(path, target)?;
            bytes += target.len();
        }
        if self.nodes.len() >= self.limits.entries_max {
            return Err(too_much("entries", self.limits.entries_max));
        }
        self.names_bytes += bytes;
        if self.names_bytes > self.limits.names_max_bytes {
            return Err(too_much("bytes of names", self.limits.names_max_bytes));
        }
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    /// Adds a hard link, whose target must be a file added before.
    pub(crate) fn add_hard_link(&mut self, path: &str, target: &str) -> Result<(), ArchiveFault> {
        match self.nodes.get(target) {
            Some(Node::File) => self.add(path, Node::File),
            _ => Err(ArchiveFault::Link {
                path: shorten(path),
                target: shorten(target),
                reason: "is not a file listed before",
            }),
        }
    }

    /// With all entries there: every link is followed, through other links too, and must end at
    /// something within the release. Without this a link to a link with `..` behind it leads out
    /// although each of the two looks harmless.
    pub(crate) fn check_links(&self) -> Result<(), ArchiveFault> {
        for (path, node) in &self.nodes {
            let Node::Link(target) = node else { continue };
            self.resolve(path).map_err(|reason| ArchiveFault::Link {
                path: path.clone(),
                target: target.clone(),
                reason,
            })?;
        }
        Ok(())
    }

    /// What `path` is after all links are followed, and where.
    pub(crate) fn resolve(&self, path: &str) -> Result<(String, &Node), &'static str> {
        let mut rest: Vec<&str> = path.rsplit('/').collect();
        let mut at: Vec<&str> = Vec::new();
        let mut hops = 0;
        while let Some(part) = rest.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    at.pop().ok_or(LEADS_OUT)?;
                    continue;
                }
                part => at.push(part),
            }
            match self.nodes.get(&at.join("/")) {
                None => return Err("is not in the release"),
                Some(Node::Folder) => {}
                Some(Node::File) if rest.is_empty() => {}
                Some(Node::File) => return Err("is not in the release"),
                Some(Node::Link(target)) => {
                    hops += 1;
                    if hops > LINK_HOPS_MAX {
                        return Err("goes round in a circle of links");
                    }
                    at.pop();
                    rest.extend(target.rsplit('/'));
                }
            }
        }
        let path = at.join("/");
        match self.nodes.get(&path) {
            Some(node) => Ok((path, node)),
            None => Ok((path, &Node::Folder)),
        }
    }

    /// Every folder, those within others first: the order in which they are synced.
    pub(crate) fn folders_inner_first(&self) -> impl Iterator<Item = &str> {
        let folders = self.nodes.iter().rev().filter(|(_, node)| **node == Node::Folder);
        folders.map(|(path, _)| path.as_str())
    }

    /// Every file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let files = self.nodes.iter().filter(|(_, node)| **node == Node::File);
        files.map(|(path, _)| path.as_str())
    }

    fn check_path(&self, path: &str) -> Result<(), ArchiveFault> {
        let fault = |reason: String| Err(ArchiveFault::Path { path: shorten(path), reason });
        if path.is_empty() {
            return fault("is empty: expected a path from the release's root".to_owned());
        }
        if path.len() > self.limits.path_max_bytes {
            let (found, allowed) = (path.len(), self.limits.path_max_bytes);
            return fault(format!("has {found} bytes: at most {allowed} are allowed"));
        }
        if path.starts_with('/') {
            return fault("is absolute: only paths from the release's root are allowed".to_owned());
        }
        if let Some(c) = path.chars().find(|c| c.is_control()) {
            return fault(format!("has the control character {c:?}, which is not allowed"));
        }
        let mut depth = 0;
        for part in path.split('/') {
            depth += 1;
            match part {
                ".." => return fault("has \"..\": it must not lead up".to_owned()),
                "" | "." => return fault(format!("has the part {part:?}, which is not allowed")),
                _ if part.len() > COMPONENT_MAX_BYTES => {
                    return fault(format!(
                        "has a part of {} bytes: at most {COMPONENT_MAX_BYTES} are allowed",
                        part.len()
                    ));
                }
                _ => {}
            }
        }
        if depth > self.limits.depth_max {
            let allowed = self.limits.depth_max;
            return fault(format!("is {depth} levels deep: at most {allowed} are allowed"));
        }
        Ok(())
    }

    fn check_parent(&self, path: &str) -> Result<(), ArchiveFault> {
        let Some((parent, _)) = path.rsplit_once('/') else { return Ok(()) };
        let found = match self.nodes.get(parent) {
            Some(Node::Folder) => return Ok(()),
            Some(Node::File) => "a file",
            Some(Node::Link(_)) => "a link",
            None => "not there",
        };
        Err(ArchiveFault::Parent { path: path.to_owned(), parent: parent.to_owned(), found })
    }

    /// What can be said of a link by itself, before anything is made of it.
    fn check_link(&self, path: &str, target: &str) -> Result<(), ArchiveFault> {
        let fault = |reason| {
            Err(ArchiveFault::Link { path: shorten(path), target: shorten(target), reason })
        };
        if target.is_empty() {
            return fault("is empty");
        }
        if target.len() > self.limits.path_max_bytes {
            return fault("is too long");
        }
        if target.starts_with('/') {
            return fault("is absolute: it must be relative and stay inside the release");
        }
        if target.chars().any(char::is_control) {
            return fault("has a control character");
        }
        let mut depth = path.split('/').count() - 1;
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." if depth == 0 => return fault(LEADS_OUT),
                ".." => depth -= 1,
                _ => depth += 1,
            }
        }
        Ok(())
    }
}

/// Enough of a path to recognise it in a message, however long it is.
pub(crate) fn shorten(path: &str) -> String {
    if path.chars().count() <= SHOWN_MAX_CHARS {
        return path.to_owned();
    }
    let mut short: String = path.chars().take(SHOWN_MAX_CHARS).collect();
    short.push('…');
    short
}

fn too_much(what: &'static str, allowed: usize) -> ArchiveFault {
    ArchiveFault::TooMuch { what, allowed: allowed as u64 }
}

const LEADS_OUT: &str = "leads out of the release: it must stay inside";

const SHOWN_MAX_CHARS: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ARCHIVE_LIMITS;

    fn tree(entries: &[(&str, Option<&str>)]) -> Result<Tree, ArchiveFault> {
        let mut tree = Tree::new(ARCHIVE_LIMITS);
        for (path, link) in entries {
            let node = match (link, path.strip_suffix('/')) {
                (Some(target), _) => Node::Link((*target).to_owned()),
                (None, Some(_)) => Node::Folder,
                (None, None) => Node::File,
            };
            tree.add(path.trim_end_matches('/'), node)?;
        }
        tree.check_links()?;
        Ok(tree)
    }

    #[test]
    fn links_that_stay_inside_pass() {
        let tree = tree(&[
            ("a/", None),
            ("a/b/", None),
            ("a/b/file", None),
            ("a/up", Some("../a/b/file")),
            ("a/here", Some(".")),
            ("root", Some("a/..")),
            ("chain", Some("a/here/up")),
        ])
        .expect("inside");
        assert_eq!(tree.resolve("chain"), Ok(("a/b/file".to_owned(), &Node::File)));
        assert_eq!(tree.resolve("root"), Ok((String::new(), &Node::Folder)));
        assert_eq!(tree.folders_inner_first().collect::<Vec<_>>(), ["a/b", "a"]);
    }

    #[test]
    fn links_that_lead_out_only_together_do_not() {
        for (entries, part) in [
            // Each target stays inside when read by itself; followed through the first link the
            // second one is outside.
            (
                &[
                    ("a/", None),
                    ("a/b/", None),
                    ("a/b/up", Some("../..")),
                    ("x", Some("a/b/up/..")),
                    ("y", Some("a/b/up/../etc")),
                ][..],
                "leads out",
            ),
            (&[("x", Some("y")), ("y", Some("x"))][..], "circle"),
            (&[("x", Some("x"))][..], "circle"),
            (&[("x", Some("none"))][..], "is not in the release"),
            (&[("f", None), ("x", Some("f/none"))][..], "is not in the release"),
            (&[("x", Some("/etc/passwd"))][..], "absolute"),
            (&[("x", Some(".."))][..], "leads out"),
            (&[("a/", None), ("a/x", Some("../../etc"))][..], "leads out"),
            (&[("a/", None), ("a/x", Some("../b/../../etc"))][..], "leads out"),
            (&[("x", Some(""))][..], "empty"),
        ] {
            let message = tree(entries).expect_err(part).to_string();
            assert!(message.contains(part), "{entries:?}: {message}");
        }
    }
}
