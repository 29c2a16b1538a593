//! Self-checks of the repository: what the documentation promises about the code's shape.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_tests::mutants::Mutant;
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crates in reading order with the workspace crates that each may use.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("baton-types", &[]),
    ("baton-wire", &["types"]),
    ("baton-ring", &["types", "wire"]),
    ("baton-ledger", &["types", "wire"]),
    ("baton-rollout", &["types", "wire"]),
    ("baton-supervise", &["types"]),
    ("baton-node", &["types", "wire", "ring", "ledger", "rollout", "supervise"]),
    ("baton-config", &["types"]),
    ("baton-depot", &["types"]),
    ("baton-sim", &["types", "wire", "ring", "ledger", "rollout", "supervise", "node"]),
    ("baton-platform", &["types"]),
    ("baton-daemon", &["types", "wire", "supervise", "node", "config", "depot", "platform"]),
    // The rules in small: it shares no code with what it models, and nothing uses it.
    ("baton-model", &[]),
    ("baton", &["types", "wire", "node", "config", "depot", "platform", "daemon", "sim"]),
];

/// Crates without I/O, clock and randomness of their own.
const PURE: [&str; 8] =
    ["types", "wire", "ring", "ledger", "rollout", "supervise", "node", "config"];

/// What a pure crate must not depend on.
const IMPURE: [&str; 9] =
    ["tokio", "mio", "rustix", "libc", "socket2", "hyper", "axum", "ureq", "tempfile"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let normal = |package: &cargo_metadata::Package| {
        package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal)
            .map(|dependency| dependency.name.clone())
            .collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), normal(package))).collect()
}

#[test]
fn crates_use_only_crates_above_them() {
    let dependencies = dependencies();
    for (name, may_use) in MAY_USE {
        let used = dependencies.get(name).unwrap_or_else(|| panic!("no crate {name}"));
        for other in used.iter().filter_map(|other| other.strip_prefix("baton-")) {
            assert!(may_use.contains(&other), "{name} must not use baton-{other}");
        }
    }
    assert_eq!(dependencies.len(), MAY_USE.len() + 1, "a crate is missing in MAY_USE");
}

#[test]
fn pure_crates_depend_on_nothing_that_does_io() {
    let dependencies = dependencies();
    for name in PURE {
        let used = &dependencies[&format!("baton-{name}")];
        for bad in IMPURE {
            assert!(!used.iter().any(|other| other == bad), "{name} must not use {bad}");
        }
        let lints = root().join("crates").join(name).join("clippy.toml");
        assert!(lints.exists(), "{} must ban clocks and files", lints.display());
    }
}

#[test]
fn pure_crates_name_no_clock_file_or_thread() {
    let banned = [
        "Instant::now",
        "SystemTime::now",
        "std::fs",
        "UdpSocket",
        "TcpStream",
        "thread::spawn",
        "rand::rng(",
        "rand::random",
        "HashMap",
        "HashSet",
    ];
    for name in PURE {
        for file in rust_files(&root().join("crates").join(name).join("src")) {
            for (number, line) in read(&file).lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                for bad in banned {
                    let place = format!("{}:{}", file.display(), number + 1);
                    assert!(!code.contains(bad), "{place} names {bad}");
                }
            }
        }
    }
}

#[test]
fn unsafe_is_in_platform_alone_and_bincode_in_the_codec() {
    for file in rust_files(&root().join("crates")) {
        let text = read(&file);
        let shown = file.strip_prefix(root()).expect("within").display().to_string();
        if !shown.starts_with("crates/platform/") {
            let named = text.lines().any(|line| {
                let code = line.split("//").next().unwrap_or("");
                code.contains("unsafe {") || code.contains("unsafe fn")
            });
            assert!(!named, "{shown} holds unsafe");
        }
        if shown != "crates/wire/src/codec.rs" {
            assert!(!text.contains("bincode::"), "{shown} names bincode");
        }
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    pages.extend(files_with(&root().join("docs"), "md"));
    pages.extend(files_with(&root().join("config"), "md"));
    for page in pages {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().expect("a folder").join(target);
            assert!(path.exists(), "{} links to {target}", page.display());
        }
    }
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_to_do() {
    let mut files = rust_files(&root().join("crates"));
    files.extend(rust_files(&root().join("tests/src")));
    // Written in halves, so that this file does not find itself.
    let marks = [concat!("#[ig", "nore"), concat!("to", "do!("), concat!("unimple", "mented!(")];
    for file in files {
        let text = read(&file);
        for mark in marks {
            assert!(!text.contains(mark), "{} has {mark}", file.display());
        }
    }
}

/// Twenty mistakes that the simulator notices (`tests/mutants/run` shows it): a list that no longer
/// fits the source would show nothing.
#[test]
fn every_mutant_fits_the_source() {
    let mutants = Mutant::all(&root());
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    assert_eq!(names.len(), mutants.len(), "two mutants have one name");
    assert!(mutants.len() >= 20, "{} mutants", mutants.len());
    for mutant in &mutants {
        let source = read(&root().join(&mutant.file));
        if let Err(unfit) = mutant.applied_to(&source) {
            panic!("{unfit}");
        }
        let twice = format!("{source}{source}");
        assert!(mutant.applied_to(&twice).is_err(), "{} fits in two places", mutant.name);
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files_with(folder, "rs")
}

fn files_with(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}
