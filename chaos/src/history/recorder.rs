//! Where clients, receivers and the harness record what they observe, during the run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use model::time::Timestamp;

use super::collected::{HISTORY, META, Meta};
use super::record::{At, Fault, FaultKind, Record};

/// The history of one run while it is written. Tasks serialize their own lines, and only the copying of bytes holds the
/// lock, so that many tasks may write.
pub struct Recorder {
    start: Instant,
    lines: Mutex<Lines>,
}

struct Lines {
    file: BufWriter<File>,
    /// The first error. From then on the history has a gap and is useless.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins the history of a run in its folder, which must exist. Time counts from now.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(folder: &Path, seed: u64) -> io::Result<Self> {
        let meta = Meta { seed, started: Timestamp::now() };
        let start = Instant::now();
        std::fs::write(folder.join(META), serde_json::to_vec_pretty(&meta)?)?;
        let file = BufWriter::new(File::create(folder.join(HISTORY))?);
        Ok(Self { start, lines: Mutex::new(Lines { file, failed: None }) })
    }

    pub fn now(&self) -> At {
        At(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Adds a line. Errors are reported by [`Self::finish`].
    pub fn write(&self, record: &Record) {
        let line = serde_json::to_vec(record).map(|mut line| {
            line.push(b'\n');
            line
        });
        let mut lines = self.lines.lock().expect("no holder panics");
        if lines.failed.is_none() {
            let written = line.map_err(io::Error::from).and_then(|line| lines.file.write_all(&line));
            lines.failed = written.err();
        }
    }

    /// Records a fault that ends now.
    pub fn fault(&self, from: At, kind: FaultKind, nodes: &[u64], what: impl Into<String>) {
        let fault = Fault { from, to: self.now(), kind, nodes: nodes.to_vec(), what: what.into() };
        self.write(&Record::Fault(fault));
    }

    /// Flushes the file. More lines may follow.
    ///
    /// # Errors
    /// The first error of any line.
    pub fn finish(&self) -> io::Result<()> {
        let mut lines = self.lines.lock().expect("no holder panics");
        match lines.failed.take() {
            Some(error) => Err(error),
            None => lines.file.flush(),
        }
    }
}
