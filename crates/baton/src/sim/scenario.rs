//! One scenario file: read, played, told.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use baton_sim::Script;

use crate::args::SimArgs;
use crate::exit::{DONE, Failure, USAGE};
use crate::output::{Output, count};

use super::report::{Outcome, events, lived};

/// Plays the scenario in `file`.
pub(super) fn run(file: &Path, args: &SimArgs, output: &mut Output) -> Result<u8, Failure> {
    let shown = file.display().to_string();
    let mut script = Script::parse(&read(file)?)
        .map_err(|cause| Failure::with_code(USAGE, format!("{shown}: {cause}")))?;
    if let Some(seed) = args.seed {
        script = script.with_seed(seed);
    }
    let (hosts, seed) = script.world();
    let script = script.replayed_by(format!("baton sim {} --seed {seed}", quoted(&shown)));
    let steps = script.len();
    let telling = script.tell();
    let failure = telling.end.as_ref().err().map(|violation| {
        Failure::failed(format!("{shown}: {}: {}", violation.invariant, violation.what))
    });
    if args.json.json {
        output.json_value(&Outcome::of_scenario(&shown, seed, &telling.end))?;
    } else {
        let head =
            format!("{shown}: {}, {}, seed {seed}", count(hosts, "host"), count(steps, "step"));
        output.line(&head)?;
        output.lines(&telling.story.lines)?;
        if telling.story.left_out > 0 {
            output.line(&format!("… and {} left out", count(telling.story.left_out, "line")))?;
        }
        match &telling.end {
            Ok(report) => output.line(&format!(
                "good: everything came out as the scenario says, and no promise was broken; {} of \
                 its time, {}",
                lived(report.lived),
                events(report.events)
            ))?,
            Err(violation) => output.line(&format!("replay: {}", violation.replay))?,
        }
    }
    failure.map_or(Ok(DONE), Err)
}

fn read(file: &Path) -> Result<String, Failure> {
    let refused = |cause: String| {
        Failure::with_code(USAGE, format!("cannot read the scenario {}: {cause}", file.display()))
    };
    let opened = File::open(file).map_err(|cause| refused(cause.to_string()))?;
    let mut text = String::new();
    opened
        .take(FILE_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|cause| refused(cause.to_string()))?;
    match text.len() as u64 > FILE_MAX {
        true => Err(refused("it is larger than 1 MiB".to_owned())),
        false => Ok(text),
    }
}

/// As a shell reads it back.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match !path.is_empty() && path.chars().all(plain) && !path.starts_with('-') {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// A thousand steps of a person's scenario are a tenth of it.
const FILE_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_shell() {
        for (path, want) in [
            ("a/b-c.toml", "a/b-c.toml"),
            ("a b.toml", "'a b.toml'"),
            ("it's.toml", r"'it'\''s.toml'"),
        ] {
            assert_eq!(quoted(path), want);
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_usage_error_that_names_it() {
        let failure = read(Path::new("/nowhere/x.toml")).expect_err("not there");
        assert_eq!(failure.code, USAGE);
        assert!(failure.text.contains("/nowhere/x.toml: No such file"), "{}", failure.text);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("big.toml");
        std::fs::write(&path, " ".repeat(1 + FILE_MAX as usize)).expect("written");
        let failure = read(&path).expect_err("too large");
        assert!(failure.text.contains("larger than 1 MiB"), "{}", failure.text);
    }
}
