//! Releases and depots that are damaged, forged or put back: refused before anything is unpacked,
//! with the reason, while the old release serves.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_tests::cli::{Answer, alone, baton};
use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts};
use baton_tests::{leftovers, wait};
use rustix::process::Signal;

/// Changes a file that somebody else vouches for.
type Damage<'a> = &'a dyn Fn(&Path);

/// Archives are damaged after the promotion, which looks at them itself; the daemon is away
/// meanwhile, so that it finds the damaged one only.
#[test]
fn a_damaged_archive_is_never_unpacked_and_the_old_release_serves() {
    let mut hello = Hello::new(1);
    publish(&hello, "1");
    hello.start(QUICK);
    hello.roll("1", &["completed"]);

    let cut = |archive: &Path| {
        let bytes = fs::read(archive).unwrap();
        fs::write(archive, &bytes[..bytes.len() - 7]).unwrap();
    };
    let longer = |archive: &Path| {
        let bytes = fs::read(archive).unwrap();
        fs::write(archive, [&bytes[..], b"more"].concat()).unwrap();
    };
    let exchanged = |archive: &Path| {
        let other = files(archive.parent().unwrap()).into_iter().find(|path| path != archive);
        let other = other.unwrap();
        fs::copy(other, archive).unwrap();
    };
    let gone = |archive: &Path| fs::remove_file(archive).unwrap();
    let cases: [(&str, Damage<'_>, &str); 5] = [
        ("2", &flip, "release hello/2: the archive has the SHA-256 "),
        ("3", &cut, "release hello/3: the archive has "),
        ("4", &longer, "release hello/4: the archive has "),
        ("5", &exchanged, "release hello/5: the archive has "),
        ("6", &gone, "release hello/6: its archive is no longer in the depot"),
    ];
    let mut last = None;
    let damaged: Vec<_> = cases
        .iter()
        .map(|(version, damage, reason)| {
            let archive = publish(&hello, version);
            let good = fs::read(&archive).unwrap();
            damage(&archive);
            verify(&hello).expect(1, &[reason, "1 fault"]);
            let said = signed(&hello, &["promote", &format!("hello/{version}")], "depot");
            said.expect(1, &[reason]);
            fs::write(&archive, &good).unwrap();
            (*version, archive, good)
        })
        .collect();
    for ((version, archive, good), (_, damage, reason)) in damaged.into_iter().zip(cases) {
        hello.ring.host(0).stop();
        hello.promote(version);
        damage(&archive);
        hello.ring.host(0).start();
        hello.wait_for(version, &["paused"]);
        for words in [["rollout", "status", GROUP], ["rollout", "explain", GROUP]] {
            hello.ring.hosts()[0].cli().run(&words).expect(0, &["n1 cannot prepare", reason]);
        }
        hello.expect_running("1", 1);
        assert_eq!(unpacked(&hello), ["1"], "what is damaged was unpacked");
        fs::write(&archive, good).unwrap();
        last = Some(version);
    }
    // The last one is whole again: one word is enough.
    hello.ring.hosts()[0].cli().run(&["rollout", "resume", GROUP]).expect(0, &["resumed"]);
    hello.wait_for(last.unwrap(), &["completed"]);
    hello.expect_running(last.unwrap(), 1);
}

#[test]
fn an_old_or_forged_index_is_refused_and_said() {
    let mut hello = Hello::new(1);
    publish(&hello, "1");
    publish(&hello, "2");
    hello.start(QUICK);
    let index = hello.ring.dir().join("depot.d/index.signed");
    hello.roll("1", &["completed"]);
    let old = fs::read(&index).unwrap();
    hello.roll("2", &["completed"]);
    let new = fs::read(&index).unwrap();

    let put_back = |index: &Path| fs::write(index, &old).unwrap();
    let gone = |index: &Path| fs::remove_file(index).unwrap();
    let forged = |index: &Path| forge(&hello, index);
    let cases: [(Damage<'_>, &str, bool); 4] = [
        (&put_back, "has the sequence 1, lower than 2 seen before", true),
        (&gone, "has the sequence 0, lower than 2 seen before", true),
        (&forged, "the channel index: signed by an unknown key; trusted are: ", false),
        (&flip, "the channel index: ", false),
    ];
    for (damage, reason, is_whole) in cases {
        damage(&index);
        let channel = format!("channel    cannot be read: {}", if is_whole { "" } else { reason });
        wait::until(reason, LIMIT, || {
            let said = hello.ring.hosts()[0].cli().run(&["rollout", "status", GROUP]);
            let is_said = said.stdout.contains(&channel) && said.stdout.contains(reason);
            if is_said { Ok(()) } else { Err(said) }
        });
        let start = ["rollout", "start", GROUP, "--release", "1"];
        hello.ring.hosts()[0].cli().run(&start).expect(1, &[reason]);
        if !is_whole {
            verify(&hello).expect(1, &[reason]);
        }
        hello.expect_running("2", 1);
        fs::write(&index, &new).unwrap();
    }
    wait::until("the channel is read again", LIMIT, || {
        let said = hello.ring.hosts()[0].cli().run(&["rollout", "status", GROUP]);
        if said.stdout.contains("cannot be read") { Err(said) } else { Ok(()) }
    });
    // Who has another key promotes nothing.
    let other = other_key(&hello);
    let said = signed(&hello, &["promote", "hello/1"], &other);
    said.expect(1, &["release hello/1: signed by an unknown key"]);
}

#[test]
fn the_signature_of_another_release_is_refused() {
    let mut hello = Hello::new(1);
    for version in ["1", "2", "3"] {
        publish(&hello, version);
    }
    hello.start(QUICK);
    hello.roll("1", &["completed"]);
    let entries = hello.ring.dir().join("depot.d/releases/hello");
    let exchanged = |entry: &Path| {
        fs::copy(entry.with_file_name("1.signed"), entry).unwrap();
    };
    let cases: [(&str, Damage<'_>, &str); 2] = [
        ("2", &exchanged, "release hello/2: its signature is that of the release hello/1"),
        ("3", &flip, "release hello/3: "),
    ];
    for (version, damage, reason) in cases {
        let entry = entries.join(format!("{version}.signed"));
        let good = fs::read(&entry).unwrap();
        damage(&entry);
        verify(&hello).expect(1, &[reason, "3 releases, 1 fault"]);
        let said = signed(&hello, &["promote", &format!("hello/{version}")], "depot");
        said.expect(1, &[reason]);

        fs::write(&entry, &good).unwrap();
        hello.ring.host(0).stop();
        hello.promote(version);
        damage(&entry);
        hello.ring.host(0).start();
        hello.wait_for(version, &["paused"]);
        hello.ring.hosts()[0].cli().run(&["rollout", "status", GROUP]).expect(0, &[reason]);
        hello.expect_running("1", 1);
        assert_eq!(unpacked(&hello), ["1"]);
        fs::write(&entry, &good).unwrap();
    }
}

/// Publishes a version and returns its archive.
/// A name that the service's `env` does not have is this node's fault: found while preparing, named,
/// and the rollout goes on by itself once it is set. Hooks of a turn know whose turn it is.
#[test]
fn a_name_that_is_not_set_is_found_before_anything_is_stopped() {
    let mut hello = Hello::new(1);
    let told = hello.ring.dir().join("told");
    let tell = format!("echo $BATON_ROLLOUT >>{}", told.display());
    let (install, ready) = ([("install", tell.as_str())], [("ready", tell.as_str())]);
    hello.publish("1", Scripts { hooks: &ready, ..Scripts::default() });
    let words = ["--colour=${COLOUR}"];
    hello.publish("2", Scripts { words: &words, hooks: &install, ..Scripts::default() });
    hello.start(QUICK);
    hello.roll("1", &["completed"]);
    let pid = || {
        let list = hello.ring.hosts()[0].cli().json(&["service", "list"]).unwrap();
        list[0]["pid"].clone()
    };
    let before = pid();
    hello.promote("2");
    let unset = "hello/2: run.command: \"--colour=${COLOUR}\" names ${COLOUR}, which is not set";
    wait::until("the name that is not set", LIMIT, || {
        let said = hello.ring.hosts()[0].cli().run(&["rollout", "explain", GROUP]).stdout;
        if said.contains(unset) { Ok(()) } else { Err(said) }
    });
    assert_eq!(pid(), before, "nothing was stopped");
    let mut service = hello.service(QUICK);
    let env = toml::Table::from_iter([("COLOUR".to_owned(), "red".into())]);
    service.insert("env".to_owned(), toml::Value::Table(env));
    hello.ring.configure(|_, settings| settings.services.push(service.clone()));
    leftovers::signal(hello.ring.hosts()[0].pid(), Signal::HUP);
    let status = hello.wait_for("2", &["completed"]);
    let told = fs::read_to_string(told).unwrap();
    let id = status["rollout"]["id"].as_str().unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), [id, id], "{status}");
}

fn publish(hello: &Hello, version: &str) -> PathBuf {
    let before = archives(hello);
    hello.publish(version, Scripts::default());
    let after = archives(hello);
    after.difference(&before).next().expect("a new archive").clone()
}

fn archives(hello: &Hello) -> BTreeSet<PathBuf> {
    files(&hello.ring.dir().join("depot.d/archives"))
}

/// What is in a folder; nothing where there is none yet.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let found = fs::read_dir(folder);
    found.map(|all| all.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}

/// The versions that are unpacked on n1.
fn unpacked(hello: &Hello) -> Vec<String> {
    let folder = hello.ring.hosts()[0].home().join("data/releases/unpacked");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found: Vec<String> = names
        .map(|name| name.to_str().unwrap().split('-').nth(1).unwrap_or_default().to_owned())
        .collect();
    found.sort();
    found
}

fn verify(hello: &Hello) -> Answer {
    let public = hello.ring.dir().join("depot.pub").display().to_string();
    alone(&["depot", "verify", "--depot", &hello.depot.url(), "--trust", &public])
}

/// Types a depot command that signs with the key of that name.
fn signed(hello: &Hello, words: &[&str], key: &str) -> Answer {
    let key = hello.ring.dir().join(format!("{key}.key")).display().to_string();
    let url = hello.depot.url();
    let rest = ["--channel", "stable", "--depot", &url, "--key", &key];
    alone(&[&["depot"], words, &rest].concat())
}

fn other_key(hello: &Hello) -> String {
    if !hello.ring.dir().join("other.key").exists() {
        baton(&["depot", "keygen", "--out", &hello.ring.dir().join("other").display().to_string()]);
    }
    "other".to_owned()
}

/// Puts the index of a depot of somebody with a key of his own in the place of `index`.
fn forge(hello: &Hello, index: &Path) {
    let dir = |name: &str| hello.ring.dir().join(name).display().to_string();
    let key = dir(&format!("{}.key", other_key(hello)));
    let url = format!("file://{}", dir("their.d"));
    let signs = ["--depot", &url, "--key", &key];
    baton(&["depot", "init", &url]);
    baton(&[&["depot", "publish", &dir("releases/1")], &signs[..]].concat());
    baton(&[&["depot", "promote", "hello/1", "--channel", "stable"], &signs[..]].concat());
    fs::copy(dir("their.d/index.signed"), index).unwrap();
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// No monitoring, and a failure is settled soon.
const QUICK: &str = "monitor = \"0s\"\nprepare_timeout = \"1s\"\nstart_timeout = \"5s\"";
