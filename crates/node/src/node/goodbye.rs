//! The end of a daemon: services are stopped first if that is asked, then the ring is told.

use baton_types::{GroupName, Moment, Now};

use super::Node;
use crate::effect::{Effect, Level, Line};
use crate::limits::{GOODBYE_PATIENCE, GOODBYE_SAVING};
use crate::notice::Notice;

/// A goodbye under way.
#[derive(Debug)]
pub(super) struct Goodbye {
    deadline: Moment,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Services are being stopped.
    Stopping,
    /// The ring's last words wait for the save before them.
    Saving,
    /// Nothing is left to do.
    Said,
}

impl Goodbye {
    /// When it ends in any case.
    pub(super) fn deadline(&self) -> Moment {
        if self.stage == Stage::Said { Moment(u64::MAX) } else { self.deadline }
    }
}

impl Node {
    pub(super) fn begin_goodbye(&mut self, now: Now, stop_services: bool) {
        if self.goodbye.is_some() {
            return;
        }
        if stop_services {
            for group in self.groups.values_mut() {
                group.halt_for_goodbye(now, &mut self.shared);
            }
        }
        let patience = if stop_services { GOODBYE_PATIENCE } else { std::time::Duration::ZERO };
        self.goodbye = Some(Goodbye { deadline: now.moment + patience, stage: Stage::Stopping });
    }

    /// Says goodbye once nothing is left to stop, or patience ends; unloaded services go, too.
    pub(super) fn drive_goodbye(&mut self, now: Now) {
        self.drop_unloaded();
        let stopped = self.groups.values().all(|group| group.is_stopped());
        let Some(Goodbye { deadline, stage }) = self.goodbye.as_mut() else { return };
        if *stage == Stage::Stopping && (now.moment >= *deadline || stopped) {
            (*deadline, *stage) = (now.moment + GOODBYE_SAVING, Stage::Saving);
            self.shared.ring.goodbye(now.moment);
        }
        // What the ring says leaves only after its save is durable.
        self.drive_ring(now);
        let Some(Goodbye { deadline, stage }) = self.goodbye.as_mut() else { return };
        let waits = self.saving.is_some() || !self.held.is_empty();
        if *stage == Stage::Saving && (!waits || now.moment >= *deadline) {
            *stage = Stage::Said;
            self.shared.effects.push(Effect::GoodbyeSaid);
        }
    }

    fn drop_unloaded(&mut self) {
        let gone: Vec<GroupName> = self
            .groups
            .iter()
            .filter(|(_, group)| group.unloading && group.is_stopped())
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.groups.remove(&name);
            self.shared.writes.forget(&name);
            self.shared.remove(crate::files::service(&name));
            self.shared.remove(crate::files::turn(&name));
            self.shared.remove(crate::files::ledger(&name));
            self.shared.remove(crate::files::outcomes(&name));
            self.shared.remove(crate::files::roster(&name));
            self.shared.log(
                Line::new(Notice::ServiceUnloaded, Level::Info, "the service is unloaded")
                    .of(&name),
            );
            self.shared.keep_due = Some(name);
        }
    }
}
