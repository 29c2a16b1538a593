//! What is typed about the services of one node, on real daemons.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;

use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts};
use baton_tests::{Loopback, wait};
use serde_json::Value;

const SHORT: &str = "start_timeout = \"3s\"\nmonitor = \"1500ms\"\nturn_timeout = \"20s\"";

/// A service that is loaded again the moment after it was unloaded is as one that was loaded first:
/// what is shown is what runs, its daemon takes it over at the next start, and it votes again. The
/// only voter does not take the ledger with it.
#[test]
fn a_service_that_is_unloaded_and_loaded_in_one_breath_runs_as_before() {
    let mut hello = Hello::new(2);
    // It needs a moment to end, as programs do.
    let run = "trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.05; done";
    hello.publish("1", Scripts { run, ..Scripts::default() });
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    let file = hello.ring.dir().join("service.toml");
    fs::write(&file, toml::to_string(&hello.service(SHORT)).unwrap()).unwrap();
    let load = ["service", "load", file.to_str().unwrap()];
    let unload = ["service", "unload", GROUP];
    for host in [1, 0] {
        // What this start finds on disk is not what the service is loaded with later.
        restart(&mut hello, host);
        let cli = hello.ring.hosts()[host].cli();
        let before = shown(&hello, host);
        wait::until("it can go", LIMIT, || match cli.run(&unload) {
            done if done.code == 0 => Ok(()),
            refused => {
                assert!(refused.stderr.contains("is the only voter of"), "{refused}");
                Err(refused.stderr)
            }
        });
        wait::until("the service is loaded again", LIMIT, || match cli.run(&load) {
            done if done.code == 0 => Ok(()),
            refused => {
                assert!(refused.stderr.contains("is being unloaded"), "{refused}");
                Err(refused.stderr)
            }
        });
        wait::until("it runs by a turn of its own", LIMIT, || {
            let now = shown(&hello, host);
            let runs = now["health"] == "ok" && now["phase"] == "" && now["pid"] != before["pid"];
            if runs { Ok(()) } else { Err(now.to_string()) }
        });
        let shown_pid = shown(&hello, host)["pid"].clone();
        restart(&mut hello, host);
        assert_eq!(shown(&hello, host)["pid"], shown_pid, "its daemon took it over");
        assert!(fs::exists(format!("/proc/{shown_pid}")).unwrap());
    }
}

/// Kills the daemon; the next one answers and knows how its service is.
fn restart(hello: &mut Hello<Loopback>, host: usize) {
    hello.ring.host(host).kill();
    hello.ring.host(host).start();
    wait::until("its service is known", LIMIT, || {
        let now = shown(hello, host);
        if now["health"] == "ok" { Ok(()) } else { Err(now.to_string()) }
    });
}

/// The line of `service list` about the host's own service.
fn shown(hello: &Hello<Loopback>, host: usize) -> Value {
    let host = &hello.ring.hosts()[host];
    let list = host.cli().json(&["service", "list"]).unwrap();
    let mine = list.as_array().unwrap().iter().find(|one| one["name"] == host.name());
    mine.cloned().unwrap_or_default()
}

/// Whoever edits the files and reloads reads in the journal what of it is in force, what waits for a
/// turn, and what for a restart; a value may be a secret, and is not said.
#[test]
fn a_reload_says_what_changed_and_what_it_takes() {
    let mut hello = Hello::new(1);
    hello.publish("1", Scripts::default());
    hello.start(SHORT);
    hello.roll("1", &["completed"]);
    let first = hello.service(SHORT);
    let mut service = first.clone();
    service["poll"] = "300ms".into();
    let env = toml::Table::from_iter([("TOKEN".to_owned(), "hunter2".into())]);
    service.insert("env".to_owned(), env.into());
    hello.ring.configure(|_, settings| {
        settings.profile = "lan";
        settings.services.push(service.clone());
    });
    let reload = |hello: &Hello<Loopback>, said: &[&str]| {
        let host = &hello.ring.hosts()[0];
        let before = host.log().len();
        host.signal(rustix::process::Signal::HUP);
        for wanted in said {
            wait::until(wanted, LIMIT, || {
                let log = host.log()[before..].to_owned();
                if log.contains(wanted) { Ok(()) } else { Err(log) }
            });
        }
    };
    reload(
        &hello,
        &[
            "ring.profile: changed in the file, not in the daemon: a restart of the daemon takes it over",
            "poll: changed for hello.default, from now on",
            "env.TOKEN: changed for hello.default; what runs keeps the old one until its next turn",
        ],
    );
    reload(&hello, &["ring.profile: changed in the file, not in the daemon"]);

    // What was loaded by hand goes before the file.
    let file = hello.ring.dir().join("service.toml");
    fs::write(&file, toml::to_string(&service).unwrap()).unwrap();
    let cli = hello.ring.hosts()[0].cli();
    cli.run(&["service", "load", file.to_str().unwrap()]).expect_code(0);
    hello.ring.configure(|_, settings| settings.services.push(first.clone()));
    reload(
        &hello,
        &["the file of hello.default has changed, but it runs by the one that was given"],
    );
    hello.ring.configure(|_, _| ());
    reload(&hello, &["hello.default is no longer configured but stays loaded"]);
    reload(&hello, &["the configuration was read again: no setting has changed"]);
    assert!(!hello.ring.hosts()[0].log().contains("hunter2"));
}
