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

/// This program as it was called, for commands that somebody is to copy: it may lie on no path.
pub fn program() -> String {
    std::env::args_os().next().map_or_else(|| "gateway".to_owned(), |called| called.to_string_lossy().into_owned())
}

/// A line on standard output.
pub fn say(line: impl Display) {
    note(writeln!(io::stdout(), "{line}"));
}

/// Whether standard output shows colours.
pub fn is_coloured() -> bool {
    shows_colours(&io::stdout())
}

/// Whether an output shows colours: a terminal whose owner does not mind them (`NO_COLOR`).
pub fn shows_colours(output: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    output.is_terminal() && !unwanted
}

/// JSON on standard output. Letters that a terminal would obey stand escaped, which is the same to a program.
pub fn say_json(text: &str) {
    say(json_escaped(text));
}

fn json_escaped(text: &str) -> String {
    escaped(text, |letter| format!("\\u{:04x}", u32::from(letter)))
}

/// Lines on standard error, of which nothing takes the terminal over: an error may quote what a server or a customer said.
pub fn warn(lines: impl Display) {
    let _nobody_reads = writeln!(io::stderr(), "{}", unicode_escaped(&lines.to_string()));
}

/// A text that customers chose, on one line: nothing in it moves the cursor, or turns the line around.
pub fn printable(text: &str) -> String {
    unicode_escaped(text).replace('\n', "\\u{a}")
}

fn unicode_escaped(lines: &str) -> String {
    escaped(lines, |letter| letter.escape_unicode().to_string())
}

/// Lines in which what moves the cursor otherwise, or turns a line around, is written in another way.
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

/// A line about what goes on: on a terminal it is written over, in a file there is one for each step. What is said once it is
/// dropped stands on a line of its own.
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
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.on_terminal && !self.last.is_empty() {
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
