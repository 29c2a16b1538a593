//! Reads `[node]` and `[control]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_types::limits::NAME_MAX_BYTES;
use baton_types::names::{Name, NodeName};
use toml::de::DeValue;

use crate::limits::{LABELS_MAX, PATH_MAX_BYTES, SOCKET_PATH_MAX_BYTES};
use crate::section::{Origin, Section};
use crate::settings::{ControlSettings, NodeSettings, OnStop};
use crate::source::Host;
use crate::value;

/// What `[node]` says. The name is `None` after a fault in it.
pub(crate) struct NodeParts {
    name: Option<NodeName>,
    data_dir: PathBuf,
    on_stop: OnStop,
    /// See [`NodeSettings::labels`].
    pub(crate) labels: BTreeMap<String, String>,
}

impl NodeParts {
    /// The settings, unless there was a fault in the name.
    pub(crate) fn settings(self) -> Option<NodeSettings> {
        let Self { name, data_dir, on_stop, labels } = self;
        name.map(|name| NodeSettings { name, data_dir, on_stop, labels })
    }
}

/// Reads `[node]`.
pub(crate) fn read_node(mut section: Section<'_>, host: &Host) -> NodeParts {
    let name = section.read("name", None, |found| {
        let name = value::string(found, "a name")?;
        NodeName::new(name).map(Some).map_err(|error| error.to_string())
    });
    let name = match name.value {
        None if name.origin == Origin::Absent => match NodeName::new(host.name.as_str()) {
            Ok(name) => Some(name),
            Err(error) => {
                let message = format!("found nothing, and of the host name: {error}; set a name");
                section.document.fault(&name.place, message);
                None
            }
        },
        given => given,
    };
    let data_dir = section
        .read("data_dir", PathBuf::from(DATA_DIR), |found| value::path(found, PATH_MAX_BYTES));
    let on_stop = section.read("on_stop", OnStop::Keep, |found| value::choice(found, OnStop::ALL));
    let labels = section.map("labels", LABELS_MAX, read_label);
    section.finish();
    NodeParts {
        name,
        data_dir: data_dir.value,
        on_stop: on_stop.value,
        labels: labels.into_iter().map(|(name, (value, _))| (name, value)).collect(),
    }
}

/// Reads `[control]`.
pub(crate) fn read_control(mut section: Section<'_>) -> ControlSettings {
    let socket = section
        .read("socket", PathBuf::from(SOCKET), |found| value::path(found, SOCKET_PATH_MAX_BYTES));
    let http = section.read("http", None, |found| value::socket_addr(found).map(Some));
    section.finish();
    ControlSettings { socket: socket.value, http: http.value }
}

/// A label is a short text; `order` is a number, with or without quotes.
fn read_label(name: &str, found: &DeValue<'_>) -> Result<String, String> {
    Name::new(name).map_err(|error| error.to_string())?;
    if name == ORDER {
        let digits = found.as_str().and_then(|text| text.parse::<i32>().ok());
        let order = match digits {
            Some(order) => order,
            None => value::integer(found, &(i32::MIN..=i32::MAX))?,
        };
        return Ok(order.to_string());
    }
    let wanted = format!("a text of 1 to {NAME_MAX_BYTES} printable bytes");
    let text = value::string(found, &wanted)?;
    if text.is_empty() || text.len() > NAME_MAX_BYTES || text.contains(char::is_control) {
        return Err(value::mismatch(found, &wanted));
    }
    Ok(text.to_owned())
}

/// The label that gives a node's place in the order of rollouts.
pub(crate) const ORDER: &str = "order";

const DATA_DIR: &str = "/var/lib/baton";

const SOCKET: &str = "/run/baton/control.sock";
