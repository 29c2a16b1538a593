//! Durations as people write them: an integer and a unit, `500ms`, `30s`, `5m`, `1h`.
//!
//! Invariant: one spelling, one meaning. No fractions, no sums, no bare numbers, so that a reader
//! of a file never has to guess a unit.

use std::time::Duration;

/// Why a text is no duration. No state changed; the giver of the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing there.
    #[error("a duration is empty: expected {EXPECTED}")]
    Empty,
    /// Does not begin with a digit: a sign, a fraction without its zero, a word.
    #[error("{0:?} is not a duration: expected {EXPECTED}")]
    NoNumber(String),
    /// A number and nothing after it.
    #[error("the duration {0:?} has no unit: expected {EXPECTED}")]
    NoUnit(String),
    /// A number and something that is no unit.
    #[error("the duration {found:?} has the unit {unit:?}: expected {EXPECTED}")]
    Unit {
        /// The whole text.
        found: String,
        /// What stands after the number.
        unit: String,
    },
    /// Above [`DURATION_MAX`].
    #[error("the duration {0:?} is too long: at most 8760h (a year) are allowed")]
    TooLong(String),
}

/// Reads `500ms`, `30s`, `5m` or `1h`. Zero passes: whether it makes sense is the caller's to say.
///
/// # Errors
///
/// Anything else, and whatever is longer than [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let shown = || text.chars().take(SHOWN_MAX_CHARS).collect::<String>();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::NoNumber(shown()));
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit(shown()));
    }
    let Some((_, unit_millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let unit = unit.chars().take(SHOWN_MAX_CHARS).collect();
        return Err(DurationError::Unit { found: shown(), unit });
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*unit_millis))
        .map(Duration::from_millis)
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| DurationError::TooLong(shown()))
}

/// Writes `duration` for people: the two largest units that say something, `1m 30s`, `4s`,
/// `500ms`, `2h`. What lies below is cut off, never rounded up, so a countdown does not show more
/// than is left.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let shown: Vec<String> = parts[first..]
        .iter()
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

/// A year. A longer wait is a typing error, and sums of durations stay far from overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

const EXPECTED: &str = "a whole number and a unit (ms, s, m, h), for example \"30s\"";

/// Enough of a wrong text to recognise it, however long it is.
const SHOWN_MAX_CHARS: usize = 40;

/// Writes a duration exactly, as a configuration would: the largest unit that divides it, so
/// "90s" and not "1m 30s". For times that somebody has set; times that go by are better read in
/// [`format_duration`].
pub fn exact_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let unit = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
        .into_iter()
        .find(|(_, unit)| millis.is_multiple_of(*unit) && (millis > 0 || *unit == 1_000));
    match unit {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_written_as_it_was_set() {
        for (millis, text) in
            [(0, "0s"), (1_500, "1500ms"), (2_000, "2s"), (90_000, "90s"), (120_000, "2m")]
        {
            assert_eq!(exact_duration(Duration::from_millis(millis)), text);
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn integer_and_unit_pass() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("007s", 7_000),
            ("8760h", 31_536_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_says_what_was_found_and_what_is_allowed() {
        let wanted = "a whole number and a unit (ms, s, m, h), for example \"30s\"";
        for (text, message) in [
            ("", format!("a duration is empty: expected {wanted}")),
            ("-5s", format!("\"-5s\" is not a duration: expected {wanted}")),
            ("+5s", format!("\"+5s\" is not a duration: expected {wanted}")),
            (" 5s", format!("\" 5s\" is not a duration: expected {wanted}")),
            ("soon", format!("\"soon\" is not a duration: expected {wanted}")),
            ("30", format!("the duration \"30\" has no unit: expected {wanted}")),
            ("1.5s", format!("the duration \"1.5s\" has the unit \".5s\": expected {wanted}")),
            ("5 s", format!("the duration \"5 s\" has the unit \" s\": expected {wanted}")),
            ("5S", format!("the duration \"5S\" has the unit \"S\": expected {wanted}")),
            ("1m30s", format!("the duration \"1m30s\" has the unit \"m30s\": expected {wanted}")),
            ("5\n", format!("the duration \"5\\n\" has the unit \"\\n\": expected {wanted}")),
            ("2d", format!("the duration \"2d\" has the unit \"d\": expected {wanted}")),
            (
                "8761h",
                "the duration \"8761h\" is too long: at most 8760h (a year) are allowed".to_owned(),
            ),
            (
                "18446744073709551616ms",
                "the duration \"18446744073709551616ms\" is too long: at most 8760h (a year) are \
                 allowed"
                    .to_owned(),
            ),
        ] {
            assert_eq!(parse_duration(text).map_err(|e| e.to_string()), Err(message), "{text:?}");
        }
        let long = parse_duration(&"9".repeat(1_000_000)).map_err(|e| e.to_string().len() < 200);
        assert_eq!(long, Err(true));
    }

    #[test]
    fn people_see_the_two_largest_units() {
        for (millis, text) in [
            (0, "0ms"),
            (500, "500ms"),
            (999, "999ms"),
            (4_000, "4s"),
            (4_999, "4s"),
            (60_000, "1m"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (5_430_000, "1h 30m"),
            (90_000_000, "1d 1h"),
            (8_640_000_000, "100d"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }
}
