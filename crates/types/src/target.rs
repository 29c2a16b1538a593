//! Releases and targets: what members run and what a rollout moves them to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex;
use crate::limits::VERSION_MAX_BYTES;
use crate::names::{Name, NameError};

/// A SHA-256 digest; the identity of a release's archive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text).map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0[..4]))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::from_hex(&text).ok_or_else(|| {
                serde::de::Error::custom("a SHA-256 digest is 64 hexadecimal digits")
            })
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// Why a text is no version or no `name/version`. No state changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Empty, too long or with a character that is not allowed.
    #[error(
        "{0:?} is not a version: 1 to {VERSION_MAX_BYTES} characters, a letter or digit first, \
         then a-z, A-Z, 0-9, '.', '-', '_', '+', '~'"
    )]
    Version(String),
    /// No slash between name and version.
    #[error("{0:?} is not a release: expected NAME/VERSION, for example redis/7.0.15")]
    NoSlash(String),
    /// The part before the slash is no name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A release's version, as its maker wrote it. Never compared for order: the channel has the order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(String);

impl Version {
    /// Checks `text`; see [`VersionError::Version`].
    pub fn new(text: impl Into<String>) -> Result<Self, VersionError> {
        let text = text.into();
        let first_fits = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let rest_fits = text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+~".contains(c));
        if first_fits && rest_fits && text.len() <= VERSION_MAX_BYTES {
            Ok(Self(text))
        } else {
            Err(VersionError::Version(text.chars().take(VERSION_MAX_BYTES).collect()))
        }
    }

    /// The version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        Self::new(text)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.0
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::new(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name and version of a release, written `redis/7.0.15`. For people: equality of releases is by
/// digest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReleaseId {
    /// The release's name in its depot.
    pub name: Name,
    /// Its version.
    pub version: Version,
}

impl TryFrom<String> for ReleaseId {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<ReleaseId> for String {
    fn from(id: ReleaseId) -> Self {
        id.to_string()
    }
}

impl FromStr for ReleaseId {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let Some((name, version)) = text.split_once('/') else {
            return Err(VersionError::NoSlash(text.chars().take(128).collect()));
        };
        Ok(Self { name: Name::new(name)?, version: Version::new(version)? })
    }
}

impl fmt::Display for ReleaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.name, self.version))
    }
}

impl fmt::Debug for ReleaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// A release: what people call it and what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Release {
    /// Its name and version.
    pub id: ReleaseId,
    /// SHA-256 of its archive.
    pub digest: Digest,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id, f)
    }
}

/// A configuration revision of a group: the ledger gives the number at commit, the digest decides
/// equality. Number 0 and no digest: none was ever applied.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ConfigRevision {
    /// 0 = none, then rising within the group.
    pub number: u32,
    /// SHA-256 of the revision.
    pub digest: Option<Digest>,
}

/// What a rollout moves members to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The release.
    pub release: Release,
    /// The configuration revision.
    pub config: ConfigRevision,
}

impl Target {
    /// A target without configuration revision.
    pub fn of(release: Release) -> Self {
        Self { release, config: ConfigRevision::default() }
    }

    /// One digest for release and revision together, so that messages and rejections that name a
    /// target by it tell apart what differs in one of the two. Without a revision it is the
    /// release's own.
    pub fn key(&self) -> Digest {
        // Digests of what is signed: nobody can choose two pairs that fall together.
        let mut key = self.release.digest.0;
        if let Some(Digest(config)) = self.config.digest {
            key.iter_mut().zip(config).for_each(|(byte, other)| *byte ^= other);
        }
        Digest(key)
    }

    /// The digests of what a member needs for it: the release's, and the revision's if there is one.
    pub fn digests(&self) -> impl Iterator<Item = Digest> {
        std::iter::once(self.release.digest).chain(self.config.digest)
    }

    /// Whether both bring a member to the same state: equal digests, whatever they are called.
    pub fn same_as(&self, other: &Self) -> bool {
        self.release.digest == other.release.digest && self.config.digest == other.config.digest
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config.number {
            0 => self.release.fmt(f),
            number => write!(f, "{} config {number}", self.release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_id_is_name_slash_version() {
        let id: ReleaseId = "redis/7.0.15".parse().expect("a release");
        assert_eq!(id.to_string(), "redis/7.0.15");
        for bad in ["redis", "redis/", "/1", "redis/../1", "redis/1/2", "redis/ 1", "redis/-1"] {
            assert!(bad.parse::<ReleaseId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_are_compared_by_digest() {
        let target = |version: &str, digest| {
            let id = format!("redis/{version}").parse().expect("a release");
            Target::of(Release { id, digest: Digest([digest; 32]) })
        };
        assert!(target("1", 1).same_as(&target("2", 1)));
        assert!(!target("1", 1).same_as(&target("1", 2)));
        let mut with = target("1", 1);
        assert_eq!(with.key(), with.release.digest);
        with.config = ConfigRevision { number: 1, digest: Some(Digest([4; 32])) };
        assert!(!with.same_as(&target("1", 1)));
        assert_eq!(with.key(), Digest([5; 32]));
    }
}
