//! Which life a campaign plays: its seed, and what is fixed by whoever asks for it.
//!
//! Invariant: the same course is the same life, and [`Course::command`] names exactly that course.

use std::fmt;
use std::time::Duration;

use crate::campaign::{Campaign, Report};
use crate::check::Violation;

/// One seed, and what is not left to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Members of the group; by chance if `None`.
    pub hosts: Option<usize>,
    /// How long faults and operators go on; by chance if `None`.
    pub chaos: Option<Duration>,
    /// Which faults there are. A seed that was found under an earlier generation plays the same life
    /// again under that one.
    pub generation: Generation,
    /// How many of the last events a broken promise is told with.
    pub last_events: usize,
}

/// Faults come in generations: each has those of the one before it, and draws its own from a
/// generator of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Network, kills, power, depot, programs, operators.
    First = 1,
    /// And refused writes, machines and daemons that stand still, clocks that step, members that
    /// join late, waves, zones.
    Second = 2,
    /// And members that leave or are forgotten, disks that lie, machines that move to another address.
    Third = 3,
    /// And two builds at once, which speak different versions of the wire.
    Fourth = 4,
    /// And members with `order` labels, hosts that carry several groups,
    /// lineages that meet, groups that are formed anew.
    Fifth = 5,
}

impl Generation {
    /// What is played if nobody says otherwise.
    pub const NEWEST: Self = Self::Fifth;

    /// All of them, oldest first.
    pub const ALL: &'static [Self] =
        &[Self::First, Self::Second, Self::Third, Self::Fourth, Self::Fifth];

    /// The generation with that number.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::ALL.iter().copied().find(|generation| *generation as usize == number)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", *self as usize)
    }
}

impl Course {
    /// Everything that is left to chance is decided by `seed`.
    pub fn of(seed: u64) -> Self {
        let generation = Generation::NEWEST;
        Self { seed, hosts: None, chaos: None, generation, last_events: LAST_EVENTS }
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// The command that plays it.
    pub fn command(&self) -> String {
        let mut command = format!("baton sim --seed {}", self.seed);
        if let Some(hosts) = self.hosts {
            command += &format!(" --hosts {hosts}");
        }
        if let Some(chaos) = self.chaos {
            command += &format!(" --minutes {}", chaos.as_secs() / 60);
        }
        if self.generation != Generation::NEWEST {
            command += &format!(" --generation {}", self.generation);
        }
        command
    }

    /// Plays it.
    ///
    /// # Errors
    ///
    /// The first promise that was broken.
    pub fn play(&self) -> Result<Report, Box<Violation>> {
        Campaign::on(self).run()
    }
}

/// As many as a person reads, and enough for most causes.
const LAST_EVENTS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_what_is_not_left_to_chance() {
        let course = Course::of(7);
        assert_eq!(course.command(), "baton sim --seed 7");
        let course = Course {
            hosts: Some(4),
            chaos: Some(Duration::from_secs(120)),
            generation: Generation::First,
            ..course.with_seed(8)
        };
        assert_eq!(course.command(), "baton sim --seed 8 --hosts 4 --minutes 2 --generation 1");
    }

    #[test]
    fn generations_have_numbers() {
        for generation in Generation::ALL {
            let number = generation.to_string().parse().expect("a number");
            assert_eq!(Generation::numbered(number), Some(*generation));
        }
        assert_eq!((Generation::numbered(0), Generation::numbered(9)), (None, None));
        assert_eq!(Generation::ALL.last(), Some(&Generation::NEWEST));
    }

    #[test]
    fn what_is_fixed_is_fixed() {
        let course = Course { hosts: Some(2), chaos: Some(Duration::ZERO), ..Course::of(3) };
        let report = course.play().expect("no promise broken");
        assert_eq!((report.hosts, report.chaos), (2, Duration::ZERO));
        assert_eq!(course.play().expect("again").hash, report.hash);
    }
}
