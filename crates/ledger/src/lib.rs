//! Placeholder, replaced in the first commit of this crate.
