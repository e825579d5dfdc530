//! How commands show what they found: tables for people, JSON for programs.

use std::fmt;
use std::time::Duration;

use model::time::Timestamp;
use serde_json::Value;

use crate::console::say;

/// What stands where nothing is known.
pub const UNKNOWN: &str = "-";

/// Shows an answer as a program reads it, whole and as it came.
pub fn json(answer: &Value) {
    // A value that was just read is written without fail; it prints itself on one line.
    say(serde_json::to_string_pretty(answer).unwrap_or_else(|_| answer.to_string()));
}

/// Rows under headings, each column as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each heading; an empty cell shows that nothing is known.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.heads.len(), "a cell for each heading");
        let shown = cells.into_iter().map(|cell| if cell.is_empty() { UNKNOWN.to_owned() } else { printable(&cell) });
        self.rows.push(shown.collect());
    }

    /// Prints the table, or `otherwise` when it has no rows.
    pub fn print_or(&self, otherwise: &str) {
        if self.rows.is_empty() {
            say(otherwise);
        } else {
            say(self);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &str| text.chars().count();
        let columns = 0..self.heads.len();
        let widths: Vec<usize> = columns
            .map(|column| {
                let cells = self.rows.iter().map(|row| width(&row[column]));
                cells.fold(width(self.heads[column]), usize::max)
            })
            .collect();
        let line = |cells: Vec<&str>| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        f.write_str(&line(self.heads.clone()))?;
        for row in &self.rows {
            write!(f, "\n{}", line(row.iter().map(String::as_str).collect()))?;
        }
        Ok(())
    }
}

/// A text that customers chose, on one line: nothing in it moves the cursor, or turns the line around.
pub fn printable(text: &str) -> String {
    const TURNS: [char; 9] =
        ['\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}'];
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || TURNS.contains(&letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A cell of what may be unknown.
pub fn cell<T: fmt::Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Numbers with commas; short enough for a cell.
pub fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

/// A bar that fills with what is done of a whole.
pub fn bar(done: usize, whole: usize) -> String {
    /// Its characters.
    const LENGTH: usize = 30;
    let full = (done * LENGTH).checked_div(whole).unwrap_or(LENGTH).min(LENGTH);
    format!("[{}{}]", "#".repeat(full), ".".repeat(LENGTH - full))
}

/// `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = count as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

/// The two largest units of a time: `3d 4h`, `12s`.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let told: Vec<String> = parts
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if told.is_empty() { "0s".to_owned() } else { told.join(" ") }
}

/// How long ago something was.
pub fn ago(at: Timestamp) -> String {
    duration(Timestamp::now().since(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NODE", "STATE"]);
        table.row(["1".to_owned(), "ready".to_owned()]);
        table.row(["12345".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "NODE   STATE\n1      ready\n12345  -");
    }

    #[test]
    fn a_name_that_a_customer_chose_does_not_take_the_terminal_over() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row(["\u{1b}[2J\n1  ready".to_owned(), "Grüße, ✨".to_owned()]);
        assert_eq!(table.to_string().lines().count(), 2);
        assert!(table.to_string().contains("\\u{1b}[2J\\u{a}1  ready  Grüße, ✨"), "{table}");
    }

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_610_612_736, "1.5 GiB")];
        for (count, shown) in sizes {
            assert_eq!(bytes(count), shown);
        }
        let times = [(0, "0s"), (59, "59s"), (60, "1m"), (3661, "1h 1m"), (86_400, "1d"), (273_600, "3d 4h")];
        for (seconds, shown) in times {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
    }
}
