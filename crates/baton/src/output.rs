//! What is printed: lines, tables, JSON, times.
//!
//! Invariant: nothing else writes to stdout, and a reader that goes away (`| head -1`) ends the
//! command in silence. Control characters never reach a terminal: what a program printed cannot
//! move an operator's cursor.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use baton_types::format_duration;
use jiff::Timestamp;

use crate::exit::Failure;

/// Standard output, and standard error for what is not the result.
#[derive(Debug)]
pub(crate) struct Output {
    terminal: bool,
}

impl Output {
    /// This process's own.
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stdout().is_terminal() }
    }

    /// Whether a person looks at it, rather than a program.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{}\n", clean(text)))
    }

    /// Prints several lines.
    pub(crate) fn lines<T: AsRef<str>>(
        &mut self,
        lines: impl IntoIterator<Item = T>,
    ) -> Result<(), Failure> {
        let mut text = String::new();
        for line in lines {
            text.push_str(&clean(line.as_ref()));
            text.push('\n');
        }
        self.write(&text)
    }

    /// Prints JSON as the daemon gave it, indented.
    pub(crate) fn json(&mut self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{}\n", indent_json(text.trim())))
    }

    /// Prints a value of our own as JSON.
    pub(crate) fn json_value(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value)
            .map_err(|cause| Failure::failed(format!("cannot write JSON: {cause}")))?;
        self.json(&text)
    }

    /// Prints text as it is, for completions.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::BrokenPipe {
                Failure::pipe_gone()
            } else {
                Failure::failed(format!("cannot write to standard output: {cause}"))
            }
        })
    }

    /// Says something beside the result, on stderr.
    pub(crate) fn note(&self, text: &str) {
        write_stderr(text);
    }
}

/// Writes lines to stderr. With nobody there to read them, nothing more can be done.
pub(crate) fn write_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    for line in text.lines() {
        writeln!(stderr, "{}", clean(line)).ok();
    }
}

/// A table: a head and rows, columns as wide as their widest cell; columns without any content are
/// left out.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these column names.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    /// The lines, each indented by `indent` spaces.
    pub(crate) fn lines(&self, indent: usize) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(column));
            let empty = cells.clone().skip(1).all(String::is_empty);
            if empty { 0 } else { cells.map(|cell| cell.chars().count()).max().unwrap_or(0) }
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
                line.push_str(&format!("{cell:width$}  "));
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// `text` without control characters.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => cleaned.push(' '),
            c if c.is_control() => {}
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// `4m 10s ago`, from an RFC 3339 time; the text itself if it is no time.
pub(crate) fn ago(text: &str, now: Timestamp) -> String {
    let Ok(then) = text.parse::<Timestamp>() else {
        return text.to_owned();
    };
    match u64::try_from(now.as_second() - then.as_second()) {
        Ok(0) | Err(_) => "just now".to_owned(),
        Ok(seconds) => format!("{} ago", format_duration(Duration::from_secs(seconds))),
    }
}

/// `2026-01-01 10:00:05` in this machine's time zone, from an RFC 3339 time.
pub(crate) fn local_time(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(
        |_| text.to_owned(),
        |at| {
            at.to_zoned_datetime(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}

/// `10:00:01`, now.
pub(crate) fn clock() -> String {
    jiff::ZonedDateTime::now().strftime("%H:%M:%S").to_string()
}

/// `1 member`, `3 members`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Indents JSON and keeps the order of keys and the spelling of numbers, which a round trip
/// through values would change. Text that is no JSON comes out with odd spaces, nothing worse.
fn indent_json(text: &str) -> String {
    let mut output = String::with_capacity(text.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut rest = text.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = rest.next() {
        if in_string {
            output.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' => {}
            '"' => {
                in_string = true;
                output.push(c);
            }
            '{' | '[' => {
                output.push(c);
                while rest.next_if_eq(&' ').is_some() {}
                if let Some(close) = rest.next_if(|next| *next == '}' || *next == ']') {
                    output.push(close);
                } else {
                    depth += 1;
                    new_line(&mut output, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut output, depth);
                output.push(c);
            }
            ',' => {
                output.push(c);
                new_line(&mut output, depth);
            }
            ':' => output.push_str(": "),
            c => output.push(c),
        }
    }
    output
}

fn new_line(output: &mut String, depth: usize) {
    output.push('\n');
    output.push_str(&"  ".repeat(depth.min(INDENT_MAX)));
}

/// Deeper levels are not indented further; ours have four.
const INDENT_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_otherwise_unchanged() {
        let text = r#"{"z":1,"a":[],"s":"a \"{,:}\\","list":[{"n":1.50},{ }],"none":null}"#;
        let indented = indent_json(text);
        let expected = "{\n  \"z\": 1,\n  \"a\": [],\n  \"s\": \"a \\\"{,:}\\\\\",\n  \"list\": \
                        [\n    {\n      \"n\": 1.50\n    },\n    {}\n  ],\n  \"none\": null\n}";
        assert_eq!(indented, expected);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&indented), value(text));
    }

    #[test]
    fn tables_align_and_drop_empty_columns() {
        let mut table = Table::new(&["NAME", "NOTE", "STATE"]);
        table.row(vec!["n1".into(), String::new(), "alive".into()]);
        table.row(vec!["node-10".into(), String::new(), "dead\x1b[31m".into()]);
        assert_eq!(table.lines(2), ["  NAME     STATE", "  n1       alive", "  node-10  dead[31m"]);
    }

    #[test]
    fn times_are_relative() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().expect("a time");
        for (text, shown) in [
            ("2026-01-01T09:55:50Z", "4m 10s ago"),
            ("2026-01-01T10:00:00Z", "just now"),
            ("2026-01-01T10:00:09Z", "just now"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(ago(text, now), shown);
        }
    }
}
