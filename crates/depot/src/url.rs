//! Where a depot is: `file:///srv/depot` or `https://depot.example/baton`.
//!
//! Invariant: a `DepotUrl` is absolute and of a kind that can be read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The place of a depot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DepotUrl {
    /// A folder of this machine, or one that is mounted.
    File(PathBuf),
    /// A web server; read only. Without the slash at its end.
    Https(String),
}

/// Why a text is no depot URL. No state changed; the giver of the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DepotUrlError {
    /// Neither `file` nor `https`.
    #[error(
        "{0:?} is not a depot: expected file:///ABSOLUTE/PATH or https://HOST/PATH, for example \
         file:///srv/depot"
    )]
    Scheme(String),
    /// A host name, or a relative path, after `file://`.
    #[error("{0:?} has no absolute path: expected three slashes, as in file:///srv/depot")]
    Relative(String),
    /// `..`, a control character, or a percent sign that means something in a URL and nothing in a
    /// path.
    #[error("{0:?} has {1:?} in its path, which is not allowed there")]
    Path(String, String),
    /// `https://` and no host after it.
    #[error("{0:?} has no host: expected https://HOST/PATH")]
    NoHost(String),
    /// A user name or password in the URL would stand in every log.
    #[error("the depot URL has a user name before '@': not allowed, since it is logged and shown")]
    UserInfo,
    /// Longer than 1,024 bytes.
    #[error("a depot URL has {0} bytes: at most {URL_MAX_BYTES} are allowed")]
    TooLong(usize),
}

impl DepotUrl {
    /// The folder of a `file://` depot.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Https(_) => None,
        }
    }
}

impl FromStr for DepotUrl {
    type Err = DepotUrlError;

    fn from_str(text: &str) -> Result<Self, DepotUrlError> {
        if text.len() > URL_MAX_BYTES {
            return Err(DepotUrlError::TooLong(text.len()));
        }
        if let Some(c) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
            return Err(DepotUrlError::Path(text.to_owned(), c.to_string()));
        }
        if let Some(path) = text.strip_prefix("file://") {
            if !path.starts_with('/') || path.trim_matches('/').is_empty() {
                return Err(DepotUrlError::Relative(text.to_owned()));
            }
            check_path(text, path)?;
            return Ok(Self::File(PathBuf::from(path.trim_end_matches('/'))));
        }
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(DepotUrlError::Scheme(text.to_owned()));
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.contains('@') {
            return Err(DepotUrlError::UserInfo);
        }
        if host.is_empty() || host.starts_with(':') {
            return Err(DepotUrlError::NoHost(text.to_owned()));
        }
        check_path(text, host)?;
        check_path(text, path)?;
        Ok(Self::Https(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for DepotUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::Https(url) => f.write_str(url),
        }
    }
}

fn check_path(text: &str, path: &str) -> Result<(), DepotUrlError> {
    let refused = |what: &str| Err(DepotUrlError::Path(text.to_owned(), what.to_owned()));
    if path.split('/').any(|part| part == "..") {
        return refused("..");
    }
    match path.chars().find(|c| "%?#\\".contains(*c)) {
        Some(c) => refused(&c.to_string()),
        None => Ok(()),
    }
}

const URL_MAX_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_urls_pass() {
        for (text, shown) in [
            ("file:///srv/depot", "file:///srv/depot"),
            ("file:///srv/depot/", "file:///srv/depot"),
            ("https://depot.example", "https://depot.example"),
            ("https://depot.example:8443/a/b/", "https://depot.example:8443/a/b"),
        ] {
            let url: DepotUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn others_say_what_is_wrong() {
        for (text, part) in [
            ("", "expected file:///"),
            ("/srv/depot", "expected file:///"),
            ("http://depot.example", "expected file:///"),
            ("ftp://depot.example", "expected file:///"),
            ("file://srv/depot", "three slashes"),
            ("file://", "three slashes"),
            ("file:///", "three slashes"),
            ("file:///srv/../etc", "\"..\""),
            ("file:///srv/a%20b", "\"%\""),
            ("file:///srv/a b", "\" \""),
            ("file:///srv/a\n", "\"\\n\""),
            ("https://", "no host"),
            ("https:///x", "no host"),
            ("https://user:word@host/x", "user name"),
            ("https://host/x?y", "\"?\""),
        ] {
            let message = text.parse::<DepotUrl>().expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!(format!("https://{}", "a".repeat(2_000)).parse::<DepotUrl>().is_err());
    }
}
