//! Waiting for something that becomes true, with a limit and a message that says what was found.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Asks every 50 ms until `question` answers `Ok`. Panics after `limit` with what the last answer
/// was.
pub fn until<T, E: Display>(
    what: &str,
    limit: Duration,
    mut question: impl FnMut() -> Result<T, E>,
) -> T {
    let end = Instant::now() + limit;
    loop {
        match question() {
            Ok(value) => return value,
            Err(found) if Instant::now() >= end => {
                panic!("{what}: not within {limit:?}; last found: {found}")
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_good_answer_ends_the_wait() {
        let mut asked = 0;
        let value = until("three", Duration::from_secs(5), || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err(format!("{asked}")) }
        });
        assert_eq!(value, 3);
    }

    #[test]
    #[should_panic(expected = "rain: not within 0ns; last found: sun")]
    fn the_limit_names_what_was_found() {
        until("rain", Duration::ZERO, || Err::<(), _>("sun"));
    }
}
