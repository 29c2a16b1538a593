//! The rules of a rolling update as pure functions, one file each.

pub mod baseline;
pub mod budget;
pub mod failures;
pub mod order;
pub mod start;
pub mod zones;
