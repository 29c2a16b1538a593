//! The channel: when it is read, and what its head and a demotion do.

use baton_types::policy::OnDemote;
use baton_types::{Now, Text};

use crate::limits::CHANNEL_ENTRIES_MAX;
use crate::rollout::{Rollout, RolloutKind, RolloutState};
use crate::rules::start::{Head, demoted, head};
use crate::state::GroupState;
use crate::view::View;

use super::commands::note_acted;
use super::draft::{begin_ending, begin_rollback, supersede};
use super::{Alarm, ChannelReading, Lead};

impl Lead {
    /// A reading came in.
    pub(super) fn channel_read(
        &mut self,
        now: Now,
        draft: &mut GroupState,
        view: &View,
        reading: Result<ChannelReading, Text>,
    ) {
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(why) => {
                self.channel_error = why;
                return;
            }
        };
        let surplus = reading.entries.len().saturating_sub(CHANNEL_ENTRIES_MAX);
        reading.entries.drain(..surplus);
        self.channel_error = Text::default();
        self.channel = Some(reading);
        self.follow_channel(now, draft, view);
        self.follow_demotion(draft);
    }

    /// The head as it was read last may start something now.
    pub(super) fn follow_channel(&mut self, now: Now, draft: &mut GroupState, view: &View) {
        let Some(reading) = &self.channel else { return };
        let depot = reading.depot.clone();
        match head(draft, reading, view.settings.strategy, &view.held) {
            Head::Nothing | Head::Pending(..) => {}
            Head::Noted => {
                if let Some(entry) = reading.entries.last() {
                    note_acted(draft, &depot, entry.promotion);
                }
            }
            Head::Starts(target, promotion) => {
                note_acted(draft, &depot, promotion);
                draft.allow(&target);
                let new = self.plan(now, view, RolloutKind::Update, target, Some(promotion));
                supersede(draft, new);
            }
        }
    }

    /// The target under way, or the one that waits for it to end, was demoted without a new head.
    fn follow_demotion(&self, draft: &mut GroupState) {
        let Some(reading) = &self.channel else { return };
        let withdrawn = |next: &Rollout| {
            next.phase == 1
                && next.plan.update.on_demote != OnDemote::Ignore
                && demoted(next, reading)
        };
        if draft.next.as_deref().is_some_and(withdrawn) {
            draft.next = None;
        }
        let Some(rollout) = draft.rollout.as_deref_mut() else { return };
        if rollout.ending.is_some() || rollout.phase >= 2 || !demoted(rollout, reading) {
            return;
        }
        let reason = format!("{} was demoted", rollout.to);
        match rollout.plan.update.on_demote {
            OnDemote::Ignore => {}
            OnDemote::Rollback if rollout.from.is_some() => begin_rollback(draft, &reason),
            OnDemote::Cancel | OnDemote::Rollback => {
                begin_ending(rollout, RolloutState::Cancelled, &reason);
            }
        }
    }

    /// Whether the channel is to be read now.
    pub(super) fn poll_channel(&mut self, alarm: &mut Alarm, view: &View) -> bool {
        let due = match self.channel_asked {
            Some(asked) => alarm.is_due(asked + view.settings.poll),
            None => true,
        };
        if !due && !std::mem::take(&mut self.read_channel) {
            return false;
        }
        self.read_channel = false;
        self.channel_asked = Some(alarm.now);
        alarm.at(alarm.now + view.settings.poll);
        true
    }
}
