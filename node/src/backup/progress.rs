//! Progress of work on media: one line that is rewritten on a terminal, occasional lines in a file.

use std::time::{Duration, Instant};

use crate::console::StatusLine;
use crate::operator::show::{bytes, told_bytes};

/// Interval between two reports, on a terminal and in a file.
const ON_TERMINAL: Duration = Duration::from_millis(250);
const IN_FILE: Duration = Duration::from_secs(60);

/// A number of files and their size.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    pub files: usize,
    pub bytes: u64,
}

pub struct Progress {
    what: String,
    done: Amount,
    whole: Amount,
    began: Instant,
    /// `None` if progress is not reported.
    status: Option<StatusLine>,
    told_at: Instant,
}

impl Progress {
    /// Starts to report the progress of `what` on `whole`, if `tells`.
    pub fn begin(what: String, whole: Amount, tells: bool) -> Self {
        let status = (tells && whole.files > 0).then(StatusLine::begin);
        let now = Instant::now();
        Self { what, done: Amount::default(), whole, began: now, status, told_at: now }
    }

    /// Counts one more finished file.
    pub fn step(&mut self, size: u64) {
        let Some(status) = &mut self.status else { return };
        self.done.files += 1;
        self.done.bytes += size;
        let is_last = self.done.files == self.whole.files;
        let pause = if status.on_terminal { ON_TERMINAL } else { IN_FILE };
        if is_last || self.told_at.elapsed() >= pause {
            self.told_at = Instant::now();
            let left = self.whole.bytes.saturating_sub(self.done.bytes);
            let pace = told_bytes(self.done.bytes, left, self.began.elapsed());
            status.tell(line(&self.what, self.done, self.whole) + &pace, "");
        }
    }
}

fn line(what: &str, done: Amount, whole: Amount) -> String {
    format!("  {what}: {} of {} files, {} of {}", done.files, whole.files, bytes(done.bytes), bytes(whole.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_of_what() {
        let amount = |files, bytes| Amount { files, bytes };
        assert_eq!(
            line("media of shard 3", amount(1, 2_048), amount(4, 10_240)),
            "  media of shard 3: 1 of 4 files, 2.0 KiB of 10.0 KiB"
        );
        let begin = |whole, tells| Progress::begin("media".to_owned(), whole, tells);
        assert!(begin(amount(0, 0), true).status.is_none() && begin(amount(1, 1), false).status.is_none());
    }
}
