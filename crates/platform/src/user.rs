//! Users and groups out of /etc/passwd and /etc/group.
//!
//! Only these two files are read: a service's user must exist before the network does, so name
//! services like LDAP are left out on purpose.

use std::io::{self, Read};
use std::path::Path;

use crate::limits::{USER_FILE_MAX_BYTES, USER_MAX_GROUPS};

/// A user with all that a process needs to become it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its supplementary groups, the primary one included.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: String,
}

/// Why a user could not be found.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No such user.
    #[error("there is no user {0:?} in /etc/passwd")]
    Unknown(String),
    /// A file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// Which file.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// The user called `name`.
pub fn lookup(name: &str) -> Result<User, UserError> {
    let passwd = read(PASSWD)?;
    let group = read(GROUP)?;
    find(name, &passwd, &group).ok_or_else(|| UserError::Unknown(name.to_owned()))
}

/// The id of the group called `name`, if there is one.
pub fn group_id(name: &str) -> Option<u32> {
    let text = read(GROUP).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        fields.nth(1)?.parse().ok()
    })
}

/// The user called `name` in the text of the two files; lines that make no sense are skipped, as
/// the C library does.
pub fn find(name: &str, passwd: &str, group: &str) -> Option<User> {
    if name.is_empty() {
        return None;
    }
    let (uid, gid, home) = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some((uid, gid, fields.nth(1).unwrap_or("/").to_owned()))
    })?;
    let mut groups = vec![gid];
    for line in group.lines() {
        let mut fields = line.split(':');
        let Some(id) = fields.nth(2).and_then(|id| id.parse().ok()) else { continue };
        let listed = fields.next().is_some_and(|users| users.split(',').any(|user| user == name));
        if listed && !groups.contains(&id) && groups.len() < USER_MAX_GROUPS {
            groups.push(id);
        }
    }
    Some(User { name: name.to_owned(), uid, gid, groups, home })
}

fn read(path: &'static str) -> Result<String, UserError> {
    let wrap = |source| UserError::Read { path, source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(Path::new(path)).map_err(wrap)?;
    file.take(USER_FILE_MAX_BYTES).read_to_end(&mut bytes).map_err(wrap)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_user_and_its_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nbad2:x:y:z\nredis:x:101:103::/var/lib/redis:/bin/false\n";
        let group =
            "root:x:0:\nssl:x:110:redis,www\nwww:x:33:wwwredis\nx:x:q:redis\nredis:x:103:redis\n";
        assert_eq!(
            find("redis", passwd, group),
            Some(User {
                name: "redis".into(),
                uid: 101,
                gid: 103,
                groups: vec![103, 110],
                home: "/var/lib/redis".into()
            })
        );
        for nobody in ["", "redi", "bad", "bad2", "redis:x"] {
            assert_eq!(find(nobody, passwd, group), None, "{nobody}");
        }
    }

    #[test]
    fn root_is_known_here_and_a_stranger_is_named() {
        assert_eq!(lookup("root").expect("root").uid, 0);
        let message = lookup("no-such-user").expect_err("unknown").to_string();
        assert_eq!(message, "there is no user \"no-such-user\" in /etc/passwd");
    }
}
