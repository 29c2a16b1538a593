//! The packages: what they hold, and a `.deb` in a booted machine from its installation to its end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use baton_tests::requirements::programs_exist;
use baton_tests::{Answer, Machine, machine, packages, shell, wait};
use serde_json::Value;

/// Distributions differ in where a file belongs, and in nothing else.
#[test]
fn both_packages_hold_the_same() {
    if !programs_exist("both_packages_hold_the_same", &packages::NEEDED) {
        return;
    }
    let deb = packages::deb("0.1.0-1").display().to_string();
    let rpm = packages::rpm().display().to_string();
    let of_deb: BTreeSet<String> = shell::run(&["dpkg-deb", "--contents", &deb])
        .lines()
        .filter_map(|line| line.split(" ./").nth(1).map(|path| format!("/{path}")))
        .filter(|path| !path.ends_with('/'))
        .map(|path| path.replace("zsh/vendor-completions", "zsh/site-functions"))
        .map(|path| path.replace("doc/baton/copyright", "licenses/baton/LICENSE"))
        .collect();
    let of_rpm = shell::run(&["rpm", "-qlp", &rpm]);
    let of_rpm: BTreeSet<String> = of_rpm.lines().map(ToOwned::to_owned).collect();
    assert_eq!(of_deb, of_rpm);
    for path in [
        "/usr/bin/baton",
        "/usr/lib/systemd/system/baton.service",
        "/usr/lib/systemd/catalog/baton.catalog",
        "/usr/share/man/man1/baton-rollout-start.1.gz",
        "/usr/share/bash-completion/completions/baton",
    ] {
        assert!(of_deb.contains(path), "{path} is not in {of_deb:?}");
    }
    let kept = shell::run(&["rpm", "-qp", "--configfiles", &rpm]);
    assert_eq!(kept.trim(), "/etc/baton/baton.toml");
    assert_eq!(shell::run(&["dpkg-deb", "-I", &deb, "conffiles"]).trim(), "/etc/baton/baton.toml");
}

#[test]
fn a_machine_installs_upgrades_and_purges_it() {
    let test = "a_machine_installs_upgrades_and_purges_it";
    if !machine::can_boot(test) || !programs_exist(test, &packages::NEEDED) {
        return;
    }
    let mut machine = Machine::new();
    let put = |deb: &Path, name: &str| {
        fs::copy(deb, machine.root().join("root").join(name)).unwrap();
    };
    put(&packages::deb("0.1.0-1"), "first.deb");
    put(&packages::deb("0.1.0-2"), "second.deb");
    machine.boot();

    installed(&machine);
    who_may_ask(&machine);
    keyed(&machine);
    served(&machine);
    told(&machine);
    outlives_its_daemon(&machine);
    upgraded(&machine);
    comes_back_after_a_power_cut(&mut machine);
    a_boot_that_is_not_complete_takes_no_turn(&mut machine);
    gone(&machine);
}

/// The daemon runs, is what systemd takes for ready, and has everything beside it.
fn installed(machine: &Machine) {
    machine.ok(&["dpkg", "-i", "/root/first.deb"]);
    for unit in ["baton.service", "baton-boot-complete.service"] {
        assert_eq!(machine.run(&["systemctl", "is-active", unit]).stdout, "active\n", "{unit}");
        assert_eq!(machine.run(&["systemctl", "is-enabled", unit]).stdout, "enabled\n", "{unit}");
    }
    machine.ok(&["baton", "check"]);
    let members = machine.ok(&["baton", "ring", "members"]);
    assert!(members.contains("alive"), "{members}");
    // Mounts and reboots of hooks are the machine's own.
    let namespace = |of: &str| machine.sh(&format!("readlink /proc/{of}/ns/mnt"));
    assert_eq!(namespace(&daemon(machine)), namespace("1"), "the daemon has mounts of its own");
    machine.sh("test -s /usr/share/man/man1/baton.1.gz");
    machine.sh("bash -n /usr/share/bash-completion/completions/baton");
    let explained = machine.ok(&["journalctl", "--list-catalog"]);
    assert!(explained.contains("Baton: The boot of this machine is complete"), "{explained}");
}

/// Members of the group `baton`, and nobody else but root.
fn who_may_ask(machine: &Machine) {
    let ask = |groups: &str| {
        machine.run(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            groups,
            "baton",
            "ring",
            "members",
        ])
    };
    let group = machine.sh("getent group baton | cut -d: -f3");
    ask(&format!("--groups={}", group.trim())).expect_code(0);
    ask("--clear-groups").expect(3, &["/run/baton/control.sock"]);
}

/// The ring's key comes from the credential store, which may keep it encrypted.
fn keyed(machine: &Machine) {
    machine.sh(STORED_KEY);
    let keys = machine.ok(&["baton", "ring", "keys", "--json"]);
    let keys: Value = serde_json::from_str(&keys).unwrap();
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "{keys}");
}

/// A service file and a reload, a release and its rollout.
fn served(machine: &Machine) {
    machine.sh(SET_UP);
    machine.ok(&["systemctl", "log-level", "debug"]);
    machine.ok(&["systemctl", "reload", "baton"]);
    wait::until("the reload", LIMIT, || {
        let journal = machine.ok(&["journalctl", "-b", "-o", "cat"]);
        let said = journal.contains("web.default is configured from now on");
        let told = ["(RELOADING=1, MONOTONIC_USEC=", "(READY=1)"];
        let told = said && told.iter().all(|word| journal.contains(word));
        if told { Ok(()) } else { Err(journal) }
    });
    machine.ok(&["systemctl", "log-level", "info"]);
    let state = machine.ok(&["systemctl", "show", "baton", "-P", "ActiveState"]);
    assert_eq!(state, "active\n", "READY ends a reload");
    promote(machine, "1");
    rolled(machine, "web/1");
}

/// Each line has its id, its fields and its page.
fn told(machine: &Machine) {
    let explained = machine.ok(&["journalctl", "-x", "-t", "baton", "--no-pager"]);
    for part in [
        "The rollout of web.default to web/1 is complete",
        "Every member passed. Its target is the group's baseline now",
    ] {
        assert!(explained.contains(part), "{part:?} is not in {explained}");
    }
    let lines = machine.ok(&["journalctl", "-t", "baton", "-o", "json", "BATON_GROUP=web.default"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let passed: Vec<&Value> = lines
        .iter()
        .filter(|line| line["MESSAGE"].as_str().unwrap().contains(" passed on web/1"))
        .collect();
    assert_eq!(passed.len(), 1, "one state change is one line: {passed:?}");
    for field in ["MESSAGE_ID", "BATON_ROLLOUT", "BATON_MEMBER", "BATON_RELEASE", "BATON_TERM"] {
        assert!(passed[0][field].is_string(), "{field} is missing: {}", passed[0]);
    }
    for line in lines.iter().filter(|line| line["BATON_ROLLOUT"].is_string()) {
        assert_eq!(line["MESSAGE_ID"].as_str().map(str::len), Some(32), "{line}");
    }
    let printed = machine.ok(&["journalctl", "-t", "web.default", "-o", "cat"]);
    assert!(printed.contains("web 1 serves"), "{printed}");
}

/// A restart, a kill and a standstill of the daemon are nothing to its service.
fn outlives_its_daemon(machine: &Machine) {
    let (program, first) = (program(machine), daemon(machine));
    machine.sh(SHORT_WATCHDOG);
    assert_eq!(taken_over(machine), program);
    let mut last = daemon(machine);
    assert_ne!(last, first);
    for signal in ["KILL", "STOP"] {
        machine.sh(&format!("kill -{signal} {last}"));
        last = wait::until("another daemon", LIMIT, || match daemon(machine) {
            next if next != last && next != "0" => Ok(next),
            next => Err(next),
        });
        assert_eq!(taken_over(machine), program);
    }
    let journal = machine.ok(&["journalctl", "-b", "-o", "cat", "UNIT=baton.service"]);
    assert!(journal.contains("Watchdog timeout"), "{journal}");
}

/// What the administrator wrote stays, what runs does not notice.
fn upgraded(machine: &Machine) {
    machine.sh("echo '# ours' >>/etc/baton/baton.toml");
    let (program, before) = (program(machine), daemon(machine));
    machine.ok(&["dpkg", "-i", "/root/second.deb"]);
    let version = machine.ok(&["dpkg-query", "-W", "-f", "${Version}", "baton"]);
    assert_eq!(version, "0.1.0-2");
    assert_ne!(daemon(machine), before, "the new daemon runs");
    assert_eq!(taken_over(machine), program);
    machine.sh("grep -q '^# ours' /etc/baton/baton.toml");
}

/// What it had runs again, and its boot is complete by itself.
fn comes_back_after_a_power_cut(machine: &mut Machine) {
    machine.cut_power();
    machine.boot();
    wait::until("the service runs", LIMIT, || healthy(machine, "web/1"));
    wait::until("the boot is complete", LIMIT, || {
        let state = machine.run(&["systemctl", "is-active", "baton-boot-complete"]);
        if state.code == 0 { Ok(()) } else { Err(state) }
    });
    let journal = machine.ok(&["journalctl", "-b", "-o", "cat", "_PID=1"]);
    assert!(!journal.contains("ordering cycle"), "{journal}");
}

/// A machine that does not come up as it should is the last one that gets the release.
fn a_boot_that_is_not_complete_takes_no_turn(machine: &mut Machine) {
    machine.sh(BROKEN_BOOT);
    machine.shut_down();
    machine.boot();
    wait::until("the service runs", LIMIT, || healthy(machine, "web/1"));
    promote(machine, "2");
    wait::until("the turn is held back", LIMIT, || {
        let status = machine.ok(&["baton", "rollout", "status", "web.default"]);
        let says = status.contains("the boot of this machine is not complete");
        if says { Ok(()) } else { Err(status) }
    });
    let explained = machine.ok(&["journalctl", "-b", "-x", "-t", "baton", "--no-pager"]);
    assert!(explained.contains("systemctl list-jobs"), "{explained}");
    healthy(machine, "web/1").unwrap();
    machine.sh("rm /etc/systemd/system/boot-complete.target.requires/check.service");
    machine.sh("systemctl daemon-reload; systemctl start baton-boot-complete.service");
    rolled(machine, "web/2");
    let explained = machine.ok(&["journalctl", "-b", "-x", "-t", "baton", "--no-pager"]);
    assert!(explained.contains("Subject: The boot of this machine is complete"), "{explained}");
}

/// Removal leaves the data and what runs, purge leaves nothing of the package.
fn gone(machine: &Machine) {
    let program = program(machine);
    machine.ok(&["dpkg", "--remove", "baton"]);
    assert_ne!(machine.run(&["systemctl", "is-active", "baton"]).code, 0);
    machine.sh(&format!("test -d /proc/{program}"));
    machine.sh("test -s /var/lib/baton/node-id; test -s /etc/baton/baton.toml");
    let explained = machine.ok(&["journalctl", "--list-catalog"]);
    assert!(!explained.contains("Baton: "), "{explained}");
    machine.ok(&["dpkg", "--purge", "baton"]);
    machine.sh("test ! -e /var/lib/baton; test ! -e /etc/baton");
    let left = machine.sh("find /etc/systemd /usr/lib/systemd -name '*baton*'");
    assert_eq!(left, "/etc/systemd/system/baton.service.d\n", "what the administrator made stays");
}

fn promote(machine: &Machine, version: &str) {
    machine.sh(&format!(
        "mkdir -p /root/web-{version}/bin; cd /root/web-{version}
         printf '#!/bin/sh\\necho web {version} serves\\nexec sleep infinity\\n' >bin/web
         chmod +x bin/web
         printf 'name = \"web\"\\nversion = \"{version}\"\\n[run]\\ncommand = [\"bin/web\"]\\n' >release.toml
         export BATON_DEPOT=file:///srv/depot BATON_DEPOT_KEY=/root/depot.key
         baton depot publish .
         baton depot promote web/{version} --channel stable"
    ));
}

/// Waits until a rollout to `release` is complete and it serves.
fn rolled(machine: &Machine, release: &str) {
    wait::until("the rollout", LIMIT, || {
        let status = json(machine, &["baton", "rollout", "status", "web.default", "--json"])?;
        let rollout = &status["rollout"];
        let done = rollout["to"]["release"] == release && rollout["state"] == "completed";
        if done { Ok(()) } else { Err(status.to_string()) }
    });
    wait::until("the service", LIMIT, || healthy(machine, release));
}

fn healthy(machine: &Machine, release: &str) -> Result<(), String> {
    let services = json(machine, &["baton", "service", "list", "--json"])?;
    let service = &services[0];
    let good = service["release"] == release && service["health"] == "ok";
    if good { Ok(()) } else { Err(services.to_string()) }
}

/// The process of the program, once the daemon says again that it is well.
fn taken_over(machine: &Machine) -> String {
    wait::until("the service is taken over", LIMIT, || healthy(machine, "web/1"));
    program(machine)
}

fn program(machine: &Machine) -> String {
    let services = json(machine, &["baton", "service", "list", "--json"]).unwrap();
    services[0]["pid"].as_u64().unwrap().to_string()
}

fn daemon(machine: &Machine) -> String {
    machine.ok(&["systemctl", "show", "baton", "-P", "MainPID"]).trim().to_owned()
}

fn json(machine: &Machine, words: &[&str]) -> Result<Value, String> {
    let answer: Answer = machine.run(words);
    match answer.code {
        0 => serde_json::from_str(&answer.stdout).map_err(|fault| format!("{fault} in {answer}")),
        _ => Err(answer.to_string()),
    }
}

const STORED_KEY: &str = r#"
mkdir -p -m 0700 /etc/credstore
baton ring keygen --out /etc/credstore/baton.ring-key
echo 'key_file = "/run/credentials/baton.service/baton.ring-key"' >/root/key_file
sed -i '/^\[ring\]/r /root/key_file' /etc/baton/baton.toml
systemctl restart baton
baton check
"#;

const SET_UP: &str = r#"
baton depot keygen --out /root/depot
baton depot init file:///srv/depot
cp /root/depot.pub /etc/baton/depot.pub
cat >/etc/baton/services.d/web.toml <<'EOF'
name = "web"
depot = "file:///srv/depot"
trusted_keys = ["/etc/baton/depot.pub"]
poll = "1s"
[update]
monitor = "1s"
EOF
"#;

/// As in the unit, but nobody waits for half a minute here.
const SHORT_WATCHDOG: &str = r#"
mkdir -p /etc/systemd/system/baton.service.d
printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/baton.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart baton
"#;

/// What boot-complete.target requires does not come up.
const BROKEN_BOOT: &str = r#"
cat >/etc/systemd/system/check.service <<'EOF'
[Unit]
Before=boot-complete.target
[Service]
Type=oneshot
ExecStart=/bin/false
[Install]
RequiredBy=boot-complete.target
EOF
systemctl enable check.service
"#;

const LIMIT: Duration = Duration::from_secs(60);
