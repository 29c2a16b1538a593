//! The end of a daemon: services are stopped first if that is asked, then the ring is told.

use baton_types::{GroupName, Moment, Now};

use super::Node;
use crate::effect::{Effect, Level, Line};
use crate::limits::GOODBYE_PATIENCE;

/// A goodbye under way.
#[derive(Debug)]
pub(super) struct Goodbye {
    deadline: Moment,
    said: bool,
}

impl Goodbye {
    /// When it ends in any case.
    pub(super) fn deadline(&self) -> Moment {
        if self.said { Moment(u64::MAX) } else { self.deadline }
    }
}

impl Node {
    pub(super) fn begin_goodbye(&mut self, now: Now, stop_services: bool) {
        if self.goodbye.is_some() {
            return;
        }
        if stop_services {
            for group in self.groups.values_mut() {
                group.halt_for_goodbye(now);
            }
        }
        let patience = if stop_services { GOODBYE_PATIENCE } else { std::time::Duration::ZERO };
        self.goodbye = Some(Goodbye { deadline: now.moment + patience, said: false });
    }

    /// Says goodbye once nothing is left to stop, or patience ends; unloaded services go, too.
    pub(super) fn drive_goodbye(&mut self, now: Now) {
        self.drop_unloaded();
        let stopped = self.groups.values().all(|group| group.is_stopped());
        let Some(goodbye) = self.goodbye.as_mut().filter(|goodbye| !goodbye.said) else { return };
        if now.moment < goodbye.deadline && !stopped {
            return;
        }
        goodbye.said = true;
        self.shared.ring.goodbye(now.moment);
        self.drive_ring(now);
        self.shared.effects.push(Effect::GoodbyeSaid);
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
            self.shared.remove(crate::files::service(&name));
            self.shared.remove(crate::files::turn(&name));
            self.shared.remove(crate::files::ledger(&name));
            self.shared.log(Line::new(Level::Info, "the service is unloaded").of(&name));
        }
    }
}
