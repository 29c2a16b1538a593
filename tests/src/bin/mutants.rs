//! Applies each mutant to a copy of the tree and shows that the simulator's campaign notices it.
//! Started by `tests/mutants/run`; ends with 1 if a mutant survives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool of the tests that cannot go on should say so loudly"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_tests::mutants::Mutant;

/// How a campaign over a copy of the tree ended.
enum Found {
    /// The first broken promise: "seed 3: budget broken at …".
    Caught(String),
    Survived,
    /// It did not build, hung, or died without naming a promise.
    Unclear(String),
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let copy = Copy { root: target.join("mutants/tree"), target: target.join("mutants/target") };
    copy.refresh(&root);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut mutants = Mutant::all(&root);
    for name in &wanted {
        assert!(mutants.iter().any(|mutant| mutant.name == *name), "no mutant is called {name}");
    }
    mutants.retain(|mutant| wanted.is_empty() || wanted.contains(&mutant.name));

    let mut left = Vec::new();
    for mutant in &mutants {
        let started = Instant::now();
        let path = copy.root.join(&mutant.file);
        let source = fs::read_to_string(&path).expect("a source file");
        let mutated = mutant.applied_to(&source).unwrap_or_else(|unfit| panic!("{unfit}"));
        fs::write(&path, mutated).expect("the copy can be written");
        let found = copy.campaign();
        fs::write(&path, source).expect("the copy can be written");
        let (word, what) = match found {
            Found::Caught(what) => ("caught", what),
            Found::Survived => ("SURVIVED", format!("{SEEDS} seeds; {}", mutant.breaks)),
            Found::Unclear(what) => ("UNCLEAR", what),
        };
        println!("{word:8} {:30} {:4}s  {what}", mutant.name, started.elapsed().as_secs());
        if word != "caught" {
            left.push(mutant.name.clone());
        }
    }
    println!("{} of {} mutants were caught", mutants.len() - left.len(), mutants.len());
    if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A copy of the tree with a target directory of its own: both stay between runs, so that each
/// mutant builds only what it changes.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy equal to the tree; a file that is equal keeps its time.
    fn refresh(&self, root: &Path) {
        fs::create_dir_all(&self.root).expect("the copy can be made");
        for file in ["Cargo.toml", "Cargo.lock", "clippy.toml"] {
            mirror(&root.join(file), &self.root.join(file));
        }
        for folder in ["crates", "tests"] {
            mirror(&root.join(folder), &self.root.join(folder));
        }
    }

    fn campaign(&self) -> Found {
        let build = self.cargo(&["--no-run"], 0, Duration::from_secs(900));
        if let Err(text) = build {
            return Found::Unclear(format!("it does not build: {}", first_error(&text)));
        }
        // Most are caught by the first seeds; the test itself does not stop at the first one.
        for seeds in [SEEDS / 20, SEEDS / 4, SEEDS] {
            let run = ["--", "--exact", "seeds_keep_every_promise", "--nocapture"];
            if let Err(text) = self.cargo(&run, seeds, Duration::from_secs(600)) {
                return match text.split("the first: ").nth(1).and_then(|rest| rest.lines().next()) {
                    Some(first) => Found::Caught(first.to_owned()),
                    None => Found::Unclear(first_error(&text)),
                };
            }
        }
        Found::Survived
    }

    /// Runs the campaign's test; what it printed is an error if it failed.
    fn cargo(&self, arguments: &[&str], seeds: u64, limit: Duration) -> Result<(), String> {
        let log = self.root.join("campaign.log");
        let output = File::create(&log).expect("a log");
        let mut child = Command::new(env!("CARGO"))
            .args(["test", "--quiet", "--package", "baton-sim", "--test", "seeds"])
            .args(arguments)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("BATON_SIM_SEEDS", seeds.to_string())
            .env_remove("BATON_SIM_SEED")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log"))
            .stderr(output)
            .spawn()
            .expect("cargo starts");
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if started.elapsed() > limit {
                child.kill().expect("cargo can be stopped");
                child.wait().expect("a child");
                return Err(format!("error: not done within {limit:?}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&fs::read(&log).expect("a log")).into_owned())
    }
}

fn mirror(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("the copy can be written");
        let names = |folder: &Path| -> Vec<_> {
            let entries = fs::read_dir(folder).expect("a folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect()
        };
        let wanted = names(from);
        for gone in names(to).iter().filter(|name| !wanted.contains(name)) {
            let gone = to.join(gone);
            let removed =
                if gone.is_dir() { fs::remove_dir_all(&gone) } else { fs::remove_file(&gone) };
            removed.expect("the copy can be written");
        }
        for name in wanted {
            mirror(&from.join(&name), &to.join(&name));
        }
        return;
    }
    let content = fs::read(from).expect("a file");
    if fs::read(to).ok().as_ref() != Some(&content) {
        fs::write(to, content).expect("the copy can be written");
    }
}

fn first_error(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("error") || line.contains("panicked"));
    line.unwrap_or("it ended without a word").to_owned()
}

/// Seeds within which every mutant must be caught.
const SEEDS: u64 = 500;
