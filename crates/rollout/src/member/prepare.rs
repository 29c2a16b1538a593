//! Fetching and verifying a rollout's target before anybody's turn.
//!
//! Invariant: disrupts nothing, and is in memory only: the leader asks again after a restart.

use std::time::Duration;

use baton_types::member::Prepared;
use baton_types::{Moment, Now, RolloutId, Target, Text};
use baton_wire::TurnMessage;

use crate::limits::{BACK_OFF_MAX, BACK_OFF_MIN};

use super::{FetchResult, Member, MemberOutput};

/// A fetch for a rollout.
#[derive(Debug)]
pub(super) struct Prepare {
    pub(super) rollout: RolloutId,
    pub(super) target: Target,
    pub(super) depot: String,
    pub(super) state: Prepared,
    /// When a failed fetch is tried again.
    pub(super) retry_at: Option<Moment>,
    pub(super) back_off: Duration,
}

impl Member {
    /// How far the fetch of the target asked for last is, for the service fact.
    pub fn prepared(&self) -> Option<(baton_types::Digest, Prepared)> {
        let prepare = self.prepare.as_ref()?;
        Some((prepare.target.key(), prepare.state.clone()))
    }

    /// The leader asks for `target` to be fetched.
    pub(super) fn prepare(&mut self, rollout: RolloutId, target: Target, depot: String) {
        match &mut self.prepare {
            Some(known) if known.target == target && known.depot == depot => {
                known.rollout = rollout;
            }
            slot => {
                *slot = Some(Prepare {
                    rollout,
                    target: target.clone(),
                    depot: depot.clone(),
                    state: Prepared::Fetching,
                    retry_at: None,
                    back_off: BACK_OFF_MIN,
                });
                self.outputs.push_back(MemberOutput::Fetch { target, depot });
            }
        }
        self.report_prepared();
    }

    /// A fetch ended that this may have waited for.
    pub(super) fn prepare_fetched(&mut self, now: Now, result: &FetchResult) {
        let Some(prepare) = self.prepare.as_mut() else { return };
        prepare.state = match result {
            FetchResult::Done => Prepared::Ready,
            FetchResult::Environment(why) | FetchResult::Refused(why) => {
                prepare.retry_at = Some(now.moment + prepare.back_off);
                prepare.back_off = (prepare.back_off * 2).min(BACK_OFF_MAX);
                Prepared::Failed(why.clone())
            }
        };
        self.report_prepared();
    }

    /// Tries a failed fetch again when its time has come.
    pub(super) fn prepare_tick(&mut self, now: Now) {
        let Some(prepare) = self.prepare.as_mut() else { return };
        if prepare.retry_at.is_some_and(|at| at <= now.moment) {
            prepare.retry_at = None;
            self.outputs.push_back(MemberOutput::Fetch {
                target: prepare.target.clone(),
                depot: prepare.depot.clone(),
            });
        }
    }

    /// Whether `target` has been fetched for sure.
    pub(super) fn is_prepared(&self, target: &Target) -> bool {
        self.prepare.as_ref().is_some_and(|prepare| {
            prepare.target.same_as(target) && prepare.state == Prepared::Ready
        })
    }

    fn report_prepared(&mut self) {
        let Some(prepare) = &self.prepare else { return };
        self.outputs.push_back(MemberOutput::Send(TurnMessage::PrepareReport {
            rollout: prepare.rollout,
            digest: prepare.target.key(),
            prepared: prepare.state.clone(),
        }));
    }
}

/// The text of a fetch that went wrong.
pub(super) fn fault(result: FetchResult) -> Option<(bool, Text)> {
    match result {
        FetchResult::Done => None,
        FetchResult::Environment(why) => Some((true, why)),
        FetchResult::Refused(why) => Some((false, why)),
    }
}
