//! From SIGKILL of a leader to the next leader and to its first decision, over five daemons on
//! loopback.
//!
//! `cargo bench -p baton-tests --bench failover` kills 50 leaders on each profile (`BATON_ROUNDS`
//! chooses another number). The decision is a command that is typed at another host right after the
//! kill: the line of its record is the proof. Times are read from the daemons' own lines, which share
//! the machine's clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a bench"
)]

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_tests::hello::{GROUP, Hello, LIMIT, Scripts};
use baton_tests::log::micros_of_day;
use baton_tests::wait;

const NODES: usize = 5;

fn main() {
    let rounds = std::env::var("BATON_ROUNDS").map_or(50, |text| text.parse().expect("a number"));
    println!("SIGKILL of the leader, {NODES} daemons, {rounds} rounds each");
    println!("{:<10} {:<28} {:>10} {:>10} {:>10}", "profile", "until", "min", "median", "max");
    for profile in ["local", "lan"] {
        let (leads, decides) = measure(profile, rounds);
        for (what, mut times) in [("another one leads", leads), ("its first decision", decides)] {
            times.sort();
            let shown = |at: usize| format!("{} ms", times[at].as_millis());
            let (median, last) = (times.len() / 2, times.len() - 1);
            println!(
                "{profile:<10} {what:<28} {:>10} {:>10} {:>10}",
                shown(0),
                shown(median),
                shown(last)
            );
        }
    }
}

/// The times of each round: until somebody leads, until the command is in a record.
fn measure(profile: &'static str, rounds: usize) -> (Vec<Duration>, Vec<Duration>) {
    let mut hello = Hello::new(NODES);
    hello.publish("1", Scripts::default());
    let service = hello.service("monitor = \"0s\"");
    hello.ring.configure(|_, settings| {
        settings.profile = profile;
        settings.services.push(service.clone());
    });
    (0..NODES).for_each(|host| hello.ring.host(host).start());
    hello.roll("1", &["completed"]);
    let (mut leads, mut decides) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let leader = whole(&hello);
        let other = (leader + 1 + round % (NODES - 1)) % NODES;
        let (word, told) = match round % 2 {
            0 => ("pause", "paused by"),
            _ => ("resume", "resumed"),
        };
        let killed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        hello.ring.host(leader).kill();
        hello.ring.hosts()[other].cli().run(&["rollout", word, GROUP]).expect(0, &[]);
        let since = |part: &str| {
            let found = first_line(&hello, leader, killed, part);
            Duration::from_micros(found - micros_since(killed))
        };
        leads.push(since(" leads in term "));
        decides.push(since(told));
        hello.ring.host(leader).start();
    }
    (leads, decides)
}

/// Waits until all nodes are alive and one leads for all of them; which one.
fn whole(hello: &Hello) -> usize {
    wait::until("a whole ring with a leader", LIMIT, || {
        let members = hello.ring.hosts()[0].cli().json(&["ring", "members"])?;
        let alive = members.as_array().into_iter().flatten().filter(|one| one["state"] == "alive");
        if alive.count() < NODES {
            return Err(members.to_string());
        }
        let leaders: Vec<_> = (0..NODES).map(|host| hello.leader(host)).collect();
        match leaders[0] {
            Some(leader) if leaders.iter().all(|other| *other == Some(leader)) => Ok(leader),
            _ => Err(format!("{leaders:?}")),
        }
    })
}

/// When a line with `part` first stood in the log of a survivor, after the kill.
fn first_line(hello: &Hello, killed: usize, after: Duration, part: &str) -> u64 {
    let survivors = hello.ring.hosts().iter().enumerate().filter(|(index, _)| *index != killed);
    let logs = survivors.map(|(_, host)| fs::read_to_string(host.home().join("daemon.log")));
    let lines: Vec<String> =
        logs.flat_map(|log| log.unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let times = lines.iter().filter(|line| line.contains(part)).map(|line| micros_of_day(line));
    times.filter(|at| *at > micros_since(after)).min().unwrap_or_else(|| panic!("no {part:?}"))
}

/// A time since 1970 as microseconds within its day, as the lines of a log say them.
fn micros_since(since_epoch: Duration) -> u64 {
    u64::try_from(since_epoch.as_micros()).unwrap() % (24 * 3_600 * 1_000_000)
}
