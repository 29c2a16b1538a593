//! From "this member has passed" to "the next one is told go", over five daemons on loopback.
//!
//! `cargo bench -p baton-tests --bench turns` prints one row for a data directory in memory and one
//! for the disk, the latter beside what an fsync costs there. Times are read from the daemons' own
//! lines, which share the machine's clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a bench"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_tests::hello::{Hello, Scripts};
use baton_tests::log::micros_of_day;

const NODES: usize = 5;
const RELEASES: usize = 6;

fn main() {
    println!("passed → next go, {NODES} daemons, {} hand-overs each", RELEASES * (NODES - 1));
    println!(
        "{:<24} {:>10} {:>10} {:>10} {:>10}",
        "data directory", "min", "median", "max", "fsync"
    );
    for (name, dir) in [("memory (tmpfs)", "/dev/shm"), ("disk", "/var/tmp")] {
        let fsync = fsync_time(Path::new(dir));
        let mut gaps = measure(Path::new(dir));
        gaps.sort();
        let shown = |at: usize| format!("{:.1} ms", gaps[at].as_secs_f64() * 1e3);
        println!(
            "{name:<24} {:>10} {:>10} {:>10} {:>10}",
            shown(0),
            shown(gaps.len() / 2),
            shown(gaps.len() - 1),
            format!("{:.2} ms", fsync.as_secs_f64() * 1e3)
        );
    }
}

/// Rolls several releases out and reads the gaps from the lines.
fn measure(dir: &Path) -> Vec<Duration> {
    let mut hello = Hello::new_in(dir, NODES);
    hello.publish("0", Scripts::default());
    for release in 1..=RELEASES {
        hello.publish(&release.to_string(), Scripts::default());
    }
    hello.start("monitor = \"0s\"\nstart_timeout = \"10s\"");
    hello.roll("0", &["completed"]);
    let mut gaps = Vec::new();
    for release in 1..=RELEASES {
        let release = release.to_string();
        hello.roll(&release, &["completed"]);
        gaps.extend(hand_overs(&hello, &release));
    }
    assert_eq!(gaps.len(), RELEASES * (NODES - 1), "every hand-over is measured");
    gaps
}

/// Each member's own "turn ended: passed" and the next member's own "go".
fn hand_overs(hello: &Hello, release: &str) -> Vec<Duration> {
    let (mut passed, mut gone) = (Vec::new(), Vec::new());
    for host in hello.ring.hosts() {
        let log = fs::read_to_string(host.home().join("daemon.log")).unwrap();
        for line in log.lines().filter(|line| line.contains(&format!("hello/{release}"))) {
            if line.contains("its turn here ended: passed") {
                passed.push(micros_of_day(line));
            } else if line.contains("its go is here") {
                gone.push(micros_of_day(line));
            }
        }
    }
    passed.sort_unstable();
    gone.sort_unstable();
    assert_eq!((passed.len(), gone.len()), (NODES, NODES), "release {release}");
    passed.iter().zip(&gone[1..]).map(|(passed, go)| Duration::from_micros(go - passed)).collect()
}

/// Median of a few small writes with fsync in `dir`.
fn fsync_time(dir: &Path) -> Duration {
    let file = tempfile::NamedTempFile::new_in(dir).unwrap();
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let started = Instant::now();
            file.as_file().write_all(&[7; 512]).unwrap();
            file.as_file().sync_all().unwrap();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
