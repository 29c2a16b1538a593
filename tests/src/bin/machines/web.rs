//! A service that notes its own starts and stops, on three machines.

use std::fs;

use baton_tests::machine_root::PLAIN;
use baton_tests::{Fleet, MachineFleet, depot::Depot, packages};
use toml::Table;

/// How many machines.
pub(crate) const COUNT: usize = 3;

/// Something that a program noted of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whether it began; else it was asked to end.
    pub(crate) begins: bool,
    /// Its version.
    pub(crate) version: u32,
    /// When, in milliseconds since 1970: all machines here have one clock.
    pub(crate) at: u64,
}

/// Three machines with the package installed, and no release yet.
pub(crate) fn machines() -> MachineFleet {
    let deb = packages::deb("0.1.0-1");
    let fleet = Fleet::new(COUNT);
    Depot::at(fleet.dir()).init();
    let service: Table = SERVICE.parse().expect("a service file");
    MachineFleet::install(fleet, &PLAIN, &deb, |_| service.clone())
}

/// Publishes the next version and promotes it; its name.
pub(crate) fn promote(fleet: &MachineFleet, version: u32) -> String {
    let manifest = format!(
        "name = \"web\"\nversion = \"{version}\"\n[run]\ncommand = [\"bin/web\", \"{version}\"]\n\
         stop_timeout = \"5s\"\n[health]\nexec = [\"bin/health\"]\n"
    );
    fleet.publish(&manifest, &[("bin/web", PROGRAM), ("bin/health", "#!/bin/sh\nexit 0\n")]);
    let release = format!("web/{version}");
    fleet.depot().promote(&release);
    release
}

/// What the program of the machine with this index noted, also while it is off.
pub(crate) fn notes(fleet: &MachineFleet, index: usize) -> Vec<Note> {
    let file = fleet.machines()[index].root().join("var/lib/baton/state/web.default/notes");
    let text = fs::read_to_string(file).unwrap_or_default();
    let note = |line: &str| {
        let mut words = line.split(' ');
        let begins = words.next()? == "begins";
        Some(Note { begins, version: words.next()?.parse().ok()?, at: words.next()?.parse().ok()? })
    };
    text.lines().map(|line| note(line).unwrap_or_else(|| panic!("{line:?}"))).collect()
}

const SERVICE: &str = r#"
name = "web"
poll = "500ms"
expect = 3
[health]
interval = "500ms"
[update]
start_timeout = "60s"
monitor = "2s"
"#;

const PROGRAM: &str = r#"#!/bin/sh
note() { echo "$1 $version $(date +%s%3N)" >>"$BATON_STATE_DIR/notes"; }
version=$1
note begins
trap 'note ends; exit 0' TERM
while :; do sleep 0.1; done
"#;
