//! Commands that cannot be carried out: each says what was found and what there is, and ends with
//! the exit code that scripts rely on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use baton_tests::cli::{alone, baton_binary};
use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts};
use baton_tests::{Cli, requirements, wait};

/// n1 and n2 run `hello.default`, n3 runs nothing.
#[test]
fn what_cannot_be_done_is_said_with_what_there_is() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts::default());
    hello.publish("2", Scripts::default());
    let mut service = hello.service("monitor = \"0s\"");
    service.insert("expect".to_owned(), toml::Value::Integer(2));
    hello.ring.configure(|index, settings| {
        if index < 2 {
            settings.services.push(service.clone());
        }
    });
    hello.ring.host(0).start();
    hello.ring.host(2).start();
    a_group_that_still_forms(&hello);
    hello.ring.host(1).start();
    hello.roll("1", &["completed"]);
    names_that_nobody_knows(&hello);
    what_the_state_does_not_allow(&hello);
    a_service_of_another_node(&hello);
    a_socket_of_another_user(&hello);
    hello.ring.host(1).kill();
    no_quorum(&hello);
}

fn a_group_that_still_forms(hello: &Hello) {
    let cli = hello.ring.hosts()[0].cli();
    let no_leader = "no quorum: hello.default has no leader now; nothing was done";
    cli.run(&["rollout", "start", GROUP]).expect(4, &[no_leader]);
    let forming = "the group is forming: 1 of the 2 members it starts with are seen";
    cli.run(&["rollout", "status", GROUP]).expect(0, &[forming]);
    cli.run(&["rollout", "explain", GROUP]).expect(0, &[forming]);
}

fn names_that_nobody_knows(hello: &Hello) {
    // Whether the node that is asked has the group or not.
    for (host, services) in [(0, "it has: hello.default"), (2, "it has none")] {
        let cli = hello.ring.hosts()[host].cli();
        let steering = ["start", "pause", "resume", "cancel", "rollback", "retry", "approve"];
        let reading = ["restart", "reboot", "status", "history", "explain"];
        for word in steering.into_iter().chain(reading) {
            let said = cli.run(&["rollout", word, "nobody.default"]);
            said.expect(1, &["no group nobody.default; the ring has: hello.default"]);
        }
        for word in ["start", "stop", "restart", "unload", "logs"] {
            let said = cli.run(&["service", word, "nobody.default"]);
            said.expect(1, &["no service nobody.default on this node", services]);
        }
        cli.run(&["rollout", "start", GROUP, "--release", "9"])
            .expect(1, &["the depot has no version 9; it has: 1, 2"]);
        cli.run(&["rollout", "rollback", GROUP, "--to", "9"])
            .expect(1, &["9 never completed here; `rollback --to VERSION` takes", "hello/1"]);
        for words in [["ring", "forget"], ["member", "cordon"], ["member", "uncordon"]] {
            let said = cli.run(&[words[0], words[1], "nobody"]);
            said.expect(1, &["no member is called \"nobody\"; the ring has: n1, n2, n3"]);
        }
        cli.run(&["ring", "join", "nowhere.invalid:1"])
            .expect(1, &["nowhere.invalid:1 does not resolve to an address"]);
        cli.run(&["service", "load", "/nowhere.toml"])
            .expect(1, &["cannot read /nowhere.toml: No such file or directory"]);
    }
}

fn what_the_state_does_not_allow(hello: &Hello) {
    let cli = hello.ring.hosts()[1].cli();
    let before = hello.status(1).unwrap();
    for (word, wanted) in [
        ("rollback", "nothing completed before the baseline hello/1"),
        ("cancel", "no rollout is under way: there is nothing to cancel"),
        ("retry", "the last rollout ended completed: there is nothing to retry"),
        ("resume", "nothing is paused"),
        ("approve", "no wave waits for an approval"),
        ("start", "hello/1 is the baseline already; every member has it"),
    ] {
        cli.run(&["rollout", word, GROUP]).expect(1, &[wanted]);
    }
    cli.run(&["ring", "forget", "n3"])
        .expect(1, &["n3 is alive: only a dead member or one that left can be forgotten"]);
    cli.run(&["ring", "forget", "n2"])
        .expect(1, &["a node cannot forget itself: leave the ring instead"]);
    let after = hello.status(1).unwrap();
    assert_eq!(after["rollout"]["id"], before["rollout"]["id"], "something began");
    assert_eq!(after["baseline"], before["baseline"]);
    hello.expect_running("1", 2);
}

fn a_service_of_another_node(hello: &Hello) {
    let cli = hello.ring.hosts()[2].cli();
    for word in ["start", "stop", "restart", "unload", "logs"] {
        let said = cli.run(&["service", word, GROUP]);
        said.expect(1, &["no service hello.default on this node; it has none"]);
    }
    hello.expect_running("1", 2);
}

fn a_socket_of_another_user(hello: &Hello) {
    let test = "a control socket of another user";
    let setpriv = requirements::programs_exist(test, &["setpriv"]);
    if !setpriv || !requirements::is_root(test) {
        return;
    }
    let home = hello.ring.hosts()[0].home();
    let socket = home.join("control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    // Every user may come as far as the socket and the program.
    for folder in home.ancestors().take(2) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = hello.ring.dir().join("baton");
    fs::copy(baton_binary(), &program).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["ring", "members", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let wanted = format!("permission denied on the control socket {}", socket.display());
    assert!(said.contains(&wanted) && said.contains("members of its group"), "{said}");
}

/// n2 is dead: one vote of two is left. n3 has no vote and hears of it by gossip.
fn no_quorum(hello: &Hello) {
    for host in [0, 2] {
        wait::until("no quorum is shown", LIMIT, || {
            let status = hello.status(host)?;
            if status["quorum"] == false { Ok(()) } else { Err(status.to_string()) }
        });
        let dead = || hello.ring.hosts()[host].cli().json(&["ring", "members"]);
        wait::until("n2 is dead", LIMIT, || {
            let members = dead()?;
            let n2 = members.as_array().and_then(|all| all.iter().find(|one| one["name"] == "n2"));
            let is_dead = n2.is_some_and(|one| one["state"] == "dead");
            if is_dead { Ok(()) } else { Err(members.to_string()) }
        });
    }
    for (host, words) in [
        (0, &["rollout", "start", GROUP][..]),
        (0, &["rollout", "pause", GROUP]),
        (0, &["rollout", "restart", GROUP]),
        (0, &["member", "cordon", "n2"]),
        (0, &["service", "unload", GROUP]),
        (2, &["rollout", "start", GROUP]),
        (2, &["rollout", "rollback", GROUP]),
        (2, &["member", "cordon", "n1"]),
    ] {
        let said = hello.ring.hosts()[host].cli().run(words);
        said.expect(4, &["no quorum: hello.default has no leader now; nothing was done"]);
    }
    hello.ring.hosts()[0].cli().run(&["rollout", "status", GROUP]).expect(0, &["quorum     NO"]);
    // The daemon of n2 is gone; what it ran serves on.
    hello.expect_running("1", 2);
}

#[test]
fn a_service_file_that_cannot_be_kept_is_no_success() {
    let mut hello = Hello::new(1);
    hello.publish("1", Scripts::default());
    let mut service = hello.service("monitor = \"0s\"");
    service.insert("expect".to_owned(), toml::Value::Integer(1));
    let file = hello.ring.dir().join("hello.toml");
    fs::write(&file, service.to_string()).unwrap();
    hello.ring.configure(|_, _| ());
    hello.ring.host(0).start();
    let folder = hello.ring.hosts()[0].home().join("data/services.d");
    fs::write(&folder, "in the way").unwrap();
    let words = ["service", "load", file.to_str().unwrap()];
    let cli = hello.ring.hosts()[0].cli();
    cli.run(&words).expect(1, &["hello.default is loaded until the next start only", "services.d"]);
    fs::remove_file(&folder).unwrap();
    cli.run(&words).expect(0, &["hello.default has new settings"]);
    hello.ring.host(0).stop();
    hello.ring.host(0).start();
    hello.roll("1", &["completed"]);
}

#[test]
fn no_daemon_is_said_with_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("none.sock");
    let file = dir.path().join("file");
    fs::write(&file, "no socket").unwrap();
    let stale = dir.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    for (socket, why) in [
        (absent, "No such file or directory"),
        (stale, "Connection refused"),
        (file, "it is no socket"),
        (dir.path().to_owned(), "it is no socket"),
        (dir.path().join("x".repeat(200)), "path must be shorter"),
    ] {
        for words in [
            &["ring", "members"][..],
            &["rollout", "start", GROUP],
            &["rollout", "status", GROUP, "--watch"],
            &["service", "list", "--json"],
            &["member", "cordon"],
        ] {
            let named = format!("no daemon answers on {}: ", socket.display());
            let said = Cli::new(&socket).run(words).expect(3, &[&named, why, "BATON_SOCKET"]);
            assert_eq!(said.stdout, "", "{said}");
        }
    }
}

#[test]
fn wrong_words_are_usage_errors_and_say_what_is_allowed() {
    for (line, wanted) in [
        ("", "Usage: baton [OPTIONS] <COMMAND>"),
        ("fly", "unrecognized subcommand 'fly'"),
        ("check --confg x", "a similar argument exists: '--config'"),
        ("rollout start", "<GROUP>"),
        ("rollout start redis", "expected SERVICE.GROUP, for example redis.default"),
        ("rollout start a.b --release a/b/c", "\"a/b/c\" is not a version: 1 to 64 characters"),
        ("rollout start a.b --id xyz", "expected 32 hexadecimal digits"),
        ("service logs a.b -n x", "invalid value 'x' for '--lines <N>'"),
        ("depot publish x", "--key <FILE>"),
        ("depot init /srv/depot", "file:///"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = alone(&words).expect(2, &[wanted]);
        assert_eq!(said.stdout, "", "{said}");
    }
}
