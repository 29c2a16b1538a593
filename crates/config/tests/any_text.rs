//! No text makes the reader panic, and every fault stands within its file on one printable line.

// The functions that the tests share may fail loudly, as the tests themselves may.
#![allow(clippy::expect_used, clippy::panic)]

use baton_config::{Fault, Host, SourceFile, parse, parse_service};
use proptest::prelude::*;

const BATON: &str = include_str!("../../../config/baton.toml");
const SERVICE: &str = include_str!("../../../config/services.d/example.toml");

fn check(main: &str, service: &str) {
    let files = [SourceFile::new("b", main), SourceFile::new("s", service)];
    let host = Host { name: "n1".to_owned() };
    let outcome = parse(&files[0], &files[1..], &host);
    assert_eq!(outcome.settings.is_some(), outcome.faults.is_empty());
    for fault in outcome.faults.iter().chain(&outcome.warnings) {
        let text = if fault.path == files[0].path { main } else { service };
        check_place(fault, text);
    }
    let settings = parse(&SourceFile::new("b", ""), &[], &host).settings.expect("defaults");
    let outcome = parse_service(&files[1], &settings);
    assert_eq!(outcome.service.is_some(), outcome.faults.is_empty());
}

fn check_place(fault: &Fault, text: &str) {
    let line = text.split('\n').nth(fault.line - 1).unwrap_or_else(|| panic!("{fault}"));
    let columns = line.chars().count() + 1;
    assert!((1..=columns).contains(&fault.column), "{fault} in a line of {columns} columns");
    assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    assert!(fault.message.len() < 1_000 && !fault.key.is_empty(), "{fault:?}");
}

/// Both examples with every key uncommented.
fn uncommented(text: &str) -> String {
    let bare = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => {
            format!("{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().filter(|line| !line.is_empty()).map(bare).collect()
}

#[test]
fn texts_that_hurt_parsers() {
    let deep = 30_000;
    for text in [
        "\u{feff}",
        "\u{feff}[ring\n",
        "\r\n\r",
        "\0",
        "ä = 1\n\"ö\" = 'ü",
        "a = \"\\ud800\"",
        "[ring]\nprobe_period = \"99999999999999999999s\"",
        "[ring]\nmax_packet = 0x7fffffffffffffffffff\nindirect_probes = nan",
        "[ring]\nindirect_probes = -0\nbind = 1979-05-27T07:32:00Z",
        "[[service]]\n[[service.update]]\n[[service.update.waves]]",
        "service = [1, [], {}, 'x']",
        "node = []\nring = [{}]\ncontrol = 1.0\n",
        &"[".repeat(deep),
        &format!("a = {}", "[".repeat(deep)),
        &format!("a = {}", "{ a = ".repeat(deep)),
        &format!("{} = 1", vec!["a"; deep].join(".")),
        &format!("[{}]", vec!["a"; deep].join(".")),
        &"=\n".repeat(deep),
        &"a\n".repeat(deep),
        &"\"\"\"".repeat(deep),
        &format!("{}\n", "ä".repeat(deep)),
        &format!("node.labels = {{ {} }}", "a = 1, ".repeat(deep)),
    ] {
        check(text, text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(main in "(?s).{0,200}", service in "[a-z_\\[\\]=\"'{},.#0-9 \n]{0,200}") {
        check(&main, &service);
    }

    /// A true file with something cut out and something put in.
    #[test]
    fn any_damage(
        at in 0.0..1.0_f64,
        cut in 0_usize..40,
        put in prop_oneof![
            "[ -~\n]{0,12}",
            Just("\"0s\"".to_owned()),
            Just("= -1\n".to_owned()),
            Just("[update]\n".to_owned()),
            Just("\u{0}".to_owned()),
            "(?s).{0,4}",
        ],
    ) {
        let damage = |text: &str| {
            let chars: Vec<char> = uncommented(text).chars().collect();
            let at = (chars.len() as f64 * at) as usize;
            let rest = &chars[(at + cut).min(chars.len())..];
            chars[..at].iter().copied().chain(put.chars()).chain(rest.iter().copied()).collect()
        };
        let (main, service): (String, String) = (damage(BATON), damage(SERVICE));
        check(&main, &service);
    }

    /// A true key with any value.
    #[test]
    fn any_value(
        key in 0_usize..1_000,
        value in prop_oneof![
            "-?[0-9]{1,25}", "\"[0-9]{1,22}(ms|s|m|h|%|d|)\"", "\"[ -!#-\\[\\]-~ä]{0,20}\"",
            Just("[]".to_owned()), Just("{}".to_owned()), Just("true".to_owned()),
            Just("[0, \"0%\", -1, \"\", [], {}]".to_owned()), Just("1e400".to_owned()),
        ],
    ) {
        let change = |text: &str| -> String {
            let text = uncommented(text);
            let is_key = |line: &&str| line.contains(" = ") && !line.starts_with('#');
            let keys = text.lines().filter(is_key).count();
            let mut seen = 0;
            text.lines().map(|line| {
                seen += usize::from(is_key(&line));
                match line.split_once(" = ").filter(|_| is_key(&line) && seen == key % keys + 1) {
                    Some((name, _)) => format!("{name} = {value}\n"),
                    None => format!("{line}\n"),
                }
            }).collect()
        };
        check(&change(BATON), &change(SERVICE));
    }
}
