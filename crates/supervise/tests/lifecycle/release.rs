//! Releases to supervise.

use std::time::Duration;

use baton_supervise::Launch;
use baton_types::manifest::{HealthCheck, HealthTiming, Hook, Hooks, Manifest, Run, StopSignal};
use baton_types::{Digest, Release, Target};

/// Release `demo/VERSION`; `flags` are of `hooks`, `nocheck`, `thrice` (three passes, three
/// failures) and `slow` (asks for ten seconds between checks).
pub(crate) fn launch(version: &str, flags: &[&str]) -> Launch {
    let has = |flag: &str| flags.contains(&flag);
    let id = format!("demo/{version}").parse().expect("a release");
    let hook = |key: &str| {
        has("hooks")
            .then(|| Hook { command: vec![format!("bin/{key}")], timeout: Duration::from_secs(5) })
    };
    let digest = version.bytes().fold(0, u8::wrapping_add);
    let manifest = Manifest {
        id,
        run: Run {
            command: vec!["bin/demo".to_owned()],
            stop_signal: StopSignal::Term,
            stop_timeout: Duration::from_secs(20),
        },
        health: (!has("nocheck")).then(|| HealthCheck::Tcp("127.0.0.1:1".to_owned())),
        health_timing: HealthTiming {
            interval: Some(Duration::from_secs(if has("slow") { 10 } else { 1 })),
            timeout: Some(Duration::from_secs(3)),
            healthy_after: Some(if has("thrice") { 3 } else { 1 }),
            unhealthy_after: Some(if has("thrice") { 3 } else { 1 }),
        },
        hooks: Hooks {
            pre_start: hook("pre_start"),
            post_start: hook("post_start"),
            post_stop: hook("post_stop"),
            ..Hooks::default()
        },
    };
    let release = Release { id: manifest.id.clone(), digest: Digest([digest; 32]) };
    Launch {
        assume_healthy_after: Duration::from_secs(30),
        ..Launch::new(Target::of(release), manifest)
    }
}
