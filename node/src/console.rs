//! Words for the person at the terminal. Whether anybody still reads them changes nothing: a closed pipe must not end
//! a command that has processes to look after, as the standard macros would. What could not be written for another
//! reason is remembered for the command's end.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why words were lost, the first time; never for want of a reader.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Whether the reader has gone away.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// A line on standard output.
pub fn say(line: impl Display) {
    note(writeln!(io::stdout(), "{line}"));
}

/// Whether standard output shows colours: a terminal whose owner does not mind them (`NO_COLOR`).
pub fn is_coloured() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !unwanted
}

/// A line on standard error.
pub fn warn(line: impl Display) {
    let _nobody_reads = writeln!(io::stderr(), "{line}");
}

/// How many columns the terminal has to which standard output goes, where it is one.
pub fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| columns.0.into())
}

/// A line in place of the last one, which was `before` characters long; for a terminal. What the terminal has no room for
/// is left out: a line that goes on in a second one cannot be written over.
fn rewrite(line: &str, before: usize) {
    let room = terminal_columns().map_or(usize::MAX, |columns| columns.saturating_sub(1));
    let end = line.char_indices().nth(room).map_or(line.len(), |(end, _)| end);
    let (line, before) = (&line[..end], before.min(room));
    note(write!(io::stdout(), "\r{line:<before$}").and_then(|()| io::stdout().flush()));
}

/// A line about what goes on: on a terminal it is written over, in a file there is one for each step.
pub struct StatusLine {
    pub on_terminal: bool,
    last: String,
}

impl StatusLine {
    pub fn begin() -> Self {
        Self { on_terminal: io::stdout().is_terminal(), last: String::new() }
    }

    /// Says what is new; `pace`, which changes by itself, to a terminal alone.
    pub fn tell(&mut self, step: String, pace: &str) {
        let line = if self.on_terminal { step + pace } else { step };
        if line == self.last {
            return;
        }
        if self.on_terminal {
            rewrite(&line, self.last.chars().count())
        } else {
            say(&line)
        }
        self.last = line;
    }

    /// What is said next stands on a line of its own.
    pub fn end(&self) {
        if self.on_terminal {
            say("");
        }
    }
}

/// Asks the person at the terminal; `None` when there is none.
///
/// # Errors
/// When the terminal fails.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    // Not on standard output, which may be a file.
    write!(io::stderr(), "{question} ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(Some(answer.trim().to_owned()))
}

/// Whether everything that was said was written, as on a disk that has room; a reader who went away missed nothing that
/// it wanted.
///
/// # Errors
/// Why not.
pub fn all_said() -> Result<(), &'static io::Error> {
    note(io::stdout().flush());
    LOST.get().map_or(Ok(()), Err)
}

/// Whether somebody may still read what is said: for a command that has nothing else to do.
pub fn is_read() -> bool {
    !UNREAD.load(Ordering::Relaxed)
}

fn note(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => UNREAD.store(true, Ordering::Relaxed),
        // The first one is kept.
        Err(error) => drop(LOST.set(error)),
    }
}
