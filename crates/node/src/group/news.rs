//! What facts and ring say of members, and what follows from it here.

use baton_types::{NodeId, Now};

use super::Group;
use crate::directory::News;
use crate::shared::Shared;

impl Group {
    /// Facts or ring say something new of a member.
    pub(crate) fn take_news(&mut self, node: NodeId, news: News) {
        self.stale = true;
        self.facts_due = true;
        self.unseen |= news >= News::Member;
        if news >= News::Service {
            self.census.mark(node);
            self.look_at_roster();
        }
    }

    /// The roster is looked at as soon as the census may be written again: both name all members.
    fn look_at_roster(&mut self) {
        let at = self.census_next;
        self.roster_at = Some(self.roster_at.map_or(at, |other| other.min(at)));
    }

    /// Others were forgotten than before: the ledger looks for its voters among them.
    pub(crate) fn voters_forgotten(&mut self) {
        self.stale = true;
        self.unseen = true;
        self.look_at_roster();
    }

    /// Follows up what changed of the members, after everything else has settled.
    pub(crate) fn follow_members(&mut self, now: Now, shared: &mut Shared) {
        if std::mem::take(&mut self.facts_due) {
            self.tell_from_facts(shared);
        }
        if self.ledger_fact_due && self.ledger_fact_next <= now.moment {
            self.publish_ledger(now, shared);
        }
        if self.census.is_due() && self.census_next <= now.moment {
            self.update_census(shared);
            self.census_next = now.moment + crate::limits::census_pace(self.census.len());
        }
        if self.roster_at.is_some_and(|at| at <= now.moment) {
            self.roster_at = self.update_roster(now.moment, shared);
        }
    }
}
