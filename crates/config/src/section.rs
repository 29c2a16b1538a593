//! One table of a file, read key by key.
//!
//! Invariant: a key is known exactly if it was asked for; [`Section::finish`] makes a fault of
//! every other one. A value with a fault counts as not given, so that one mistake is told once.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::{Document, Place};
use crate::limits::FAULTS_MAX;
use crate::nearest::nearest;
use crate::value::{mismatch, shorten};

/// One table under reading; it may be absent, then every key has its default.
pub(crate) struct Section<'a> {
    /// The file it is in.
    pub(crate) document: &'a Document<'a>,
    /// Where it begins; faults about missing keys stand there.
    pub(crate) place: Place,
    table: Option<&'a DeTable<'a>>,
    asked: Vec<&'static str>,
}

/// The value of a key, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    /// What was given, or the default.
    pub(crate) value: T,
    /// Where it was given; of a default, where its table begins.
    pub(crate) place: Place,
    /// Whether the file gives it.
    pub(crate) origin: Origin,
}

/// Whether the file gives a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It does.
    Given,
    /// It does, but with a fault: the default stands in, so that reading goes on.
    Faulty,
    /// It does not: the default.
    Absent,
}

impl<T> Setting<T> {
    /// Whether the file gives a value without a fault.
    pub(crate) fn is_given(&self) -> bool {
        self.origin == Origin::Given
    }

    /// Whether the file says nothing.
    pub(crate) fn is_absent(&self) -> bool {
        self.origin == Origin::Absent
    }
}

impl<'a> Section<'a> {
    /// The file as a whole.
    pub(crate) fn root(document: &'a Document<'a>, table: &'a Spanned<DeTable<'a>>) -> Self {
        let place = Place { offset: 0, key: String::new() };
        Self { document, place, table: Some(table.get_ref()), asked: Vec::new() }
    }

    /// The full name of a key of this table.
    pub(crate) fn key(&self, key: &str) -> String {
        if self.place.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place.key) }
    }

    /// Where a fault about a key that is not there stands.
    pub(crate) fn missing_place(&self, key: &str) -> Place {
        Place { offset: self.place.offset, key: self.key(key) }
    }

    /// The value of `key`, or `default`.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Setting<T> {
        let Some((place, value)) = self.get(key) else {
            return Setting {
                value: default,
                place: self.missing_place(key),
                origin: Origin::Absent,
            };
        };
        match parse(value) {
            Ok(value) => Setting { value, place, origin: Origin::Given },
            Err(message) => {
                self.document.fault(&place, message);
                Setting { value: default, place, origin: Origin::Faulty }
            }
        }
    }

    /// The value of `key`; its absence is a fault that says what is `wanted`. `None` after a fault.
    pub(crate) fn require<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        parse: impl FnOnce(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<Setting<T>> {
        let absent = self.get(key).is_none();
        if absent {
            let message = format!("found nothing; {wanted} is required");
            self.document.fault(&self.missing_place(key), message);
        }
        let Setting { value, place, origin } = self.read(key, None, |value| parse(value).map(Some));
        value.map(|value| Setting { value, place, origin })
    }

    /// The entries of the list `key`, those without a fault.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        max: usize,
        parse: impl Fn(&DeValue<'a>) -> Result<T, String>,
    ) -> Setting<Vec<(T, Place)>> {
        let Some((place, value)) = self.get(key) else {
            return Setting {
                value: Vec::new(),
                place: self.missing_place(key),
                origin: Origin::Absent,
            };
        };
        let DeValue::Array(entries) = value else {
            self.document.fault(&place, mismatch(value, "a list"));
            return Setting { value: Vec::new(), place, origin: Origin::Faulty };
        };
        if entries.len() > max {
            let message = format!("found {} entries; at most {max} are allowed", entries.len());
            self.document.fault(&place, message);
        }
        let mut list = Vec::new();
        for entry in entries.iter().take(max) {
            let at = Place { offset: entry.span().start, key: place.key.clone() };
            match parse(entry.get_ref()) {
                Ok(value) => list.push((value, at)),
                Err(message) => self.document.fault(&at, message),
            }
        }
        let whole = list.len() == entries.len();
        let origin = if whole { Origin::Given } else { Origin::Faulty };
        Setting { value: list, place, origin }
    }

    /// The entries of the table `key`, those without a fault. `parse` gets name and value.
    pub(crate) fn map(
        &mut self,
        key: &'static str,
        max: usize,
        parse: impl Fn(&str, &DeValue<'a>) -> Result<String, String>,
    ) -> BTreeMap<String, (String, Place)> {
        let Some((place, value)) = self.get(key) else {
            return BTreeMap::new();
        };
        let DeValue::Table(entries) = value else {
            self.document.fault(&place, mismatch(value, "a table"));
            return BTreeMap::new();
        };
        if entries.len() > max {
            let message = format!("found {} entries; at most {max} are allowed", entries.len());
            self.document.fault(&place, message);
        }
        let mut map = BTreeMap::new();
        for (name, value) in entries.iter().take(max) {
            let key = format!("{}.{}", place.key, shorten(name.get_ref()));
            let at = Place { offset: name.span().start, key };
            match parse(name.get_ref(), value.get_ref()) {
                Ok(value) => drop(map.insert(name.get_ref().to_string(), (value, at))),
                Err(message) => self.document.fault(&at, message),
            }
        }
        map
    }

    /// The tables in the table `key` by their names, those that are tables.
    pub(crate) fn named_tables(&mut self, key: &'static str, max: usize) -> Vec<(String, Self)> {
        let document = self.document;
        let Some((place, value)) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Table(entries) = value else {
            document.fault(&place, mismatch(value, "a table"));
            return Vec::new();
        };
        if entries.len() > max {
            let message = format!("found {} entries; at most {max} are allowed", entries.len());
            document.fault(&place, message);
        }
        let mut sections = Vec::new();
        for (name, value) in entries.iter().take(max) {
            let key = format!("{}.{}", place.key, shorten(name.get_ref()));
            let place = Place { offset: name.span().start, key };
            match value.get_ref() {
                DeValue::Table(table) => {
                    let section =
                        Section { document, place, table: Some(table), asked: Vec::new() };
                    sections.push((name.get_ref().to_string(), section));
                }
                value => document.fault(&place, mismatch(value, "a table")),
            }
        }
        sections
    }

    /// The table `key`; an empty one if it is absent.
    pub(crate) fn table(&mut self, key: &'static str) -> Section<'a> {
        let document = self.document;
        let (place, table) = match self.get(key) {
            None => (self.missing_place(key), None),
            Some((place, DeValue::Table(table))) => (place, Some(table)),
            Some((place, value)) => {
                document.fault(&place, mismatch(value, &format!("a table [{}]", place.key)));
                (place, None)
            }
        };
        Section { document, place, table, asked: Vec::new() }
    }

    /// The tables `[[key]]`, in their order.
    pub(crate) fn tables(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let document = self.document;
        let Some((place, value)) = self.get(key) else {
            return Vec::new();
        };
        let wanted = format!("a table [[{}]]", place.key);
        let DeValue::Array(entries) = value else {
            document.fault(&place, mismatch(value, &wanted));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for entry in entries {
            let place = Place { offset: entry.span().start, key: place.key.clone() };
            match entry.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Section {
                        document,
                        place,
                        table: Some(table),
                        asked: Vec::new(),
                    });
                }
                value => document.fault(&place, mismatch(value, &wanted)),
            }
        }
        sections
    }

    /// Makes a fault of every key that was not asked for.
    pub(crate) fn finish(self) {
        self.finish_with(&[]);
    }

    /// As [`Section::finish`]; a key that is known in another table is told to belong there.
    pub(crate) fn finish_with(self, elsewhere: &[(&str, &[&str])]) {
        let entries = self.table.into_iter().flatten();
        let mut unknown = entries.filter(|(key, _)| !self.asked.contains(&key.get_ref().as_ref()));
        for (found, _) in unknown.by_ref().take(FAULTS_MAX) {
            let name: &str = found.get_ref();
            let place = Place { offset: found.span().start, key: self.key(&shorten(name)) };
            let owner = elsewhere.iter().find(|(_, keys)| keys.contains(&name));
            let message = match (owner, nearest(name, &self.asked)) {
                (Some((owner, _)), _) => format!("unknown key; did you mean {name:?} in {owner}?"),
                (None, Some(known)) => format!("unknown key; did you mean {known:?}?"),
                (None, None) => format!("unknown key; allowed here: {}", self.asked.join(", ")),
            };
            self.document.fault(&place, message);
        }
        self.document.faults_not_told(unknown.count());
    }

    fn get(&mut self, key: &'static str) -> Option<(Place, &'a DeValue<'a>)> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        let value = self.table?.get(key)?;
        Some((Place { offset: value.span().start, key: self.key(key) }, value.get_ref()))
    }
}
