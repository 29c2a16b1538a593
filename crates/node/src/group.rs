//! One service of this node with everything that its group needs: ledger, leader's side, member's
//! side and supervision.
//!
//! Invariant: the parts do not know each other; all that passes between them passes here, and
//! nothing of a record is acted on before the ledger says that it is committed.

mod booting;
mod facts;
mod leadership;
mod meeting;
mod news;
mod notices;
mod outcomes;
mod reform;
mod removals;
mod revisions;
mod roster;
mod running;
mod seen;
mod status;
mod turns;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_ledger::{Ledger, LedgerFile, LedgerOutput, LedgerSettings, Opened};
use baton_rollout::{
    GroupState, Lead, LeadInput, LeadSettings, Member, MemberFile, MemberSettings,
};
use baton_supervise::{Launch, Service, ServiceState, ServiceTiming};
use baton_types::limits::VOTER_LIMIT;
use baton_types::manifest::HookKind;
use baton_types::member::{Desired, LedgerFact};
use baton_types::service::ServiceSettings;
use baton_types::{
    Command, CommandAnswer, CommandId, GroupName, LineageId, Moment, NodeId, Now, RolloutId,
    Target, Term, Text, Version,
};
use baton_wire::ledger::StateBytes;
use baton_wire::{LedgerMessage, Message};
use rand::RngExt as _;

use self::booting::TurnMemory;
use crate::boot::{Adopted, Boot};
use crate::census::Census;
use crate::effect::{Level, Line};
use crate::event::DepotFault;
use crate::files::{self, ServiceFile, Waiting};
use crate::notice::Notice;
use crate::shared::Shared;

pub(crate) use facts::leader_by_facts;
pub(crate) use meeting::lineages;
pub(crate) use revisions::revision_json;
pub(crate) use status::copy_of_nothing;

/// See the module's page.
pub(crate) struct Group {
    pub(crate) name: GroupName,
    pub(crate) settings: ServiceSettings,
    pub(crate) ledger: Ledger,
    lead: Lead,
    member: Member,
    service: Service,
    /// The last committed record's content and place.
    state: GroupState,
    term: Term,
    version: u64,
    lineage: Option<LineageId>,
    /// Whether a committed record was seen since this start.
    heard: bool,
    /// The bytes of a committed record that do not decode: of a newer program.
    unreadable: bool,
    /// The version that the last one that does is written in.
    written_in: Option<u8>,
    /// Something changed that a leader's decision depends on.
    stale: bool,
    /// The view of the members must be given to the ledger.
    unseen: bool,
    wake: Option<Moment>,
    inputs: Vec<LeadInput>,
    /// Answers that become valid with the record in flight.
    promised: Option<(u64, Vec<(CommandId, CommandAnswer)>)>,
    /// Who waits for the answer to a command.
    owed: BTreeMap<CommandId, BTreeSet<Option<NodeId>>>,
    /// `start` commands that wait for a reading of the channel.
    starts: Vec<Command>,
    /// `ReadChannel` commands that wait for it.
    channel_hints: Vec<CommandId>,
    /// Hints whose reading is in; answered with what the next step decides.
    hints_read: Vec<(CommandId, CommandAnswer)>,
    reading_channel: bool,
    /// Versions that the reading under way looks up.
    looked_up: Vec<Version>,
    channel_error: String,
    /// What is being fetched, and waits for its configuration revision or its release.
    fetches: Vec<revisions::Fetch>,
    /// Revisions that the depot does not give and that other members are asked for, with why not.
    seeking: BTreeMap<baton_types::Digest, DepotFault>,
    /// `config apply` commands that wait until this leader has the revision itself.
    applications: Vec<Command>,
    /// Voters to remove, with the commands that ask for it.
    removals: BTreeMap<NodeId, removals::Removal>,
    /// A command to form the group anew, while it is carried out.
    reforming: Option<reform::Reforming>,
    /// `adopt` commands for this lineage, until its record says so.
    adoptions: Vec<CommandId>,
    /// What was last told of lineages that were met.
    told_met: String,
    leading: bool,
    /// The leader that was last told of.
    told_leader: Option<NodeId>,
    turn_memory: TurnMemory,
    file: ServiceFile,
    /// The newest write of `file`, and whether the disk has what it says.
    file_write: Option<u64>,
    file_kept: bool,
    outcomes: outcomes::Outcomes,
    roster: roster::Roster,
    /// Whether the disk has the roster, or is about to.
    roster_kept: bool,
    /// When to look at it again.
    roster_at: Option<Moment>,
    /// The launch that the service was last asked to run.
    launched: Option<Launch>,
    /// The rollout that brought what runs, for `BATON_ROLLOUT`.
    rollout: Option<RolloutId>,
    /// What is to run but must be fetched or unpacked first.
    restoring: Option<Target>,
    restore_at: Option<Moment>,
    /// The member's side waits for the service to be down.
    awaiting_stop: bool,
    /// A program of this service that supervision could not take over: a launch waits until it
    /// has ended.
    foreign: Option<Adopted>,
    ending_foreign: bool,
    after_foreign: Option<Launch>,
    hooks: BTreeMap<u64, (HookKind, Arc<Launch>)>,
    next_hook: u64,
    phase: Text,
    fact: Option<Vec<u8>>,
    /// What was last published of the ledger, whether there is more to say, and when it may be.
    ledger_fact: Option<LedgerFact>,
    ledger_fact_due: bool,
    ledger_fact_next: Moment,
    census: Census,
    kept: Vec<baton_types::Digest>,
    /// The last line about a rollout that a member without a vote has heard of.
    told: String,
    pub(crate) unloading: bool,
    /// The node has left the ring: the group's ledger is silent here, whoever it had for its leader.
    has_left: bool,
    /// The service is being stopped because daemon or service end.
    closing: bool,
    /// When the census may be written again.
    census_next: Moment,
    /// What the facts of others say of the group may have changed.
    facts_due: bool,
}

impl Group {
    /// The group of one service, from what was found on disk. What is found is taken: a service
    /// that is loaded again after it was unloaded begins with nothing.
    pub(crate) fn open(
        settings: ServiceSettings,
        boot: &mut Boot,
        shared: &mut Shared,
        now: Now,
    ) -> Self {
        let name = settings.name.clone();
        let opened = opened_ledger(boot, shared, &name);
        let member_file: MemberFile = found(boot, shared, &name, files::turn(&name));
        let outcomes = outcomes::open(boot, &name);
        let roster = roster::Roster::open(boot, shared, &name);
        let file: ServiceFile = found(boot, shared, &name, files::service(&name));
        let adopted = boot.adopted.remove(&name);
        let first_number = shared.first_number();
        let timing = &shared.timing;
        let ledger_settings = LedgerSettings {
            me: shared.me,
            heartbeat: timing.heartbeat,
            election_timeout: timing.election_timeout,
            settle: timing.probe_period * 2,
            expect: settings.expect,
            voter_limit: VOTER_LIMIT,
            replace_dead_after: timing.replace_dead_after,
            initial_state: StateBytes::default(),
        };
        let lead_settings =
            LeadSettings { claim_window: timing.claim_window, resend: timing.heartbeat * 4 };
        let member_settings =
            MemberSettings { claim_window: timing.claim_window, resend: timing.heartbeat * 4 };
        let mut seed = || shared.rng.random::<u64>();
        let ledger = Ledger::open(ledger_settings, opened, seed(), now.moment);
        let lead = Lead::new(lead_settings, shared.me, seed());
        let member =
            Member::open(member_settings, shared.me, shared.machine_boot, member_file, seed(), now);
        let service =
            Service::new(ServiceTiming::default(), now.moment, seed()).numbered_above(first_number);
        let mut group = Self {
            name,
            settings,
            ledger,
            lead,
            member,
            service,
            state: GroupState::default(),
            term: Term::default(),
            version: 0,
            lineage: None,
            heard: false,
            unreadable: false,
            written_in: None,
            stale: true,
            unseen: true,
            wake: None,
            inputs: Vec::new(),
            promised: None,
            owed: BTreeMap::new(),
            starts: Vec::new(),
            channel_hints: Vec::new(),
            hints_read: Vec::new(),
            reading_channel: false,
            looked_up: Vec::new(),
            channel_error: String::new(),
            fetches: Vec::new(),
            seeking: BTreeMap::new(),
            applications: Vec::new(),
            removals: BTreeMap::new(),
            reforming: None,
            adoptions: Vec::new(),
            told_met: String::new(),
            leading: false,
            told_leader: None,
            turn_memory: TurnMemory::default(),
            file,
            file_write: None,
            file_kept: true,
            outcomes,
            roster,
            roster_kept: true,
            roster_at: None,
            launched: None,
            rollout: None,
            restoring: None,
            restore_at: None,
            awaiting_stop: false,
            foreign: None,
            ending_foreign: false,
            after_foreign: None,
            hooks: BTreeMap::new(),
            next_hook: first_number,
            phase: Text::default(),
            fact: None,
            ledger_fact: None,
            ledger_fact_due: false,
            ledger_fact_next: now.moment,
            census: Census::default(),
            kept: Vec::new(),
            told: String::new(),
            unloading: false,
            has_left: false,
            closing: false,
            census_next: now.moment,
            facts_due: true,
        };
        for (node, _) in shared.directory.members(&group.name) {
            group.census.mark(node);
        }
        group.resume_service(now, shared, adopted);
        group.keep_releases(shared);
        group.publish(now, shared);
        group
    }

    /// Hands everything over that the parts have for each other; `false` when there was nothing.
    pub(crate) fn drive(&mut self, now: Now, shared: &mut Shared) -> bool {
        if self.unloading {
            // It has no part in the group any more, and must not be let in again.
            self.ledger.take_outputs();
            self.member.take_outputs();
            return self.drive_service(now, shared);
        }
        let mut moved = self.drive_ledger(now, shared);
        moved |= self.drive_lead(now, shared);
        moved |= self.drive_member(now, shared);
        moved |= self.drive_service(now, shared);
        moved
    }

    /// Does what is due in every part.
    pub(crate) fn tick(&mut self, now: Now, shared: &mut Shared) {
        if !self.is_silent() && self.ledger.next_tick() <= now.moment {
            self.ledger.tick(now.moment);
        }
        if self.member_due().is_some_and(|due| due <= now.moment) {
            self.member.tick(now);
        }
        if self.service.next_tick().is_some_and(|due| due <= now.moment) {
            self.service.tick(now.moment);
        }
        if self.wake.is_some_and(|due| due <= now.moment) {
            self.stale = true;
        }
        if self.restore_at.is_some_and(|due| due <= now.moment) {
            self.restore_at = None;
            self.restore(shared);
        }
    }

    /// When [`Group::tick`] has something to do.
    pub(crate) fn next_tick(&self) -> Moment {
        let census = self.census.is_due().then_some(self.census_next);
        let ledger_fact = self.ledger_fact_due.then_some(self.ledger_fact_next);
        let optional = [
            self.member_due(),
            self.service.next_tick(),
            self.wake_due(),
            self.restore_at,
            census,
            ledger_fact,
            self.roster_at,
        ];
        let ledger = if self.is_silent() { Moment(u64::MAX) } else { self.ledger.next_tick() };
        optional.into_iter().flatten().fold(ledger, Moment::min)
    }

    /// A turn stands still while daemon or service end: what is stopped then is not judged.
    fn member_due(&self) -> Option<Moment> {
        self.member.next_tick().filter(|_| !self.closing)
    }

    fn wake_due(&self) -> Option<Moment> {
        // A decision that cannot be made now is made when the record in flight is committed.
        let ledger = self.ledger.view();
        self.wake.filter(|_| self.leading && !self.unreadable && ledger.ready && !ledger.in_flight)
    }

    /// The service is unloaded: its program is stopped, and it takes no part in anything.
    pub(crate) fn unload(&mut self, now: Now, shared: &mut Shared) {
        self.leads_no_more();
        self.unpublish(now, shared);
        self.unloading = true;
        self.halt_for_goodbye(now, shared);
    }

    fn drive_ledger(&mut self, now: Now, shared: &mut Shared) -> bool {
        if self.has_left {
            self.ledger.take_outputs();
            return false;
        }
        if std::mem::take(&mut self.unseen) {
            let seen = self.seen(shared);
            self.ledger.see(now.moment, &seen);
        }
        self.ledger.set_busy(now.moment, self.has_open_turn());
        self.ledger.set_can_read(!self.unreadable && self.can_read_newest(shared));
        let outputs = self.ledger.take_outputs();
        let moved = !outputs.is_empty();
        for output in outputs {
            match output {
                LedgerOutput::Send { to, message } => {
                    shared.send(to, Message::Ledger(self.name.clone(), message));
                }
                LedgerOutput::Persist { token, file } => {
                    let waiting = Waiting::Ledger(self.name.clone(), token);
                    shared.write(files::ledger(&self.name), &*file, waiting);
                }
                LedgerOutput::Committed(record) => {
                    self.committed(now, shared, &record);
                    self.reform_committed(shared, &record);
                }
                LedgerOutput::Leading { .. } => self.leads(now, shared),
                LedgerOutput::NotLeading => self.leads_no_more(),
                LedgerOutput::Note(text) => {
                    shared.log(Line::new(Notice::LedgerNote, Level::Info, text).of(&self.name));
                }
                LedgerOutput::Warning(text) => {
                    let text = self.quorum_reason(shared, text);
                    shared
                        .log(Line::new(Notice::LedgerWarning, Level::Warning, text).of(&self.name));
                }
                LedgerOutput::Surveyed(result) => self.surveyed(now, shared, result),
            }
        }
        self.tell_leader(now, shared);
        moved
    }

    fn has_open_turn(&self) -> bool {
        self.state.rollout.as_ref().is_some_and(|rollout| rollout.open_turns().next().is_some())
    }

    /// Whether the newest decision that is known here keeps `node` out of rollouts.
    pub(crate) fn is_cordoned(&self, node: NodeId) -> bool {
        self.state.cordons.contains(&node)
    }

    /// A message of another ledger of the group.
    pub(crate) fn ledger_message(&mut self, now: Now, from: NodeId, message: LedgerMessage) {
        if !self.unloading {
            self.ledger.receive(now.moment, from, message);
        }
    }

    /// A ledger write ended.
    pub(crate) fn ledger_written(&mut self, now: Now, token: u64, ok: bool) {
        self.ledger.persisted(now.moment, token, ok);
    }

    /// The leader of its lineage, as far as this node knows; none for one that has left.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.ledger.view().leader.filter(|_| !self.has_left)
    }

    /// Takes other settings into use. What runs keeps its environment until its next turn or
    /// restart.
    pub(crate) fn set_settings(&mut self, now: Now, shared: &mut Shared, new: ServiceSettings) {
        if self.settings != new {
            self.settings = new;
            self.stale = true;
            self.publish(now, shared);
        }
    }

    /// Whether nothing of the service is meant to run.
    pub(crate) fn wants_stopped(&self) -> bool {
        self.file.desired == Desired::Stopped
    }

    /// Term and version of the last committed record that was seen since this start.
    pub(crate) fn place(&self) -> Option<(Term, u64)> {
        self.heard.then_some((self.term, self.version))
    }

    /// Content of the last committed record.
    pub(crate) fn state(&self) -> &GroupState {
        &self.state
    }

    /// The member's record.
    pub(crate) fn member_file(&self) -> &MemberFile {
        self.member.file()
    }

    /// The service as its supervision sees it.
    pub(crate) fn service_state(&self) -> &ServiceState {
        self.service.status()
    }

    /// Whether this node has a vote in the group.
    pub(crate) fn is_voter(&self, node: NodeId) -> bool {
        self.ledger.view().voters.iter().any(|voter| voter.node == node)
    }
}

fn opened_ledger(boot: &mut Boot, shared: &mut Shared, name: &GroupName) -> Opened {
    let found = boot.files.remove(&files::ledger(name));
    match files::read::<LedgerFile>(found.as_ref()) {
        Ok(None) => Opened::Missing,
        Ok(Some(file)) if file.is_sane() => Opened::File(Box::new(file)),
        Ok(Some(_)) => {
            damaged(
                shared,
                name,
                &files::ledger(name),
                "its numbers are out of bounds; a new one takes its place",
            );
            Opened::Damaged
        }
        Err(cause) => {
            damaged(shared, name, &files::ledger(name), &cause);
            Opened::Damaged
        }
    }
}

/// A file's value, or the default of a file that is missing or damaged.
fn found<T: serde::de::DeserializeOwned + Default>(
    boot: &mut Boot,
    shared: &mut Shared,
    group: &GroupName,
    name: String,
) -> T {
    let found = boot.files.remove(&name);
    match files::read(found.as_ref()) {
        Ok(value) => value.unwrap_or_default(),
        Err(cause) => {
            damaged(shared, group, &name, &cause);
            T::default()
        }
    }
}

fn damaged(shared: &mut Shared, group: &GroupName, file: &str, cause: &str) {
    let text = format!("the file {file} is damaged: {cause}");
    shared.log(Line::new(Notice::FileDamaged, Level::Error, text).of(group));
}
