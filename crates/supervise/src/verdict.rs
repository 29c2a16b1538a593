//! What the end of a check, hook or program means. Pure functions; the last line of output is
//! always part of the text, as it usually is the reason.

use std::time::Duration;

use baton_types::manifest::{EXIT_NOT_YET, EXIT_REBOOT, HookKind};
use baton_types::member::Health;
use baton_types::{Text, exact_duration};

use crate::messages::{CheckResult, ExitKind, HookEnd, HookResult};

/// What a hook said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// Exit 0: yes (`ready`), done (`install`), well (`verify`), go on (the others).
    Ok,
    /// `ready` only, exit 75: ask again.
    NotYet(Text),
    /// `install` only, exit 76: reboot this machine and run it again.
    Reboot,
    /// Everything else; for `ready` it means no.
    Failed(Text),
}

/// Judges a hook whose timeout was `timeout`.
pub fn hook(kind: HookKind, timeout: Duration, result: &HookResult) -> HookOutcome {
    let key = kind.key();
    let said = |what: String| with_output(&format!("{key} {what}"), &result.text);
    match (result.end, kind) {
        (HookEnd::Exited(ExitKind::Code(0)), _) => HookOutcome::Ok,
        (HookEnd::Exited(ExitKind::Code(EXIT_NOT_YET)), HookKind::Ready) => {
            HookOutcome::NotYet(said("says not yet".to_owned()))
        }
        (HookEnd::Exited(ExitKind::Code(EXIT_REBOOT)), HookKind::Install) => HookOutcome::Reboot,
        (HookEnd::Exited(how), _) => HookOutcome::Failed(said(exit_words(how))),
        (HookEnd::TimedOut, _) => {
            let timeout = exact_duration(timeout);
            HookOutcome::Failed(said(format!("did not end within {timeout}")))
        }
        (HookEnd::Cancelled, _) => HookOutcome::Failed(said("was cancelled".to_owned())),
        (HookEnd::NotStarted, _) => HookOutcome::Failed(said("could not be started".to_owned())),
    }
}

/// A health check by a program: exit 0 ok, 1 warning, 2 critical, everything else unknown.
pub fn exec(how: ExitKind, last_output: &Text) -> CheckResult {
    let health = match how {
        ExitKind::Code(0) => {
            return CheckResult { health: Health::Ok, text: last_output.clone() };
        }
        ExitKind::Code(1) => Health::Warning,
        ExitKind::Code(2) => Health::Critical,
        _ => Health::Unknown,
    };
    let what = match how {
        ExitKind::Code(code) => format!("exec exited {code}"),
        _ => format!("exec {}", exit_words(how)),
    };
    CheckResult { health, text: with_output(&what, last_output) }
}

/// A health check that could not even be asked: its program is missing, its URL is none.
pub fn not_asked(reason: &Text) -> CheckResult {
    let text = with_output("the health check could not be run", reason);
    CheckResult { health: Health::Unknown, text }
}

/// A health check over HTTP that was answered: 2xx is ok, everything else critical.
pub fn http(status: u16, first_line: &Text) -> CheckResult {
    let health = if (200..300).contains(&status) { Health::Ok } else { Health::Critical };
    CheckResult { health, text: with_output(&format!("http answered {status}"), first_line) }
}

/// A health check over HTTP that was not answered by HTTP.
pub fn http_failed(reason: &Text) -> CheckResult {
    CheckResult { health: Health::Critical, text: with_output("http failed", reason) }
}

/// A health check by a TCP connection: made is ok, not made critical.
pub fn tcp(result: Result<(), &Text>) -> CheckResult {
    match result {
        Ok(()) => CheckResult { health: Health::Ok, text: Text::from("tcp connected") },
        Err(reason) => {
            CheckResult { health: Health::Critical, text: with_output("tcp failed", reason) }
        }
    }
}

/// A health check that was stopped at its timeout.
pub fn no_answer(timeout: Duration) -> CheckResult {
    let text = Text::new(&format!("did not answer within {}", exact_duration(timeout)));
    CheckResult { health: Health::Critical, text }
}

/// How a program ended, in words: `exited with code 3: cannot bind: address in use`.
pub fn exit_text(how: ExitKind, last_output: &Text) -> Text {
    with_output(&exit_words(how), last_output)
}

fn exit_words(how: ExitKind) -> String {
    match how {
        ExitKind::Code(code) => format!("exited with code {code}"),
        ExitKind::Signal(signal) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("was killed by signal {signal} ({name})"),
            None => format!("was killed by signal {signal}"),
        },
        ExitKind::Unknown => "ended, exit status unknown".to_owned(),
    }
}

/// `what`, and what was printed with it, if anything was.
pub(crate) fn with_output(what: &str, output: &Text) -> Text {
    if output.is_empty() { Text::new(what) } else { Text::new(&format!("{what}: {output}")) }
}

/// The signals that end programs, by their numbers on Linux.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (31, "SIGSYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_judged() {
        let text = Text::from;
        for (result, health, words) in [
            (exec(ExitKind::Code(0), &text("PONG")), Health::Ok, "PONG"),
            (exec(ExitKind::Code(0), &text("")), Health::Ok, ""),
            (exec(ExitKind::Code(1), &text("lag 5s")), Health::Warning, "exec exited 1: lag 5s"),
            (
                exec(ExitKind::Code(2), &text("connection refused")),
                Health::Critical,
                "exec exited 2: connection refused",
            ),
            (exec(ExitKind::Code(3), &text("")), Health::Unknown, "exec exited 3"),
            (exec(ExitKind::Code(-1), &text("")), Health::Unknown, "exec exited -1"),
            (
                exec(ExitKind::Signal(9), &text("")),
                Health::Unknown,
                "exec was killed by signal 9 (SIGKILL)",
            ),
            (
                not_asked(&text("bin/health: no such file")),
                Health::Unknown,
                "the health check could not be run: bin/health: no such file",
            ),
            (http(200, &text("fine")), Health::Ok, "http answered 200: fine"),
            (http(299, &text("")), Health::Ok, "http answered 299"),
            (http(199, &text("")), Health::Critical, "http answered 199"),
            (http(301, &text("")), Health::Critical, "http answered 301"),
            (http(503, &text("loading")), Health::Critical, "http answered 503: loading"),
            (http_failed(&text("reset")), Health::Critical, "http failed: reset"),
            (tcp(Ok(())), Health::Ok, "tcp connected"),
            (tcp(Err(&text("refused"))), Health::Critical, "tcp failed: refused"),
            (no_answer(Duration::from_secs(3)), Health::Critical, "did not answer within 3s"),
        ] {
            assert_eq!((result.health, result.text.as_str()), (health, words));
        }
    }

    #[test]
    fn hooks_are_judged_by_kind() {
        use HookKind::{Install, PostStart, PostStop, PreStart, Ready, Verify};
        let failed = |words: &str| HookOutcome::Failed(Text::from(words));
        let check = |kind, end, text: &str, want: HookOutcome| {
            let result = HookResult { end, text: Text::from(text) };
            assert_eq!(hook(kind, Duration::from_secs(5), &result), want, "{kind:?} {end:?}");
        };
        let code = |code| HookEnd::Exited(ExitKind::Code(code));
        for kind in [Install, Ready, PreStart, PostStart, PostStop, Verify] {
            let key = kind.key();
            check(kind, code(0), "fine", HookOutcome::Ok);
            check(kind, code(1), "no", failed(&format!("{key} exited with code 1: no")));
            check(kind, HookEnd::TimedOut, "", failed(&format!("{key} did not end within 5s")));
            check(kind, HookEnd::Cancelled, "", failed(&format!("{key} was cancelled")));
        }
        let not_yet = HookOutcome::NotYet(Text::from("ready says not yet: lag 3s"));
        check(Ready, code(75), "lag 3s", not_yet);
        check(Ready, code(76), "", failed("ready exited with code 76"));
        check(Install, code(76), "", HookOutcome::Reboot);
        check(Install, code(75), "", failed("install exited with code 75"));
        check(Verify, code(75), "", failed("verify exited with code 75"));
        let missing = failed("verify could not be started: bin/verify: no such file");
        check(Verify, HookEnd::NotStarted, "bin/verify: no such file", missing);
        let killed = failed("pre_start was killed by signal 15 (SIGTERM): bye");
        check(PreStart, HookEnd::Exited(ExitKind::Signal(15)), "bye", killed);
    }

    #[test]
    fn exits_are_told_with_the_last_output() {
        for (how, output, words) in [
            (ExitKind::Code(3), "cannot bind", "exited with code 3: cannot bind"),
            (ExitKind::Code(0), "", "exited with code 0"),
            (ExitKind::Signal(11), "", "was killed by signal 11 (SIGSEGV)"),
            (ExitKind::Signal(64), "", "was killed by signal 64"),
            (ExitKind::Unknown, "bye", "ended, exit status unknown: bye"),
        ] {
            assert_eq!(exit_text(how, &Text::from(output)).as_str(), words);
        }
    }
}
