//! A small model of the protocol, explored completely by a model checker (stateright): every order
//! of messages, losses, repeats and crashes within the bounds.
//!
//! The model is written from the pages `docs/ledger.md` and `docs/rollout.md` and follows the code
//! of `crates/ledger` and `crates/rollout`; each action names the rule that it stands for. It
//! shares no code with those crates: the simulator runs the code, the model checks the rules.
//! `docs/model.md` says what is left out and why.

pub mod formation;
pub mod group;
pub mod state;
mod steps;
