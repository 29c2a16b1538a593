//! Whether this machine can run a test, and what to say when it cannot.

use crate::shell;

/// Whether fleet tests can run here: root, `ip`, `nft`, and the `programs` that the test needs.
///
/// If not, it prints what is left out and why, and the test returns. With `BATON_REQUIRE_FLEET=1`
/// (set where the machine is meant to be able to) it panics instead, so that a test is never left
/// out there unnoticed.
pub fn fleet_can_run(test: &str, programs: &[&str]) -> bool {
    let mut lacking = Vec::new();
    if !rustix::process::geteuid().is_root() {
        lacking.push("root".to_owned());
    }
    for program in ["ip", "nft"].iter().chain(programs) {
        if !shell::exists(program) {
            lacking.push(format!("the program {program}"));
        }
    }
    if lacking.is_empty() {
        return true;
    }
    leave_out(test, &lacking.join(", "))
}

/// The same for tests without namespaces: only `programs` are needed.
pub fn programs_exist(test: &str, programs: &[&str]) -> bool {
    let lacking: Vec<_> = programs.iter().copied().filter(|name| !shell::exists(name)).collect();
    lacking.is_empty() || leave_out(test, &lacking.join(", "))
}

/// The same for tests that need root and nothing else.
pub fn is_root(test: &str) -> bool {
    rustix::process::geteuid().is_root() || leave_out(test, "root")
}

fn leave_out(test: &str, lacking: &str) -> bool {
    let required = std::env::var("BATON_REQUIRE_FLEET").is_ok_and(|value| value == "1");
    assert!(!required, "{test} needs {lacking}, and BATON_REQUIRE_FLEET=1 says it must run");
    println!("LEFT OUT: {test} needs {lacking}");
    false
}
