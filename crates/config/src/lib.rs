//! The configuration of a node: TOML text in, checked settings out.
//!
//! Invariant: text in, settings or faults out, and nothing else: no file, environment or clock is
//! read here. All faults of all files are found in one pass, each with its file, line and column;
//! there are settings only if there is no fault.
//!
//! Code map, in reading order: [`source`] what goes in, [`settings`] what comes out, [`fault`]
//! what is said about mistakes; `document` finds syntax faults and positions, `section` reads one
//! table key by key, `value` reads one value; `node`, `ring`, `service` and `policy` each read
//! their tables, and `check` holds what no single key can know. `revision` reads a configuration
//! revision, which is no part of a node's own configuration; [`changes`] says what an edit changed.

pub mod changes;
mod check;
mod document;
pub mod fault;
pub mod limits;
mod nearest;
mod node;
mod policy;
mod revision;
mod ring;
mod section;
mod service;
pub mod settings;
pub mod source;
mod value;

pub use changes::{Changes, ServiceChange};
pub use fault::Fault;
pub use revision::{ReadSource, parse_revision};
pub use settings::{ControlSettings, NodeSettings, OnStop, Outcome, RingSettings, Settings};
pub use settings::{ServiceOutcome, ServiceSettings};
pub use source::{Host, SourceFile};

use document::Document;
use section::Section;
use service::{Surroundings, read_service};

/// Reads `baton.toml` (`main`) and the files of `services.d`, in the order given.
pub fn parse(main: &SourceFile, services: &[SourceFile], host: &Host) -> Outcome {
    let main_document = Document::new(main);
    let main_table = main_document.parse();
    let service_documents: Vec<Document<'_>> = services.iter().map(Document::new).collect();

    let mut found = Vec::new();
    let mut parts = None;
    let mut surroundings = Surroundings::default();
    if let Some(table) = &main_table {
        let mut root = Section::root(&main_document, table);
        let node = node::read_node(root.table("node"), host);
        let ring = ring::read_ring(root.table("ring"));
        let control = node::read_control(root.table("control"));
        surroundings.joins = !ring.join.is_empty();
        surroundings.labels.clone_from(&node.labels);
        for section in root.tables("service") {
            found.push(read_service(section, &surroundings));
        }
        root.finish();
        parts = Some((node, ring, control));
    }
    let tables: Vec<_> = service_documents.iter().map(Document::parse).collect();
    for (document, table) in service_documents.iter().zip(&tables) {
        if let Some(table) = table {
            found.push(read_service(Section::root(document, table), &surroundings));
        }
    }
    check::across_services(&found);
    let services: Vec<ServiceSettings> = found.into_iter().filter_map(|one| one.settings).collect();

    let mut faults = Vec::new();
    let mut warnings = Vec::new();
    for document in std::iter::once(main_document).chain(service_documents) {
        document.finish(&mut faults, &mut warnings);
    }
    let settings = match parts {
        Some((node, ring, control)) if faults.is_empty() => {
            node.settings().map(|node| Settings { node, ring, control, services })
        }
        _ => None,
    };
    Outcome { settings, faults, warnings }
}

/// Reads one service file for a node that already runs with `settings`.
///
/// A service of the same group in `settings` is no fault: the file replaces it.
pub fn parse_service(file: &SourceFile, settings: &Settings) -> ServiceOutcome {
    let document = Document::new(file);
    let surroundings = Surroundings {
        joins: !settings.ring.join.is_empty(),
        labels: settings.node.labels.clone(),
    };
    let service = document
        .parse()
        .and_then(|table| read_service(Section::root(&document, &table), &surroundings).settings);
    let mut faults = Vec::new();
    let mut warnings = Vec::new();
    document.finish(&mut faults, &mut warnings);
    ServiceOutcome { service: service.filter(|_| faults.is_empty()), faults, warnings }
}
