//! Real services under a real runner.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use baton_platform::{Exit, LaunchError, RunnerEvent, StopReport};
use baton_types::manifest::StopSignal;
use support::{World, group, lives};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_program_that_exits_at_once_is_reported_with_its_code_and_last_words() {
    let mut world = World::new();
    let launched = world.launch("echo hello; printf 'no newline' >&2; exit 7").await;
    assert_eq!(world.exit().await, Exit::Code(7));
    assert_eq!(world.lines(), ["hello", "no newline"]);
    assert!(
        matches!(world.seen.last(), Some(RunnerEvent::Exited { pid, .. }) if *pid == launched.pid)
    );
    assert_eq!(world.runner().last_lines(&group(), 1).unwrap(), ["no newline"]);
    assert_eq!(world.runner().pid(&group()), None);
    world.launch("kill -9 $$").await;
    assert_eq!(world.exit().await, Exit::Signal(9));
    assert_eq!(
        std::fs::read_dir(world.path("run"))
            .unwrap()
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().ends_with(".run"))
            .count(),
        0
    );
}

#[tokio::test]
async fn a_service_gets_a_clean_start() {
    let mut world = World::new();
    // An inherited descriptor that is not close-on-exec must not reach the program.
    let (_reader, leaked) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let mut run = async |words: &[&str]| {
        let mut request = world.request("");
        request.argv = words.iter().map(|&word| word.to_owned()).collect();
        let launched = world.runner().launch(request).await.unwrap();
        world.seen.clear();
        assert_eq!(world.exit().await, Exit::Code(0), "{words:?}");
        (launched.pid, world.lines().iter().map(|&line| line.to_owned()).collect::<Vec<_>>())
    };
    let (_, env) = run(&["env"]).await;
    let mut names: Vec<&str> = env.iter().filter_map(|entry| entry.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["BATON_INSTANCE", "DIR", "PATH"]);
    // The fourth is the folder that ls reads.
    assert_eq!(run(&["ls", "/proc/self/fd"]).await.1, ["0", "1", "2", "3"]);
    assert_eq!(run(&["readlink", "/proc/self/fd/0"]).await.1, ["/dev/null"]);
    assert_eq!(run(&["sh", "-c", "umask"]).await.1, ["0022"]);
    let (pid, status) = run(&["cat", "/proc/self/status"]).await;
    for name in ["SigBlk", "SigIgn"] {
        let line = status.iter().find_map(|line| line.strip_prefix(name)).unwrap();
        let mask = u64::from_str_radix(line.trim_start_matches([':', ' ']), 16).unwrap();
        // The C library keeps the signals 32 and 33 to itself and lets nobody change them.
        assert_eq!(mask & !(0b11 << 31), 0, "{name}");
    }
    for name in ["NSsid", "NSpgid"] {
        let line = status.iter().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with(&format!(" {pid}")), "{line}");
    }
}

#[tokio::test]
async fn stop_asks_first() {
    let mut world = World::new();
    let launched =
        world.launch("trap 'echo bye; exit 3' INT; echo up; while :; do sleep 0.01; done").await;
    world.line("up").await;
    let report = world.runner().stop(&group(), StopSignal::Int, LONG).await.unwrap();
    assert!(!report.forced);
    assert_eq!(world.exit().await, Exit::Code(3));
    assert!(!lives(launched.pid));
    assert!(world.lines().contains(&"bye"));
    let again = world.runner().stop(&group(), StopSignal::Int, LONG).await.unwrap();
    assert_eq!(again, StopReport::default());
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_after_its_timeout() {
    let mut world = World::new();
    let launched = world.launch("trap '' TERM; echo up; while :; do sleep 60; done").await;
    world.line("up").await;
    let started = Instant::now();
    let report = world.runner().stop(&group(), StopSignal::Term, SHORT).await.unwrap();
    assert!(started.elapsed() >= SHORT);
    assert!(report.forced && report.killed >= 2, "{report:?}");
    assert_eq!(world.exit().await, Exit::Signal(9));
    assert!(!lives(launched.pid));
}

const FORKS_AWAY: &str = "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 300\" & echo $$; wait; sleep 300' > $DIR/pids & \
                          (setsid sleep 300 & echo $! > $DIR/more) & echo up; trap 'exit 0' TERM; while :; do sleep 0.01; done";

async fn nothing_survives(world: &mut World) {
    world.launch(FORKS_AWAY).await;
    world.line("up").await;
    let mut pids = world.words("pids", 2).await;
    pids.extend(world.words("more", 1).await);
    let pids: Vec<u32> = pids.iter().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
    let report = world.runner().stop(&group(), StopSignal::Term, LONG).await.unwrap();
    assert!(!report.forced && report.killed >= 3, "{report:?}");
    let left: Vec<&u32> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {pids:?}");
    assert!(world.marked().is_empty());
}

#[tokio::test]
async fn what_forked_away_does_not_survive_with_a_cgroup() {
    let mut world = World::new();
    if world.runner().cgroups().is_none() {
        println!("no delegated cgroup v2 here: only the other way is tested");
    }
    nothing_survives(&mut world).await;
    if let Some(root) = world.runner().cgroups() {
        let id = std::fs::read(world.path("run/run-id")).unwrap();
        let id = String::from_utf8_lossy(&id[16..]).into_owned();
        assert!(root.begin_with(&id).is_empty(), "a cgroup was left");
    }
}

#[tokio::test]
async fn what_forked_away_does_not_survive_without_a_cgroup() {
    nothing_survives(&mut World::with(|settings| settings.use_cgroups = false)).await;
}

#[tokio::test]
async fn leftovers_die_before_the_exit_is_reported() {
    for use_cgroups in [true, false] {
        let mut world = World::with(|settings| settings.use_cgroups = use_cgroups);
        world.launch("setsid sleep 300 & echo $! > $DIR/pid; exit 1").await;
        assert_eq!(world.exit().await, Exit::Code(1));
        let pid = world.words("pid", 1).await[0].parse().unwrap();
        assert!(!lives(pid));
    }
}

#[tokio::test]
async fn a_program_that_forks_without_end_is_caught() {
    for use_cgroups in [true, false] {
        let mut world = World::with(|settings| settings.use_cgroups = use_cgroups);
        // Each process forks the next one and ends: never more than a few at once.
        world.write_script("chain", "#!/bin/sh\n[ -e $DIR/stop ] && exit\nsetsid $DIR/chain &\n");
        world.launch("$DIR/chain; echo up; exec sleep 300").await;
        world.line("up").await;
        let report = world.runner().stop(&group(), StopSignal::Term, SHORT).await.unwrap();
        let left = world.marked();
        std::fs::write(world.path("stop"), "").unwrap();
        assert!(left.is_empty(), "{left:?} left, {report:?}, cgroups: {use_cgroups}");
    }
}

#[tokio::test]
async fn a_flood_of_output_fills_neither_disk_nor_time() {
    let mut world = World::with(|settings| settings.log_cap_bytes = 256 * 1024);
    world.launch("yes 'a line of a flood'").await;
    let started = Instant::now();
    let mut largest = 0;
    let mut ticks = 0;
    while started.elapsed() < Duration::from_secs(1) {
        largest = largest.max(std::fs::metadata(world.path("log/test.default.log")).unwrap().len());
        tokio::time::sleep(Duration::from_millis(5)).await;
        ticks += 1;
        while world.has_event() {}
    }
    let report = world.runner().stop(&group(), StopSignal::Term, LONG).await.unwrap();
    assert!(!report.forced);
    world.exit().await;
    assert!(ticks > 50, "the flood starved the daemon: {ticks} ticks");
    assert!(largest < 512 * 1024 * 1024, "{largest} bytes");
    let relayed = world.lines().len();
    assert!(relayed < 5_000, "{relayed} lines");
    assert!(world.lines().iter().any(|line| line.ends_with("left out")), "nothing was said");
    let size = std::fs::metadata(world.path("log/test.default.log")).unwrap().len();
    assert!(size <= 512 * 1024, "{size} bytes are left");
}

#[tokio::test]
async fn programs_that_cannot_start_say_why() {
    let mut world = World::new();
    world.write_script("script", "#!/no/such/shell\n");
    std::fs::write(world.path("data"), "x").unwrap();
    for (name, content) in [("half", "\u{7f}ELF"), ("empty", "")] {
        world.write_script(name, "");
        std::fs::write(world.path(name), content).unwrap();
    }
    let argv = |words: &[&str]| {
        let mut request = world.request("");
        request.argv = words.iter().map(|&word| word.to_owned()).collect();
        request
    };
    let cases: [(&[&str], &str); 10] = [
        (&[], "the command is empty"),
        (&[""], "the command is empty"),
        (&["/no/such/program"], "there is no program /no/such/program"),
        (&["no-such-program"], "there is no program \"no-such-program\" in PATH (/usr/local/sbin:"),
        (&["./data"], "data is not executable (mode "),
        (&["/tmp"], "/tmp is not executable: it is a folder"),
        (&["./script"], "script is missing"),
        // No shell may make something of it.
        (&["./half"], "half is no program for this machine"),
        (&["./empty"], "empty is no program for this machine"),
        (&["/bin/true", "\0"], "a word has a zero byte"),
    ];
    for (words, want) in cases {
        let (_, message) = world.refused(argv(words)).await;
        assert!(message.contains(want), "{words:?}: {message}");
    }
    let mut request = world.request("true");
    request.cwd = world.path("nowhere");
    let (_, message) = world.refused(request).await;
    assert!(message.contains("nowhere cannot be used"), "{message}");
    let mut request = world.request("true");
    request.run_as = Some("nobody-of-that-name".into());
    let (_, message) = world.refused(request).await;
    assert!(message.contains("no user \"nobody-of-that-name\""), "{message}");
    let mut request = world.request("true");
    request.env.insert("A=B".into(), "c".into());
    assert!(matches!(world.refused(request).await, (LaunchError::Environment(_), _)));
    // None of it left a record, a process or a place taken.
    world.launch("sleep 300").await;
    assert!(matches!(world.refused(world.request("true")).await, (LaunchError::Running(_), _)));
    world.runner().stop(&group(), StopSignal::Kill, LONG).await.unwrap();
    assert_eq!(world.exit().await, Exit::Signal(9));
}

#[tokio::test]
async fn run_as_gives_everything_up() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a program as somebody else");
        return;
    }
    let mut world = World::new();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.dir.path(), open).unwrap();
    let nobody = baton_platform::user::lookup("nobody").unwrap();
    let mut request = world.request(
        "id -u; id -g; id -G; echo again >> /dev/stdout; cat /proc/self/status | grep CapEff",
    );
    request.run_as = Some("nobody".into());
    world.runner().launch(request).await.unwrap();
    assert_eq!(world.exit().await, Exit::Code(0));
    let groups: Vec<String> = nobody.groups.iter().map(u32::to_string).collect();
    let (uid, gid, groups) = (nobody.uid.to_string(), nobody.gid.to_string(), groups.join(" "));
    let want = [&uid, &gid, &groups, "again", "CapEff: 0000000000000000"];
    assert_eq!(world.lines(), want);
    let secret = world.path("secret");
    std::fs::write(&secret, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut request = world.request("");
    (request.argv, request.run_as) = (vec!["./secret".into()], Some("nobody".into()));
    let (_, message) = world.refused(request).await;
    assert!(message.contains("secret is not executable for nobody"), "{message}");
}

#[tokio::test]
async fn a_service_speaks_on_its_notify_socket_and_a_stranger_does_not() {
    let mut world = World::new();
    let mut request = world.request(
        "echo $NOTIFY_SOCKET > $DIR/socket; while [ ! -e $DIR/go ]; do sleep 0.01; done; exec perl -MSocket -e '
         socket(S, AF_UNIX, SOCK_DGRAM, 0); connect(S, pack_sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!;
         send(S, \"READY=1\\nSTATUS=all fine\", 0) or die $!; sleep 300'",
    );
    request.notify = true;
    world.runner().launch(request).await.unwrap();
    let socket = world.words("socket", 1).await.remove(0);
    let stranger = std::os::unix::net::UnixDatagram::unbound().unwrap();
    stranger.send_to(b"READY=1\nSTATUS=forged", &socket).unwrap();
    std::fs::write(world.path("go"), "").unwrap();
    let (ready, status) = world
        .event(|event| match event {
            RunnerEvent::Notify { ready, status, .. } => Some((*ready, status.clone())),
            _ => None,
        })
        .await;
    assert_eq!((ready, status), (true, Some("all fine".into())));
    world.runner().stop(&group(), StopSignal::Term, LONG).await.unwrap();
    support::eventually("the socket is gone", || {
        (!std::path::Path::new(&socket).exists()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn orphans_are_reaped_and_other_children_are_not() {
    let mut world = World::new();
    let mut ours = std::process::Command::new("true").spawn().unwrap();
    // Its parent has ended by then, and no shell reaps it.
    world.launch("(setsid sh -c 'sleep 0.1; echo $$ > $DIR/pid' &); exec sleep 300").await;
    let pid: u32 = world.words("pid", 1).await[0].parse().unwrap();
    support::eventually("no zombie", || {
        baton_platform::procfs::Stat::read(pid).is_none().then_some(())
    })
    .await;
    assert!(ours.wait().expect("nobody stole it").success());
    world.runner().stop(&group(), StopSignal::Kill, LONG).await.unwrap();
    assert_eq!(world.exit().await, Exit::Signal(9));
}

/// A shell that entered a container from outside has a session that has no number inside.
#[test]
fn orphans_are_reaped_where_our_session_began_outside_of_the_process_namespace() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a process namespace of its own");
        return;
    }
    let inner = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "orphans_are_reaped_and_other_children_are_not"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && said.contains("1 passed"), "{inner:?}");
}
