//! Text from a program, hook or operator, made safe to show and to carry.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::TEXT_MAX_BYTES;

/// At most [`TEXT_MAX_BYTES`] bytes of printable text on one line.
///
/// Control characters (ANSI sequences, newlines, NUL) become spaces or vanish, so that nothing a
/// program prints can forge a journal line or move an operator's cursor.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Text(String);

impl Text {
    /// Cleans and cuts `raw`; never fails.
    pub fn new(raw: &str) -> Self {
        let mut text = String::new();
        let mut spaced = true;
        for c in raw.chars() {
            let c = if c.is_whitespace() { ' ' } else { c };
            if c.is_control() || (c == ' ' && spaced) {
                continue;
            }
            if text.len() + c.len_utf8() > TEXT_MAX_BYTES - ELLIPSIS.len_utf8() {
                text.push(ELLIPSIS);
                break;
            }
            spaced = c == ' ';
            text.push(c);
        }
        text.truncate(text.trim_end().len());
        Self(text)
    }

    /// The last non-empty line of `output`, which for a program is usually its reason to die.
    pub fn last_line(output: &str) -> Self {
        output.lines().rev().map(Self::new).find(|line| !line.is_empty()).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Text {
    fn from(raw: String) -> Self {
        Self::new(&raw)
    }
}

impl From<&str> for Text {
    fn from(raw: &str) -> Self {
        Self::new(raw)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const ELLIPSIS: char = '…';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_pass() {
        let check = |raw: &str, want: &str| assert_eq!(Text::new(raw).as_str(), want, "{raw:?}");
        check("plain", "plain");
        check("  two\n\nlines\t", "two lines");
        check("\u{1b}[31mred\u{0}", "[31mred");
        check("\n\n", "");
    }

    #[test]
    fn long_text_is_cut_within_the_limit() {
        let text = Text::new(&"ä".repeat(10_000));
        assert!(text.as_str().len() <= TEXT_MAX_BYTES);
        assert!(text.as_str().ends_with(ELLIPSIS));
    }

    #[test]
    fn last_line_skips_empty_ones() {
        assert_eq!(Text::last_line("a\nb: no\n \n").as_str(), "b: no");
        assert_eq!(Text::last_line("").as_str(), "");
    }
}
