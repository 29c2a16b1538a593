//! How long it took from one member's success to the next one's start, as the leader's log has it.
//!
//! Invariant: said only if every one of these moments was found.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::fleet::read_text;
use super::stage::Stage;

/// The pauses between turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    sorted: Vec<Duration>,
}

impl Pace {
    /// Of the rollout to `release`, if a log tells of all its turns.
    pub(crate) fn read(stage: &Stage<'_>, release: &str) -> Option<Self> {
        let nodes = &stage.ground.nodes;
        nodes.iter().find_map(|node| Self::of(&read_text(node.log()), release, nodes.len()))
    }

    fn of(log: &str, release: &str, members: usize) -> Option<Self> {
        let (passed, goes) = (format!(" passed on {release} ("), " goes: ".to_owned());
        let starts = format!("starts {release}");
        let mut ended: Option<Timestamp> = None;
        let mut sorted = Vec::new();
        for line in log.lines() {
            let at = || line.split_whitespace().next().and_then(|word| word.parse().ok());
            if line.contains(&passed) {
                ended = at();
            } else if line.contains(&goes)
                && line.ends_with(&starts)
                && let (Some(from), Some(to)) = (ended.take(), at())
            {
                sorted.push(Duration::try_from(to.duration_since(from)).ok()?);
            }
        }
        sorted.sort_unstable();
        (sorted.len() + 1 == members).then_some(Self { sorted })
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let (median, most) = (ms(self.sorted.get(self.sorted.len() / 2)), ms(self.sorted.last()));
        write!(
            f,
            "from one member's success until the next one was told to go: {median:.1} ms (median), \
             {most:.1} ms (maximum), by the leader's log"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_from_a_log() {
        let log = "2026-12-01T05:02:34.234146Z  INFO web.default: n1 goes: stops what it runs and \
                   starts web/2\n2026-12-01T05:02:36.273Z  INFO web.default: n1 passed on web/2 (1 \
                   of 2)\n2026-12-01T05:02:36.280Z  INFO web.default: n2 goes: stops what it runs \
                   and starts web/2\n";
        let pace = Pace::of(log, "web/2", 2).expect("a pace");
        assert_eq!(pace.sorted, [Duration::from_millis(7)]);
        assert!(pace.to_string().contains("7.0 ms (median)"), "{pace}");
        assert_eq!(Pace::of(log, "web/1", 2), None);
        assert_eq!(Pace::of(log, "web/2", 3), None);
    }
}
