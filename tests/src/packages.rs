//! The packages, built by `packaging/build` around the binary under test.

use std::path::{Path, PathBuf};

use crate::cli::{baton_binary, target_dir};
use crate::shell;

/// The `.deb` with this version.
pub fn deb(version: &str) -> PathBuf {
    build(&["deb", "--deb-version", version]);
    folder().join(format!(
        "baton_{version}_{}.deb",
        shell::run(&["dpkg", "--print-architecture"]).trim()
    ))
}

/// The `.rpm`.
pub fn rpm() -> PathBuf {
    let before = std::time::SystemTime::now();
    build(&["rpm"]);
    let entries = std::fs::read_dir(folder()).expect("a folder of packages");
    let is_new = |path: &PathBuf| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        path.extension().is_some_and(|found| found == "rpm")
            && modified.is_ok_and(|at| at >= before)
    };
    let new = entries.flatten().map(|entry| entry.path()).find(is_new);
    new.expect("a new .rpm")
}

/// What must be there to build them; the tools of cargo are brought by `packaging/build`.
pub const NEEDED: [&str; 5] = ["dpkg-deb", "dpkg-shlibdeps", "rpm", "strip", "gzip"];

fn build(words: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/build");
    let target = format!("CARGO_TARGET_DIR={}", target_dir().display());
    let (script, binary) = (script.display().to_string(), baton_binary().display().to_string());
    let mut line = vec!["env", &target, &script, "--binary", &binary];
    line.extend(words);
    shell::run(&line);
}

fn folder() -> PathBuf {
    target_dir().join("packaging")
}
