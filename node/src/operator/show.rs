//! Output of commands: tables for people, JSON for programs.

use std::fmt;
use std::time::{Duration, Instant};

use model::time::Timestamp;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::console::{StatusLine, is_coloured, printable, say, say_json, terminal_columns};

/// Placeholder of an unknown value.
pub const UNKNOWN: &str = "-";

/// Prints a response as JSON, complete and unchanged.
pub fn json(answer: &Value) {
    // Serializing a `Value` does not fail; its `Display` is the fallback.
    say_json(&serde_json::to_string_pretty(answer).unwrap_or_else(|_| answer.to_string()));
}

/// A table with a heading per column; each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    coloured: bool,
    /// Maximum number of columns of the terminal that the table may use.
    width: usize,
}

/// ANSI color codes of words that readers look for.
fn colour_of(cell: &str) -> Option<&'static str> {
    match cell {
        "ok" | "ready" | "settled" | "operational" | "connected" | "delivered" | "done" => Some("32"),
        "warning" | "draining" | "moving" | "degraded" | "slow" | "behind" | "reconnecting" | "retrying" => Some("33"),
        "failing" | "down" | "outage" | "disabled" | "failed" | "exhausted" | "no_leader" => Some("31"),
        _ => None,
    }
}

/// A column: its heading, and the cell of an item; an empty cell means unknown.
pub type Column<T> = (&'static str, fn(&T) -> String);

fn known(cell: String) -> String {
    if cell.is_empty() { UNKNOWN.to_owned() } else { printable(&cell) }
}

impl Table {
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new(), coloured: false, width: WIDTH }
    }

    /// A table with one row per item.
    pub fn of<T>(items: &[T], columns: &[Column<T>]) -> Self {
        let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
        let row = |item: &T| columns.iter().map(|(_, cell)| known(cell(item))).collect();
        Self { rows: items.iter().map(row).collect(), ..Self::new(&heads) }
    }

    /// Adds a row with one cell per heading; an empty cell means unknown.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.heads.len(), "a cell for each heading");
        self.rows.push(cells.into_iter().map(known).collect());
    }

    /// Prints the table, or `otherwise` if it has no rows.
    pub fn print_or(&self, otherwise: &str) {
        if self.rows.is_empty() {
            say(otherwise);
        } else {
            say(Self { coloured: is_coloured(), width: columns(), ..self.clone() });
        }
    }

    /// Prints each row as its own list, or `otherwise` if there are none: for few rows with long cells.
    pub fn print_lists_or(&self, otherwise: &str) {
        if self.rows.is_empty() {
            return say(otherwise);
        }
        let table = Self { coloured: is_coloured(), width: columns(), ..self.clone() };
        let lists: Vec<String> = table.rows.iter().map(|row| List { table: &table, row }.to_string()).collect();
        say(lists.join("\n\n"));
    }
}

/// Prints lines of prose, wrapped between words to the width of the terminal.
pub fn prose(text: &str) {
    let room = terminal_columns().unwrap_or(usize::MAX);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let lines = wrap(&line[indent..], room.saturating_sub(indent).max(NARROW));
        let indent = " ".repeat(indent);
        say(lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n"));
    }
}

/// Width of a table if the terminal's width is unknown: that of the narrowest common terminal.
const WIDTH: usize = 80;

/// The width of the terminal, but at least `WIDTH`.
pub fn columns() -> usize {
    terminal_columns().unwrap_or(WIDTH).max(WIDTH)
}

/// Separator of two columns.
const GAP: &str = "  ";

/// Least width of wrapped prose: [`NARROW`], or that of its longest word up to [`LONG_WORD`].
const NARROW: usize = 20;
const LONG_WORD: usize = 32;

/// A table that is too wide wraps its prose columns. If it still does not fit, the remaining columns follow in further
/// tables, each with the first column repeated. A single row that does not fit is printed as a list.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<usize> = (0..self.heads.len()).collect();
        if let Some(widths) = self.widths_of(&all) {
            return self.write(f, &all, &widths);
        }
        if let [row] = self.rows.as_slice() {
            return List { table: self, row }.fmt(f);
        }
        let mut rest = &all[1.min(all.len())..];
        let mut is_first = true;
        while is_first || !rest.is_empty() {
            let (columns, widths) = self.part(rest);
            if !is_first {
                f.write_str("\n\n")?;
            }
            self.write(f, &columns, &widths)?;
            rest = &rest[columns.len() - 1..];
            is_first = false;
        }
        Ok(())
    }
}

impl Table {
    /// The first column and as many of `others` as fit beside it, at least one, with their widths.
    fn part(&self, others: &[usize]) -> (Vec<usize>, Vec<usize>) {
        for count in (1..=others.len()).rev() {
            let columns: Vec<usize> = std::iter::once(0).chain(others[..count].iter().copied()).collect();
            if let Some(widths) = self.widths_of(&columns) {
                return (columns, widths);
            }
        }
        let columns: Vec<usize> = std::iter::once(0).chain(others.first().copied()).collect();
        let room = self.width - GAP.len();
        let first = self.natural(0).min((room / columns.len()).max(room - NARROW));
        let widths = columns.iter().map(|column| if *column == 0 { first } else { room - first });
        (columns.clone(), widths.collect())
    }

    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].width());
        cells.fold(self.heads[column].width(), usize::max)
    }

    /// Widths at which these columns fit beside each other, with prose wrapped if necessary; `None` if they do not fit.
    fn widths_of(&self, columns: &[usize]) -> Option<Vec<usize>> {
        let mut widths: Vec<usize> = columns.iter().map(|column| self.natural(*column)).collect();
        let room = self.width.checked_sub(GAP.len() * columns.len().saturating_sub(1))?;
        let is_prose = |column: &usize| self.rows.iter().any(|row| row[*column].split(' ').count() > 3);
        let least: Vec<usize> = columns.iter().map(|column| self.least(*column)).collect();
        // The widest column shrinks first, so that short prose stays on one line.
        while widths.iter().sum::<usize>() > room {
            let too_much = widths.iter().sum::<usize>() - room;
            let prose = columns.iter().enumerate().filter(|(_, column)| is_prose(column)).map(|(place, _)| place);
            let widest = prose.filter(|place| widths[*place] > least[*place]).max_by_key(|place| widths[*place])?;
            widths[widest] = widths[widest].saturating_sub(too_much.min(5)).max(least[widest]);
        }
        Some(widths)
    }

    /// The least width at which words are not broken, within [`NARROW`] and [`LONG_WORD`].
    fn least(&self, column: usize) -> usize {
        let words = self.rows.iter().flat_map(|row| row[column].split(' ')).map(UnicodeWidthStr::width);
        words.max().unwrap_or(0).clamp(NARROW, LONG_WORD)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, columns: &[usize], widths: &[usize]) -> fmt::Result {
        let heads = columns.iter().map(|column| self.heads[*column]).collect();
        let bold = |_: &str| self.coloured.then_some("1");
        let state = |cell: &str| colour_of(cell).filter(|_| self.coloured);
        write_row(f, heads, widths, bold)?;
        for row in &self.rows {
            f.write_str("\n")?;
            write_row(f, columns.iter().map(|column| row[*column].as_str()).collect(), widths, state)?;
        }
        Ok(())
    }
}

/// Writes a row on as many lines as its tallest cell needs, each cell in its color.
fn write_row(
    f: &mut fmt::Formatter<'_>,
    cells: Vec<&str>,
    widths: &[usize],
    colour: impl Fn(&str) -> Option<&'static str>,
) -> fmt::Result {
    let wrapped: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
    for line in 0..height {
        let text = |cell: usize| wrapped[cell].get(line).map_or("", String::as_str);
        // Trailing empty cells are not padded.
        let last = (0..cells.len()).rev().find(|cell| !text(*cell).is_empty()).map_or(0, |last| last + 1);
        let shown = (0..last).map(|cell| {
            let (text, width) = (text(cell), if cell + 1 < last { widths[cell] } else { 0 });
            match colour(cells[cell]) {
                // Color codes take no width.
                Some(code) if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m{}", pad(text, width)),
                _ => format!("{text}{}", pad(text, width)),
            }
        });
        let separator = if line == 0 { "" } else { "\n" };
        write!(f, "{separator}{}", shown.collect::<Vec<_>>().join(GAP))?;
    }
    Ok(())
}

/// A row of a table as a list of headings and values.
struct List<'a> {
    table: &'a Table,
    row: &'a [String],
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { heads, width, coloured, .. } = self.table;
        let label = heads.iter().map(|head| head.width()).max().unwrap_or(0);
        let widths = [label, width - GAP.len() - label];
        for (index, (head, cell)) in heads.iter().zip(self.row).enumerate() {
            let colour = |text: &str| if text == *head { Some("1") } else { colour_of(text) };
            f.write_str(if index == 0 { "" } else { "\n" })?;
            write_row(f, vec![head, cell], &widths, |text| colour(text).filter(|_| *coloured))?;
        }
        Ok(())
    }
}

/// Spaces that pad a text to `width` columns.
fn pad(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width()))
}

/// Wraps a text to lines of at most `width` columns, between words where possible.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.width() + usize::from(!last.is_empty()) + word.width() <= width {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
            continue;
        }
        if last.is_empty() {
            lines.pop();
        }
        let mut line = String::new();
        let mut taken = 0;
        for letter in word.chars() {
            let wide = letter.width().unwrap_or(0);
            if taken + wide > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                taken = 0;
            }
            line.push(letter);
            taken += wide;
        }
        lines.push(line);
    }
    lines
}

/// The cell of a value that may be unknown.
pub fn cell<T: fmt::Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Items separated by commas, without spaces to keep cells short.
pub fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

/// A progress bar.
pub fn bar(done: usize, whole: usize) -> String {
    /// Number of characters of the bar.
    const LENGTH: usize = 30;
    let full = (done * LENGTH).checked_div(whole).unwrap_or(LENGTH).min(LENGTH);
    format!("[{}{}]", "#".repeat(full), ".".repeat(LENGTH - full))
}

/// A status line for countable steps, with the rate since its first report.
pub struct ProgressLine {
    status: Option<StatusLine>,
    /// Time of the first report, and the steps done by then.
    began: Option<(Instant, usize)>,
}

impl ProgressLine {
    /// Prints nothing unless `is_shown`, such as with JSON output.
    pub fn begin(is_shown: bool) -> Self {
        Self { status: is_shown.then(StatusLine::begin), began: None }
    }

    pub fn tell(&mut self, step: String, done: usize, whole: usize) {
        let Some(status) = &mut self.status else { return };
        let (began, from) = *self.began.get_or_insert_with(|| (Instant::now(), done));
        status.tell(step, &told(done.saturating_sub(from), whole.saturating_sub(done), began.elapsed()));
    }
}

/// The rate and the estimated remaining time; empty while nothing has been done.
fn told(done: usize, left: usize, took: Duration) -> String {
    let a_second = done as f64 / took.as_secs_f64().max(0.001);
    if done == 0 || left == 0 {
        return String::new();
    }
    let rate = if a_second >= 1.0 { format!("{a_second:.0}/s") } else { format!("{:.1}/min", a_second * 60.0) };
    format!(", {rate}, {} left", duration(Duration::from_secs_f64((left as f64 / a_second).ceil())))
}

/// Like `told`, for bytes.
pub fn told_bytes(done: u64, left: u64, took: Duration) -> String {
    /// Longer times are shown as this one, in seconds.
    const LONGEST: f64 = 1e9;
    let a_second = done as f64 / took.as_secs_f64().max(0.001);
    if done == 0 || left == 0 {
        return String::new();
    }
    let left = Duration::from_secs_f64((left as f64 / a_second).ceil().min(LONGEST));
    format!(", {}/s, {} left", bytes(a_second as u64), duration(left))
}

/// A size such as `1.5 GiB`.
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

/// The two largest units of a duration: `3d 4h`, `12s`.
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

/// Time since `at`.
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
    fn colours_take_no_place_and_are_there_for_words_that_say_how_things_are() {
        let mut table = Table::new(&["STATE", "NODE"]);
        table.row(["ready".to_owned(), "1".to_owned()]);
        table.row(["readying".to_owned(), "down".to_owned()]);
        let plain = table.to_string();
        table.coloured = true;
        let coloured = table.to_string();
        assert_eq!(coloured.lines().nth(1), Some("\u{1b}[32mready\u{1b}[0m     1"));
        assert_eq!(coloured.lines().nth(2), Some("readying  \u{1b}[31mdown\u{1b}[0m"));
        let bare =
            ["1", "31", "32", "0"].iter().fold(coloured, |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
        assert_eq!(bare, plain);
    }

    #[test]
    fn a_pace_is_told_once_there_is_one() {
        let seconds = Duration::from_secs;
        assert_eq!(told(0, 10, seconds(5)), "");
        assert_eq!(told(10, 0, seconds(5)), "");
        assert_eq!(told(100, 50, seconds(10)), ", 10/s, 5s left");
        assert_eq!(told(1, 3, seconds(40)), ", 1.5/min, 2m left");
        assert_eq!(told_bytes(0, 10, seconds(5)), "");
        assert_eq!(told_bytes(10, 0, seconds(5)), "");
        assert_eq!(told_bytes(20_480, 10_240, seconds(10)), ", 2.0 KiB/s, 5s left");
    }

    fn is_narrow(table: &Table) -> bool {
        table.to_string().lines().all(|line| line.width() <= WIDTH)
    }

    #[test]
    fn a_table_of_eighty_columns_is_whole_and_one_letter_more_makes_two() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["a".repeat(39), "b".repeat(39)]);
        assert_eq!(table.to_string().lines().map(UnicodeWidthStr::width).max(), Some(80));
        assert_eq!(table.to_string().lines().count(), 2);

        let mut table = Table::new(&["A", "B", "C"]);
        table.row(["a".repeat(20), "b".repeat(30), "c".repeat(27)]);
        assert_eq!(table.to_string().lines().map(|line| &line[..3]).collect::<Vec<_>>(), ["A  ", "B  ", "C  "]);
        table.row(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
        assert_eq!(table.to_string().lines().count(), 7, "{table}");
        assert!(is_narrow(&table), "{table}");
        let second: Vec<String> = table.to_string().lines().skip(4).map(str::to_owned).collect();
        assert!(second[0].starts_with("A ") && second[0].ends_with(" C"), "the first column comes again: {table}");
    }

    #[test]
    fn a_wider_terminal_has_one_table_where_eighty_columns_have_two() {
        let mut table = Table::new(&["A", "B", "C"]);
        for _ in 0..2 {
            table.row(["a".repeat(20), "b".repeat(30), "c".repeat(30)]);
        }
        assert_eq!(table.to_string().lines().count(), 7, "{table}");
        table.width = 84;
        assert_eq!(table.to_string().lines().count(), 3, "{table}");
    }

    #[test]
    fn a_row_by_itself_that_does_not_fit_is_a_list() {
        let mut table = Table::new(&["CHANNEL", "NAME", "STATUS"]);
        table.row(["c".repeat(36), "n ".repeat(40).trim().to_owned(), "connected".to_owned()]);
        table.row(["d".repeat(36), "n".to_owned(), "failed".to_owned()]);
        let lists: Vec<String> = table.rows.iter().map(|row| List { table: &table, row }.to_string()).collect();
        let expected = format!("CHANNEL  {}\nNAME     n\nSTATUS   failed", "d".repeat(36));
        assert_eq!(lists[1], expected);
        assert_eq!(lists[0].lines().nth(2).map(|line| &line[..12]), Some("         n n"), "{}", lists[0]);
        assert!(lists[0].lines().all(|line| line.width() <= WIDTH), "{}", lists[0]);
    }

    #[test]
    fn letters_that_take_two_columns_count_as_two() {
        let mut table = Table::new(&["CUSTOMER", "NAME", "PLAN"]);
        for name in ["\u{6771}\u{4eac}".repeat(30), "Gr\u{fc}\u{df}e \u{1f44b}".to_owned(), "e\u{301}".repeat(30)] {
            table.row(["c".repeat(36), name, "self_hosted".to_owned()]);
        }
        assert!(is_narrow(&table), "{table}");
        assert_eq!(table.to_string().matches('\u{6771}').count(), 30, "{table}");
        let mut table = Table::new(&["NAME", "PLAN"]);
        table.row(["\u{6771}\u{4eac}".to_owned(), "a".to_owned()]);
        table.row(["abcd".to_owned(), "b".to_owned()]);
        assert_eq!(table.to_string(), "NAME  PLAN\n\u{6771}\u{4eac}  a\nabcd  b");
    }

    #[test]
    fn prose_is_wrapped_between_words_and_nothing_of_it_is_lost() {
        let mut table = Table::new(&["LEVEL", "WHAT", "WHAT TO DO"]);
        let what = "the disk of node 3 has 2.0 GiB left of 100.0 GiB, which is little for a log that grows";
        let remedy = "free some space, or remove the node and add another one with a larger disk";
        table.row(["warning".to_owned(), what.to_owned(), remedy.to_owned()]);
        assert!(is_narrow(&table), "{table}");
        for word in what.split(' ').chain(remedy.split(' ')) {
            assert!(table.to_string().contains(word), "{word}: {table}");
        }
        assert_eq!(table.to_string().matches("LEVEL").count(), 1, "{table}");
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_broken() {
        let mut table = Table::new(&["ENDPOINT", "URL"]);
        table.row(["e".repeat(36), format!("https://example.com/{}", "x".repeat(300))]);
        assert!(is_narrow(&table), "{table}");
        assert_eq!(table.to_string().matches('x').count(), 301);
        table.row(["e".repeat(200), "short".to_owned()]);
        assert!(is_narrow(&table), "{table}");
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
