//! `baton demo` as a newcomer types it: it holds what it says, and leaves nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail loudly")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_tests::cli::baton_binary;
use baton_tests::{leftovers, wait};
use rustix::process::Signal;

/// Usually 20 s; a machine that runs other tests at the same time takes longer.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn the_whole_story_holds_and_leaves_nothing() {
    let demo = Demo::start(&[]);
    let text = demo.expect_end(0);
    for part in [
        "$ baton depot promote web/2 --channel stable",
        "5 daemons started, and each of them saw all 5 alive",
        "✓ web/1 ran on all 5 members",
        "✓ web/2 reached all 5 members",
        "✓ never was more than one service down at once",
        "and the rollout paused after",
        "$ baton rollout rollback web.default --wait",
        "✓ rolled back in",
        "All daemons and services have ended; the directory is removed.",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let long =
        text.lines().find(|line| line.chars().count() > 80 && !line.contains("/baton-demo-"));
    assert_eq!(long, None, "more than 80 columns");
}

#[test]
fn a_bad_release_stops_at_the_first_member() {
    let demo = Demo::start(&["--nodes", "3", "--fault", "bad-release"]);
    let text = demo.expect_end(0);
    assert!(text.contains("✓ web/3 failed on n"), "{text}");
    assert!(text.contains("all 3 members answer \"1\" again"), "{text}");
}

#[test]
fn an_interrupted_demo_ends_everything() {
    let demo = Demo::start(&[]);
    wait::until("services of the demo", LIMIT, || {
        let text = demo.text();
        if text.contains("✓ web/1 ran on all 5") { Ok(()) } else { Err(text) }
    });
    // The story goes on: in a turn there is one service less for a moment.
    wait::until("five daemons and five services", LIMIT, || {
        let found = leftovers::processes_of(demo.dir.path());
        if found.len() == 10 { Ok(()) } else { Err(format!("{found:?}")) }
    });
    leftovers::signal(demo.child.id().try_into().unwrap(), Signal::INT);
    let text = demo.expect_end(130);
    assert!(text.contains("All daemons and services have ended"), "{text}");
}

/// One demo, with a directory for temporary files of its own.
struct Demo {
    dir: tempfile::TempDir,
    child: Child,
}

impl Demo {
    fn start(words: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("d").tempdir().unwrap();
        let file = |name: &str| File::create(dir.path().join(name)).unwrap();
        let child = Command::new(baton_binary())
            .arg("demo")
            .args(words)
            .env("TMPDIR", dir.path())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self { dir, child }
    }

    /// What it has said so far.
    fn text(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.dir.path().join(name)).unwrap();
        [read("stdout"), read("stderr")].concat()
    }

    /// Insists on its exit code, and that neither a process nor a file is left.
    fn expect_end(mut self, code: i32) -> String {
        let end = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("not ended in time:\n{}", self.text()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let text = self.text();
        assert_eq!(status.code(), Some(code), "{text}");
        assert_eq!(leftovers::processes_of(self.dir.path()), [0; 0], "processes are left\n{text}");
        let left = |path: &Path| path.read_dir().unwrap().map(|e| e.unwrap().file_name());
        let left: Vec<_> =
            left(self.dir.path()).filter(|e| e != "stdout" && e != "stderr").collect();
        assert_eq!(left, [""; 0], "files are left\n{text}");
        text
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // After a failure: first the demo, which would start more, then what it started.
        self.child.kill().ok();
        self.child.wait().ok();
        leftovers::kill_all(|| leftovers::processes_of(self.dir.path()));
    }
}
