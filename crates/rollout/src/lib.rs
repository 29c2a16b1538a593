//! The rolling update of one group, as two state machines: the leader's side ([`Lead`]) decides
//! from the committed record who may be updated; the member's side ([`Member`]) carries one turn
//! out, durable at each step.
//!
//! Invariant: whatever permits a disruption is in a committed record before it is said, and in the
//! member's own durable file before it is done. Everything else here is volatile and may be lost.

pub mod lead;
pub mod limits;
pub mod member;
pub mod narrate;
mod reformed;
pub mod rollout;
pub mod rules;
pub mod state;
pub mod status;
pub mod targets;
pub mod view;

#[cfg(test)]
mod world;

pub use lead::{ChannelEntry, ChannelReading, Found, Lead, LeadInput, LeadSettings, Step};
pub use member::file::{MemberFile, TurnFile};
pub use member::{
    FetchResult, HookVerdict, Member, MemberInput, MemberOutput, MemberSettings, ServiceNote,
};
pub use narrate::{About, Level, Line, narrate};
pub use rollout::{Rollout, RolloutKind, RolloutState, Turn, TurnState};
pub use state::GroupState;
pub use status::{LedgerInfo, history, status};
pub use view::{Liveness, MemberView, View};
