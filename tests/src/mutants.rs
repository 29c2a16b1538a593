//! Mutants of the cores: small mistakes, each of which the simulator must notice.
//!
//! Invariant: a mutant is applied only where its text stands exactly once, so that it says what it
//! changes; and only ever to a copy of the tree.

use std::fmt;
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What it is called.
    pub name: String,
    /// The file, from the root of the repository.
    pub file: PathBuf,
    /// Which promise it breaks, in words.
    pub breaks: String,
    before: String,
    after: String,
}

/// Why a mutant does not fit the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Mutant {
    /// Those of `tests/mutants/list.toml` below `root`.
    pub fn all(root: &Path) -> Vec<Self> {
        let path = root.join(LIST);
        let text = std::fs::read_to_string(&path).expect("the list of mutants");
        let table: toml::Table = text.parse().expect("the list is TOML");
        let entries = table["mutant"].as_array().expect("an array of mutants");
        entries
            .iter()
            .map(|entry| {
                let text = |key: &str| {
                    let text = entry.get(key).and_then(toml::Value::as_str);
                    text.unwrap_or_else(|| panic!("a mutant without {key}: {entry}")).to_owned()
                };
                Self {
                    name: text("name"),
                    file: text("file").into(),
                    breaks: text("breaks"),
                    before: text("before"),
                    after: text("after"),
                }
            })
            .collect()
    }

    /// The source with this mistake in it.
    ///
    /// # Errors
    ///
    /// The text that it changes stands in `source` not once, but never or several times.
    pub fn applied_to(&self, source: &str) -> Result<String, Unfit> {
        let found = source.matches(&self.before).count();
        let place = self.file.display();
        match found {
            1 if self.before != self.after => Ok(source.replacen(&self.before, &self.after, 1)),
            1 => Err(Unfit(format!("{}: changes nothing in {place}", self.name))),
            found => Err(Unfit(format!(
                "{}: its text stands {found} times in {place}, it must stand there once",
                self.name
            ))),
        }
    }
}

/// Where they are listed.
pub const LIST: &str = "tests/mutants/list.toml";
