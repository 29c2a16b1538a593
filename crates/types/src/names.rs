//! Names that become file names, journal fields and columns on a terminal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::NAME_MAX_BYTES;

/// Why a text is no name. No state changed; the giver of the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error(
        "a name is empty: 1 to {NAME_MAX_BYTES} characters of a-z, A-Z, 0-9, '-', '_' are allowed"
    )]
    Empty,
    /// Longer than [`NAME_MAX_BYTES`].
    #[error("the name {start:?}… has {length} bytes: at most {NAME_MAX_BYTES} are allowed")]
    TooLong {
        /// Its first characters.
        start: String,
        /// Its length in bytes.
        length: usize,
    },
    /// A character that is not allowed, or not allowed there.
    #[error("the name {name:?} has {found:?} at position {at}: {allowed}")]
    Character {
        /// The whole name, escaped when shown.
        name: String,
        /// The first offending character.
        found: char,
        /// Its position, counted from 1 in characters.
        at: usize,
        /// What is allowed there.
        allowed: &'static str,
    },
    /// A group name without its dot.
    #[error("{0:?} is not a group: expected SERVICE.GROUP, for example redis.default")]
    NoDot(String),
}

fn check(text: &str, extra: &str, allowed: &'static str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_MAX_BYTES {
        let start = text.chars().take(16).collect();
        return Err(NameError::TooLong { start, length: text.len() });
    }
    for (at, found) in text.chars().enumerate() {
        let first = at == 0;
        let fits = found.is_ascii_alphanumeric()
            || (!first && (found == '-' || found == '_' || extra.contains(found)));
        if !fits {
            return Err(NameError::Character { name: text.to_owned(), found, at: at + 1, allowed });
        }
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $extra:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text`; see [`NameError`] for what is refused.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                check(&text, $extra, $allowed)?;
                Ok(Self(text))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a service, of a group within its service, of a release or of a channel. No dot:
    /// `service.group` and `name/version` must split in one way only.
    Name, "", "a letter or digit first, then a-z, A-Z, 0-9, '-', '_' are allowed"
);
name!(
    /// The name of a node: by default its host name, so dots are allowed.
    NodeName, ".", "a letter or digit first, then a-z, A-Z, 0-9, '-', '_', '.' are allowed"
);

/// A group: the members that run the same service together, written `redis.default`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupName {
    /// The service's name.
    pub service: Name,
    /// The group's name within the service.
    pub group: Name,
}

impl TryFrom<String> for GroupName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<GroupName> for String {
    fn from(name: GroupName) -> Self {
        name.to_string()
    }
}

impl FromStr for GroupName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let Some((service, group)) = text.split_once('.') else {
            return Err(NameError::NoDot(text.chars().take(2 * NAME_MAX_BYTES).collect()));
        };
        Ok(Self { service: Name::new(service)?, group: Name::new(group)? })
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.service, self.group))
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.service, self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_within_bounds_pass_and_others_say_why() {
        for good in ["a", "redis", "Redis-7_x", &"a".repeat(NAME_MAX_BYTES)] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "a/b", "a.b", "a b", "ä", "a\0", "a\n", "../x", "a\u{1b}[1m"] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
        assert!(Name::new("a".repeat(NAME_MAX_BYTES + 1)).is_err());
        assert!(NodeName::new("n1.example.com").is_ok());
        assert!(NodeName::new(".n1").is_err());
        let message = Name::new("a/b").map_err(|e| e.to_string());
        assert_eq!(
            message,
            Err("the name \"a/b\" has '/' at position 2: a letter or digit first, then a-z, A-Z, \
                 0-9, '-', '_' are allowed"
                .to_owned())
        );
    }

    #[test]
    fn a_group_is_service_dot_group() {
        let group: GroupName = "redis.default".parse().expect("a group");
        assert_eq!(group.to_string(), "redis.default");
        for bad in ["redis", "redis.", ".default", "a.b.c", ""] {
            assert!(bad.parse::<GroupName>().is_err(), "{bad}");
        }
    }
}
