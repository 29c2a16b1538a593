//! What happened, in words and as one number.
//!
//! Invariant: every event of a run goes into the hash; the words are for people, and only the last
//! ones are kept.

use std::collections::VecDeque;

/// The trace of one run.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    kept: usize,
    recent: VecDeque<String>,
    /// What a person wants to be told of a scenario, if one listens.
    story: Option<Story>,
}

/// A run for people: without messages and records, and each thing said once.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Its lines, oldest first.
    pub lines: Vec<String>,
    /// Lines beyond the most that is kept.
    pub left_out: usize,
    /// What nodes said last: several say the same.
    said: VecDeque<String>,
}

impl Trace {
    /// An empty trace that keeps the last `kept` lines.
    pub fn new(kept: usize) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, events: 0, kept, recent: VecDeque::new(), story: None }
    }

    /// Somebody listens from now on.
    pub(crate) fn listen(&mut self) {
        self.story = Some(Story::default());
    }

    /// What whoever listened was told.
    pub(crate) fn take_story(&mut self) -> Story {
        self.story.take().unwrap_or_default()
    }

    /// Something that happens too often to be worth words.
    pub(crate) fn quiet(&mut self, at: u64, host: usize, kind: u8, size: u64) {
        self.events += 1;
        self.mix(at);
        self.mix(host as u64 | u64::from(kind) << 32);
        self.mix(size);
    }

    /// Something in words; `who` is the host's name.
    pub(crate) fn say(&mut self, at: u64, who: &str, words: &str) {
        self.tell(at, who, words);
        self.mutter(at, who, words);
    }

    /// Something for whoever listens, which is no event.
    pub(crate) fn tell(&mut self, at: u64, who: &str, words: &str) {
        if let Some(story) = &mut self.story {
            story.add(at, who, words);
        }
    }

    /// Something in words that is too much for a story.
    pub(crate) fn mutter(&mut self, at: u64, who: &str, words: &str) {
        self.events += 1;
        self.mix(at);
        for byte in who.bytes().chain(words.bytes()) {
            self.mix(u64::from(byte));
        }
        if self.recent.len() >= self.kept {
            self.recent.pop_front();
        }
        if self.kept > 0 {
            self.recent.push_back(line(at, who, words));
        }
    }

    /// One number over everything that happened.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last lines, oldest first.
    pub fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
    }

    /// FNV-1a, a word at a time.
    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
}

impl Story {
    fn add(&mut self, at: u64, who: &str, words: &str) {
        if words.starts_with("says: ") {
            if self.said.iter().any(|said| said == words) {
                return;
            }
            if self.said.len() >= SAID_KEPT {
                self.said.pop_front();
            }
            self.said.push_back(words.to_owned());
        }
        match self.lines.len() < LINES_MAX {
            true => self.lines.push(line(at, who, words)),
            false => self.left_out += 1,
        }
    }
}

fn line(at: u64, who: &str, words: &str) -> String {
    format!("{:>5}.{:06} {who:<5} {words}", at / 1_000_000, at % 1_000_000)
}

/// Longer stories are read by nobody.
const LINES_MAX: usize = 2_000;

/// Nodes of a small group say the same within so many lines.
const SAID_KEPT: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_says_each_thing_once_and_leaves_the_hash_alone() {
        let mut told = Trace::new(2);
        let mut untold = told.clone();
        told.listen();
        told.tell(1, "step", "a step is no event");
        for trace in [&mut told, &mut untold] {
            trace.say(1, "n1", "says: n3 is dead");
            trace.say(2, "n2", "says: n3 is dead");
            trace.mutter(3, "n2", "hears from n1: a message");
            trace.say(4, "n2", "the machine boots");
            trace.say(4, "n1", "the machine boots");
        }
        assert_eq!((told.hash(), told.events()), (untold.hash(), untold.events()));
        assert_eq!(told.recent().count(), 2);
        assert_eq!(untold.take_story().lines.len(), 0);
        let lines = told.take_story().lines;
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[1], "    0.000001 n1    says: n3 is dead");
    }
}
