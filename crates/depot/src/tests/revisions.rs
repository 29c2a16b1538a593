//! Configuration revisions: signed, fetched, refused, kept and removed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use baton_types::{Digest, GroupName, Revision, RevisionFile};

use super::World;
use crate::{Depot, DepotUrl, PublishOutcome, RevisionStore, SigningKey, TrustedKeys, keygen};

fn group(name: &str) -> GroupName {
    name.parse().expect("a group")
}

fn revision(port: &str) -> Revision {
    let mut revision = Revision::default();
    revision.env.insert("PORT".to_owned(), port.to_owned());
    let file = RevisionFile { content: "port ${PORT}\n".to_owned(), mode: 0o640 };
    revision.files.insert("a.conf".to_owned(), file);
    revision
}

fn add(world: &World, name: &str, port: &str) -> (Digest, PublishOutcome) {
    world.depot.add_revision(&group(name), &revision(port), &world.key).expect("added")
}

/// The one file of a revision in the depot.
fn file_in_depot(world: &World, name: &str, digest: &Digest) -> std::path::PathBuf {
    let folder = world.path("depot/configs").join(name);
    let entries = fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let digest = digest.to_string();
    let mut found =
        entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(&digest));
    found.next().expect("a file")
}

#[test]
fn a_revision_is_its_content_and_its_group_and_needs_the_depot_once() {
    let world = World::new();
    let (digest, outcome) = add(&world, "a.main", "1");
    assert_eq!(outcome, PublishOutcome::New);
    assert_eq!(add(&world, "a.main", "1"), (digest, PublishOutcome::Unchanged));
    assert_ne!(add(&world, "a.main", "2").0, digest);
    assert_ne!(add(&world, "a.other", "1").0, digest);

    let store = RevisionStore::new(&world.path("node/config"));
    let fetch = || store.fetch(&world.depot, &world.trusted, &group("a.main"), &digest);
    assert_eq!(fetch().expect("fetched"), revision("1"));
    let copy = store.group_folder(&group("a.main")).join(format!("{digest}.signed"));
    assert_eq!(fs::metadata(&copy).expect("a copy").permissions().mode() & 0o777, 0o600);
    fs::rename(world.path("depot"), world.path("away")).expect("moved");
    assert_eq!(fetch().expect("from its copy"), revision("1"));
    assert_eq!(store.read_all(), (vec![(digest, revision("1"))], vec![]));
    // A damaged copy counts as none, and is said at a start.
    let text = fs::read_to_string(&copy).expect("read");
    fs::write(&copy, text.replace("port", "pork")).expect("written");
    assert!(fetch().expect_err("no depot").is_environment());
    let (found, faults) = store.read_all();
    assert!(found.is_empty() && faults.len() == 1, "{faults:?}");
    fs::rename(world.path("away"), world.path("depot")).expect("moved");
    assert_eq!(fetch().expect("anew"), revision("1"));
}

#[test]
fn what_is_damaged_unsigned_foreign_or_too_large_is_refused_by_name() {
    let world = World::new();
    let store = RevisionStore::new(&world.path("node/config"));
    let fetch = |name: &str, digest: &Digest| {
        let fault = store.fetch(&world.depot, &world.trusted, &group(name), digest);
        let fault = fault.expect_err("refused");
        (fault.to_string(), fault.is_environment())
    };
    let (digest, _) = add(&world, "a.main", "1");
    let path = file_in_depot(&world, "a.main", &digest);
    let good = fs::read_to_string(&path).expect("read");
    let unsigned = good.lines().skip(4).collect::<Vec<_>>().join("\n") + "\n";
    for (text, part) in [
        (good.replace("port", "pork"), "does not fit this content"),
        (unsigned, "the signature is damaged"),
        (good[..100].to_owned(), "cut short"),
        ("x".repeat(3 * 1024 * 1024), "larger than 2097152 bytes"),
    ] {
        fs::write(&path, text).expect("written");
        let (text, environment) = fetch("a.main", &digest);
        assert!(text.contains(part) && !environment, "{part}: {text}");
    }
    assert_eq!(add(&world, "a.main", "1"), (digest, PublishOutcome::Restored));

    // Another key's signature is beside it, not in its place.
    let (secret, public) = keygen(&world.path("stranger")).expect("keys");
    let stranger = SigningKey::load(&secret).expect("a key");
    let only = world.depot.add_revision(&group("a.main"), &revision("9"), &stranger);
    let (text, environment) = fetch("a.main", &only.expect("added").0);
    assert!(text.contains("signed by none of the trusted keys") && environment, "{text}");
    world.depot.add_revision(&group("a.main"), &revision("1"), &stranger).expect("added");
    assert!(store.fetch(&world.depot, &world.trusted, &group("a.main"), &digest).is_ok());
    let other = RevisionStore::new(&world.path("other/config"));
    let trusted = TrustedKeys::load(&[public]).expect("a key");
    assert!(other.fetch(&world.depot, &trusted, &group("a.main"), &digest).is_ok());

    // A file that was moved to another group, or another digest.
    let folder = world.path("depot/configs/b.main");
    fs::create_dir_all(&folder).expect("a folder");
    let name = path.file_name().expect("a name");
    fs::copy(&path, folder.join(name)).expect("copied");
    let (text, _) = fetch("b.main", &digest);
    assert!(text.contains("that of a revision of a.main"), "{text}");
    let wrong = Digest([7; 32]);
    let moved = name.to_string_lossy().replace(&digest.to_string(), &wrong.to_string());
    fs::copy(&path, path.with_file_name(moved)).expect("copied");
    assert!(fetch("a.main", &wrong).0.contains("SHA-256"), "{:?}", fetch("a.main", &wrong));

    let empty = world.depot.add_revision(&group("a.main"), &Revision::default(), &world.key);
    assert!(empty.expect_err("empty").to_string().contains("neither a variable nor a file"));
    let url: DepotUrl = "https://depot.example/x".parse().expect("a URL");
    let read_only = Depot::open(&url).add_revision(&group("a.main"), &revision("1"), &world.key);
    assert!(read_only.expect_err("read only").to_string().contains("can only be read"));
}

#[test]
fn what_nobody_needs_is_removed_with_what_was_written_of_it() {
    let world = World::new();
    let store = RevisionStore::new(&world.path("node/config"));
    assert_eq!(store.collect(&|_| false).expect("nothing there"), Vec::<String>::new());
    let digests = ["1", "2"].map(|port| add(&world, "a.main", port).0);
    let folder = store.group_folder(&group("a.main"));
    let release = Digest([1; 32]);
    for digest in &digests {
        store.fetch(&world.depot, &world.trusted, &group("a.main"), digest).expect("fetched");
        fs::create_dir(folder.join(crate::written_name(digest, &release))).expect("made");
    }
    let kept = [digests[0], release];
    let is_kept = |digits: &str| kept.iter().any(|kept| kept.to_string().starts_with(digits));
    let removed = store.collect(&is_kept).expect("removed");
    assert_eq!(removed, [format!("a.main {}", digests[1])]);
    assert!(folder.join(crate::written_name(&digests[0], &release)).is_dir());
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
}
