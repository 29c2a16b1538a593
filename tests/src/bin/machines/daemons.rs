//! Every way for a daemon to end, each in the middle of its own member's turn: the program is not
//! touched beyond the turn, and the turn goes on.

use std::time::Duration;

use baton_tests::{MachineFleet, packages, wait};

use crate::web;

pub(crate) fn play() {
    let mut fleet = web::machines();
    let other = packages::deb("0.1.0-2");
    for machine in fleet.machines() {
        std::fs::copy(&other, machine.root().join("root/other.deb")).unwrap();
        machine.sh(SHORT_WATCHDOG);
    }
    let first = web::promote(&fleet, 1);
    fleet.completed(&first);
    for (version, (what, command)) in (2..).zip(ENDS) {
        let release = web::promote(&fleet, version);
        let member = wait::until("a member in its turn", LIMIT, || fleet.in_turn());
        let machine = &fleet.machines()[member];
        let before = daemon(&fleet, member);
        machine.sh(command);
        fleet.completed(&release);
        let after = wait::until("another daemon", LIMIT, || {
            let now = daemon(&fleet, member);
            if now != before && now != "0" { Ok(now) } else { Err(now) }
        });
        println!(
            "n{}, in its turn to {release}: {what}; daemon {before}, then {after}",
            member + 1
        );
        for index in 0..web::COUNT {
            let notes = web::notes(&fleet, index);
            let begun: Vec<u32> = notes.iter().filter(|n| n.begins).map(|n| n.version).collect();
            assert_eq!(begun, (1..=version).collect::<Vec<_>>(), "n{}: {notes:?}", index + 1);
        }
    }
    let journal = fleet.machines().iter().map(|machine| machine.ok(&["journalctl", "-o", "cat"]));
    assert!(journal.collect::<String>().contains("Watchdog timeout"), "no watchdog came");
}

fn daemon(fleet: &MachineFleet, index: usize) -> String {
    let pid = fleet.machines()[index].ok(&["systemctl", "show", "baton", "-P", "MainPID"]);
    pid.trim().to_owned()
}

const ENDS: [(&str, &str); 4] = [
    ("systemctl restart", "systemctl restart baton"),
    ("kill -9", "kill -9 $(systemctl show baton -P MainPID)"),
    ("SIGSTOP, then the watchdog", "kill -STOP $(systemctl show baton -P MainPID)"),
    ("upgrade of the package", "dpkg -i /root/other.deb"),
];

/// As in the unit, but nobody waits for half a minute here.
const SHORT_WATCHDOG: &str = r#"
mkdir -p /etc/systemd/system/baton.service.d
printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/baton.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart baton
"#;

const LIMIT: Duration = Duration::from_secs(120);
