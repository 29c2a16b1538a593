//! Everything at once, for many seeds: the checks run after every step, then the faults stop and
//! the group must come together again.

use super::world::{CALM, Disk, Faults, World, ms};
use rand::RngExt;

fn one_run(seed: u64) {
    let hosts = 1 + (seed % 5) as usize;
    let replaced = torment(seed, World::formed(seed, hosts), hosts);
    assert_eq!(replaced, 0, "nobody is there to replace a voter");
}

/// More members than voters, and dead voters are replaced while everything else goes on.
fn one_run_with_spares(seed: u64) -> usize {
    let (voters, spares) = (3 + 2 * (seed % 2) as usize, 1 + (seed % 3) as usize);
    let mut world = World::new(seed, voters + spares, voters as u32);
    world.settings.voter_limit = voters;
    world.settings.replace_dead_after = ms(600);
    (0..voters).for_each(|host| world.boot(host));
    world.run_until("a leader", ms(10_000), |world| world.leader().is_some());
    (voters..voters + spares).for_each(|host| world.boot(host));
    world.run(ms(1_000));
    torment(seed, world, voters)
}

/// Returns how often a dead voter was removed for a spare member.
fn torment(seed: u64, mut world: World, voters: usize) -> usize {
    let hosts = world.hosts.len();
    world.faults = Faults {
        loss: world.rng.random_range(0..250),
        duplication: world.rng.random_range(0..200),
        delay_max: world.rng.random_range(1..150),
        write_max: world.rng.random_range(0..100),
        write_fails: world.rng.random_range(0..60),
    };
    let mut byte = 0;
    for _ in 0..60 {
        let host = world.rng.random_range(0..hosts);
        match world.rng.random_range(0..12) {
            0..=1 if world.hosts[host].ledger.is_some() => world.crash(host),
            0..=4 if world.hosts[host].ledger.is_none() => world.boot(host),
            5 => world.isolate(host),
            6 => {
                world.cut.insert((host, world.rng.random_range(0..hosts)));
            }
            7..=8 => world.cut.clear(),
            9 => {
                let now = world.now;
                let busy = world.rng.random();
                if let Some(ledger) = &mut world.hosts[host].ledger {
                    ledger.set_busy(now, busy);
                    world.after(host);
                }
            }
            _ => {
                for leader in 0..hosts {
                    if world.hosts[leader].leading && world.propose(leader, byte) {
                        byte = byte.wrapping_add(1);
                    }
                }
            }
        }
        // At most one file is lost in a run: the others still have a majority's knowledge.
        if seed.is_multiple_of(3)
            && byte == 3
            && hosts >= 3
            && hosts == voters
            && !world.hosts.iter().any(|h| h.commits == 0)
        {
            let victim = world.rng.random_range(0..hosts);
            let healthy = world.up().len() == hosts && world.leader().is_some();
            if healthy && world.cut.is_empty() && !world.lost_one {
                world.lost_one = true;
                world.crash(victim);
                world.hosts[victim].disk = Disk::Nothing;
                world.boot(victim);
            }
        }
        let pause = world.rng.random_range(0..400);
        world.run(ms(pause));
    }
    world.faults = CALM;
    world.cut.clear();
    (0..hosts).for_each(|host| {
        if world.hosts[host].ledger.is_none() {
            world.boot(host);
        }
    });
    world.run_until("convergence", ms(30_000), |world| {
        let newest = world.checks.newest.as_ref().map(|record| record.mark());
        world.leader().is_some()
            && world.hosts.iter().all(|host| {
                host.ledger.as_ref().is_some_and(|ledger| {
                    let view = ledger.view();
                    let votes = view.voters.iter().any(|voter| voter.file == view.file);
                    view.quorum
                        && (!votes || view.voters.len() == voters)
                        && (!votes || view.committed.map(|record| record.mark()) == newest)
                })
            })
    });
    let ready = |world: &World| {
        let is_ready =
            |host: &super::world::Host| host.ledger.as_ref().is_some_and(|l| l.view().ready);
        world.hosts.iter().position(is_ready)
    };
    world.run_until("readiness", ms(5_000), |world| ready(world).is_some());
    let leader = ready(&world).expect("a leader");
    assert!(world.propose(leader, 255));
    let notes = world.hosts.iter().flat_map(|host| &host.notes);
    notes.filter(|note| note.contains("dead for too long")).count()
}

#[test]
fn five_hundred_seeds() {
    (0..500).for_each(one_run);
}

#[test]
fn two_hundred_seeds_with_dead_voters_replaced() {
    let replaced = (0..200).map(one_run_with_spares).sum::<usize>();
    assert!(replaced > 200, "{replaced} voters were replaced");
}
