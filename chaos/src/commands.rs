//! Runs programs of the system to completion.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::unistd::geteuid;

/// Whether this process lacks the rights to create networks and mount disks. If so, it says so on standard error
/// itself, which is not captured like the output of tests, so that nobody takes a skipped test for a passed one.
pub fn lacks_root() -> bool {
    let lacks = !geteuid().is_root();
    if lacks {
        let name = std::thread::current().name().unwrap_or("this").to_owned();
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} needs root");
    }
    lacks
}

/// Runs a command and ignores its output.
///
/// # Errors
/// When it fails. The error holds its standard error.
pub fn run(program: &str, args: &[&str]) -> anyhow::Result<()> {
    said(program, args).map(drop)
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// As [`run`].
pub fn said(program: &str, args: &[&str]) -> anyhow::Result<String> {
    feed(program, args, "")
}

/// Runs a command with `text` as its standard input, and returns its standard output.
///
/// # Errors
/// As [`run`].
pub fn feed(program: &str, args: &[&str], text: &str) -> anyhow::Result<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} cannot be run"))?;
    if let Some(mut input) = child.stdin.take() {
        // A command that fails early may not read its input; the check of its status below reports why.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output()?;
    let words = || format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    ensure!(output.status.success(), "{}{}{text}", words(), if text.is_empty() { "" } else { "\n" });
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
