//! SIGHUP and `service load`: what can change while the daemon runs.

use std::path::{Path, PathBuf};

use baton_config::{Changes, ServiceChange, Settings};
use baton_types::service::ServiceSettings;
use baton_wire::seal::Sealing;

use crate::api::LoadBody;
use crate::net::Net;
use crate::{config_files, loaded};

/// Where the configuration is.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) config: PathBuf,
}

impl Reload {
    /// Reads the configuration again. Services and keys are taken over; everything else needs a
    /// restart and is named. With a fault nothing changes.
    pub(crate) async fn again(
        &self,
        settings: &mut Settings,
        net: &Net,
    ) -> Option<Vec<ServiceSettings>> {
        let new = match config_files::load(&self.config) {
            Ok(new) => new,
            Err(faults) => {
                tracing::error!("the configuration is not taken over, it has faults:");
                faults.faults.iter().for_each(|fault| tracing::error!("{fault}"));
                return None;
            }
        };
        for warning in &new.warnings {
            tracing::warn!("{warning}");
        }
        let keys = net.set_sealing(new.sealing.clone()).await;
        let changes = Changes::between(settings, &new.settings);
        tell_keys(&keys, &new.sealing);
        tell(&changes, &settings.node.data_dir);
        settings.ring.join.clone_from(&new.settings.ring.join);
        settings.services = new.settings.services;
        Some(settings.services.clone())
    }

    /// Checks the text of a service file against the running settings.
    pub(crate) fn parse_service(
        &self,
        settings: &Settings,
        body: &LoadBody,
    ) -> Result<ServiceSettings, String> {
        config_files::load_service(Path::new(&body.path), &body.toml, settings)
            .map(|loaded| {
                loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                loaded.service
            })
            .map_err(|faults| faults.to_string())
    }
}

/// Says what is another one, one line for each thing that changed, and what it takes to have it.
fn tell(changes: &Changes, data_dir: &Path) {
    if changes == &Changes::default() {
        tracing::info!("the configuration was read again: no setting has changed");
        return;
    }
    tracing::info!("the configuration was read again");
    if !changes.needs_restart.is_empty() {
        tracing::warn!(
            "{}: changed in the file, not in the daemon: a restart of the daemon takes it over",
            changes.needs_restart.join(", ")
        );
    }
    if changes.join {
        tracing::info!("ring.join: changed, and looked for from now on");
    }
    for group in &changes.added {
        tracing::info!(BATON_GROUP = %group, "{group} is configured from now on");
    }
    for group in &changes.gone {
        tracing::warn!(
            BATON_GROUP = %group,
            "{group} is no longer configured but stays loaded: `baton service unload {group}` ends it"
        );
    }
    for ServiceChange { group, of_program, at_once } in &changes.changed {
        if loaded::is_kept(data_dir, group) {
            tracing::warn!(
                BATON_GROUP = %group,
                "the file of {group} has changed, but it runs by the one that was given to `baton service load`: \
                 `baton service unload {group}` and a reload take this one into use"
            );
            continue;
        }
        if !at_once.is_empty() {
            tracing::info!(
                BATON_GROUP = %group,
                "{}: changed for {group}, from now on; a rollout under way keeps the policy that it began with",
                at_once.join(", ")
            );
        }
        if !of_program.is_empty() {
            tracing::info!(
                BATON_GROUP = %group,
                "{}: changed for {group}; what runs keeps the old one until its next turn: \
                 `baton rollout restart {group}` brings it to all members",
                of_program.join(", ")
            );
        }
    }
}

fn tell_keys(old: &Sealing, new: &Sealing) {
    let ids = |sealing: &Sealing| match sealing {
        Sealing::Plain => Vec::new(),
        Sealing::Keys(keys) => keys.ids().iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let (old, new) = (ids(old), ids(new));
    if old == new {
        return;
    }
    match new.first() {
        Some(first) => {
            tracing::info!("the ring's keys are now {}; {first} is used to send", new.join(", "))
        }
        None => tracing::warn!("the ring has no key any more: what this node sends is not sealed"),
    }
}
