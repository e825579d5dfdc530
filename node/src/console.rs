//! Output for the person at the terminal. A closed pipe must not end a command that still has processes to look after,
//! as the standard macros would. Other write errors are remembered, and reported when the command ends.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first write error, other than a closed pipe.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Whether standard output is a closed pipe.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// The program's name as it was called, for commands that people copy: the binary may not be on the `PATH`.
pub fn program() -> String {
    std::env::args_os().next().map_or_else(|| "gateway".to_owned(), |called| called.to_string_lossy().into_owned())
}

/// Writes a line to standard output.
pub fn say(line: impl Display) {
    note(writeln!(io::stdout(), "{line}"));
}

/// Whether standard output shows colors.
pub fn is_coloured() -> bool {
    shows_colours(&io::stdout())
}

/// Whether an output shows colors: it is a terminal, and `NO_COLOR` is not set.
pub fn shows_colours(output: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    output.is_terminal() && !unwanted
}

/// Writes JSON to standard output. Characters that a terminal would interpret are escaped, which JSON parsers undo.
pub fn say_json(text: &str) {
    say(json_escaped(text));
}

fn json_escaped(text: &str) -> String {
    escaped(text, |letter| format!("\\u{:04x}", u32::from(letter)))
}

/// Writes lines to standard error, with control characters escaped: an error may quote text of a server or a customer.
pub fn warn(lines: impl Display) {
    let _nobody_reads = writeln!(io::stderr(), "{}", unicode_escaped(&lines.to_string()));
}

/// Text from customers on one line, without characters that move the cursor or change the direction of writing.
pub fn printable(text: &str) -> String {
    unicode_escaped(text).replace('\n', "\\u{a}")
}

fn unicode_escaped(lines: &str) -> String {
    escaped(lines, |letter| letter.escape_unicode().to_string())
}

/// Replaces control characters other than line feeds, and characters that change the direction of writing, by
/// `written`.
fn escaped(lines: &str, written: impl Fn(char) -> String) -> String {
    const TURNS: [char; 9] =
        ['\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}'];
    let mut shown = String::with_capacity(lines.len());
    for letter in lines.chars() {
        if (letter.is_control() && letter != '\n') || TURNS.contains(&letter) {
            shown.push_str(&written(letter));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Width of the terminal in columns, if standard output is a terminal.
pub fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| columns.0.into())
}

/// Overwrites the last line on the terminal, which was `before` characters long. The line is cut to the terminal's
/// width: a wrapped line could not be overwritten.
fn rewrite(line: &str, before: usize) {
    let room = terminal_columns().map_or(usize::MAX, |columns| columns.saturating_sub(1));
    let end = line.char_indices().nth(room).map_or(line.len(), |(end, _)| end);
    let (line, before) = (&line[..end], before.min(room));
    note(write!(io::stdout(), "\r{line:<before$}").and_then(|()| io::stdout().flush()));
}

/// A status line: on a terminal it is overwritten, in a file each step is a line. Output after the drop starts on a new
/// line.
pub struct StatusLine {
    pub on_terminal: bool,
    last: String,
}

impl StatusLine {
    pub fn begin() -> Self {
        Self { on_terminal: io::stdout().is_terminal(), last: String::new() }
    }

    /// Shows a new step; `pace`, which changes continuously, is shown on a terminal only.
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
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.on_terminal && !self.last.is_empty() {
            say("");
        }
    }
}

/// Asks the person at the terminal; `None` if standard input is not a terminal.
///
/// # Errors
/// The terminal fails.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    // Standard output may be a file.
    write!(io::stderr(), "{question} ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(Some(answer.trim().to_owned()))
}

/// Whether all output was written. A reader that closed the pipe is not an error.
///
/// # Errors
/// The first write error, such as that of a full disk.
pub fn all_said() -> Result<(), &'static io::Error> {
    note(io::stdout().flush());
    LOST.get().map_or(Ok(()), Err)
}

/// Whether the reader is still there; lets a command end that does nothing but print.
pub fn is_read() -> bool {
    !UNREAD.load(Ordering::Relaxed)
}

fn note(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => UNREAD.store(true, Ordering::Relaxed),
        // Keeps the first error.
        Err(error) => drop(LOST.set(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_a_terminal_obeys_are_escaped_and_json_says_the_same() {
        let said =
            serde_json::json!({ "name": "\u{9b}2J \u{202e}\u{7f} Gr\u{fc}\u{df}e \u{1f44b}", "more": ["\n\u{1b}[2J"] });
        for text in [said.to_string(), format!("{said:#}")] {
            let shown = json_escaped(&text);
            assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
            assert!(!shown.contains('\u{202e}') && shown.contains("Gr\u{fc}\u{df}e \u{1f44b}"), "{shown:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok().as_ref(), Some(&said));
        }
        assert_eq!(printable("\u{1b}[2J\n1\t"), "\\u{1b}[2J\\u{a}1\\u{9}");
    }
}
