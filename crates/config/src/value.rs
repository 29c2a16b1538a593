//! One value: what was found becomes what was wanted, or a message that says both.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use baton_types::duration::{DurationError, parse_duration};
use baton_types::{Limit, exact_duration};
use toml::de::DeValue;

use crate::limits::{DURATION_MAX, HOST_NAME_MAX_BYTES, PATH_MAX_BYTES};

/// A string.
pub(crate) fn string<'v>(value: &'v DeValue<'_>, wanted: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| mismatch(value, wanted))
}

/// `true` or `false`.
pub(crate) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| mismatch(value, "true or false"))
}

/// A whole number within `allowed`.
pub(crate) fn integer<T>(value: &DeValue<'_>, allowed: &RangeInclusive<T>) -> Result<T, String>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    let wanted = || format!("a whole number from {} to {}", allowed.start(), allowed.end());
    let DeValue::Integer(digits) = value else {
        return Err(mismatch(value, &wanted()));
    };
    i64::from_str_radix(digits.as_str(), digits.radix())
        .ok()
        .and_then(|number| T::try_from(number).ok())
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| mismatch(value, &wanted()))
}

/// A duration from `min` to [`DURATION_MAX`].
pub(crate) fn duration(value: &DeValue<'_>, min: Duration) -> Result<Duration, String> {
    let wanted = || format!("a duration from \"{}\" to \"720h\" (30 days)", exact_duration(min));
    let text = string(value, &wanted())?;
    match parse_duration(text) {
        Ok(found) if found >= min && found <= DURATION_MAX => Ok(found),
        Ok(_) | Err(DurationError::TooLong(_)) => Err(mismatch(value, &wanted())),
        Err(_) => {
            Err(mismatch(value, "a whole number with a unit (ms, s, m, h), for example \"30s\","))
        }
    }
}

/// A number of members, or a share of them.
pub(crate) fn limit(value: &DeValue<'_>) -> Result<Limit, String> {
    let wanted = "a number from 0 up or a share from \"0%\" to \"100%\"";
    let parsed = match value {
        DeValue::Integer(_) => integer(value, &(0..=u32::MAX)).ok().map(Limit::Count),
        DeValue::String(text) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| mismatch(value, wanted))
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(value: &DeValue<'_>, all: &[(T, &str)]) -> Result<T, String> {
    let found = value.as_str().and_then(|word| all.iter().find(|(_, known)| *known == word));
    found.map(|(choice, _)| *choice).ok_or_else(|| {
        let words: Vec<String> = all.iter().map(|(_, word)| format!("{word:?}")).collect();
        mismatch(value, &words.join(" or "))
    })
}

/// An absolute path of at most `max_bytes`.
pub(crate) fn path(value: &DeValue<'_>, max_bytes: usize) -> Result<PathBuf, String> {
    let wanted = format!("an absolute path of at most {max_bytes} bytes");
    let text = string(value, &wanted)?;
    if !text.starts_with('/') || text.len() > max_bytes || text.contains(char::is_control) {
        return Err(mismatch(value, &wanted));
    }
    Ok(PathBuf::from(text))
}

/// An IP address with its port.
pub(crate) fn socket_addr(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let wanted = "an IP address and a port such as \"10.0.0.1:7117\" or \"[fd00::1]:7117\"";
    string(value, wanted)?.parse().map_err(|_| mismatch(value, wanted))
}

/// `host:port`, where the host is a name or an IP address; port 0 reaches nobody.
pub(crate) fn host_port(value: &DeValue<'_>) -> Result<String, String> {
    let wanted = "an address such as \"10.0.0.2:7117\", \"[fd00::2]:7117\" or \"n2.example:7117\"";
    let text = string(value, wanted)?;
    let valid = match text.parse::<SocketAddr>() {
        Ok(addr) => addr.port() != 0 && !addr.ip().is_unspecified(),
        Err(_) => text.rsplit_once(':').is_some_and(|(host, port)| {
            is_host_name(host)
                && port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|port| port != 0)
        }),
    };
    if valid { Ok(text.to_owned()) } else { Err(mismatch(value, wanted)) }
}

/// Where a depot is.
pub(crate) fn depot(value: &DeValue<'_>) -> Result<String, String> {
    let wanted = "\"file:///absolute/path\" or \"https://host/path\"";
    let text = string(value, wanted)?;
    let plain =
        text.len() <= PATH_MAX_BYTES && !text.contains(|c: char| c.is_control() || c == ' ');
    let valid = if let Some(path) = text.strip_prefix("file://") {
        path.starts_with('/')
    } else if let Some(rest) = text.strip_prefix("https://") {
        rest.split('/').next().is_some_and(|host| !host.is_empty())
    } else {
        false
    };
    if plain && valid { Ok(text.to_owned()) } else { Err(mismatch(value, wanted)) }
}

/// "found …; … is allowed".
pub(crate) fn mismatch(value: &DeValue<'_>, wanted: &str) -> String {
    format!("found {}; {wanted} is allowed", describe(value))
}

/// The value in a few words.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", shorten(text)),
        DeValue::Integer(number) => shorten(&number.to_string()),
        DeValue::Float(number) => shorten(&number.to_string()),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// `text` without control characters and not longer than a fault can show.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String =
        text.chars().take(SHOWN_MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX_CHARS).is_some() {
        short.push('…');
    }
    short
}

fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    // A last label of digits only is an IPv4 address written wrongly (RFC 3696, section 2).
    let numeric = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    host.len() <= HOST_NAME_MAX_BYTES
        && host.split('.').all(label)
        && !host.rsplit('.').next().is_some_and(numeric)
}

/// Enough to recognise a wrong value, however long it is.
const SHOWN_MAX_CHARS: usize = 40;
