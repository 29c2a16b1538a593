//! A depot that somebody took over, damaged or swapped: nothing of it is believed.

use super::*;
use crate::{DepotError, IndexFloor};

fn refused<T>(result: Result<T, DepotError>, part: &str) {
    let Err(error) = result else { panic!("not refused: {part}") };
    assert!(error.to_string().contains(part), "{error}");
    assert!(!error.is_environment(), "{error}");
}

#[test]
fn archives_that_do_not_fit_their_signature_are_refused_before_they_are_unpacked() {
    let world = World::new();
    let release = world.publish("1");
    let archive = world.path("depot").join(archive_path(&release.digest));
    let good = fs::read(&archive).expect("read");
    let fetch = || world.store.fetch(&world.depot, &world.trusted, &release);

    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    for (bytes, part) in [
        (changed, format!("expected {}", release.digest)),
        (good[..good.len() - 1].to_vec(), format!("expected {} bytes", good.len())),
        ([&good[..], &[0]].concat(), format!("has more, expected {} bytes", good.len())),
        (vec![], format!("has 0 bytes, expected {} bytes", good.len())),
    ] {
        fs::write(&archive, bytes).expect("written");
        refused(fetch(), &part);
        refused(fetch(), "release app/1: the archive has");
        assert_eq!(world.held(), Vec::<String>::new());
        let report = world.depot.verify(&world.trusted).expect("verified");
        assert_eq!(report.faults.len(), 1, "{report:?}");
        refused(world.depot.promote(&id("1"), &name("stable"), &world.key, false), "SHA-256");
    }
    fs::remove_file(&archive).expect("removed");
    let error = fetch().expect_err("gone");
    assert!(matches!(error, DepotError::NoArchive { .. }) && error.is_environment(), "{error}");
    fs::write(&archive, &good).expect("written");
    fetch().expect("fetched");

    // Changed after it was fetched: found before a byte is unpacked; the next fetch mends it.
    let copy = world.path("node/releases/archives").join(format!("{}.tar.zst", release.digest));
    fs::write(&copy, b"something else").expect("written");
    refused(world.store.unpack(&release.digest), "SHA-256");
    assert_eq!(world.held().len(), 2);
    fetch().expect("fetched");
    world.store.unpack(&release.digest).expect("unpacked");
}

#[test]
fn signatures_that_do_not_fit_are_refused() {
    let world = World::new();
    let (one, two) = (world.publish("1"), world.publish("2"));
    let path = |version| world.path("depot").join(entry_path(&id(version)));
    let good = fs::read(path("1")).expect("read");
    let fetch = || world.store.fetch(&world.depot, &world.trusted, &one);

    fs::copy(path("2"), path("1")).expect("copied");
    refused(fetch(), "release app/1: its signature is that of the release app/2");

    let text = String::from_utf8(good.clone()).expect("text");
    for (changed, part) in [
        (text.replace("\"version\": \"1\"", "\"version\": \"2\""), "does not fit this content"),
        (text.replace(&one.digest.to_string(), &two.digest.to_string()), "does not fit"),
        (text[..200].to_owned(), "cut short"),
        (String::new(), "cut short"),
        (text.replacen("R", "\u{0}", 1), "the signature is damaged"),
        (text.replace("trusted comment: r", "trusted comment: R"), "does not fit"),
    ] {
        assert_ne!(changed, text, "{part}");
        fs::write(path("1"), changed).expect("written");
        refused(fetch(), part);
    }
    fs::write(path("1"), [&[0xff], &good[..]].concat()).expect("written");
    refused(fetch(), "not text");
    fs::write(path("1"), vec![b'a'; 20_000]).expect("written");
    refused(fetch(), "larger than 16384 bytes");

    // A key that this node does not trust.
    let (secret, public) = keygen(&world.path("stranger")).expect("keys");
    let stranger = SigningKey::load(&secret).expect("a key");
    let entry = ReleaseEntry::open(&good, &world.trusted, &id("1")).expect("an entry");
    fs::write(path("1"), entry.seal(&stranger).expect("sealed")).expect("written");
    refused(fetch(), "release app/1: signed by an unknown key");
    refused(world.depot.find(&world.trusted, &id("1")), "unknown key");

    // Correctly signed, but not what the group was told to run.
    let swapped = world.plant_entry(&id("1"), two.digest, entry.size);
    refused(fetch(), &format!("has the SHA-256 {}, expected {}", swapped.digest, one.digest));
    // The right digest under the name of another release.
    world.plant_entry(
        &id("3"),
        two.digest,
        fs::metadata(world.path("depot").join(archive_path(&two.digest))).expect("there").len(),
    );
    let renamed = Release { id: id("3"), digest: two.digest };
    refused(
        world.store.fetch(&world.depot, &world.trusted, &renamed),
        "its release.toml names app/2, expected app/3",
    );
    assert_eq!(world.held(), Vec::<String>::new());

    // What was fetched under a key that is no longer trusted is not used any more.
    fs::write(path("1"), &good).expect("written");
    fetch().expect("fetched");
    let others = TrustedKeys::load(&[public]).expect("a key");
    refused(world.store.fetch(&world.depot, &others, &one), "unknown key");
}

#[test]
fn an_index_never_goes_back() {
    let world = World::new();
    let (app, stable) = (name("app"), name("stable"));
    let read =
        |floor: Option<&IndexFloor>| world.depot.read_channel(&world.trusted, floor, &app, &stable);
    let error = read(None).expect_err("nothing yet");
    assert!(matches!(error, DepotError::NothingPromoted { .. }) && error.is_environment());

    world.publish("1");
    let index = world.path("depot/index.signed");
    let promote = || world.depot.promote(&id("1"), &stable, &world.key, false).expect("promoted");
    promote();
    let old = fs::read(&index).expect("read");
    promote();
    let found = read(None).expect("read");
    let floor = IndexFloor { depot_id: found.depot_id.clone(), sequence: found.sequence };
    assert_eq!(read(Some(&floor)).expect("read"), found);
    let none = world.depot.read_channel(&world.trusted, None, &app, &name("none")).expect("read");
    assert_eq!(none.entries, []);

    fs::write(&index, old).expect("written");
    refused(read(Some(&floor)), "has the sequence 1, lower than 2 seen before");
    assert_eq!(read(None).expect("read").sequence, 1);
    let other = IndexFloor { depot_id: "other".to_owned(), sequence: 0 };
    refused(read(Some(&other)), "`baton depot trust`");
    fs::remove_file(&index).expect("removed");
    refused(read(Some(&floor)), "has the sequence 0, lower than 2 seen before");

    // An entry of a release is signed by the same key, but it is no index.
    fs::copy(world.path("depot").join(entry_path(&id("1"))), &index).expect("copied");
    refused(read(None), "the channel index: ");

    fs::rename(world.path("depot"), world.path("gone")).expect("moved");
    let error = read(Some(&floor)).expect_err("not mounted");
    assert!(matches!(error, DepotError::NoDepot { .. }) && error.is_environment(), "{error}");
}

#[test]
fn an_operator_never_signs_what_somebody_else_slipped_in() {
    let world = World::new();
    let stable = name("stable");
    world.publish("1");
    let (secret, public) = keygen(&world.path("second")).expect("keys");
    let second = SigningKey::load(&secret).expect("a key");
    refused(world.depot.promote(&id("1"), &stable, &second, false), "unknown key");
    let second = second.with_peers(&world.trusted);
    world.depot.promote(&id("1"), &stable, &second, false).expect("promoted");
    refused(world.depot.promote(&id("1"), &stable, &world.key, false), "unknown key");
    refused(world.depot.demote(&id("1"), &stable, &world.key), "unknown key");
    refused(world.depot.gc(&world.key), "unknown key");
    let both = TrustedKeys::load(&[public]).expect("a key");
    let first = SigningKey::load(&world.path("operator.key")).expect("a key").with_peers(&both);
    assert_eq!(world.depot.promote(&id("1"), &stable, &first, false).expect("promoted"), 2);
}

#[test]
fn what_is_no_depot_says_so() {
    let world = World::new();
    refused(world.depot.init(), "is a depot already, with the id ");
    let full = Depot::open(&DepotUrl::File(world.path("src-1")));
    world.directory("1", "x");
    refused(full.init(), "is not empty");
    let web = Depot::open(&"https://depot.invalid/x".parse().expect("a URL"));
    refused(web.init(), "https://depot.invalid/x can only be read");
    refused(web.publish(&world.path("src-1"), &world.key), "can only be read");
    refused(web.promote(&id("1"), &name("stable"), &world.key, false), "can only be read");
    refused(web.demote(&id("1"), &name("stable"), &world.key), "can only be read");
    refused(web.gc(&world.key), "can only be read");
    refused(
        world.depot.promote(&id("9"), &name("stable"), &world.key, false),
        "release app/9 is not in the depot file://",
    );
    fs::write(world.path("depot/depot.json"), "{\"format\":2,\"id\":\"x\"}").expect("written");
    refused(world.depot.list(), "has the format 2: this version reads 1");
    fs::write(world.path("depot/depot.json"), "{").expect("written");
    refused(world.depot.list(), "depot.json: is not readable");
}
