//! The virtual network: what it loses, delays, doubles and cuts.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::program::micros;

/// How bad the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Datagrams lost, of a thousand.
    pub loss: u32,
    /// Datagrams that arrive twice, of a thousand.
    pub duplication: u32,
    /// Shortest way.
    pub delay_min: Duration,
    /// Longest usual way. Two datagrams overtake each other within these bounds.
    pub delay_max: Duration,
    /// Datagrams that take up to `stray_max`, of a thousand.
    pub strays: u32,
    /// The longest way of all.
    pub stray_max: Duration,
}

/// All links between hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// How bad it is now.
    pub weather: Weather,
    cut: BTreeSet<(usize, usize)>,
}

impl Weather {
    /// A good local network.
    pub const CALM: Self = Self {
        loss: 0,
        duplication: 0,
        delay_min: Duration::from_micros(100),
        delay_max: Duration::from_micros(600),
        strays: 0,
        stray_max: Duration::from_millis(1),
    };
}

impl Network {
    /// A calm network without cuts.
    pub fn new() -> Self {
        Self { weather: Weather::CALM, cut: BTreeSet::new() }
    }

    /// Nothing passes from `from` to `to` any more.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    /// Every link carries again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Whether everything passes between all, if not at once: losses of up to a twentieth delay
    /// news, they do not withhold it.
    pub fn is_open(&self) -> bool {
        self.cut.is_empty() && self.weather.loss <= 50
    }

    /// Whether something can pass now.
    pub fn carries(&self, from: usize, to: usize) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// After how many microseconds the copies of one envelope arrive: none, one or two. A stream
    /// loses nothing but what a cut stops.
    pub(crate) fn ways(
        &self,
        rng: &mut StdRng,
        from: usize,
        to: usize,
        stream: bool,
    ) -> [Option<u64>; 2] {
        let weather = self.weather;
        if !self.carries(from, to) || (!stream && chance(rng, weather.loss)) {
            return [None, None];
        }
        let first = self.way(rng);
        let second = (!stream && chance(rng, weather.duplication)).then(|| self.way(rng));
        [Some(first), second]
    }

    fn way(&self, rng: &mut StdRng) -> u64 {
        let weather = self.weather;
        let (least, most) = (micros(weather.delay_min), micros(weather.delay_max));
        match chance(rng, weather.strays) {
            true => rng.random_range(least..=micros(weather.stray_max).max(least)),
            false => rng.random_range(least..=most.max(least)),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether something happens that does so `per_mille` times of a thousand.
pub(crate) fn chance(rng: &mut StdRng, per_mille: u32) -> bool {
    per_mille > 0 && rng.random_range(0..1_000) < per_mille
}
