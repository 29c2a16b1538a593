//! `baton check`: the configuration, without touching anything.

use std::path::Path;

use baton_daemon::config_files::{self, Loaded};
use baton_types::service::ServiceSettings;
use baton_wire::seal::Sealing;

use crate::exit::Failure;
use crate::output::{Output, count};

/// Prints every fault and warning, and what was understood if there is no fault.
pub(crate) fn run(config: &Path, output: &mut Output) -> Result<(), Failure> {
    match config_files::load(config) {
        Ok(loaded) => {
            output.lines(loaded.warnings.iter().map(|warning| format!("warning: {warning}")))?;
            output.lines(understood(&loaded))
        }
        Err(found) => {
            output.lines(found.faults.iter().map(|fault| format!("error: {fault}")))?;
            output.lines(found.warnings.iter().map(|warning| format!("warning: {warning}")))?;
            let faults =
                count(found.faults.iter().map(|fault| fault.lines().count()).sum(), "fault");
            Err(Failure::failed(format!(
                "{faults} in the configuration; nothing of it takes effect"
            )))
        }
    }
}

fn understood(loaded: &Loaded) -> Vec<String> {
    let settings = &loaded.settings;
    let (node, ring, control) = (&settings.node, &settings.ring, &settings.control);
    let seal = match &loaded.sealing {
        Sealing::Plain => "not sealed".to_owned(),
        Sealing::Keys(keys) => {
            let ids: Vec<String> = keys.ids().iter().map(ToString::to_string).collect();
            format!("sealed with key {}", ids.join(", also opens "))
        }
    };
    let join = match ring.join.as_slice() {
        [] => "joins nobody (first of its ring)".to_owned(),
        addresses => format!("joins {}", addresses.join(", ")),
    };
    let http = control.http.map_or_else(String::new, |addr| format!(", status page on {addr}"));
    let files: Vec<String> = loaded.files.iter().map(|path| path.display().to_string()).collect();
    let mut lines = vec![
        format!("good: {}", files.join(", ")),
        format!("  node     {}, data in {}", node.name, node.data_dir.display()),
        format!("  ring     {} ({}), {seal}, {join}", ring.bind, ring.profile),
        format!("  control  {}{http}", control.socket.display()),
    ];
    lines.extend(settings.services.iter().map(service_line));
    if settings.services.is_empty() {
        lines.push("  no services".to_owned());
    }
    lines
}

fn service_line(service: &ServiceSettings) -> String {
    format!(
        "  service  {}: {} from channel {} of {}, {}, group of {}, at most {} unavailable",
        service.name,
        service.release,
        service.channel,
        service.depot,
        service.strategy,
        service.expect,
        service.update.max_unavailable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_configuration_is_told_in_a_few_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("baton.toml");
        std::fs::write(&path, "[node]\nname = \"n1\"\n").expect("written");
        let loaded = config_files::load(&path).expect("good");
        assert_eq!(
            understood(&loaded)[1..],
            [
                "  node     n1, data in /var/lib/baton",
                "  ring     127.0.0.1:7117 (lan), not sealed, joins nobody (first of its ring)",
                "  control  /run/baton/control.sock",
                "  no services",
            ]
        );
        assert!(run(&path, &mut Output::new()).is_ok());
    }

    #[test]
    fn faults_end_with_1() {
        let failure = run(Path::new("/nowhere/baton.toml"), &mut Output::new()).expect_err("none");
        assert_eq!(failure.code, 1);
        assert!(failure.text.starts_with("1 fault in the configuration"), "{}", failure.text);
    }
}
