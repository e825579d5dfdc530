//! Programs of the system that are run to their end.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::unistd::geteuid;

/// Whether this process may make networks and mount disks. One that may not is told on standard error, past whatever collects
/// the output of tests, so that nobody takes what was skipped for done.
pub fn lacks_root() -> bool {
    let lacks = !geteuid().is_root();
    if lacks {
        let name = std::thread::current().name().unwrap_or("this").to_owned();
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} needs root");
    }
    lacks
}

/// Runs a command that says nothing of interest.
///
/// # Errors
/// When it fails, with what it said.
pub fn run(program: &str, args: &[&str]) -> anyhow::Result<()> {
    said(program, args).map(drop)
}

/// Runs a command and gives what it said.
///
/// # Errors
/// When it fails, with what it said.
pub fn said(program: &str, args: &[&str]) -> anyhow::Result<String> {
    feed(program, args, "")
}

/// Runs a command that reads this.
///
/// # Errors
/// When it fails, with what it said.
pub fn feed(program: &str, args: &[&str], text: &str) -> anyhow::Result<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} cannot be run"))?;
    if let Some(mut input) = child.stdin.take() {
        // One that fails early reads nothing; why it failed is said below.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output()?;
    let words = || format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    ensure!(output.status.success(), "{}{}{text}", words(), if text.is_empty() { "" } else { "\n" });
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
