//! Supervision: what runs at boot, what the operator wants on this node, and what the service asks
//! of the shell.
//!
//! Invariant: what a member last ran is started again without anybody's permission; only a turn
//! changes what that is.

use std::sync::Arc;

use baton_rollout::ServiceNote;
use baton_supervise::{Launch, ServiceInput, ServiceOutput};
use baton_types::limits::BASELINES_MAX;
use baton_types::manifest::StopSignal;
use baton_types::member::{Desired, ProcessState};
use baton_types::{Now, Release, Target};

use super::Group;
use super::revisions::revision_of;
use crate::boot::Adopted;
use crate::effect::{Effect, Level, Line};
use crate::event::DepotFault;
use crate::files::{self, Waiting};
use crate::limits::RESTORE_INTERVAL;
use crate::notice::Notice;
use crate::shared::Shared;

impl Group {
    /// At the start of the daemon: takes over what still runs, starts what should.
    pub(super) fn resume_service(
        &mut self,
        now: Now,
        shared: &mut Shared,
        adopted: Option<Adopted>,
    ) {
        if let Some(adopted) = adopted {
            match self.adoptable(shared, adopted) {
                Some(launch) => {
                    let text = format!("{} still runs as process {}", launch.target, adopted.pid);
                    shared
                        .log(Line::new(Notice::ServiceTakenOver, Level::Info, text).of(&self.name));
                    self.launched = Some(launch.clone());
                    self.service.adopt(now.moment, launch, adopted.pid);
                }
                None => {
                    let text = format!(
                        "process {} runs on, but not what this node's record names, or what is no \
                         longer on this machine: it is ended before anything else is started",
                        adopted.pid
                    );
                    shared.log(
                        Line::new(Notice::ServiceForeign, Level::Warning, text).of(&self.name),
                    );
                    self.foreign = Some(adopted);
                }
            }
        }
        if self.wants_stopped() {
            self.halt(now, shared);
        } else if let Some(target) = self.member.wants_running().cloned() {
            self.run_target(now, shared, target);
        }
    }

    fn adoptable(&self, shared: &Shared, adopted: Adopted) -> Option<Launch> {
        let file = self.member.file();
        let turn = file.turn.as_ref().map(|turn| &turn.terms.target);
        let target = [file.running.as_ref(), turn, file.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|target| started_from(target, adopted))?;
        self.launch_of(shared, target)
    }

    /// Runs `target`, bringing it back to this machine first if it must be.
    fn run_target(&mut self, now: Now, shared: &mut Shared, target: Target) {
        match self.launch_of(shared, &target) {
            Some(launch) if shared.unpacked.contains(&target.release.digest) => {
                let already = self.launched.as_ref().is_some_and(|running| {
                    running.target.same_as(&launch.target)
                        && self.service.status().process == ProcessState::Running
                });
                if !already {
                    self.launch(now, shared, launch);
                }
            }
            _ => self.restore_target(shared, target),
        }
    }

    /// `target` as it would run today, if it lies ready on this machine.
    pub(super) fn ready_launch(&self, shared: &Shared, target: &Target) -> Option<Launch> {
        self.launch_of(shared, target).filter(|_| shared.unpacked.contains(&target.release.digest))
    }

    pub(super) fn launch(&mut self, now: Now, shared: &mut Shared, launch: Launch) {
        if self.closing {
            return;
        }
        self.launched = Some(launch.clone());
        match self.foreign {
            // One that is being ended must not be taken for the one that is to run.
            Some(foreign) if started_from(&launch.target, foreign) && !self.ending_foreign => {
                self.foreign = None;
                self.service.adopt(now.moment, launch, foreign.pid);
            }
            Some(_) => {
                self.after_foreign = Some(launch);
                self.end_foreign(shared);
            }
            None => self.service.run(now.moment, launch),
        }
    }

    /// Stops whatever runs.
    pub(super) fn halt(&mut self, now: Now, shared: &mut Shared) {
        self.restoring = None;
        self.after_foreign = None;
        if self.foreign.is_some() {
            self.end_foreign(shared);
        }
        self.service.halt(now.moment);
    }

    fn end_foreign(&mut self, shared: &mut Shared) {
        if !std::mem::replace(&mut self.ending_foreign, true) {
            let (group, signal) = (self.name.clone(), StopSignal::Term);
            let (run, timeout) = (FOREIGN_RUN, FOREIGN_STOP_TIMEOUT);
            shared.effects.push(Effect::Halt { group, run, signal, timeout });
        }
    }

    fn foreign_gone(&mut self, now: Now) {
        self.foreign = None;
        self.ending_foreign = false;
        if let Some(launch) = self.after_foreign.take() {
            self.service.run(now.moment, launch);
        }
        if self.is_stopped() && std::mem::take(&mut self.awaiting_stop) {
            self.note(now, ServiceNote::Stopped);
        }
    }

    /// `target` is to run but is not on this machine: it is fetched and unpacked again.
    pub(super) fn restore_target(&mut self, shared: &mut Shared, target: Target) {
        if self.closing {
            return;
        }
        self.restoring = Some(target);
        self.keep_releases(shared);
        self.restore(shared);
    }

    pub(super) fn restore(&mut self, shared: &mut Shared) {
        if let Some(target) = self.restoring.clone() {
            let depot = self.settings.depot.clone();
            self.fetch(shared, target, depot);
        }
    }

    fn restores(&self, release: &Release) -> bool {
        self.restoring.as_ref().is_some_and(|target| target.release.digest == release.digest)
    }

    pub(super) fn restore_fetched(
        &mut self,
        now: Now,
        shared: &mut Shared,
        release: &Release,
        fault: Option<&DepotFault>,
    ) {
        if self.restores(release) {
            match fault {
                None => shared
                    .effects
                    .push(Effect::Unpack { group: self.name.clone(), release: release.clone() }),
                Some(fault) => self.restore_later(now, shared, release, fault),
            }
        }
    }

    pub(super) fn restore_unpacked(
        &mut self,
        now: Now,
        shared: &mut Shared,
        release: &Release,
        fault: Option<&DepotFault>,
    ) {
        if self.restores(release) {
            match fault {
                None => {
                    // Without its revision it waits for that: another target has the same release.
                    let launch = self.restoring.as_ref().and_then(|t| self.launch_of(shared, t));
                    if let Some(launch) = launch {
                        self.restoring = None;
                        if !self.wants_stopped() {
                            self.launch(now, shared, launch);
                        }
                    }
                }
                Some(fault) => self.restore_later(now, shared, release, fault),
            }
        }
    }

    /// The configuration revision of what is to be brought back could not be fetched.
    pub(super) fn restore_without_revision(
        &mut self,
        now: Now,
        shared: &mut Shared,
        target: &Target,
        fault: &DepotFault,
    ) {
        if self.restoring.as_ref().is_some_and(|restoring| restoring.same_as(target)) {
            self.restore_later(now, shared, &target.release, fault);
        }
    }

    fn restore_later(
        &mut self,
        now: Now,
        shared: &mut Shared,
        release: &Release,
        fault: &DepotFault,
    ) {
        let text = format!("{release} cannot be brought back: {}", fault.text);
        shared.log(Line::new(Notice::ServiceNotRestored, Level::Error, text).of(&self.name));
        self.restore_at = Some(now.moment + RESTORE_INTERVAL);
    }

    /// `service start`, or the service's part in a turn.
    pub(crate) fn start(&mut self, now: Now, shared: &mut Shared) -> Result<String, String> {
        self.set_desired(shared, Desired::Running);
        let Some(target) = self.member.wants_running().cloned() else {
            return Err(format!(
                "{} has no release on this node yet: its first rollout brings one",
                self.name
            ));
        };
        let text = format!("{target} is being started");
        self.run_target(now, shared, target);
        self.publish(now, shared);
        Ok(text)
    }

    /// `service stop`.
    pub(crate) fn stop(&mut self, now: Now, shared: &mut Shared) -> String {
        self.set_desired(shared, Desired::Stopped);
        self.halt(now, shared);
        self.publish(now, shared);
        format!("{} is being stopped on this node and stays down until `service start`", self.name)
    }

    /// `service restart`: with today's settings.
    pub(crate) fn restart(&mut self, now: Now, shared: &mut Shared) -> Result<String, String> {
        let Some(target) = self.member.wants_running().cloned() else {
            return Err(format!("{} runs nothing on this node", self.name));
        };
        self.set_desired(shared, Desired::Running);
        match self.ready_launch(shared, &target) {
            // Another launch replaces the one that runs by itself, and one that is down starts.
            Some(launch) => {
                let same = self.launched.as_ref().is_some_and(|old| old.same_program(&launch));
                let wanted = self.service.status().desired == Desired::Running;
                self.launch(now, shared, launch);
                if same && wanted {
                    self.service.restart(now.moment);
                }
            }
            None => self.restore_target(shared, target.clone()),
        }
        self.publish(now, shared);
        Ok(format!("{target} is being restarted"))
    }

    /// For good order at the end: stops the program without changing what the operator wants.
    ///
    /// From here on nothing is started any more, by a turn neither.
    pub(crate) fn halt_for_goodbye(&mut self, now: Now, shared: &mut Shared) {
        self.closing = true;
        self.halt(now, shared);
    }

    /// Whether nothing of the service runs.
    pub(crate) fn is_stopped(&self) -> bool {
        self.foreign.is_none() && self.service.status().process == ProcessState::Stopped
    }

    pub(super) fn set_desired(&mut self, shared: &mut Shared, desired: Desired) {
        // One that the disk refused is written again when it is said again.
        if self.file.desired != desired || !self.file_kept {
            self.file.desired = desired;
            self.file_kept = false;
            let waiting = Waiting::Desired(self.name.clone());
            self.file_write = shared.write(files::service(&self.name), &self.file, waiting);
        }
    }

    /// The write that the last word of an operator waits for; asked once.
    pub(crate) fn take_file_write(&mut self) -> Option<u64> {
        self.file_write.take()
    }

    /// The newest write of what the operator wants has ended.
    pub(crate) fn file_written(&mut self, ok: bool) {
        self.file_kept = ok;
    }

    /// An answer of the shell for the service.
    pub(crate) fn service_input(&mut self, now: Now, input: ServiceInput) {
        match input {
            ServiceInput::Halted { run: FOREIGN_RUN } => self.foreign_gone(now),
            ServiceInput::Exited { pid, .. } if self.foreign.is_some_and(|f| f.pid == pid) => {
                self.foreign_gone(now);
            }
            ServiceInput::HookDone { hook, result } if hook % 2 == 1 => {
                self.turn_hook_done(now, hook, &result);
            }
            ServiceInput::HookDone { hook, result } => {
                let hook = hook / 2;
                self.service.input(now.moment, ServiceInput::HookDone { hook, result });
            }
            other => self.service.input(now.moment, other),
        }
    }

    /// Before anything else that happens now: after a standstill nobody is to hear, and no turn to be
    /// judged by, how the program was before it.
    pub(crate) fn notice_late(&mut self, now: Now, shared: &mut Shared) {
        if self.service.notice_late(now.moment) {
            self.drive_service(now, shared);
        }
    }

    pub(super) fn drive_service(&mut self, now: Now, shared: &mut Shared) -> bool {
        let outputs = self.service.take_outputs();
        let moved = !outputs.is_empty();
        for output in outputs {
            let group = self.name.clone();
            match output {
                ServiceOutput::Launch { run, launch } => {
                    shared.effects.push(Effect::Launch { group, run, launch });
                }
                ServiceOutput::Halt { run, signal, timeout } => {
                    shared.effects.push(Effect::Halt { group, run, signal, timeout });
                }
                ServiceOutput::RunHook { hook, kind, launch } => {
                    let timeout = hook_timeout(&launch, kind);
                    let hook = hook * 2;
                    shared.effects.push(Effect::RunHook { group, hook, kind, launch, timeout });
                }
                ServiceOutput::CancelHook { hook } => {
                    shared.effects.push(Effect::CancelHook { group, hook: hook * 2 });
                }
                ServiceOutput::Check { check, what, timeout, launch } => {
                    shared.effects.push(Effect::Check { group, check, what, timeout, launch });
                }
                ServiceOutput::Changed => {
                    self.publish(now, shared);
                    self.tell_of_start(now);
                }
                ServiceOutput::Event(event) => self.service_event(now, shared, event),
            }
        }
        moved
    }

    /// Looks again which releases and configuration revisions must stay on this machine.
    pub(super) fn keep_releases(&mut self, shared: &mut Shared) {
        let mut keep = self.member.kept();
        let more = self.settings.keep_releases as usize;
        keep.extend(self.state.baselines.iter().rev().take(more).flat_map(Target::digests));
        keep.extend(self.state.rollout.iter().flat_map(|rollout| rollout.to.digests()));
        keep.extend(self.restoring.iter().flat_map(Target::digests));
        keep.extend(self.state.first_config.digest);
        keep.extend(self.fetches.iter().flat_map(|fetch| fetch.target.digests()));
        keep.extend(self.applications.iter().filter_map(revision_of));
        keep.extend(self.foreign.iter().map(|foreign| foreign.digest));
        keep.sort_unstable();
        keep.dedup();
        keep.truncate(KEPT_MAX);
        if keep != self.kept {
            self.kept = keep;
            shared.keep_due = Some(self.name.clone());
        }
    }

    /// Whether [`Group::kept`] is all that is needed: a voter that has not heard the record yet
    /// does not know the baselines.
    pub(crate) fn knows_kept(&self, shared: &Shared) -> bool {
        self.heard || !self.is_voter(shared.me)
    }

    /// What is to stay on this machine for this service.
    pub(crate) fn kept(&self) -> &[baton_types::Digest] {
        &self.kept
    }
}

fn hook_timeout(
    launch: &Arc<Launch>,
    kind: baton_types::manifest::HookKind,
) -> std::time::Duration {
    launch.manifest.hooks.get(kind).map(|hook| hook.timeout).unwrap_or_default()
}

/// Whether a program that outlived its daemon runs `target`: by the key in its run record, or, where
/// only its release is known, by that.
fn started_from(target: &Target, adopted: Adopted) -> bool {
    adopted.digest == target.key() || adopted.digest == target.release.digest
}

/// Names a program that supervision does not know, where a launch of it would be named: those are
/// numbered from 1.
const FOREIGN_RUN: u64 = 0;

/// The default of a release, as that of the program is not known.
const FOREIGN_STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Unpacked releases of one service, and configuration revisions: baseline, last target, what a
/// rollback may name and what is being fetched.
const KEPT_MAX: usize = 2 * (BASELINES_MAX + 16);
