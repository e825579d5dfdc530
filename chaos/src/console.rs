//! Words for whoever runs a tool. That nobody reads them any more, as at the end of `| head`, ends nothing.

use std::fmt::Display;
use std::io::{self, Write};

/// A line on standard output.
pub fn say(line: impl Display) {
    let _nobody_reads = writeln!(io::stdout(), "{line}");
}
