//! Every fault of a release directory at once, so that its maker mends them in one go.
//!
//! Invariant: a `Faults` is never empty.

use std::fmt;

/// One fault, at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, as its maker would name it.
    pub file: String,
    /// Line and column, both from 1, columns in characters; `None` for a fault of the whole file.
    pub at: Option<(usize, usize)>,
    /// What was found and what is allowed.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.message)
            }
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// At least one fault, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `None` when there is no fault.
    pub fn of(mut faults: Vec<Fault>) -> Option<Self> {
        faults.sort_by(|a, b| (&a.file, a.at).cmp(&(&b.file, b.at)));
        (!faults.is_empty()).then_some(Self(faults))
    }

    /// A single one.
    pub fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// The faults.
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }
}

impl fmt::Display for Faults {
    /// One per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}
