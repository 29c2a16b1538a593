//! Real hooks and checks.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use baton_platform::{Exit, OnceExit};
use support::{World, eventually, lives};

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn exit_and_the_end_of_the_output_come_back() {
    let world = World::new();
    let result = world.once("echo out; echo err >&2; exit 75").await;
    assert_eq!(result.exit, OnceExit::Ended(Exit::Code(75)));
    assert_eq!(result.output, "out\nerr\n");
    let mut request = world.once_request("seq 1 100000");
    request.output_max_bytes = 13;
    let result = world.runner().run_once(request).await;
    assert_eq!(result.output, "99999\n100000\n");
    let result = world.once("kill -15 $$").await;
    assert_eq!(result.exit, OnceExit::Ended(Exit::Signal(15)));
    let mut request = world.once_request("");
    request.argv = vec!["/no/such/hook".into()];
    let result = world.runner().run_once(request).await;
    let why = "there is no program /no/such/hook".to_owned();
    assert_eq!(result.exit, OnceExit::CouldNotStart(why));
}

#[tokio::test]
async fn a_timeout_kills_the_grandchildren() {
    for use_cgroups in [true, false] {
        let world = World::with(|settings| settings.use_cgroups = use_cgroups);
        let mut request = world.once_request(
            "setsid sh -c 'sleep 300 & echo $! $$ > $DIR/pids; wait' & echo waiting; sleep 300",
        );
        request.timeout = SHORT;
        let result = world.runner().run_once(request).await;
        assert_eq!(result.exit, OnceExit::TimedOut);
        assert_eq!(result.output, "waiting\n");
        assert!(result.took >= SHORT && result.took < Duration::from_secs(10));
        for pid in world.words("pids", 2).await {
            assert!(!lives(pid.parse().unwrap()), "{pid}");
        }
    }
}

#[tokio::test]
async fn a_hook_cannot_leave_a_daemon_behind() {
    for use_cgroups in [true, false] {
        let world = World::with(|settings| settings.use_cgroups = use_cgroups);
        let result = world.once("setsid sleep 300 & echo $! > $DIR/pid; echo done").await;
        assert_eq!(result.exit, OnceExit::Ended(Exit::Code(0)));
        assert_eq!(result.output, "done\n");
        assert!(!lives(world.words("pid", 1).await[0].parse().unwrap()));
    }
}

#[tokio::test]
async fn a_dropped_future_kills_too() {
    let world = World::new();
    let running = world.once("echo $$ > $DIR/pid; exec sleep 300");
    let pid = tokio::select! {
        result = running => panic!("{result:?}"),
        words = world.words("pid", 1) => words[0].parse().unwrap(),
    };
    eventually("the hook is dead", || (!lives(pid)).then_some(())).await;
}

#[tokio::test]
async fn endless_output_costs_neither_memory_nor_the_others_time() {
    let world = World::new();
    let mut request = world.once_request("yes");
    request.timeout = Duration::from_millis(700);
    let before = cpu_time();
    let running = world.runner().run_once(request);
    let counting = async {
        let mut longest = Duration::ZERO;
        loop {
            let started = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            longest = longest.max(started.elapsed());
            if longest > Duration::from_secs(5) {
                break;
            }
        }
    };
    let result = tokio::select! {
        result = running => result,
        () = counting => panic!("the flood starved the daemon"),
    };
    assert_eq!(result.exit, OnceExit::TimedOut);
    assert_eq!(result.output.len(), 1_000);
    println!("CPU time of this process meanwhile: {:?}", cpu_time() - before);
}

#[tokio::test]
async fn what_a_hook_left_when_the_daemon_died_is_cleared_by_the_next_one() {
    let mut world = World::new();
    // The daemon's death is played by a process with a marker of this run directory.
    let id = std::fs::read(world.path("run/run-id")).unwrap();
    let marker = format!("{}-once-0123", String::from_utf8_lossy(&id[16..]));
    let mut stray = std::process::Command::new("sleep")
        .arg("300")
        .env("BATON_INSTANCE", marker)
        .spawn()
        .unwrap();
    world.close().await;
    world.reopen();
    let adoption = world.runner().adopt().await.unwrap();
    assert_eq!(adoption.strays_killed, 1);
    assert!(!stray.wait().unwrap().success());
}

fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap())
}
