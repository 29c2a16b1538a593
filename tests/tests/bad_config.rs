//! Faults of the configuration: `baton check` tells each with its place and ends with 1, and
//! `baton run` tells the same, ends with 78, binds nothing and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use baton_tests::cli::{alone, baton};
use baton_tests::loopback::free_addrs;
use tempfile::TempDir;

/// Files of a node that has never run.
struct Node {
    dir: TempDir,
    ring: SocketAddr,
}

impl Node {
    /// A good configuration with one service.
    fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap(), ring: free_addrs(1)[0] };
        baton(&["ring", "keygen", "--out", &node.text("ring.key")]);
        baton(&["depot", "keygen", "--out", &node.text("depot")]);
        baton(&["depot", "init", &format!("file://{}", node.text("depot.d"))]);
        fs::create_dir(node.path("services.d")).unwrap();
        node.write("baton.toml", &node.main("", ""));
        node.write("services.d/redis.toml", &node.service(""));
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// `baton.toml` with further lines in `[node]` (from line 4 on) and in `[ring]`.
    fn main(&self, node: &str, ring: &str) -> String {
        let (dir, addr) = (self.dir.path().display(), self.ring);
        format!(
            "[control]\nsocket = \"{dir}/control.sock\"\n[node]\n{node}data_dir = \"{dir}/data\"\n\
             [ring]\n{ring}bind = \"{addr}\"\njoin = [\"{addr}\"]\nkey_file = \"{dir}/ring.key\"\n"
        )
    }

    /// A service file with further lines after its first four.
    fn service(&self, more: &str) -> String {
        let dir = self.dir.path().display();
        format!(
            "name = \"redis\"\ndepot = \"file://{dir}/depot.d\"\n\
             trusted_keys = [\"{dir}/depot.pub\"]\nexpect = 3\n{more}"
        )
    }

    /// Both commands tell exactly these faults, each with the node's folder written as `DIR`.
    #[track_caller]
    fn expect(&self, wanted: &[&str]) {
        let before = self.files();
        // With the address taken, a daemon that binds it before it has looked would say that.
        let _taken = (UdpSocket::bind(self.ring).unwrap(), TcpListener::bind(self.ring).unwrap());
        let config = self.text("baton.toml");
        let tidy = |said: &str| said.replace(&self.dir.path().display().to_string(), "DIR");
        let count = if wanted.len() == 1 {
            "1 fault".to_owned()
        } else {
            format!("{} faults", wanted.len())
        };
        let checked = alone(&["check", "--config", &config]).expect(1, &[&count]);
        let faults: Vec<String> = tidy(&checked.stdout)
            .lines()
            .filter_map(|line| line.strip_prefix("error: ").map(str::to_owned))
            .collect();
        assert_eq!(faults, wanted, "{checked}");
        let ran = alone(&["run", "--config", &config]).expect_code(78);
        let said = tidy(&ran.stderr);
        let said: Vec<&str> = said.trim_end().strip_prefix("error: ").unwrap().lines().collect();
        assert_eq!(said, wanted, "{ran}");
        assert_eq!(self.files(), before, "something was left behind");
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }
}

const DURATION: &str = "a whole number with a unit (ms, s, m, h), for example \"30s\", is allowed";
const RING_RANGE: &str = "a duration from \"10ms\" to \"720h\" (30 days) is allowed";

#[test]
fn every_fault_of_all_files_is_told_at_once_with_its_place() {
    let node = Node::new();
    baton(&["check", "--config", &node.text("baton.toml")]);

    let names = "name = \"a/b\"\ncolour = 1\non_stop = \"keep\"\non_stop = \"stop\"\n";
    let times = "probe_period = \"5 s\"\nprobe_timeout = 3\nheartbeat = \"-1s\"\n\
                 election_timeout = \"0s\"\nreap_after = \"99999h\"\n";
    node.write("baton.toml", &node.main(names, times));
    let update = "group = \"a/b\"\n[health]\ninterval = \"10\"\n[update]\nmax_unavailable = 0\n\
                  max_failures = \"120%\"\nmonitr = \"1s\"\nstart_timeout = \"0s\"\nwaves = [0]\n";
    node.write("services.d/redis.toml", &node.service(update));
    let slash = "has '/' at position 2: a letter or digit first, then a-z, A-Z, 0-9, '-', '_'";
    let from_one = "a number from 1 up or a share from \"1%\" to \"100%\" is allowed";
    node.expect(&[
        &format!("DIR/baton.toml:4:8: node.name: the name \"a/b\" {slash}, '.' are allowed"),
        "DIR/baton.toml:5:1: node.colour: unknown key; allowed here: name, data_dir, on_stop, labels",
        "DIR/baton.toml:7:1: on_stop: found a second time; a key may be given once",
        &format!("DIR/baton.toml:10:16: ring.probe_period: found \"5 s\"; {DURATION}"),
        &format!("DIR/baton.toml:11:17: ring.probe_timeout: found 3; {RING_RANGE}"),
        &format!("DIR/baton.toml:12:13: ring.heartbeat: found \"-1s\"; {DURATION}"),
        &format!("DIR/baton.toml:13:20: ring.election_timeout: found \"0s\"; {RING_RANGE}"),
        &format!("DIR/baton.toml:14:14: ring.reap_after: found \"99999h\"; {RING_RANGE}"),
        &format!("DIR/services.d/redis.toml:5:9: group: the name \"a/b\" {slash} are allowed"),
        &format!("DIR/services.d/redis.toml:7:12: health.interval: found \"10\"; {DURATION}"),
        &format!("DIR/services.d/redis.toml:9:19: update.max_unavailable: found 0; {from_one}"),
        "DIR/services.d/redis.toml:10:16: update.max_failures: found \"120%\"; a number from 0 up or \
         a share from \"0%\" to \"100%\" is allowed",
        "DIR/services.d/redis.toml:11:1: update.monitr: unknown key; did you mean \"monitor\"?",
        "DIR/services.d/redis.toml:12:17: update.start_timeout: found \"0s\"; a duration from \
         \"1ms\" to \"720h\" (30 days) is allowed",
        &format!("DIR/services.d/redis.toml:13:10: update.waves: found 0; {from_one}"),
    ]);
}

#[test]
fn settings_that_contradict_the_group_or_each_other_are_told() {
    let node = Node::new();
    for (more, wanted) in [
        (
            "[update]\nmax_unavailable = 4\n",
            "6:19: update.max_unavailable: found 4 in a group that starts with 3 (expect); at most \
             3 is allowed",
        ),
        (
            "[update]\nturn_timeout = \"30s\"\n",
            "6:16: update.turn_timeout: found turn_timeout = \"30s\" with start_timeout + monitor = \
             \"90s\"; at least their sum is allowed",
        ),
        ("name = \"again\"\n", "5:1: name: found a second time; a key may be given once"),
        (
            "run_as = \"nobody-of-this-name\"\n",
            "5:10: run_as: there is no user \"nobody-of-this-name\" in /etc/passwd",
        ),
    ] {
        node.write("services.d/redis.toml", &node.service(more));
        node.expect(&[&format!("DIR/services.d/redis.toml:{wanted}")]);
    }
    node.write("services.d/redis.toml", &node.service(""));
    node.write("services.d/second.toml", &node.service(""));
    node.expect(&["DIR/services.d/second.toml:1:8: name: found redis.default a second time; the \
                   first is at DIR/services.d/redis.toml:1:8, one is allowed"]);
}

#[test]
fn files_that_are_missing_open_to_others_or_too_large_are_told() {
    let node = Node::new();
    let (main, service) = ("baton.toml", "services.d/redis.toml");

    node.mode("ring.key", 0o644);
    node.mode("depot.pub", 0o646);
    node.expect(&[
        "DIR/baton.toml:8:12: ring.key_file: found DIR/ring.key with mode 0644; 0600 is allowed: \
         others can use a key that they can read",
        "DIR/services.d/redis.toml:3:17: trusted_keys: DIR/depot.pub: found mode 0646; nothing that \
         every user may write is allowed (chmod o-w)",
    ]);
    fs::remove_file(node.path("ring.key")).unwrap();
    fs::remove_file(node.path("depot.pub")).unwrap();
    node.expect(&[
        "DIR/baton.toml:8:12: ring.key_file: DIR/ring.key cannot be read: No such file or directory \
         (os error 2)",
        "DIR/services.d/redis.toml:3:17: trusted_keys: cannot read the key DIR/depot.pub: No such \
         file or directory (os error 2)",
    ]);

    // What else is wrong in a file that others may write is told at once.
    node.mode(service, 0o666);
    node.write(service, &node.service("colour = 1\n"));
    let open = "file: found mode 0666; nothing that every user may write is allowed (chmod o-w)";
    let found = alone(&["check", "--config", &node.text(main)]).expect_code(1);
    for part in [&format!("redis.toml:1:1: {open}"), "redis.toml:5:1: colour: unknown key"] {
        assert!(found.stdout.contains(part), "{part}: {found}");
    }
    fs::remove_file(node.path(service)).unwrap();

    node.write(main, &"#".repeat(10 * 1024 * 1024));
    node.expect(&["DIR/baton.toml:1:1: file: found 10485760 bytes; at most 1048576 are allowed"]);
    fs::write(node.path(main), b"[node]\nname = \"\xff\"\n").unwrap();
    node.expect(&["DIR/baton.toml:1:1: file: found no UTF-8 at byte 15; TOML is UTF-8 text"]);
    fs::remove_file(node.path(main)).unwrap();
    let absent = "DIR/baton.toml:1:1: file: cannot be read: No such file or directory (os error 2)";
    node.expect(&[absent]);
    fs::create_dir(node.path(main)).unwrap();
    node.expect(&["DIR/baton.toml:1:1: file: cannot be read: not a regular file"]);
}

#[test]
fn text_that_is_no_toml_is_told_with_what_was_expected() {
    let node = Node::new();
    node.write("baton.toml", "[ring\n[node]\nname =\n");
    node.write("services.d/redis.toml", "name = 'x\n");
    let found = alone(&["check", "--config", &node.text("baton.toml")]).expect_code(1);
    for part in [
        "baton.toml:1:6: syntax: unclosed table",
        "baton.toml:3:7: syntax: found no value",
        "redis.toml:1:10: syntax: invalid literal string",
    ] {
        assert!(found.stdout.contains(part), "{part}: {found}");
    }
}

#[test]
fn an_address_in_use_and_a_data_folder_that_is_a_file_are_told() {
    let node = Node::new();
    let _taken = UdpSocket::bind(node.ring).unwrap();
    let busy = format!("cannot bind udp {}: Address already in use", node.ring);
    alone(&["run", "--config", &node.text("baton.toml")]).expect(1, &[&busy]);
    assert!(!node.path("control.sock").exists());
    fs::remove_dir_all(node.path("data")).unwrap();
    fs::write(node.path("data"), "no folder").unwrap();
    let said = alone(&["run", "--config", &node.text("baton.toml")]);
    let wanted = "baton.toml:4:12: node.data_dir: found a file at";
    said.expect(78, &[wanted, "a folder is needed"]);
    assert!(node.path("data").is_file());
}
