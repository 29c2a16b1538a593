//! The question before a group is formed anew: its name, typed once more.
//!
//! Invariant: nothing is sent before the very name was given, on the terminal, by `--yes` or in the
//! first line of a pipe.

use std::io::{BufRead, IsTerminal, Read};

use baton_types::GroupName;

use crate::exit::Failure;

/// Goes on only if the group's name is given once more.
pub(super) fn confirm(
    group: &GroupName,
    yes: Option<String>,
    input: &mut impl BufRead,
) -> Result<(), Failure> {
    let given = match yes {
        Some(given) => given,
        None => {
            if std::io::stdin().is_terminal() {
                crate::output::write_stderr(&format!(
                    "This forms {group} anew from the newest record that the members which answer \
                     still hold.\nWhat the lost voters decided since then is forgotten, and they \
                     are no voters any more should they come back.\nDo it only if they are gone \
                     for good. Type the group's name to go on:"
                ));
            }
            let mut line = String::new();
            input
                .take(NAME_MAX_BYTES)
                .read_line(&mut line)
                .map_err(|cause| Failure::failed(format!("standard input: {cause}")))?;
            line
        }
    };
    match given.trim() {
        given if given == group.to_string() => Ok(()),
        "" => Err(Failure::failed(format!(
            "the group's name is needed to go on, typed or with --yes {group}; nothing was done"
        ))),
        given => Err(Failure::failed(format!(
            "found {given:?}, expected the group's name, {group}; nothing was done"
        ))),
    }
}

/// Longer than any group's name.
const NAME_MAX_BYTES: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_name_goes_on() {
        let group: GroupName = "redis.default".parse().expect("a group");
        for (yes, piped, fits, says) in [
            (Some("redis.default"), "", true, ""),
            (None, "redis.default\n", true, ""),
            (None, "redis.default", true, ""),
            (Some("redis"), "redis.default", false, "found \"redis\""),
            (None, "yes\n", false, "expected the group's name, redis.default"),
            (None, "", false, "--yes redis.default"),
        ] {
            let given = confirm(&group, yes.map(str::to_owned), &mut piped.as_bytes());
            match given {
                Ok(()) => assert!(fits, "{yes:?} {piped:?}"),
                Err(failure) => {
                    assert!(!fits && failure.code == 1, "{yes:?} {piped:?}");
                    assert!(failure.text.contains(says), "{}", failure.text);
                }
            }
        }
    }
}
