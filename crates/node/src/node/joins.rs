//! Operators who typed `ring join` and wait for what comes of it, and what is said when nobody
//! answers.
//!
//! Invariant: a join is answered as done only once a member at that address is in the ring with
//! this node.

use std::net::SocketAddr;

use baton_types::{Moment, Now};

use super::Node;
use crate::effect::{Level, Line};
use crate::limits::{JOIN_PATIENCE, JOINS_MAX};
use crate::notice::Notice;
use crate::request::{Reply, Why};

/// One who waits.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    request: u64,
    /// As typed.
    name: String,
    /// What it resolves to.
    at: Vec<SocketAddr>,
    deadline: Moment,
}

impl Node {
    /// Asks at `at`, which is what `name` resolves to.
    pub(super) fn ring_join(&mut self, now: Now, request: u64, name: String, at: Vec<SocketAddr>) {
        let refusal = if self.has_left {
            let text = "this node has left the ring; a restart of the daemon joins anew";
            Some((Why::State, text.to_owned()))
        } else if at.is_empty() {
            Some((Why::Unknown, format!("{name} does not resolve to an address")))
        } else if at.iter().all(|addr| *addr == self.boot.addr) {
            Some((Why::State, format!("{name} is this node itself; name another one")))
        } else if self.joins.len() >= JOINS_MAX {
            Some((Why::State, "too many joins are under way; try again in a moment".to_owned()))
        } else {
            None
        };
        if let Some((why, text)) = refusal {
            self.shared.refuse(request, why, text);
            return;
        }
        self.has_seeds = true;
        self.resolve_at.get_or_insert(now.moment + crate::limits::RESOLVE_INTERVAL);
        self.shared.ring.join_by(now.moment, &at);
        let deadline = now.moment + JOIN_PATIENCE;
        self.joins.push(Joining { request, name, at, deadline });
    }

    /// Answers those whose member is in the ring, and those who waited long enough.
    pub(super) fn drive_joins(&mut self, now: Now) {
        for joining in std::mem::take(&mut self.joins) {
            let Joining { request, name, at, deadline } = &joining;
            let found = self.shared.ring.members().find(|member| {
                member.state.is_reachable()
                    && member.node != self.shared.me
                    && at.contains(&member.addr)
            });
            if let Some(found) = found.map(|member| member.name.clone()) {
                let alive = self.shared.ring.members().filter(|m| m.state.is_reachable()).count();
                let said = format!("in one ring with {found} at {name}: {alive} members alive");
                self.shared.reply(*request, Reply::Done(said));
            } else if *deadline <= now.moment {
                let patience = baton_types::format_duration(JOIN_PATIENCE);
                let text = format!(
                    "no member answers at {name} within {patience}; this node goes on trying. \
                     {WHY_SILENT}"
                );
                self.shared.refuse(*request, Why::TimedOut, text);
            } else {
                self.joins.push(joining);
            }
        }
    }

    /// When the next of them is answered at the latest.
    pub(super) fn next_join(&self) -> Option<Moment> {
        self.joins.iter().map(|joining| joining.deadline).min()
    }

    /// The time in which a ring should have been found is over.
    pub(super) fn stop_waiting_for_the_ring(&mut self) {
        self.ready_at = None;
        if self.has_seeds && !self.has_left && !self.shared.ring.is_joined() {
            let text = format!(
                "none of the join addresses answers; this node is alone and goes on trying. \
                 {WHY_SILENT}"
            );
            self.shared.log(Line::new(Notice::RingAlone, Level::Warning, text));
        }
    }
}

/// What to look at first.
const WHY_SILENT: &str = "Does a daemon run there, with the same ring key, and do UDP and TCP get \
                          through to its ring port?";
