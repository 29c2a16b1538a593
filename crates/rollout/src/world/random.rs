//! Random worlds: commands, promotions, kills, restarts, other leaders and a bad network, drawn
//! from a seed; then the faults stop, and everything must come to rest by itself.

use baton_types::policy::{OnFailure, OnNotReady};
use baton_types::{CommandAction, NodeId, Version};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::World;
use crate::rollout::RolloutKind;
use crate::view::tests::node;

fn name(rng: &mut StdRng) -> String {
    format!("n{}", rng.random_range(1..=5))
}

fn command(rng: &mut StdRng) -> CommandAction {
    let version = Version::new(rng.random_range(1..=4u8).to_string()).expect("a version");
    match rng.random_range(0..12) {
        0 => CommandAction::Pause,
        1 | 2 => CommandAction::Resume,
        3 => CommandAction::Cancel,
        4 => CommandAction::Rollback { to: None },
        5 => CommandAction::Rollback { to: Some(version) },
        6 => CommandAction::Retry,
        7 => CommandAction::Start { version: Some(version) },
        8 => CommandAction::Restart,
        9 => CommandAction::Reboot,
        10 => CommandAction::Cordon { node: node(&name(rng)) },
        _ => CommandAction::Uncordon { node: node(&name(rng)) },
    }
}

fn fault(world: &mut World, rng: &mut StdRng) {
    let name = name(rng);
    let now = world.now();
    match rng.random_range(0..10) {
        0..=2 => {
            let action = command(rng);
            world.command(action);
        }
        3 => world.promote(rng.random_range(1..=4)),
        4 => world.demote(rng.random_range(1..=4)),
        5 if world.leader != node(&name) => world.kill(&name),
        6 => {
            let dead: Vec<String> =
                (1..=5).map(|n| format!("n{n}")).filter(|n| !world.hosts[&node(n)].up).collect();
            dead.iter().for_each(|name| world.boot(name));
        }
        7 if world.host(&name).up => world.host(&name).restart_daemon(now),
        8 if world.host(&name).up => world.failover(&name),
        9 => {
            let version = rng.random_range(2..=4);
            let kind = rng.random_range(0..6);
            world.host(&name).behave(version, |behavior| match kind {
                0 => behavior.healthy_after = None,
                1 => behavior.exits_after = Some(2_000),
                2 => behavior.verifies = false,
                3 => behavior.reboots = 1,
                _ => *behavior = super::host::Behavior::default(),
            });
        }
        _ => {}
    }
}

fn random_world(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(5);
    world.loss = [0, 50, 300][rng.random_range(0..3usize)];
    world.repeats = [0, 100, 400][rng.random_range(0..3usize)];
    let policy = &mut world.view.settings.update;
    policy.max_unavailable =
        ["1", "2", "40%"][rng.random_range(0..3usize)].parse().expect("a limit");
    policy.max_failures = ["0", "1", "25%"][rng.random_range(0..3usize)].parse().expect("a limit");
    policy.on_failure =
        [OnFailure::Pause, OnFailure::Rollback, OnFailure::Continue][rng.random_range(0..3usize)];
    policy.on_not_ready = OnNotReady::ALL[rng.random_range(0..3usize)].0;
    world.view.settings.rollback = policy.clone();
    for _ in 0..rng.random_range(5..40) {
        fault(&mut world, &mut rng);
        world.run(rng.random_range(1..15_000));
    }
    heal(&mut world);
    // Progress: what is under way ends or waits for a person, within a bound.
    world.come_to_rest();
    // An operator puts everything right.
    for _ in 0..4 {
        world.command(CommandAction::Resume);
        world.command(CommandAction::Retry);
        world.run(10_000);
        world.come_to_rest();
    }
    world.run(30_000);
    world.come_to_rest();
    converged(&world, seed);
}

fn heal(world: &mut World) {
    (world.loss, world.repeats) = (0, 0);
    for n in 1..=5 {
        let name = format!("n{n}");
        for version in 1..=4 {
            world.host(&name).behave(version, |behavior| {
                *behavior = super::host::Behavior::default();
            });
        }
        let now = world.now();
        if !world.host(&name).up {
            world.boot(&name);
        } else if !world.host(&name).healthy {
            // What was broken in the program is mended, so it starts once more.
            world.host(&name).crash(now);
        }
    }
    let cordoned: Vec<NodeId> = world.state.cordons.iter().copied().collect();
    for node in cordoned {
        world.command(CommandAction::Uncordon { node });
    }
}

/// Every member runs the target that the ledger has for it.
fn converged(world: &World, seed: u64) {
    for (id, host) in &world.hosts {
        let wanted = world.state.target_of(*id);
        let name = world.view.name(*id);
        assert_eq!(
            host.member.file().running.as_ref(),
            wanted,
            "seed {seed}: {name} {:#?}",
            world.state
        );
        assert!(host.healthy, "seed {seed}: {name} is not healthy");
        assert!(!host.member.in_turn(), "seed {seed}: {name} believes to be in a turn");
    }
    let open = world.state.rollout.as_deref().filter(|r| r.kind != RolloutKind::CatchUp);
    assert!(open.is_none(), "seed {seed}: {:#?}", open);
}

#[test]
fn random_worlds_keep_the_invariants_and_come_to_rest() {
    let seeds = option_env!("BATON_ROLLOUT_SEEDS").and_then(|n| n.parse().ok()).unwrap_or(300);
    let first = option_env!("BATON_ROLLOUT_FIRST").and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        if let Err(cause) = std::panic::catch_unwind(|| random_world(seed)) {
            println!("seed {seed} failed");
            std::panic::resume_unwind(cause);
        }
    }
}
