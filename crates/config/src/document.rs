//! One file under reading: its text, the faults found so far, and where in the text they are.
//!
//! Invariant: every position lies within the text, and the number of faults kept is bounded.

use std::cell::RefCell;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use crate::fault::Fault;
use crate::limits::{FAULTS_KEPT_MAX, FAULTS_MAX, FILE_MAX_BYTES};
use crate::source::SourceFile;
use crate::value::shorten;

/// A key and where in the text it, or its value, begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Byte offset in the text.
    pub(crate) offset: usize,
    /// The full key.
    pub(crate) key: String,
}

/// One file under reading.
pub(crate) struct Document<'a> {
    path: &'a Path,
    text: &'a str,
    /// Byte offset at which each line begins.
    lines: Vec<usize>,
    findings: RefCell<Findings>,
}

#[derive(Default)]
struct Findings {
    faults: Vec<(Place, String)>,
    warnings: Vec<(Place, String)>,
    /// Faults that were only counted.
    faults_not_told: usize,
}

impl<'a> Document<'a> {
    /// A file nothing is known about yet.
    pub(crate) fn new(file: &'a SourceFile) -> Self {
        let ends = file.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { path: &file.path, text: &file.text, lines, findings: RefCell::default() }
    }

    /// The file's table. `None` if the text is no TOML: then what it holds cannot be judged, and
    /// only the syntax faults are kept. A key given twice is no reason to stop.
    pub(crate) fn parse(&self) -> Option<Spanned<DeTable<'a>>> {
        if self.text.len() > FILE_MAX_BYTES {
            let message =
                format!("found {} bytes; at most {FILE_MAX_BYTES} are allowed", self.text.len());
            self.fault(&Place { offset: 0, key: "file".to_owned() }, message);
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        let mut readable = true;
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let place = |key: &str| Place { offset: span.start, key: key.to_owned() };
            let quoted = shorten(self.text.get(span.clone()).unwrap_or_default());
            if error.message() == DUPLICATE && !quoted.is_empty() {
                self.fault(
                    &place(&quoted),
                    "found a second time; a key may be given once".to_owned(),
                );
            } else {
                readable = false;
                let message = if quoted.is_empty() && error.message().starts_with(UNQUOTED) {
                    "found no value; a key needs one after its `=`".to_owned()
                } else {
                    shorten_message(error.message())
                };
                self.fault(&place("syntax"), message);
            }
        }
        readable.then_some(table)
    }

    /// Notes a fault.
    pub(crate) fn fault(&self, place: &Place, message: String) {
        let mut found = self.findings.borrow_mut();
        if found.faults.len() < FAULTS_KEPT_MAX {
            found.faults.push((place.clone(), message));
        } else {
            found.faults_not_told += 1;
        }
    }

    /// Counts faults that are too many to be told.
    pub(crate) fn faults_not_told(&self, count: usize) {
        self.findings.borrow_mut().faults_not_told += count;
    }

    /// Whether any fault was found so far.
    pub(crate) fn has_faults(&self) -> bool {
        !self.findings.borrow().faults.is_empty()
    }

    /// Notes a warning.
    pub(crate) fn warn(&self, place: &Place, message: String) {
        self.findings.borrow_mut().warnings.push((place.clone(), message));
    }

    /// `path:line:column`, for a fault that names another place.
    pub(crate) fn point(&self, place: &Place) -> String {
        let (line, column) = self.position(place.offset);
        format!("{}:{line}:{column}", self.path.display())
    }

    /// Gives away what was found, in the order of the text.
    pub(crate) fn finish(self, faults: &mut Vec<Fault>, warnings: &mut Vec<Fault>) {
        let found = self.findings.take();
        self.give(found.faults, found.faults_not_told, faults);
        self.give(found.warnings, 0, warnings);
    }

    fn give(&self, mut found: Vec<(Place, String)>, not_told: usize, into: &mut Vec<Fault>) {
        found.sort_by_key(|(place, _)| place.offset);
        let more = found.len().saturating_sub(FAULTS_MAX) + not_told;
        found.truncate(FAULTS_MAX);
        if let Some((_, message)) = found.last_mut().filter(|_| more > 0) {
            message.push_str(&format!(" (and {more} more in this file)"));
        }
        into.extend(found.into_iter().map(|(place, message)| {
            let (line, column) = self.position(place.offset);
            Fault { path: self.path.to_owned(), line, column, key: place.key, message }
        }));
    }

    /// Line and column of a byte offset, both counted from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let column = self.text[start..].char_indices().take_while(|(at, _)| start + at < offset);
        (line, column.count() + 1)
    }
}

/// The parser's messages may quote the text; they stay on one line of bounded length.
fn shorten_message(message: &str) -> String {
    message.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX_CHARS).collect()
}

/// What the TOML parser says about a key given twice; a test holds it to that.
const DUPLICATE: &str = "duplicate key";

/// What it says about a value that is no TOML, and misleadingly about none at all.
const UNQUOTED: &str = "string values must be quoted";

const MESSAGE_MAX_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let file = SourceFile::new("x", "aä\n\nöb");
        let document = Document::new(&file);
        for (offset, want) in [
            (0, (1, 1)),
            (1, (1, 2)),
            (3, (1, 3)),
            (4, (2, 1)),
            (5, (3, 1)),
            (7, (3, 2)),
            (8, (3, 3)),
            (999, (3, 3)),
        ] {
            assert_eq!(document.position(offset), want, "{offset}");
        }
    }
}
