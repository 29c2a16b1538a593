//! Archives made to do harm, correctly signed by a trusted key: it is the reader that refuses them.

use tar::{EntryType, Header};

use super::*;
use crate::archive::{Nowhere, ReadError, read_archive};
use crate::limits::{ARCHIVE_LIMITS, ArchiveLimits};

/// One entry, with whatever is to be wrong with it.
#[derive(Clone)]
struct Entry {
    path: Vec<u8>,
    target: Vec<u8>,
    kind: u8,
    mode: u32,
    content: Vec<u8>,
    /// Instead of the content's length.
    size: Option<u64>,
}

fn entry(path: impl AsRef<[u8]>, kind: u8) -> Entry {
    Entry {
        path: path.as_ref().to_vec(),
        target: vec![],
        kind,
        mode: 0o644,
        content: vec![],
        size: None,
    }
}

fn file(path: impl AsRef<[u8]>) -> Entry {
    Entry { content: b"content".to_vec(), ..entry(path, b'0') }
}

fn folder(path: &str) -> Entry {
    entry(path, b'5')
}

fn link(path: &str, target: &str) -> Entry {
    Entry { target: target.as_bytes().to_vec(), ..entry(path, b'2') }
}

fn hard_link(path: &str, target: &str) -> Entry {
    Entry { target: target.as_bytes().to_vec(), ..entry(path, b'1') }
}

fn long_name(path: &str) -> Entry {
    Entry { content: path.as_bytes().to_vec(), ..entry("././@LongLink", b'L') }
}

fn first() -> Entry {
    Entry { content: manifest("1").into_bytes(), ..entry("release.toml", b'0') }
}

fn header(entry: &Entry) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(entry.kind));
    header.set_mode(entry.mode);
    header.set_size(entry.size.unwrap_or(entry.content.len() as u64));
    header.set_mtime(0);
    let old = header.as_old_mut();
    old.name[..entry.path.len()].copy_from_slice(&entry.path);
    old.linkname[..entry.target.len()].copy_from_slice(&entry.target);
    header.set_cksum();
    header
}

/// A tar of `entries` without its end mark.
fn open_tar(entries: &[Entry]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        tar.extend_from_slice(header(entry).as_bytes());
        tar.extend_from_slice(&entry.content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar
}

fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut tar = open_tar(entries);
    tar.resize(tar.len() + 1_024, 0);
    tar
}

fn pack(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).expect("packed")
}

/// Checks archive after archive in one world.
struct Checker {
    world: World,
}

impl Checker {
    fn new() -> Self {
        Self { world: World::new() }
    }

    /// Refused at the fetch and, should a bad archive ever get so far, at unpacking too; both times
    /// nothing is left, within the store or beside it.
    fn check_bytes(&self, archive: &[u8], part: &str) {
        let world = &self.world;
        let release = self.check_fetch(archive, part);
        let copy = format!("archives/{}.tar.zst", release.digest);
        let path = world.path("node/releases").join(&copy);
        fs::write(&path, archive).expect("written");
        let error = world.store.unpack(&release.digest).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(world.held(), [copy]);
        let beside = fs::read_dir(world.path("node/releases")).expect("a folder").count();
        assert_eq!(beside, 3, "archives, unpacked and the lock");
        fs::remove_file(path).expect("removed");
    }

    fn check_fetch(&self, archive: &[u8], part: &str) -> Release {
        let world = &self.world;
        let release = world.plant("1", archive);
        let error = world.store.fetch(&world.depot, &world.trusted, &release).expect_err(part);
        let message = error.to_string();
        assert!(message.starts_with("release app/1: ") && message.contains(part), "{message}");
        assert!(!message.contains(['\0', '\u{1b}']) && message.len() < 1_000, "{message:?}");
        assert!(!error.is_environment(), "{message}");
        assert_eq!(world.held(), Vec::<String>::new());
        release
    }

    fn check(&self, entries: &[Entry], part: &str) {
        self.check_bytes(&pack(&tar(&[&[first()], entries].concat())), part);
    }
}

#[test]
fn the_archives_made_here_are_good_but_for_what_is_wrong_with_them() {
    let world = World::new();
    let long = format!("d/{}", "x".repeat(200));
    let entries = [
        first(),
        folder("d/"),
        file("d/file"),
        link("d/link", "../release.toml"),
        hard_link("d/second", "d/file"),
        long_name(&long),
        file("cut"),
    ];
    let release = world.plant("1", &pack(&tar(&entries)));
    world.store.fetch(&world.depot, &world.trusted, &release).expect("fetched");
    let path = world.store.unpack(&release.digest).expect("unpacked");
    assert_eq!(fs::read(path.join("d/second")).expect("read"), b"content");
    assert_eq!(fs::read(path.join(long)).expect("read"), b"content");
    assert!(!path.join("cut").exists());
}

#[test]
fn paths_that_lead_elsewhere() {
    let checker = Checker::new();
    let deep: Vec<_> = (1..=33).map(|depth| folder(&["a"; 33][..depth].join("/"))).collect();
    for (entries, part) in [
        (vec![file("../escape")], "the path \"../escape\" has \"..\""),
        (vec![folder("a"), file("a/../../escape")], "has \"..\""),
        (vec![file("..")], "has \"..\""),
        (vec![file("/etc/escape")], "the path \"/etc/escape\" is absolute"),
        (vec![file("./a")], "has the part \".\""),
        (vec![folder("a"), file("a//b")], "has the part \"\""),
        (vec![file("a/")], "has the part \"\""),
        (vec![file("")], "is empty"),
        (vec![folder("/")], "is empty"),
        (vec![file("a/b")], "lies in \"a\", which is not there"),
        (vec![file("a"), file("a/b")], "lies in \"a\", which is a file"),
        (vec![file("a\nb")], "has the control character '\\n'"),
        (vec![file("a\u{1b}[2J")], "has the control character '\\u{1b}'"),
        (vec![long_name("a\0b"), file("x")], "has the control character '\\0'"),
        (vec![file([b'a', 0xff])], "is not UTF-8"),
        (vec![long_name(&"a".repeat(300)), file("x")], "has a part of 300 bytes"),
        (vec![long_name(&"a".repeat(1_025)), file("x")], "has 1025 bytes: at most 1024"),
        (vec![long_name(&"a".repeat(5_000)), file("x")], "a name of 5000 bytes"),
        (deep, "is 33 levels deep: at most 32 are allowed"),
    ] {
        checker.check(&entries, part);
    }
}

#[test]
fn links_that_lead_out() {
    let checker = Checker::new();
    for (entries, part) in [
        (vec![link("a", "/etc")], "points at \"/etc\", which is absolute"),
        (vec![link("a", "..")], "points at \"..\", which leads out"),
        (vec![link("a", "x/../../etc")], "leads out"),
        (vec![folder("d"), link("d/a", "../../etc")], "leads out"),
        (
            vec![folder("d"), folder("d/e"), link("d/e/up", "../.."), link("b", "d/e/up/..")],
            "points at \"d/e/up/..\", which leads out",
        ),
        (vec![link("a", "b"), link("b", "a")], "circle"),
        (vec![link("a", "none")], "is not in the release"),
        (vec![link("a", "")], "is empty"),
        (vec![folder("d"), link("a", "d"), file("a/b")], "lies in \"a\", which is a link"),
        (vec![folder("d"), link("a", "d"), link("a/b", "x")], "lies in \"a\", which is a link"),
        (vec![link("a", "/etc/passwd"), file("a")], "is absolute"),
        (vec![link("a", "release.toml"), file("a")], "\"a\" is there twice"),
        (vec![hard_link("a", "/etc/passwd")], "is not a file listed before"),
        (vec![hard_link("a", "../x")], "is not a file listed before"),
        (vec![hard_link("a", "b"), file("b")], "is not a file listed before"),
        (vec![link("l", "release.toml"), hard_link("a", "l")], "is not a file listed before"),
        (vec![folder("d"), hard_link("a", "d")], "is not a file listed before"),
        (vec![file("b"), hard_link("b", "release.toml")], "\"b\" is there twice"),
    ] {
        checker.check(&entries, part);
    }
}

#[test]
fn entries_that_are_no_files_folders_or_links() {
    let checker = Checker::new();
    for (kind, part) in [
        (b'3', "\"a\" is a character device"),
        (b'4', "\"a\" is a block device"),
        (b'6', "\"a\" is a fifo"),
        (b'S', "\"a\" is a sparse file"),
        (b'x', "\"a\" is a pax extension"),
        (b'g', "\"a\" is a pax extension"),
        (b'?', "\"a\" is an entry of the type '?'"),
    ] {
        checker.check(&[entry("a", kind)], part);
    }
    for (mode, part) in [(0o4755, "4755"), (0o2755, "2755"), (0o1777, "1777")] {
        let part = format!("\"a\" has the mode {part}: setuid, setgid and sticky");
        checker.check(&[Entry { mode, ..file("a") }], &part);
        checker.check(&[Entry { mode, ..folder("a") }], &part);
    }
    checker.check(&[file("a"), file("a")], "\"a\" is there twice");
    checker.check(&[file("a"), folder("a/")], "\"a\" is there twice");
    checker.check(&[file("release.toml")], "\"release.toml\" is there twice");
    checker
        .check(&[Entry { content: b"x".to_vec(), ..folder("a") }], "a folder or link has content");
    checker.check(&[long_name("a")], "a long name without its entry");
    checker.check(&[long_name("a"), long_name("b"), file("c")], "two long names for one entry");
}

#[test]
fn archives_cut_short_or_with_more_behind() {
    let checker = Checker::new();
    let plain = tar(&[first(), file("a")]);
    let whole = pack(&plain);
    checker.check_bytes(&[], "cannot be decompressed");
    checker.check_bytes(b"no archive at all", "cannot be decompressed");
    checker.check_bytes(&whole[..whole.len() - 3], "cannot be decompressed");
    checker.check_bytes(&pack(b""), "is cut short");
    for (length, part) in [
        (plain.len() - 512, "is cut short in its end mark"),
        (plain.len() - 1_024, "is cut short before its end mark"),
        (plain.len() - 1_025, "is cut short after a file"),
        (plain.len() - 1_024 - 510, "is cut short inside a file"),
        (plain.len() - 1_024 - 600, "is cut short before its end mark"),
    ] {
        checker.check_bytes(&pack(&plain[..length]), part);
    }
    let with = |more: &[u8]| pack(&[&plain[..], more].concat());
    checker.check_bytes(&with(b"x"), "goes on after its end: more bytes after the end mark");
    checker.check_bytes(&with(&[0; 512]), "goes on after its end");
    checker.check_bytes(&with(&tar(&[file("b")])), "goes on after its end");
    checker.check_bytes(&[&whole[..], b"x"].concat(), "more bytes after the zstd frame");
    checker
        .check_bytes(&[&whole[..], &pack(&tar(&[file("b")]))[..]].concat(), "after the zstd frame");
    let one_block = [&open_tar(&[first()])[..], &[0; 512], &tar(&[file("b")])[..]].concat();
    checker.check_bytes(&pack(&one_block), "an entry after one empty block");

    let mut damaged = plain.clone();
    damaged[3] ^= 1;
    checker.check_bytes(&pack(&damaged), "its checksum does not fit");
    let mut filling = plain.clone();
    let at = filling.len() - 1_025;
    filling[at] = 1;
    checker.check_bytes(&pack(&filling), "the filling behind its content is not empty");
}

#[test]
fn manifests_that_are_missing_or_of_another_release() {
    let checker = Checker::new();
    let other = |text: String| Entry { content: text.into_bytes(), ..entry("release.toml", b'0') };
    for (entries, part) in [
        (vec![], "the first entry is \"\": expected the file release.toml"),
        (vec![file("a"), first()], "the first entry is \"a\": expected the file release.toml"),
        (vec![folder("release.toml")], "expected the file release.toml"),
        (vec![file("a"), link("release.toml", "a")], "expected the file release.toml"),
        (vec![other("x = 1".to_owned())], "release.toml:1:1: unknown key \"x\""),
        (vec![other("\u{1b}".to_owned())], "release.toml:1:1: "),
        (vec![other("#".repeat(300_000))], "more than 262144 bytes in release.toml"),
        (
            vec![Entry { content: vec![0xff], ..entry("release.toml", b'0') }],
            "release.toml is not UTF-8 text",
        ),
    ] {
        checker.check_bytes(&pack(&tar(&entries)), part);
    }
    let world = World::new();
    let release = world.plant("1", &pack(&tar(&[other(manifest("2"))])));
    let error = world.store.fetch(&world.depot, &world.trusted, &release).expect_err("another");
    let wanted = "release app/1: its release.toml names app/2, expected app/1";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(world.held(), Vec::<String>::new());
}

#[test]
fn archives_that_are_too_much() {
    let checker = Checker::new();
    // A real bomb: 80 MB of zeros in a few kilobytes.
    let bomb = Entry { content: vec![0; 80_000_000], ..file("zeros") };
    checker.check(std::slice::from_ref(&bomb), "unpacks to more than 200 times its size");
    // One that says so.
    let huge = Entry { size: Some(17 * 1024 * 1024 * 1024), ..file("huge") };
    checker.check(&[huge], "more than 17179869184 unpacked bytes");
    let most = Entry { size: Some(u64::MAX), ..file("most") };
    checker.check(&[most], "more than 17179869184 unpacked bytes");

    let limits = ArchiveLimits {
        entries_max: 1_000,
        names_max_bytes: 20_000,
        unpacked_max_bytes: 2_000_000,
        ..ARCHIVE_LIMITS
    };
    let read = |entries: &[Entry]| {
        let archive = pack(&tar(&[&[first()], entries].concat()));
        let size = archive.len() as u64;
        match read_archive(&archive[..], size, limits, None, &mut Nowhere) {
            Err(ReadError::Fault(fault)) => fault.to_string(),
            Err(e) => panic!("{e:?}"),
            Ok(_) => "fine".to_owned(),
        }
    };
    let files = |count: usize| (0..count).map(|i| entry(format!("{i}"), b'0')).collect::<Vec<_>>();
    assert_eq!(read(&files(999)), "fine");
    assert!(read(&files(1_000)).contains("more than 1000 entries"));
    assert!(read(&vec![long_name("a"); 5]).contains("two long names"));
    let names: Vec<_> = (0..300).map(|i| file(format!("{i:090}"))).collect();
    assert!(read(&names).contains("more than 20000 bytes of names"));
    // Not one file alone, but all together, headers included.
    let parts: Vec<_> =
        (0..20).map(|i| Entry { content: vec![i; 100_000], ..file(format!("{i}")) }).collect();
    assert!(read(&parts).contains("more than 2000000 unpacked bytes"));
    assert_eq!(read(&parts[..19]), "fine");
}

#[test]
fn a_million_entries() {
    let checker = Checker::new();
    let mut tar = open_tar(&[first()]);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    for i in 0..100_001 {
        tar.extend_from_slice(header(&entry(format!("{i}"), b'0')).as_bytes());
        std::io::Write::write_all(&mut encoder, &tar).expect("packed");
        tar.clear();
    }
    // The rest of the million is announced by nothing: the reader stops at the limit.
    checker.check_fetch(&encoder.finish().expect("packed"), "more than 100000 entries");
}

#[test]
fn more_files_than_are_synced_one_by_one() {
    let world = World::new();
    let files = (0..1_500).map(|i| file(format!("{i}")));
    let entries: Vec<_> = [first()].into_iter().chain(files).collect();
    let release = world.plant("1", &pack(&tar(&entries)));
    world.store.fetch(&world.depot, &world.trusted, &release).expect("fetched");
    let path = world.store.unpack(&release.digest).expect("unpacked");
    assert_eq!(fs::read_dir(path).expect("a folder").count(), 1_501);
}

#[test]
fn a_window_of_gigabytes_is_refused() {
    let checker = Checker::new();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.window_log(27).expect("a window");
    std::io::Write::write_all(&mut encoder, &tar(&[first()])).expect("packed");
    checker.check_bytes(&encoder.finish().expect("packed"), "cannot be decompressed");
}
