//! What is published is what is unpacked.

use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::PublishOutcome;
use crate::archive::{Sink, read_archive};
use crate::error::DepotError;
use crate::limits::ARCHIVE_LIMITS;

#[test]
fn a_release_goes_from_directory_to_directory() {
    let world = World::new();
    let dir = world.directory("1", "#!/bin/sh\n");
    let deep = format!("lib/{}", "d".repeat(120));
    fs::create_dir_all(dir.join(&deep)).expect("folders");
    fs::write(dir.join(&deep).join("ä file"), vec![7; 1_300]).expect("written");
    fs::write(dir.join("empty"), "").expect("written");
    set_mode(&dir.join("empty"), 0o666);
    symlink("../bin/server", dir.join("lib/link")).expect("linked");
    symlink(format!("{deep}/ä file"), dir.join("long")).expect("linked");

    let published = world.depot.publish(&dir, &world.key).expect("published");
    assert_eq!(published.outcome, PublishOutcome::New);
    let release = published.release;
    let stable = name("stable");
    assert_eq!(world.depot.promote(&id("1"), &stable, &world.key, false).expect("promoted"), 1);

    let read = world.depot.read_channel(&world.trusted, None, &name("app"), &stable).expect("read");
    assert_eq!((read.sequence, read.entries.len()), (1, 1));
    assert_eq!(read.entries[0].release, release);
    assert_eq!(world.depot.find(&world.trusted, &id("1")).expect("found"), release);

    assert!(matches!(world.store.unpack(&release.digest), Err(DepotError::NotFetched { .. })));
    let manifest = world.store.fetch(&world.depot, &world.trusted, &release).expect("fetched");
    assert_eq!(manifest.id, release.id);
    assert_eq!(world.store.manifest(&release.digest).expect("a manifest"), manifest);
    assert_eq!(world.store.path(&release.digest), None);
    let path = world.store.unpack(&release.digest).expect("unpacked");
    assert_eq!(world.store.path(&release.digest), Some(path.clone()));
    let folder = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(folder, format!("app-1-{}", &release.digest.to_string()[..8]));

    let mode = |below: &str| path.join(below).metadata().expect("there").mode() & 0o7777;
    assert_eq!(
        (mode("bin/server"), mode("empty"), mode("lib"), mode("")),
        (0o755, 0o644, 0o755, 0o755)
    );
    assert_eq!(fs::read(path.join("long")).expect("read"), vec![7; 1_300]);
    assert_eq!(fs::read(path.join("lib/link")).expect("read"), b"#!/bin/sh\n");
    assert_eq!(fs::read_link(path.join("lib/link")).expect("a link"), Path::new("../bin/server"));

    // All again: without the depot, and without touching what is there.
    fs::rename(world.path("depot"), world.path("gone")).expect("moved");
    let inode = path.metadata().expect("there").ino();
    world.store.fetch(&world.depot, &world.trusted, &release).expect("fetched");
    assert_eq!(world.store.unpack(&release.digest).expect("unpacked"), path);
    assert_eq!(path.metadata().expect("there").ino(), inode);

    let removed = world
        .store
        .collect(&|digits| release.digest.to_string().starts_with(digits))
        .expect("collected");
    assert_eq!(removed, Vec::<String>::new());
    assert_eq!(world.store.collect(&|_| false).expect("collected").len(), 2);
    assert_eq!(world.held(), Vec::<String>::new());
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let world = World::new();
    let first = world.directory("1", "same");
    let release = world.depot.publish(&first, &world.key).expect("published").release;

    // Other folder, other times, other order of creation, other modes that mean the same.
    let second = world.path("other");
    fs::create_dir_all(second.join("bin")).expect("folders");
    fs::write(second.join("bin/server"), "same").expect("written");
    fs::write(second.join("release.toml"), manifest("1")).expect("written");
    set_mode(&second.join("bin/server"), 0o700);
    set_mode(&second.join("bin"), 0o700);
    let again = world.depot.publish(&second, &world.key).expect("published");
    assert_eq!(again.release, release);
    assert_eq!(again.outcome, PublishOutcome::Unchanged);

    set_mode(&second.join("bin/server"), 0o644);
    fs::write(second.join("release.toml"), manifest("1").replace("bin/server", "/bin/true"))
        .expect("written");
    let error = world.depot.publish(&second, &world.key).expect_err("other content");
    assert!(matches!(error, DepotError::Conflict { .. }), "{error}");
    assert!(!error.is_environment());
    assert_eq!(world.depot.find(&world.trusted, &id("1")).expect("found"), release);
}

#[test]
fn the_manifest_leads_and_the_rest_is_sorted() {
    #[derive(Default)]
    struct Paths(Vec<String>);
    impl Sink for Paths {
        fn folder(&mut self, path: &str) -> io::Result<()> {
            self.0.push(format!("{path}/"));
            Ok(())
        }
        fn begin_file(&mut self, path: &str, _: bool) -> io::Result<()> {
            self.0.push(path.to_owned());
            Ok(())
        }
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn end_file(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn symlink(&mut self, path: &str, _: &str) -> io::Result<()> {
            self.0.push(path.to_owned());
            Ok(())
        }
        fn hard_link(&mut self, path: &str, _: &str) -> io::Result<()> {
            self.0.push(path.to_owned());
            Ok(())
        }
    }
    let world = World::new();
    let dir = world.directory("1", "x");
    for name in ["z", "aa", "b", "y", "a", "bin/t", "bin-x"] {
        fs::write(dir.join(name), "").expect("written");
    }
    symlink("a", dir.join("c")).expect("linked");
    let release = world.depot.publish(&dir, &world.key).expect("published").release;
    let archive = fs::read(world.path("depot").join(archive_path(&release.digest))).expect("read");
    let mut paths = Paths::default();
    let size = archive.len() as u64;
    read_archive(&archive[..], size, ARCHIVE_LIMITS, None, &mut paths).expect("read");
    let wanted = "release.toml a aa b bin/ bin/server bin/t bin-x c y z";
    assert_eq!(paths.0.join(" "), wanted);
}

#[test]
fn a_directory_with_faults_shows_all_of_them() {
    let world = World::new();
    let dir = world.directory("1", "x");
    let publish = || {
        let error = world.depot.publish(&dir, &world.key).expect_err("faults").to_string();
        error.replace(&format!("{}/", dir.display()), "")
    };
    set_mode(&dir.join("bin/server"), 0o644);
    let text = manifest("1") + "[hooks]\ninstall = [\"bin/install\"]\nready = [\"bin\"]\n";
    fs::write(dir.join("release.toml"), text).expect("written");
    assert_eq!(
        publish(),
        "release.toml:4:12: the program \"bin/server\" is not executable: expected an executable \
         file of the release\n\
         release.toml:6:12: the program \"bin/install\" is not in the release: expected an \
         executable file of the release\n\
         release.toml:7:10: the program \"bin\" is a folder: expected an executable file of the \
         release"
    );

    set_mode(&dir.join("bin/server"), 0o4755);
    fs::write(dir.join("release.toml"), manifest("1") + "[extra]\n").expect("written");
    let _socket = UnixListener::bind(dir.join("sock")).expect("bound");
    symlink("/etc/passwd", dir.join("abs")).expect("linked");
    symlink("../../x", dir.join("out")).expect("linked");
    fs::write(dir.join("line\nbreak"), "").expect("written");
    let found = publish();
    for part in [
        "release.toml:5:2: unknown key \"extra\"",
        "bin/server: is setuid or setgid, which is not allowed",
        "sock: is a socket",
        "the link \"abs\" points at \"/etc/passwd\", which is absolute",
        "the link \"out\" points at \"../../x\", which leads out of the release",
        "has the control character '\\n'",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }

    fs::remove_file(dir.join("release.toml")).expect("removed");
    assert_eq!(publish(), "release.toml: is missing: a release directory needs it");
    assert_eq!(world.depot.list().expect("listed").releases, []);
    assert_eq!(fs::read_dir(world.path("depot/drafts")).expect("a folder").count(), 0);
}

#[test]
fn demotion_and_gc_take_archives_and_keep_entries() {
    let world = World::new();
    let stable = name("stable");
    let releases = ["1", "2", "3"].map(|version| world.publish(version));
    for version in ["1", "2"] {
        world.depot.promote(&id(version), &stable, &world.key, false).expect("promoted");
    }
    assert_eq!(world.depot.demote(&id("1"), &stable, &world.key).expect("demoted"), 3);
    let removed = world.depot.gc(&world.key).expect("collected");
    assert_eq!(removed, [format!("{}.tar.zst", releases[0].digest)]);

    let listing = world.depot.list().expect("listed");
    assert_eq!((listing.sequence, listing.releases.len()), (3, 3));
    assert!(listing.releases[1].channels[0].head && listing.releases[2].channels.is_empty());
    let report = world.depot.verify(&world.trusted).expect("verified");
    assert_eq!((report.releases, report.collected, report.faults), (3, 1, vec![]));

    let error = world.depot.promote(&id("1"), &stable, &world.key, false).expect_err("collected");
    assert!(matches!(error, DepotError::NoArchive { .. }), "{error}");
    let dir = world.directory("1", "other content");
    let error = world.depot.publish(&dir, &world.key).expect_err("other content");
    assert!(matches!(error, DepotError::Conflict { .. }), "{error}");
    let dir = world.directory("1", "#!/bin/sh\necho 1\n");
    let again = world.depot.publish(&dir, &world.key).expect("published");
    assert_eq!(again.outcome, PublishOutcome::Restored);
    assert_eq!(world.depot.promote(&id("1"), &stable, &world.key, true).expect("promoted"), 4);
    let read = world.depot.read_channel(&world.trusted, None, &name("app"), &stable).expect("read");
    let head = read.entries.last().expect("a head");
    assert_eq!((head.release.id.clone(), head.promotion, head.again), (id("1"), 4, true));
}

#[test]
fn a_store_removes_what_a_crash_left() {
    let world = World::new();
    let archives = world.path("node/releases/archives");
    fs::write(archives.join(".draft-x"), "half").expect("written");
    let draft = world.path("node/releases/unpacked/.draft-y");
    fs::create_dir_all(draft.join("bin")).expect("folders");
    // A release whose removal was cut off does not look unpacked.
    let digest = Digest([7; 32]);
    let half = format!(".draft-app-1-{}", &digest.to_string()[..8]);
    fs::create_dir(world.path("node/releases/unpacked").join(half)).expect("a folder");
    assert_eq!(world.store.path(&digest), None);
    // While somebody else works here, drafts are theirs.
    let second = ReleaseStore::open(&world.path("node/releases")).expect("a store");
    assert_eq!(world.held().len(), 3);
    drop(second);
    let World { store, folder, .. } = world;
    drop(store);
    ReleaseStore::open(&folder.path().join("node/releases")).expect("a store");
    assert!(!archives.join(".draft-x").exists() && !draft.exists());
}
