//! SIGHUP and `service load`: what can change while the daemon runs.

use std::path::{Path, PathBuf};

use baton_config::Settings;
use baton_types::service::ServiceSettings;

use crate::api::LoadBody;
use crate::config_files;
use crate::net::Net;

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
        net.set_sealing(new.sealing).await;
        for (name, same) in [
            ("[node]", new.settings.node == settings.node),
            ("[ring]", same_but_joined(&new.settings, settings)),
            ("[control]", new.settings.control == settings.control),
        ] {
            if !same {
                tracing::warn!("{name} has changed: a restart of the daemon takes it over");
            }
        }
        settings.ring.join.clone_from(&new.settings.ring.join);
        let changed: Vec<String> = new
            .settings
            .services
            .iter()
            .filter(|service| !settings.services.contains(service))
            .map(|service| service.name.to_string())
            .collect();
        tracing::info!(
            "the configuration was read again; changed services: {}",
            if changed.is_empty() { "none".to_owned() } else { changed.join(", ") }
        );
        let gone = settings
            .services
            .iter()
            .filter(|old| !new.settings.services.iter().any(|service| service.name == old.name));
        for service in gone {
            tracing::warn!(
                BATON_GROUP = %service.name,
                "{} is no longer configured but stays loaded: `baton service unload {}` ends it",
                service.name,
                service.name
            );
        }
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

/// Join addresses and keys may change at run time, the rest of `[ring]` may not.
fn same_but_joined(new: &Settings, old: &Settings) -> bool {
    let mut new = new.ring.clone();
    new.join.clone_from(&old.ring.join);
    new == old.ring
}
