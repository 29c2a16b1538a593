//! Reading the lines of a daemon.

/// When a line was written, in microseconds within its day: `2026-12-01T05:13:33.416410Z …`.
pub fn micros_of_day(line: &str) -> u64 {
    let time = &line[11..26];
    let number = |range: std::ops::Range<usize>| time[range].parse::<u64>().expect("a time");
    ((number(0..2) * 60 + number(3..5)) * 60 + number(6..8)) * 1_000_000 + number(9..15)
}
