//! `baton sim`, typed as a person or a script types it.
#![allow(clippy::expect_used, reason = "tests may fail loudly")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// What the command answered.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn sim(words: &[&str]) -> Said {
    let baton = Command::new(env!("CARGO_BIN_EXE_baton")).arg("sim").args(words).output();
    let Output { status, stdout, stderr } = baton.expect("baton runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

impl Said {
    #[track_caller]
    fn expect(self, code: i32, parts: &[&str]) -> String {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "{stdout}\n{stderr}");
        for part in parts {
            assert!(stdout.contains(part) || stderr.contains(part), "{part}: {stdout}\n{stderr}");
        }
        self.stdout
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios").join(name)
}

fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect(text)
}

#[test]
fn a_scenario_is_told_and_passes() {
    let path = shipped("bad-release.toml");
    let path = path.to_str().expect("text");
    let told = sim(&[path]).expect(
        DONE,
        &[
            "5 hosts, 4 steps, seed 1",
            "step 2 is as expected: release 1 is completed, 5 members run it, the baseline is 1",
            "app/2 exited with code 1",
            "good: everything came out as the scenario says",
        ],
    );
    assert_eq!(told, sim(&[path]).stdout, "told the same twice");
    let other = sim(&[path, "--seed", "2"]).expect(DONE, &["seed 2"]);
    assert_ne!(told, other);
    let result = json(&sim(&[path, "--json"]).expect(DONE, &[]));
    assert_eq!((&result["result"], &result["seeds"]), (&"good".into(), &1.into()));
    assert_eq!(result["counts"]["rollout_completed"], 1);
}

#[test]
fn a_scenario_that_comes_out_otherwise_fails_and_says_how_to_play_it_again() {
    let (_folder, path) = written(
        "hosts = 3\nsteps = [{ at = \"0s\", do = \"promote\", release = \"1\" },\n\
         { at = \"1s\", do = \"expect\", baseline = \"2\", within = \"20s\" }]",
    );
    let parts = ["step 2: expected the baseline 2, found \"1\"", "replay: baton sim ", " --seed 4"];
    sim(&[&path, "--seed", "4"]).expect(FAILED, &parts);
    let result = json(&sim(&[&path, "--json"]).expect(FAILED, &[]));
    assert_eq!(result["result"], "broken");
    assert_eq!(result["violations"][0]["invariant"], "expectation of the scenario");
}

#[test]
fn what_means_nothing_is_refused_before_anything_is_played() {
    let (_folder, path) = written(
        "hosts = 3\nsteps = [{ at = \"0s\", do = \"heal\" }, { at = \"1s\", do = \"fly\" }]",
    );
    sim(&[&path]).expect(USAGE, &["scenario.toml: step 2 (`fly`): no such step; allowed: promote"]);
    sim(&["/nowhere.toml"]).expect(USAGE, &["cannot read the scenario /nowhere.toml"]);
    sim(&[]).expect(USAGE, &["<SCENARIO|--seed <N>|--seeds <FIRST..LAST>>"]);
    sim(&["--seeds", "5..1"]).expect(USAGE, &["expected FIRST..LAST"]);
}

#[test]
fn a_campaign_of_a_few_seeds_says_what_befell_them() {
    let course = ["--hosts", "3", "--minutes", "1"];
    let words = [&["--seeds", "1..6", "--jobs", "2"], course.as_slice()].concat();
    let told = sim(&words).expect(
        DONE,
        &["6 seeds played in ", "6 of them kept every promise: ", "no promise broken"],
    );
    assert!(told.lines().any(|line| line.ends_with("  daemon killed")), "{told}");
    let result = json(&sim(&[words.as_slice(), &["--json"]].concat()).expect(DONE, &[]));
    assert_eq!((&result["seeds"], &result["last_seed"]), (&6.into(), &6.into()));
    assert_eq!(result["missing"], serde_json::json!([]), "too few seeds to miss anything");
}

#[test]
fn a_seed_is_played_again_event_by_event() {
    let words = ["--seed", "7", "--hosts", "4", "--minutes", "1", "--trace-digest"];
    let first = sim(&words).expect(DONE, &["seed 7: no promise broken", "digest "]);
    assert_eq!(first, sim(&words).stdout);
    let of_campaign = ["--seeds", "7..7", "--hosts", "4", "--minutes", "1", "--trace-digest"];
    let campaign = sim(&of_campaign).expect(DONE, &["seed 7 digest "]);
    let digest = campaign.trim().rsplit(' ').next().expect("a digest");
    assert!(first.contains(&format!("digest {digest}")), "{first} {campaign}");
    assert_ne!(
        first,
        sim(&[words.as_slice(), &["--generation", "1"]].concat()).stdout,
        "without later faults"
    );
}

/// Whatever differs between two processes (addresses, hash seeds, threads' order) must not show.
#[test]
fn two_processes_play_the_same_fifty_lives() {
    let words = ["--seeds", "1..50", "--trace-digest"];
    let first = sim(&words).expect(DONE, &["seed 1 digest ", "seed 50 digest "]);
    assert_eq!(first.lines().count(), 50);
    let again = sim(&[words.as_slice(), &["--jobs", "1"]].concat()).expect(DONE, &[]);
    assert_eq!(first, again);
}
