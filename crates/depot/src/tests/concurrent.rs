//! Operators and nodes at once.

use std::thread;

use super::*;

#[test]
fn promotions_at_once_lose_nothing() {
    const OPERATORS: usize = 8;
    const EACH: usize = 5;
    let world = World::new();
    world.publish("1");
    let url = world.depot.url().clone();
    let mut numbers: Vec<u64> = thread::scope(|scope| {
        let operators: Vec<_> = (0..OPERATORS)
            .map(|operator| {
                let (url, key) = (&url, &world.key);
                scope.spawn(move || {
                    let depot = Depot::open(url);
                    let promote = |round| {
                        let channel = name(&format!("c{operator}-{round}"));
                        depot.promote(&id("1"), &channel, key, false).expect("promoted")
                    };
                    (0..EACH).map(promote).collect::<Vec<_>>()
                })
            })
            .collect();
        // A reader among them never meets a half-written index.
        for _ in 0..200 {
            match world.depot.read_channel(&world.trusted, None, &name("app"), &name("c0-0")) {
                Ok(_) | Err(crate::DepotError::NothingPromoted { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        operators.into_iter().flat_map(|operator| operator.join().expect("joined")).collect()
    });
    numbers.sort_unstable();
    let total = (OPERATORS * EACH) as u64;
    assert_eq!(numbers, (1..=total).collect::<Vec<_>>());
    let listing = world.depot.list().expect("listed");
    assert_eq!(listing.sequence, total);
    assert_eq!(listing.releases[0].channels.len(), OPERATORS * EACH);
}

#[test]
fn nodes_services_fetch_and_unpack_the_same_release_at_once() {
    let world = World::new();
    let release = world.publish("1");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                world.store.fetch(&world.depot, &world.trusted, &release).expect("fetched");
                world.store.unpack(&release.digest).expect("unpacked");
            });
        }
    });
    let digest = release.digest.to_string();
    assert_eq!(
        world.held(),
        [
            format!("archives/{digest}.signed"),
            format!("archives/{digest}.tar.zst"),
            format!("unpacked/app-1-{}", &digest[..8]),
        ]
    );
}
