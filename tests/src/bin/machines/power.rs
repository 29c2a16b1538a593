//! Fifty power cuts at random moments of rollouts: every rollout ends by itself, every machine ends on
//! the last release, no release comes back, and Baton never takes a member down beside another one that
//! it has taken down, or that is known to be down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::web::{self, Note};

pub(crate) fn play() {
    let mut chance = Chance(0x5eed);
    let mut fleet = web::machines();
    let mut version = 1;
    let release = web::promote(&fleet, version);
    fleet.completed(&release);
    let (mut cuts, mut in_turn): (Vec<Cut>, usize) = (Vec::new(), 0);
    while cuts.len() < CUTS {
        version += 1;
        let release = web::promote(&fleet, version);
        for _ in 0..=chance.below(3) {
            std::thread::sleep(Duration::from_millis(chance.below(4_000)));
            let machine = chance.below(web::COUNT as u64) as usize;
            in_turn += usize::from(fleet.in_turn() == Ok(machine));
            let at = now();
            fleet.machine(machine).cut_power();
            if chance.below(8) == 0 {
                // Long enough for all to know, and to be tempted.
                std::thread::sleep(ALL_KNOW + Duration::from_secs(12));
            }
            fleet.machine(machine).boot();
            cuts.push(Cut { machine, at });
            if chance.below(2) == 0 {
                fleet.expect_healthy(machine);
            }
        }
        fleet.completed(&release);
        println!("{release}: completed, after {} cuts so far", cuts.len());
    }
    println!("{} cuts, {in_turn} of them of the member in its turn", cuts.len());
    assert!(in_turn > 5, "few of the cuts met a turn");
    let notes: Vec<Vec<Note>> = (0..web::COUNT).map(|index| web::notes(&fleet, index)).collect();
    for (index, of_one) in notes.iter().enumerate() {
        let versions = of_one.iter().filter(|note| note.begins).map(|note| note.version);
        assert!(versions.is_sorted(), "n{} went back: {of_one:?}", index + 1);
    }
    budget_was_kept(&notes, &cuts);
}

/// A machine lost its power.
struct Cut {
    machine: usize,
    at: u64,
}

/// Each stop that a program was asked for came while no other program was down for which Baton is to
/// blame, or which everybody knew of.
fn budget_was_kept(notes: &[Vec<Note>], cuts: &[Cut]) {
    let starts_after = |machine: usize, at: u64| {
        let after = notes[machine].iter().find(|note| note.begins && note.at > at);
        after.map_or(u64::MAX, |note| note.at)
    };
    let mut looked_at = 0;
    for (machine, of_one) in notes.iter().enumerate() {
        for stop in of_one.iter().filter(|note| !note.begins) {
            for (other, of_other) in notes.iter().enumerate().filter(|(at, _)| *at != machine) {
                let stopped = of_other.iter().filter(|note| !note.begins);
                let stopped = stopped.map(|note| (note.at, starts_after(other, note.at)));
                let know = ALL_KNOW.as_millis() as u64;
                let cut = cuts.iter().filter(|cut| cut.machine == other);
                let cut = cut.map(|cut| (cut.at + know, starts_after(other, cut.at)));
                for (from, to) in stopped.chain(cut) {
                    looked_at += 1;
                    assert!(
                        stop.at < from || to <= stop.at,
                        "n{} was stopped at {} while n{} was down from {from} to {to}",
                        machine + 1,
                        stop.at,
                        other + 1
                    );
                }
            }
        }
    }
    println!("budget kept: {looked_at} pairs of a stop and a time down, none at once");
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's MMIX; the high bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const CUTS: usize = 50;
/// After it a dead machine is known to be dead with the `lan` profile, on a busy machine, too.
const ALL_KNOW: Duration = Duration::from_secs(8);
