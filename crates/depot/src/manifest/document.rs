//! A TOML text with places, read key by key.
//!
//! Invariant: whatever returns `None` here has noted a fault.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use baton_types::parse_duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::faults::{Fault, Faults};

/// The text and the faults found so far.
pub(super) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    faults: RefCell<Vec<Fault>>,
}

/// One value and where it stands.
pub(super) struct Value<'a> {
    document: &'a Document<'a>,
    span: Range<usize>,
    content: Content<'a>,
}

#[derive(Clone, Copy)]
enum Content<'a> {
    Table(&'a DeTable<'a>),
    Other(&'a DeValue<'a>),
}

/// A table whose keys are all known.
pub(super) struct Keys<'a> {
    document: &'a Document<'a>,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    what: &'static str,
}

impl<'a> Document<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, faults: RefCell::default() }
    }

    /// The text as one table, if it is TOML at all.
    pub(super) fn table(&self) -> Option<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for e in &errors {
            self.note(&e.span().unwrap_or(0..0), e.message().replace('\n', ", "));
        }
        errors.is_empty().then(|| table.into_inner())
    }

    /// The table as a value; faults of the whole file stand at its beginning.
    pub(super) fn root(&'a self, table: &'a DeTable<'a>) -> Value<'a> {
        Value { document: self, span: 0..0, content: Content::Table(table) }
    }

    pub(super) fn faults(&self) -> Option<Faults> {
        Faults::of(self.faults.take())
    }

    fn note(&self, span: &Range<usize>, message: String) {
        let at = Some(self.place(span.start));
        self.faults.borrow_mut().push(Fault { file: self.file.to_owned(), at, message });
    }

    fn place(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }
}

impl<'a> Value<'a> {
    /// Notes a fault here.
    pub(super) fn fault(&self, message: impl Into<String>) {
        self.document.note(&self.span, message.into());
    }

    /// Notes that something else was expected here.
    pub(super) fn expected(&self, expected: &str) {
        self.fault(format!("found {}, expected {expected}", self.kind()));
    }

    /// Line and column.
    pub(super) fn at(&self) -> (usize, usize) {
        self.document.place(self.span.start)
    }

    pub(super) fn is_array(&self) -> bool {
        matches!(self.content, Content::Other(DeValue::Array(_)))
    }

    pub(super) fn is_table(&self) -> bool {
        self.table().is_some()
    }

    pub(super) fn string(&self) -> Option<&'a str> {
        if let Content::Other(DeValue::String(text)) = &self.content {
            return Some(text);
        }
        self.expected("a text in quotes");
        None
    }

    /// A duration above zero.
    pub(super) fn duration(&self) -> Option<Duration> {
        let Content::Other(DeValue::String(text)) = &self.content else {
            self.expected("a duration like \"30s\"");
            return None;
        };
        match parse_duration(text) {
            Ok(duration) if duration > Duration::ZERO => Some(duration),
            Ok(_) => {
                self.fault(format!("the duration {text:?} is zero: more than zero is allowed"));
                None
            }
            Err(e) => {
                self.fault(e.to_string());
                None
            }
        }
    }

    /// A whole number from 1 to `max`.
    pub(super) fn count(&self, max: u32) -> Option<u32> {
        let Content::Other(DeValue::Integer(number)) = &self.content else {
            self.expected("a whole number");
            return None;
        };
        let count = i64::from_str_radix(number.as_str(), number.radix()).ok();
        let count = count.and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=max).contains(n));
        if count.is_none() {
            self.fault(format!("the number {number} is not allowed here: 1 to {max} are"));
        }
        count
    }

    pub(super) fn array(&self, expected: &str) -> Option<Vec<Value<'a>>> {
        if let Content::Other(DeValue::Array(items)) = &self.content {
            return Some(items.iter().map(|item| part(self.document, item)).collect());
        }
        self.expected(expected);
        None
    }

    /// A table called `what` that may have the keys `allowed`; any other one is noted.
    pub(super) fn keys(&self, what: &'static str, allowed: &[&str]) -> Option<Keys<'a>> {
        let Some(table) = self.table() else {
            self.expected("a table");
            return None;
        };
        for key in table.keys().filter(|key| !allowed.contains(&key.get_ref().as_ref())) {
            let (key, span) = (key.get_ref(), key.span());
            let allowed = allowed.join(", ");
            let message = format!("unknown key {key:?} in {what}: allowed are {allowed}");
            self.document.note(&span, message);
        }
        Some(Keys { document: self.document, span: self.span.clone(), table, what })
    }

    fn table(&self) -> Option<&'a DeTable<'a>> {
        match self.content {
            Content::Table(table) | Content::Other(DeValue::Table(table)) => Some(table),
            Content::Other(_) => None,
        }
    }

    fn kind(&self) -> &'static str {
        match &self.content {
            Content::Table(_) | Content::Other(DeValue::Table(_)) => "a table",
            Content::Other(DeValue::String(_)) => "a text",
            Content::Other(DeValue::Integer(_)) => "a whole number",
            Content::Other(DeValue::Float(_)) => "a fraction",
            Content::Other(DeValue::Boolean(_)) => "true or false",
            Content::Other(DeValue::Datetime(_)) => "a date",
            Content::Other(DeValue::Array(_)) => "an array",
        }
    }
}

impl<'a> Keys<'a> {
    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.table.get(key).map(|value| part(self.document, value))
    }

    /// The value of `key`; noted when it is missing.
    pub(super) fn required(&self, key: &str, example: &str) -> Option<Value<'a>> {
        let value = self.get(key);
        if value.is_none() {
            let what = self.what;
            let message = format!("{what} has no {key}: expected {key} = {example}");
            self.document.note(&self.span, message);
        }
        value
    }
}

fn part<'a>(document: &'a Document<'a>, part: &'a Spanned<DeValue<'a>>) -> Value<'a> {
    Value { document, span: part.span(), content: Content::Other(part.get_ref()) }
}
