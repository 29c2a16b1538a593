//! Lines for people: to the journal with structured fields where stderr is the journal, to stderr
//! elsewhere.
//!
//! Invariant: the daemon's own lines bear its name, and each line of a supervised program the name
//! of its service, so that `journalctl -t redis.default` shows the program alone.

use std::collections::BTreeMap;
use std::io::Write as _;

use baton_node::effect::{Level, Line};
use baton_types::GroupName;
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

/// Where lines go.
#[derive(Debug)]
pub(crate) struct Journal {
    to_journal: bool,
    programs: BTreeMap<GroupName, Dispatch>,
}

impl Journal {
    /// Sets the process's lines up: once, at its start.
    ///
    /// `to_journal` says whether stderr is the journal's stream. `BATON_LOG` chooses what is shown
    /// in the syntax of tracing's `EnvFilter`; the default is `info`.
    pub(crate) fn start(to_journal: bool) -> Self {
        let filter =
            EnvFilter::try_from_env("BATON_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let journal = if to_journal { journald("baton") } else { None };
        let to_journal = journal.is_some();
        let result = match journal {
            Some(layer) => tracing_subscriber::registry().with(filter).with(layer).try_init(),
            None => tracing_subscriber::registry().with(filter).with(stderr_layer()).try_init(),
        };
        if let Err(cause) = result {
            // Only in tests, where several daemons share a process.
            tracing::debug!("lines were set up before: {cause}");
        }
        Self { to_journal, programs: BTreeMap::new() }
    }

    /// One line of the node.
    pub(crate) fn line(&self, line: &Line) {
        // sd-id128(3): digits alone, in lower case.
        let message_id = format!("{:032x}", line.notice.message_id());
        macro_rules! write_line {
            ($level:ident) => {
                tracing::$level!(
                    MESSAGE_ID = message_id,
                    BATON_GROUP = line.group.as_ref().map(tracing::field::display),
                    BATON_ROLLOUT = line.rollout.as_ref().map(tracing::field::display),
                    BATON_MEMBER = line.member.as_ref().map(tracing::field::display),
                    BATON_RELEASE = line.release.as_ref().map(tracing::field::display),
                    BATON_TERM = line.term.as_ref().map(tracing::field::display),
                    "{}{}",
                    Prefix(line),
                    line.text
                )
            };
        }
        match line.level {
            Level::Debug => write_line!(debug),
            Level::Info => write_line!(info),
            Level::Warning => write_line!(warn),
            Level::Error => write_line!(error),
        }
    }

    /// One line that the program of a service printed.
    pub(crate) fn program_line(&mut self, group: &GroupName, release: &str, text: &str) {
        if !self.to_journal {
            let mut stderr = std::io::stderr().lock();
            // Nobody is left to tell when stderr itself is gone.
            drop(writeln!(stderr, "{group}: {text}"));
            return;
        }
        let dispatch = self.programs.entry(group.clone()).or_insert_with(|| {
            match journald(&group.to_string()) {
                Some(layer) => Dispatch::new(Registry::default().with(layer)),
                None => Dispatch::none(),
            }
        });
        dispatcher::with_default(dispatch, || {
            tracing::info!(BATON_GROUP = %group, BATON_RELEASE = release, "{text}");
        });
    }
}

/// The group in front of the text; the journal's own views show no fields.
struct Prefix<'a>(&'a Line);

impl std::fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.group {
            Some(group) => write!(f, "{group}: "),
            None => Ok(()),
        }
    }
}

fn journald(identifier: &str) -> Option<tracing_journald::Layer> {
    let layer = tracing_journald::Layer::new().ok()?;
    Some(layer.with_field_prefix(None).with_syslog_identifier(identifier.to_owned()))
}

/// On stderr the fields are left out: the text says it all, and a person reads it.
fn stderr_layer<S>() -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .fmt_fields(MessageOnly)
}

/// Writes an event's message and nothing else of it.
#[derive(Debug)]
struct MessageOnly;

impl<'writer> tracing_subscriber::fmt::FormatFields<'writer> for MessageOnly {
    fn format_fields<R: tracing_subscriber::field::RecordFields>(
        &self,
        mut writer: tracing_subscriber::fmt::format::Writer<'writer>,
        fields: R,
    ) -> std::fmt::Result {
        struct Message<'a, 'w>(
            &'a mut tracing_subscriber::fmt::format::Writer<'w>,
            std::fmt::Result,
        );
        impl tracing::field::Visit for Message<'_, '_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" && self.1.is_ok() {
                    self.1 = std::fmt::Write::write_fmt(self.0, format_args!("{value:?}"));
                }
            }
        }
        let mut message = Message(&mut writer, Ok(()));
        fields.record(&mut message);
        message.1
    }
}
