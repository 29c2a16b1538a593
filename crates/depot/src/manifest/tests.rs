use super::*;

fn check(text: &str, wanted: &[&str]) {
    let found = parse("release.toml", text).map_err(|faults| faults.to_string());
    assert_eq!(found.expect_err(text), wanted.join("\n"), "{text}");
}

const FULL: &str = r#"
name = "redis"
version = "7.0.15"
[run]
command = ["bin/redis-server", "${BATON_RELEASE_DIR}/redis.conf"]
stop_signal = "SIGINT"
stop_timeout = "5s"
[health]
exec = ["bin/health"]
interval = "500ms"
timeout = "1s"
healthy_after = 2
unhealthy_after = 0x10
[hooks]
install = ["bin/install"]
ready = { command = ["bin/ready", "now"], timeout = "5m" }
pre_start = ["/usr/bin/true"]
verify = { command = ["bin/verify"] }
"#;

#[test]
fn a_full_manifest_is_read() {
    let (manifest, programs) = parse_with_programs("release.toml", FULL).expect("a manifest");
    let seconds = Duration::from_secs;
    let hook = |words: &[&str], timeout| {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        Some(Hook { command, timeout: seconds(timeout) })
    };
    assert_eq!(
        manifest,
        Manifest {
            id: "redis/7.0.15".parse().expect("a release"),
            run: Run {
                command: vec![
                    "bin/redis-server".to_owned(),
                    "${BATON_RELEASE_DIR}/redis.conf".to_owned()
                ],
                stop_signal: StopSignal::Int,
                stop_timeout: seconds(5),
            },
            health: Some(HealthCheck::Exec(vec!["bin/health".to_owned()])),
            health_timing: HealthTiming {
                interval: Some(Duration::from_millis(500)),
                timeout: Some(seconds(1)),
                healthy_after: Some(2),
                unhealthy_after: Some(16),
            },
            hooks: Hooks {
                install: hook(&["bin/install"], 600),
                ready: hook(&["bin/ready", "now"], 300),
                pre_start: hook(&["/usr/bin/true"], 60),
                post_start: None,
                post_stop: None,
                verify: hook(&["bin/verify"], 60),
            },
        }
    );
    let words: Vec<_> = programs.iter().map(|p| (p.at, p.word.as_str())).collect();
    assert_eq!(
        words,
        [
            ((5, 12), "bin/redis-server"),
            ((9, 9), "bin/health"),
            ((15, 12), "bin/install"),
            ((16, 22), "bin/ready"),
            ((17, 14), "/usr/bin/true"),
            ((18, 23), "bin/verify"),
        ]
    );
}

#[test]
fn the_smallest_manifest_has_defaults() {
    let text = "name = 'a'\nversion = '1'\nrun.command = ['/bin/sleep', '9']\n";
    let manifest = parse("release.toml", text).expect("a manifest");
    assert_eq!(manifest.run.stop_signal, StopSignal::Term);
    assert_eq!(manifest.run.stop_timeout, Duration::from_secs(30));
    assert_eq!(manifest.health, None);
    assert_eq!(manifest.hooks, Hooks::default());
}

#[test]
fn every_fault_is_found_at_once_with_its_place() {
    check(
        r#"name = "re/dis"
version = 7
extra = 1
[run]
comand = ["x"]
stop_signal = "SIGSTOP"
stop_timeout = "5"
[hooks]
instal = ["x"]
ready = []
"#,
        &[
            "release.toml:1:8: the name \"re/dis\" has '/' at position 3: a letter or digit first, \
             then a-z, A-Z, 0-9, '-', '_' are allowed",
            "release.toml:2:11: found a whole number, expected a text in quotes",
            "release.toml:3:1: unknown key \"extra\" in release.toml: allowed are name, version, \
             run, health, hooks",
            "release.toml:4:1: [run] has no command: expected command = [\"bin/server\", \
             \"--port\", \"${PORT}\"]",
            "release.toml:5:1: unknown key \"comand\" in [run]: allowed are command, stop_signal, \
             stop_timeout",
            "release.toml:6:15: the signal \"SIGSTOP\" is unknown: allowed are SIGTERM, SIGINT, \
             SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGKILL",
            "release.toml:7:16: the duration \"5\" has no unit: expected a whole number and a unit \
             (ms, s, m, h), for example \"30s\"",
            "release.toml:9:1: unknown key \"instal\" in [hooks]: allowed are install, ready, \
             pre_start, post_start, post_stop, verify",
            "release.toml:10:9: an empty command: the program and its arguments are needed",
        ],
    );
}

#[test]
fn each_value_says_what_is_allowed() {
    let base = "name = 'a'\nversion = '1'\nrun.command = ['/bin/x']\n";
    for (more, wanted) in [
        ("health = 1", "4:10: found a whole number, expected a table"),
        ("[health]", "4:1: [health] has no check: exactly one of exec, http, tcp is needed"),
        (
            "[health]\nhttp = 'http://h/'\ntcp = 'h:1'",
            "4:1: [health] has http and tcp: exactly one of exec, http, tcp is allowed",
        ),
        (
            "health.http = 'https://h/'",
            "4:15: \"https://h/\" is no URL: expected \"http://HOST:PORT/PATH\"",
        ),
        (
            "health.tcp = 'localhost'",
            "4:14: \"localhost\" is no address: expected HOST:PORT, like \"127.0.0.1:${PORT}\"",
        ),
        (
            "health = { tcp = 'h:1', interval = '0s' }",
            "4:36: the duration \"0s\" is zero: more than zero is allowed",
        ),
        (
            "health = { tcp = 'h:1', interval = 5 }",
            "4:36: found a whole number, expected a duration like \"30s\"",
        ),
        (
            "health = { tcp = 'h:1', healthy_after = 0 }",
            "4:41: the number 0 is not allowed here: 1 to 1000 are",
        ),
        (
            "health = { tcp = 'h:1', healthy_after = -1 }",
            "4:41: the number -1 is not allowed here: 1 to 1000 are",
        ),
        (
            "hooks.ready = 'bin/ready'",
            "4:15: found a text, expected an array like [\"bin/hook\"] or a table { command, timeout }",
        ),
        (
            "hooks.ready = { timeout = '1s' }",
            "4:15: a hook has no command: expected command = [\"bin/hook\"]",
        ),
        ("hooks.ready = ['a', 1]", "4:21: found a whole number, expected a text in quotes"),
        (
            "hooks.ready = ['../a']",
            "4:16: \"../a\" has \"..\": expected a path within the release, or an absolute one",
        ),
        ("hooks.ready = ['']", "4:16: \"\" is no program: expected a path like \"bin/server\""),
        (
            "hooks.ready = [\"a\\u0000\"]",
            "4:16: a word with a NUL character, which no program can be given",
        ),
    ] {
        check(&format!("{base}{more}"), &[&format!("release.toml:{wanted}")]);
    }
    let many = format!("hooks.ready = [{}]", "'a',".repeat(65));
    check(
        &format!("{base}{many}"),
        &["release.toml:4:15: a command of 65 words: at most 64 are allowed"],
    );
}

#[test]
fn text_that_is_no_toml_has_its_place_too() {
    for (text, place) in [
        ("name = \n", "release.toml:1:8: "),
        ("name = 'a'\nname = 'b'\n", "release.toml:2:1: "),
        ("\u{0}", "release.toml:1:1: "),
    ] {
        let faults = parse("release.toml", text).expect_err(text);
        assert!(faults.to_string().starts_with(place), "{faults}");
    }
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(parse("release.toml", &deep).is_err());
}
