//! Plays a script against a service and compares everything that it asked for and told.
//!
//! A script has one step a line; the lines after it that begin with `>` are all outputs of that
//! step. `due` shows how far away the next tick is; `status` shows the state.

use std::fmt::Write;
use std::time::Duration;

use baton_supervise::{
    CheckResult, ExitKind, HookEnd, HookResult, Service, ServiceEvent, ServiceInput, ServiceOutput,
    ServiceTiming,
};
use baton_types::manifest::StopSignal;
use baton_types::member::Health;
use baton_types::{Moment, Text, format_duration};

use crate::release::launch;

pub(crate) fn check(script: &str) {
    let mut now = Moment::from_millis(1_000);
    let mut service = Service::new(ServiceTiming::default(), now, 1);
    let mut played = String::new();
    let steps = script.lines().map(str::trim).filter(|l| !l.is_empty());
    for step in steps.clone().filter(|line| !line.starts_with('>')) {
        writeln!(played, "{step}").expect("a string grows");
        for line in play(&mut service, &mut now, step) {
            writeln!(played, "> {line}").expect("a string grows");
        }
        let next = service.next_tick();
        assert!(next.is_none_or(|next| next > now), "after {step:?}: {next:?} at {now:?}");
    }
    let wanted: String = steps.map(|line| format!("{line}\n")).collect();
    assert!(played == wanted, "wanted:\n{wanted}\nplayed:\n{played}");
}

fn play(service: &mut Service, now: &mut Moment, step: &str) -> Vec<String> {
    let words: Vec<&str> = step.split(' ').collect();
    let number = |at: usize| words[at].parse().expect("a number");
    let text = |at: usize| Text::new(&words[at.min(words.len())..].join(" "));
    let exit = |kind: &str, number: &str| match kind {
        "code" => ExitKind::Code(number.parse().expect("a code")),
        "signal" => ExitKind::Signal(number.parse().expect("a signal")),
        _ => ExitKind::Unknown,
    };
    match words[0] {
        "run" => service.run(*now, launch(words[1], &words[2..])),
        "halt" => service.halt(*now),
        "restart" => service.restart(*now),
        "check" => service.check_now(*now),
        "adopt" => {
            let run = service.adopt(*now, launch(words[2], &words[3..]), 7);
            assert_eq!(run.map(|run| run.to_string()).unwrap_or("-".to_owned()), words[1]);
        }
        "tick" => {
            *now = service.next_tick().expect("something is due");
            service.tick(*now);
        }
        "next" => {
            // The next check; announcements of a changed text before it are left out.
            loop {
                *now = service.next_tick().expect("something is due");
                service.tick(*now);
                let outputs = service.take_outputs();
                let shown: Vec<String> =
                    outputs.iter().map(show).filter(|o| o != "changed").collect();
                if !shown.is_empty() {
                    return shown;
                }
            }
        }
        "wait" => {
            *now = *now + Duration::from_millis(number(1));
            service.tick(*now);
        }
        // Nothing runs meanwhile, not even what is due.
        "stand-still" => {
            *now = *now + Duration::from_millis(number(1));
            service.notice_late(*now);
            service.tick(*now);
        }
        "due" => {
            let due = service.next_tick().map(|next| format_duration(next.since(*now)));
            return vec![due.unwrap_or("never".to_owned())];
        }
        "status" => {
            let state = service.status();
            let (process, health, text) = (state.process, state.health, &state.health_text);
            return vec![format!("{process} {health} {text}")];
        }
        word => {
            let input = match word {
                "launched" => ServiceInput::Launched { run: number(1), pid: number(2) as u32 },
                "launch-failed" => ServiceInput::LaunchFailed { run: number(1), reason: text(2) },
                "exited" => ServiceInput::Exited {
                    pid: number(1) as u32,
                    how: exit(words[2], words[3]),
                    last_output: text(4),
                },
                "halted" => ServiceInput::Halted { run: number(1) },
                "hook" => {
                    let end = match words[2] {
                        "timed-out" => HookEnd::TimedOut,
                        "cancelled" => HookEnd::Cancelled,
                        code => HookEnd::Exited(exit("code", code)),
                    };
                    let result = HookResult { end, text: text(3) };
                    ServiceInput::HookDone { hook: number(1), result }
                }
                "checked" => {
                    let health = Health::from_word(words[2]).expect("a health");
                    let result = CheckResult { health, text: text(3) };
                    ServiceInput::Checked { check: number(1), result }
                }
                "says" => ServiceInput::Notified {
                    ready: words[1] == "READY=1",
                    status: (words.len() > 2).then(|| text(2)),
                },
                other => panic!("no such step: {other}"),
            };
            service.input(*now, input);
        }
    }
    service.take_outputs().iter().map(show).collect()
}

fn show(output: &ServiceOutput) -> String {
    match output {
        ServiceOutput::Launch { run, launch } => format!("launch {run} {}", launch.target),
        ServiceOutput::Halt { run, signal, timeout } => {
            let name = StopSignal::ALL.iter().find(|(s, _)| s == signal).map_or("?", |(_, n)| n);
            format!("halt {run} {name} {}", format_duration(*timeout))
        }
        ServiceOutput::RunHook { hook, kind, launch } => {
            format!("hook {hook} {} of {}", kind.key(), launch.target)
        }
        ServiceOutput::CancelHook { hook } => format!("cancel hook {hook}"),
        ServiceOutput::Check { check, timeout, .. } => {
            format!("check {check} {}", format_duration(*timeout))
        }
        ServiceOutput::Changed => "changed".to_owned(),
        ServiceOutput::Event(event) => match event {
            ServiceEvent::Started { pid } => format!("started {pid}"),
            ServiceEvent::FirstHealthy => "first healthy".to_owned(),
            ServiceEvent::BecameHealthy => "healthy".to_owned(),
            ServiceEvent::BecameUnhealthy { health, text } => format!("unhealthy {health}: {text}"),
            ServiceEvent::BecameUnknown => "health unknown".to_owned(),
            ServiceEvent::Exited { text, .. } => text.to_string(),
            ServiceEvent::StartFailed { text } => format!("start failed: {text}"),
            ServiceEvent::PostStopFailed { text } => format!("post_stop failed: {text}"),
            ServiceEvent::Stopped => "stopped".to_owned(),
            ServiceEvent::RestartScheduled { delay, restarts } => {
                // The wait is drawn at random between half and all of one of these.
                let whole = (0..9).map(|n| 100u64 << n).chain([30_000]).map(Duration::from_millis);
                let whole = whole.into_iter().find(|whole| delay <= whole).expect("a limit");
                assert!(*delay >= whole / 2, "{delay:?}");
                format!("restart {restarts} within {}", format_duration(whole))
            }
        },
    }
}
