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
}

impl Trace {
    /// An empty trace that keeps the last `kept` lines.
    pub fn new(kept: usize) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, events: 0, kept, recent: VecDeque::new() }
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
        self.events += 1;
        self.mix(at);
        for byte in who.bytes().chain(words.bytes()) {
            self.mix(u64::from(byte));
        }
        if self.recent.len() >= self.kept {
            self.recent.pop_front();
        }
        self.recent.push_back(format!(
            "{:>5}.{:06} {who:<5} {words}",
            at / 1_000_000,
            at % 1_000_000
        ));
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
