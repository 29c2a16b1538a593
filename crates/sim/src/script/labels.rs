//! `[labels.n1]` of a scenario: what a host's configuration says under `node.labels`.

use std::collections::BTreeMap;

use baton_types::Name;

use super::policy::Table;
use super::{ScriptError, host_named};
use crate::settings::{ORDER_LABEL, Setup};

/// Gives hosts their labels.
pub(super) fn read(tables: &BTreeMap<String, Table>, setup: &mut Setup) -> Result<(), ScriptError> {
    for (host, labels) in tables {
        let Some(number) = host_named(host, setup.hosts) else {
            let allowed = format!("n1 to n{}", setup.hosts);
            return Err(ScriptError::value("labels", format!("{host:?}"), &allowed));
        };
        for (name, value) in labels {
            let key = format!("labels.{host}.{name}");
            if Name::new(name.as_str()).is_err() {
                return Err(ScriptError::value(
                    &key,
                    name,
                    "a name of letters, digits, '-' and '_'",
                ));
            }
            let text = match name.as_str() {
                ORDER_LABEL => order(value).ok_or("a number, with or without quotes"),
                _ => text(value).ok_or("a short text"),
            };
            let text = text.map_err(|allowed| ScriptError::value(&key, value, allowed))?;
            setup.label(number, name, &text);
        }
    }
    Ok(())
}

fn order(value: &toml::Value) -> Option<String> {
    let number = match value {
        toml::Value::String(text) => text.parse().ok(),
        other => other.as_integer().and_then(|number| i32::try_from(number).ok()),
    };
    number.map(|number: i32| number.to_string())
}

fn text(value: &toml::Value) -> Option<String> {
    let text = value.as_str()?;
    let is_short = !text.is_empty() && text.len() <= TEXT_MAX_BYTES;
    (is_short && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// As long as a label of the configuration may be.
const TEXT_MAX_BYTES: usize = baton_types::limits::NAME_MAX_BYTES;
