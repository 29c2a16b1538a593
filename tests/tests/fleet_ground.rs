//! The ground of the fleet tests itself: cables, cuts, losses, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command};
use std::time::Duration;

use baton_tests::namespace::run_inside;
use baton_tests::requirements::fleet_can_run;
use baton_tests::{Fleet, leftovers, shell};

/// How many of `count` datagrams that one host sends to another arrive.
fn arriving(fleet: &Fleet, from: usize, to: usize, count: usize) -> usize {
    let (receiver, addr) = inside(fleet, to);
    let (sender, _) = inside(fleet, from);
    for _ in 0..count {
        // A full queue counts as a loss, like everything else that does not arrive.
        sender.send_to(b"hello", addr).ok();
    }
    let mut buffer = [0; 16];
    let mut arrived = 0;
    while arrived < count && receiver.recv_from(&mut buffer).is_ok() {
        arrived += 1;
    }
    arrived
}

fn inside(fleet: &Fleet, host: usize) -> (UdpSocket, SocketAddr) {
    let name = namespace(fleet, host);
    let socket = run_inside(Some(&name), || UdpSocket::bind((Fleet::addr(host), 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

fn namespace(fleet: &Fleet, host: usize) -> String {
    fleet.outside().name().replace("-br", &format!("-n{}", host + 1))
}

#[test]
fn cables_are_cut_one_way_both_ways_and_mended() {
    if !fleet_can_run("cables_are_cut_one_way_both_ways_and_mended", &[]) {
        return;
    }
    let mut fleet = Fleet::new(3);
    // What is done, and whether 0 → 1, 1 → 0 and 0 → 2 work afterwards.
    type Step = (&'static str, fn(&mut Fleet), [bool; 3]);
    let steps: [Step; 7] = [
        ("nothing", |_| (), [true, true, true]),
        ("cut one way", |fleet| fleet.cut_one_way(0, 1), [false, true, true]),
        ("mended", |fleet| fleet.mend(0, 1), [true, true, true]),
        ("cut", |fleet| fleet.cut(0, 1), [false, false, true]),
        ("parted", |fleet| fleet.partition(&[0], &[1, 2]), [false, false, false]),
        ("mended partly", |fleet| fleet.mend(0, 2), [false, false, true]),
        ("mended all", |fleet| fleet.mend_all(), [true, true, true]),
    ];
    for (what, step, expected) in steps {
        step(&mut fleet);
        let found = [(0, 1), (1, 0), (0, 2)].map(|(from, to)| arriving(&fleet, from, to, 1) == 1);
        assert_eq!(found, expected, "after: {what}");
    }
}

#[test]
fn a_share_of_the_packets_is_lost() {
    if !fleet_can_run("a_share_of_the_packets_is_lost", &[]) {
        return;
    }
    let mut fleet = Fleet::new(2);
    fleet.drop_rate(1, 30);
    // 70 expected; both bounds are more than four standard deviations away.
    let arrived = arriving(&fleet, 0, 1, 100);
    assert!((50..=90).contains(&arrived), "{arrived} of 100 arrived at 30 % loss");
    assert_eq!(arriving(&fleet, 1, 0, 20), 20, "the other host loses nothing");
    fleet.drop_rate(1, 0);
    assert_eq!(arriving(&fleet, 0, 1, 20), 20);
}

#[test]
fn two_fleets_do_not_meet_and_leave_nothing() {
    if !fleet_can_run("two_fleets_do_not_meet_and_leave_nothing", &[]) {
        return;
    }
    let sleeper = |fleet: &Fleet| -> Child {
        run_inside(Some(&namespace(fleet, 0)), || Command::new("sleep").arg("60").spawn().unwrap())
    };
    let (one, other) = (Fleet::new(1), Fleet::new(1));
    let (_receiver, addr) = inside(&other, 0);
    let from_one = run_inside(Some(one.outside().name()), || {
        let socket = UdpSocket::bind("10.77.0.254:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.connect(addr).unwrap();
        socket.send(b"hello").unwrap();
        // Nobody listens at that port in this fleet: the refusal comes from its own host.
        socket.recv(&mut [0; 16]).unwrap_err().kind()
    });
    assert_eq!(from_one, std::io::ErrorKind::ConnectionRefused);

    let (mut mine, mut theirs) = (sleeper(&one), sleeper(&other));
    let names = [one.outside().name().to_owned(), namespace(&one, 0)];
    let dir = one.dir().to_owned();
    drop(one);
    assert!(!mine.wait().unwrap().success(), "what runs in a fleet ends with it");
    assert!(theirs.try_wait().unwrap().is_none(), "what runs in another goes on");
    let listed = shell::run(&["ip", "netns", "list"]);
    assert!(names.iter().all(|name| !listed.contains(name.as_str())), "{listed}");
    assert!(!dir.exists());
    drop(other);
    theirs.wait().unwrap();
}

#[test]
fn a_panic_leaves_nothing() {
    if !fleet_can_run("a_panic_leaves_nothing", &[]) {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let fleet = Fleet::new(1);
        let child = run_inside(Some(&namespace(&fleet, 0)), || {
            // Not waited for: a child of a child, as a service is.
            Command::new("sh").args(["-c", "sleep 60 >/dev/null 2>&1 & echo $!"]).output().unwrap()
        });
        let pid: i32 = String::from_utf8(child.stdout).unwrap().trim().parse().unwrap();
        sender.send((pid, fleet.outside().name().to_owned())).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(outcome.is_err());
    let (pid, name) = receiver.recv().unwrap();
    assert!(!shell::run(&["ip", "netns", "list"]).contains(&name));
    let alive = leftovers::exists(pid)
        && !std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .unwrap_or_default()
            .contains(") Z ");
    assert!(!alive, "process {pid} is left");
}
