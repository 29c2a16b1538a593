//! The daemon: a thin shell around one `Node`. One task owns it; sockets, timers, children and the
//! control API hand it events and carry out its effects.

pub mod api;
pub mod client;
