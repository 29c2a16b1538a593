//! Files of a daemon that are damaged, of a newer version or in use by another, and a disk without
//! room: what is lost is moved aside and named, peers make up for it, and no decision gets lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may fail loudly"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_tests::cli::alone;
use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts, in_turn};
use baton_tests::{requirements, shell, wait};
use serde_json::Value;
use tempfile::TempDir;

const QUICK: &str = "monitor = \"0s\"\nstart_timeout = \"10s\"\nturn_timeout = \"20s\"";

/// One after the other on n1, n2 and n3, so that every node once comes back with something lost.
#[test]
fn damaged_files_are_moved_aside_and_their_node_takes_part_again() {
    let mut hello = three(&["1", "2", "3"]);
    let ledger = format!("ledger.{GROUP}");
    let others = [
        format!("turn.{GROUP}"),
        format!("service.{GROUP}"),
        "ring".to_owned(),
        format!("outcomes.{GROUP}"),
    ];
    let sets = [vec![ledger.clone()], others.to_vec(), [&[ledger], &others[..]].concat()];
    for (index, names) in sets.iter().enumerate() {
        for damage in [Damage::Flipped, Damage::Cut, Damage::Empty] {
            let number = 1 + damage as usize;
            // A service's own file is there once an operator has said something about it.
            for word in ["stop", "start"] {
                let cli = hello.ring.hosts()[index].cli();
                cli.run_for(LIMIT, &["service", word, GROUP]).expect_code(0);
            }
            hello.expect_running_at(index, "1", 3);
            hello.ring.host(index).kill();
            let data = hello.ring.hosts()[index].home().join("data");
            let (log, pid) =
                (hello.ring.hosts()[index].log().len(), pid(&hello, (index + 1) % 3, index));
            for name in names {
                damage.to(&data.join(name));
            }
            hello.ring.host(index).start();
            let said = hello.ring.hosts()[index].log()[log..].to_owned();
            for name in names {
                let aside = data.join(format!("{name}.damaged-{number}"));
                assert!(aside.is_file(), "{damage:?}: there is no {}", aside.display());
                let (name, aside) = (data.join(name), aside.display().to_string());
                let line = said
                    .lines()
                    .find(|line| line.contains(&format!("{} is damaged (", name.display())));
                let line =
                    line.unwrap_or_else(|| panic!("{damage:?} of {name:?} is not said:\n{said}"));
                assert!(line.contains("ERROR") && line.contains(&aside), "{line}");
            }
            takes_part(&hello, index);
            // Who still knows what it ran touches it not; who does not ends it in a turn, once.
            if names.len() == 1 {
                assert_eq!(self::pid(&hello, index, index), pid, "{damage:?} of {names:?}");
            }
            let ended = hello.ring.hosts()[index].log()[log..].to_owned();
            assert!(!ended.contains("is started again"), "{damage:?} of {names:?}:\n{ended}");
            hello.expect_running_at(index, "1", 3);
        }
    }
    let status = hello.roll("2", &["completed"]);
    assert_eq!(in_turn(&status, "passed"), 3, "{status}");
    hello.expect_running("2", 3);
    assert_eq!(hello.status(0).unwrap()["baseline"]["release"], "hello/2");
}

/// A newer version's files, an identity that is none, a folder that another daemon holds: nothing
/// starts, nothing is touched, and what to do is said.
#[test]
fn what_must_not_be_replaced_is_left_as_it_is_and_nothing_starts() {
    let mut hello = three(&["1"]);
    let config = hello.ring.hosts()[0].config_file().display().to_string();
    let data = hello.ring.hosts()[0].home().join("data");
    let holder = format!("is in use by process {}", hello.ring.hosts()[0].pid());
    alone(&["run", "--config", &config])
        .expect(1, &[&holder, "two daemons cannot share one data directory"]);
    takes_part(&hello, 0);

    hello.ring.host(0).kill();
    let cases: [(&str, &[u8], &str); 5] = [
        ("node-id", b"nonsense\n", "holds no node id"),
        ("node-id", b"", "holds no node id"),
        ("ring", b"BATON\n\x63\x00rest", "ring has format 99: up to 1 is known here"),
        ("ledger.hello.default", b"BATON\n\x02\x00rest", "ledger.hello.default has format 2"),
        ("turn.hello.default", b"BATON\n\x02\x00rest", "turn.hello.default has format 2"),
    ];
    for (name, content, wanted) in cases {
        let path = data.join(name);
        let whole = fs::read(&path).unwrap();
        // Long enough to have a header.
        let content =
            if content.len() > 9 { [content, &[0; 40]].concat() } else { content.to_vec() };
        fs::write(&path, &content).unwrap();
        alone(&["run", "--config", &config]).expect(78, &[wanted, &path.display().to_string()]);
        assert_eq!(fs::read(&path).unwrap(), content, "{name} was touched");
        fs::write(&path, whole).unwrap();
    }
    hello.ring.host(0).start();
    takes_part(&hello, 0);
    hello.expect_running("1", 3);
}

/// The leader's disk is full when a pause is typed and while a release is to be fetched.
#[test]
fn a_full_disk_loses_no_decision_and_goes_on_when_room_comes_back() {
    if !requirements::is_root("a full disk") {
        return;
    }
    let disks: Vec<SmallDisk> = (0..3).map(|_| SmallDisk::mount()).collect();
    let mut hello = Hello::new(3);
    for (host, disk) in hello.ring.hosts().iter().zip(&disks) {
        std::os::unix::fs::symlink(disk.dir.path(), host.home().join("data")).unwrap();
    }
    for version in ["1", "2", "3"] {
        hello.publish(version, Scripts::default());
    }
    hello.start(QUICK);
    hello.roll("1", &["completed"]);

    let full = hello.leader(0).expect("a leader");
    let other = (full + 1) % 3;
    let log = hello.ring.hosts()[full].log().len();
    disks[full].fill();
    // Typed at the full one: it leads no longer when it cannot write, another one decides.
    let typed = wait::until("the pause is decided", LIMIT, || {
        let said = hello.ring.hosts()[full].cli().run_for(LIMIT, &["rollout", "pause", GROUP]);
        if said.code == 0 { Ok(said) } else { Err(said) }
    });
    assert!(hello.status(other).unwrap()["paused_by"].is_string(), "{typed} and no pause is there");
    let said = hello.ring.hosts()[full].log()[log..].to_owned();
    let degraded = said.lines().filter(|line| line.contains("degraded: ")).count();
    assert!(said.contains("No space left on device") && degraded > 0, "{said}");
    assert!(degraded < 100, "said {degraded} times");

    hello.ring.hosts()[other].cli().run(&["rollout", "resume", GROUP]).expect_code(0);
    hello.promote("2");
    // It cannot even fetch the next one, and says so; nobody is touched.
    wait::until("the cause by name", LIMIT, || {
        let said = hello.ring.hosts()[other].cli().run(&["rollout", "explain", GROUP]).stdout;
        if said.contains("No space left on device") { Ok(()) } else { Err(said) }
    });
    hello.expect_running_at(other, "1", 3);
    hello.ring.hosts()[other].cli().run(&["rollout", "pause", GROUP]).expect_code(0);

    // Killed and started with a disk as full as before; it decides nothing, but it is there.
    hello.ring.host(full).kill();
    hello.ring.host(full).start();
    assert!(hello.status(other).unwrap()["paused_by"].is_string());
    disks[full].clear();
    takes_part(&hello, full);
    wait::until("it has heard of the pause", LIMIT, || {
        let status = hello.status(full)?;
        if status["paused_by"].is_string() { Ok(()) } else { Err(status.to_string()) }
    });
    hello.ring.hosts()[full].cli().run(&["rollout", "resume", GROUP]).expect_code(0);
    hello.wait_for("2", &["completed"]);
    hello.expect_running("2", 3);
    hello.roll("3", &["completed"]);
}

/// Three members on version 1, and the others published.
fn three(versions: &[&str]) -> Hello {
    let mut hello = Hello::new(3);
    for version in versions {
        hello.publish(version, Scripts::default());
    }
    hello.start(QUICK);
    hello.roll("1", &["completed"]);
    hello
}

/// Waits until this host is a voter of a group that has a quorum and is seen well by all.
fn takes_part(hello: &Hello, index: usize) {
    let name = hello.ring.hosts()[index].name();
    for host in 0..3 {
        wait::until(&format!("{name} takes part, by {}", host + 1), LIMIT, || {
            let status = hello.status(host)?;
            let votes =
                status["voters"].as_array().is_some_and(|all| all.iter().any(|v| v == name));
            let members = status["members"].as_array().cloned().unwrap_or_default();
            let well =
                members.iter().filter(|m| m["health"] == "ok" && m["ring"] == "alive").count();
            let quorum = status["quorum"] == true;
            if votes && quorum && well == 3 { Ok(()) } else { Err(status.to_string()) }
        });
    }
}

/// The process that the member with this index runs, asked at `host`.
fn pid(hello: &Hello, host: usize, index: usize) -> Value {
    let name = hello.ring.hosts()[index].name();
    let find = || {
        let list = hello.ring.hosts()[host].cli().json(&["service", "list"])?;
        let entries = list.as_array().cloned().unwrap_or_default();
        let mine = entries.into_iter().find(|entry| entry["name"] == name);
        let pid = mine.map_or(Value::Null, |entry| entry["pid"].clone());
        if pid.is_u64() { Ok(pid) } else { Err(list.to_string()) }
    };
    wait::until("its process", LIMIT, find)
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flipped,
    Cut,
    Empty,
}

impl Damage {
    fn to(self, path: &Path) {
        let mut content =
            fs::read(path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        assert!(content.len() > 16, "{} has {} bytes", path.display(), content.len());
        let last = content.len() - 1;
        match self {
            Self::Flipped => content[last] ^= 4,
            Self::Cut => content.truncate(last),
            Self::Empty => content.clear(),
        }
        fs::write(path, content).unwrap();
    }
}

/// A file system of 4 MiB, unmounted when dropped.
struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    fn mount() -> Self {
        let dir = tempfile::Builder::new().prefix("baton-disk-").tempdir().unwrap();
        shell::run(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=4m,mode=711",
            "baton-test",
            &text(dir.path()),
        ]);
        Self { dir }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Until not a byte more fits.
    fn fill(&self) {
        let mut ballast = fs::File::create(self.ballast()).unwrap();
        for size in [4_096, 1] {
            while ballast.write_all(&vec![7; size]).is_ok() {}
        }
    }

    fn clear(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: programs of a test that failed may still have files open there.
        if let Err(fault) = shell::try_run(&["umount", "-l", &text(self.dir.path())]) {
            println!("{fault}");
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
