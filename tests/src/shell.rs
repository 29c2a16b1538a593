//! Running one short command of the system (`ip`, `nft`, a script) and insisting that it works.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `words` and returns what it printed. Panics with all output if it fails.
pub fn run(words: &[&str]) -> String {
    try_run(words).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Runs `words`; an error has the command, its exit status and all output.
pub fn try_run(words: &[&str]) -> Result<String, String> {
    finish(words, Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output())
}

/// Runs `words` with `input` on its standard input. Panics with all output if it fails.
pub fn feed(words: &[&str], input: &str) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes())?;
            }
            child.wait_with_output()
        });
    finish(words, output).unwrap_or_else(|fault| panic!("{fault}\ninput was:\n{input}"))
}

/// Whether a program of this name is found on `PATH` or among the system's own.
pub fn exists(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|dir| std::path::Path::new(dir).join(program).is_file())
}

fn finish(words: &[&str], output: std::io::Result<std::process::Output>) -> Result<String, String> {
    let line = words.join(" ");
    let output = output.map_err(|fault| format!("{line}: cannot be started: {fault}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}\n{stdout}{stderr}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_input_and_failure_are_passed_on() {
        assert_eq!(run(&["echo", "a"]), "a\n");
        assert_eq!(feed(&["cat"], "b"), "b");
        let fault = try_run(&["sh", "-c", "echo no >&2; exit 3"]).unwrap_err();
        assert!(fault.contains("exit status: 3") && fault.contains("no"), "{fault}");
        assert!(exists("sh") && !exists("no-such-program"));
    }
}
