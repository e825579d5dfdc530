//! Words for the person at the terminal. Whether anybody still reads them changes nothing: a closed pipe must not end
//! a command that has processes to look after, as the standard macros would.

use std::fmt::Display;
use std::io::Write;

/// A line on standard output.
pub fn say(line: impl Display) {
    let _nobody_reads = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub fn warn(line: impl Display) {
    let _nobody_reads = writeln!(std::io::stderr(), "{line}");
}

/// A line in place of the last one, which was `before` characters long; for a terminal.
pub fn rewrite(line: &str, before: usize) {
    let _nobody_reads = write!(std::io::stdout(), "\r{line:<before$}").and_then(|()| std::io::stdout().flush());
}
