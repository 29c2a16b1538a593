//! Placeholder, replaced shortly.
