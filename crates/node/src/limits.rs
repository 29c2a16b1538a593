//! Limits of a node, each with its reason.

use std::time::Duration;

/// Rounds in which ring, groups and questions hand things to each other after one event. Each
/// round moves something forward; more of them mean that two parts talk in a circle, and the rest
/// waits for the next event.
pub(crate) const ROUNDS_MAX: usize = 64;

/// Inputs that wait for one step of a leader; members and askers repeat what is dropped.
pub(crate) const INPUTS_MAX: usize = 4_096;

/// Nodes that may wait for the answer to one command.
pub(crate) const ASKERS_MAX: usize = 16;

/// Commands that may wait for an answer at one leader.
pub(crate) const COMMANDS_MAX: usize = 256;

/// From one resolution of the join addresses to the next: host names move.
pub(crate) const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);

/// From one attempt to bring the release of a service back to this machine to the next.
pub(crate) const RESTORE_INTERVAL: Duration = Duration::from_secs(10);

/// Targets of one service that are fetched at a time: one for a rollout, one for a turn, one that
/// is brought back; older ones are asked for by nobody any more.
pub(crate) const FETCHES_MAX: usize = 8;

/// How long a goodbye may take: services that stop in order have their own timeouts.
pub(crate) const GOODBYE_PATIENCE: Duration = Duration::from_secs(90);

/// How long the ring's last words may wait for the disk: a full or hung one must not hold up the
/// end of the daemon.
pub(crate) const GOODBYE_SAVING: Duration = Duration::from_secs(2);

/// How long `ring join` waits for a member at the address that was typed: a state comes within a
/// few round trips, and a lost request is repeated.
pub(crate) const JOIN_PATIENCE: Duration = Duration::from_secs(10);

/// Operators who may wait for a `ring join` at a time.
pub(crate) const JOINS_MAX: usize = 16;

/// After it a node counts as ready although none of its join addresses answers: the first machine
/// that is back after a power cut is alone for a while, and a service manager that waits for READY
/// would kill its daemon again and again.
pub(crate) const READY_PATIENCE: Duration = Duration::from_secs(15);

/// How long a voter that asks to leave waits for others to answer, without which the group would stand
/// still: shorter than its operator's patience, so that he is told why.
pub(crate) const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a member that was remembered from an earlier start of this node may live in the ring
/// without a word about its service, before it counts as one that no longer has it: facts come with
/// the first exchange of states, and a lost exchange is repeated.
pub(crate) const UNHEARD_PATIENCE: Duration = Duration::from_secs(30);

/// From one word of a leader about the next record and what it waits for to the next one: each goes to
/// every member of the ring. That another leads, or that a rollout stands otherwise, does not wait.
pub(crate) const LEDGER_FACT_PACE: Duration = Duration::from_secs(1);

/// How long a census file stands at least before it is written again: at once in groups of a few;
/// in a large one some member changes all the time, each writing names all of them, and a fact takes
/// about as long to reach everybody.
pub(crate) fn census_pace(members: usize) -> Duration {
    match members <= CENSUS_AT_ONCE {
        true => Duration::ZERO,
        false => Duration::from_secs(1),
    }
}

/// Members of whom every change is written at once.
const CENSUS_AT_ONCE: usize = 16;
