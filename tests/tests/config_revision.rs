//! Configuration revisions with real daemons on loopback: all the way, stopped at the first, back with
//! the depot away, and with the next release.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::path::PathBuf;

use baton_tests::cli::Answer;
use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts, in_turn};
use baton_tests::{Cli, wait};
use serde_json::Value;

const POLICY: &str = "start_timeout = \"3s\"\nmonitor = \"1500ms\"\nready_timeout = \"3s\"\n\
                      turn_timeout = \"20s\"";

/// Writes down when it starts and what it sees then; ends at once where its configuration says so.
const PROGRAM: &str = "date +%s%3N >>starts\necho \"$BATON_RELEASE $MODE $(cat \"$BATON_CONFIG_DIR/app.conf\" 2>&1)\" \
                       >>seen\n[ \"$MODE\" = broken ] && exit 3\nexec sleep 100000";

#[test]
fn a_revision_is_rolled_out_gated_and_rolled_back_like_a_release() {
    let mut hello = Hello::new(3);
    for version in ["1", "2"] {
        hello.publish(version, Scripts { run: PROGRAM, ..Scripts::default() });
    }
    hello.start(POLICY);
    hello.roll("1", &["completed"]);
    let cli = hello.ring.hosts()[1].cli();
    let none = cli.run(&["config", "show", GROUP]).expect_code(1);
    assert!(none.stderr.contains("no configuration revision is in force"), "{none}");

    // Good: everybody, one at a time, with the new environment and the file written of it.
    let good = revision(&hello, "good", "first", "mode ${MODE} on ${BATON_NODE} for 5$$\n");
    apply(&hello, &cli, &good).expect(0, &["hello/1 config 1 starts", "completed"]);
    let status = hello.status(0).unwrap();
    assert_eq!(
        (&status["rollout"]["kind"], &status["rollout"]["passed"]),
        (&"config".into(), &3.into())
    );
    assert_eq!(status["baseline"]["config"], 1);
    each_sees(&hello, |node| format!("hello/1 first mode first on {node} for 5$"));
    one_after_the_other(&hello);
    let shown = cli.json(&["config", "show", GROUP]).unwrap();
    assert_eq!((&shown["number"], &shown["in_force"]), (&1.into(), &true.into()));
    assert_eq!(shown["content"]["env"]["MODE"], "first");
    let said = cli.run(&["config", "show", GROUP]).expect_code(0).stdout;
    assert!(said.contains("revision 1, in force, applied at n2"), "{said}");
    let again = apply(&hello, &cli, &good).expect_code(0);
    assert!(again.stdout.contains("in force already"), "{again}");
    each_sees(&hello, |node| format!("hello/1 first mode first on {node} for 5$"));

    // Bad: the program exits; the others keep what they have.
    let bad = revision(&hello, "bad", "broken", "mode ${MODE}\n");
    apply(&hello, &cli, &bad).expect_code(11);
    let status = hello.status(0).unwrap();
    assert_eq!((in_turn(&status, "failed"), in_turn(&status, "waiting")), (1, 2), "{status}");
    assert_eq!(hello.status(0).unwrap()["rollout"]["to"]["config"], 2);

    // Back without the depot.
    let (depot, away) = (hello.ring.dir().join("depot.d"), hello.ring.dir().join("depot.away"));
    fs::rename(&depot, &away).unwrap();
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    each_sees(&hello, |node| format!("hello/1 first mode first on {node} for 5$"));
    assert_eq!(hello.status(0).unwrap()["baseline"]["config"], 1);
    fs::rename(&away, &depot).unwrap();

    // The next release keeps the revision in force, and a daemon that starts again finds it.
    hello.roll("2", &["completed"]);
    each_sees(&hello, |node| format!("hello/2 first mode first on {node} for 5$"));
    hello.ring.host(0).stop();
    hello.ring.host(0).start();
    hello.expect_running("2", 3);
    let list = cli.json(&["rollout", "history", GROUP]).unwrap();
    let kinds: Vec<&Value> = list.as_array().unwrap().iter().map(|line| &line["kind"]).collect();
    assert_eq!(kinds, ["update", "config", "config", "update"]);

    // One step back: the release before, with the revision that it had.
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    each_sees(&hello, |node| format!("hello/1 first mode first on {node} for 5$"));
    cli.run_for(LIMIT, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    wait::until("nobody has a revision", LIMIT, || {
        let status = hello.status(0)?;
        if status["baseline"]["config"] == 0 { Ok(()) } else { Err(status.to_string()) }
    });
}

#[test]
fn what_is_wrong_with_a_revision_is_said_before_anybody_is_touched() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts { run: PROGRAM, ..Scripts::default() });
    hello.start(POLICY);
    hello.roll("1", &["completed"]);
    let cli = hello.ring.hosts()[2].cli();
    let version = hello.status(0).unwrap()["version"].clone();

    let faulty = hello.ring.dir().join("faulty.toml");
    fs::write(&faulty, "[env]\nBATON_X = \"1\"\n[files.\"../x\"]\ncontent = \"${\"\n").unwrap();
    let said = apply(&hello, &cli, &faulty).expect_code(1);
    for part in ["faulty.toml:2:1: env.BATON_X", "faulty.toml:3:8: files.../x", "faulty.toml:4:11"]
    {
        assert!(said.stdout.contains(part), "{part}: {said}");
    }
    assert!(said.stderr.contains("3 faults in the revision; nothing was signed or sent"), "{said}");

    let unknown = revision(&hello, "unknown", "x", "\nport ${NOT_SET}\n");
    let said = apply(&hello, &cli, &unknown).expect_code(1);
    assert!(said.stderr.contains("app.conf, line 2, names ${NOT_SET}, which is not set"), "{said}");

    let good = revision(&hello, "good", "first", "x\n");
    let stranger = hello.ring.dir().join("stranger").display().to_string();
    cli.run(&["depot", "keygen", "--out", &stranger]).expect_code(0);
    let key = format!("{stranger}.key");
    let good = good.display().to_string();
    let said = cli.run(&["config", "apply", GROUP, &good, "--key", &key]).expect_code(1);
    assert!(said.stderr.contains("signed by none of the trusted keys"), "{said}");

    let key = key_of(&hello);
    let said = cli.run(&["config", "apply", "hello.nope", &good, "--key", &key]).expect_code(1);
    assert!(said.stderr.contains("no group hello.nope"), "{said}");
    assert_eq!(hello.status(0).unwrap()["version"], version, "nothing was decided");

    hello.ring.host(0).kill();
    hello.ring.host(1).kill();
    wait::until("no quorum is shown", LIMIT, || {
        let status = hello.status(2)?;
        if status["quorum"] == false { Ok(()) } else { Err(status.to_string()) }
    });
    let said = cli.run(&["config", "apply", GROUP, &good, "--key", &key]).expect_code(4);
    assert!(said.stderr.contains("quorum"), "{said}");
}

/// A revision file with `MODE` and the content of `app.conf`.
fn revision(hello: &Hello, name: &str, mode: &str, content: &str) -> PathBuf {
    let path = hello.ring.dir().join(format!("{name}.toml"));
    let beside = hello.ring.dir().join(format!("{name}.conf"));
    fs::write(&beside, content).unwrap();
    let text =
        format!("[env]\nMODE = \"{mode}\"\n[files.\"app.conf\"]\nsource = \"{name}.conf\"\n");
    fs::write(&path, text).unwrap();
    path
}

fn apply(hello: &Hello, cli: &Cli, file: &std::path::Path) -> Answer {
    let (file, key) = (file.display().to_string(), key_of(hello));
    cli.run_for(LIMIT, &["config", "apply", GROUP, &file, "--key", &key, "--wait"])
}

fn key_of(hello: &Hello) -> String {
    hello.ring.dir().join("depot.key").display().to_string()
}

/// The last start of every member saw this.
fn each_sees(hello: &Hello, wanted: impl Fn(&str) -> String) {
    for host in hello.ring.hosts() {
        let path = hello.ring.dir().join(host.name()).join("data/state").join(GROUP).join("seen");
        wait::until(&format!("what {} sees", host.name()), LIMIT, || {
            let seen = fs::read_to_string(&path).map_err(|cause| cause.to_string())?;
            let last = seen.lines().last().unwrap_or_default().to_owned();
            if last == wanted(host.name()) { Ok(()) } else { Err(seen) }
        });
    }
}

/// The last starts of the members are at least the monitoring apart.
fn one_after_the_other(hello: &Hello) {
    let last = |host: &baton_tests::Host| {
        let path = hello.ring.dir().join(host.name()).join("data/state").join(GROUP).join("starts");
        let starts = fs::read_to_string(path).unwrap();
        starts.lines().last().unwrap().parse::<u64>().unwrap()
    };
    let mut starts: Vec<u64> = hello.ring.hosts().iter().map(last).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 1_500), "{starts:?}");
}

#[test]
fn a_revision_that_is_handed_in_reaches_everybody_without_a_depot() {
    let mut hello = Hello::new(3);
    hello.publish("1", Scripts { run: PROGRAM, ..Scripts::default() });
    hello.start(POLICY);
    hello.roll("1", &["completed"]);
    let cli = hello.ring.hosts()[1].cli();
    let file = revision(&hello, "good", "first", "mode ${MODE}\n").display().to_string();
    let (stranger, key) = (hello.ring.dir().join("stranger").display().to_string(), key_of(&hello));
    cli.run(&["depot", "keygen", "--out", &stranger]).expect_code(0);
    let apply = ["config", "apply", GROUP, &file, "--hand-in", "--wait", "--key"];
    let foreign = format!("{stranger}.key");
    let said = cli.run(&[&apply[..], &[&foreign]].concat()).expect_code(1);
    assert!(said.stderr.contains("signed by an unknown key; trusted are"), "{said}");

    let (depot, away) = (hello.ring.dir().join("depot.d"), hello.ring.dir().join("depot.away"));
    fs::rename(&depot, &away).unwrap();
    // Whatever else is said of depots.
    let elsewhere = hello.ring.dir().join("elsewhere");
    let url = format!("file://{}", elsewhere.display());
    let said = cli.run_for(LIMIT, &[&apply[..], &[&key, "--depot", &url]].concat());
    said.expect(0, &["handed to this node's daemon", "hello/1 config 1 starts", "completed"]);
    each_sees(&hello, |_| "hello/1 first mode first".to_owned());
    fs::rename(&away, &depot).unwrap();
    assert!(!depot.join("configs").exists() && !elsewhere.exists(), "no depot was written");
}
