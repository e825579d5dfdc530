//! The trace of a run, in order: always as a hash, and as readable lines on request.

use std::fmt;
use std::hash::Hasher;

use parking_lot::Mutex;
use raft::simulation::clock;

struct Inner {
    hasher: std::hash::DefaultHasher,
    lines: Option<Vec<String>>,
}

pub struct Trace {
    began: clock::Instant,
    inner: Mutex<Inner>,
}

impl Trace {
    pub fn new(kept: bool) -> Self {
        let inner = Inner { hasher: std::hash::DefaultHasher::new(), lines: kept.then(Vec::new) };
        Self { began: clock::now(), inner: Mutex::new(inner) }
    }

    /// Records an event with the current time.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let at = clock::now() - self.began;
        let line = format!("{:>10.6} {what}", at.as_secs_f64());
        let mut inner = self.inner.lock();
        inner.hasher.write(line.as_bytes());
        if let Some(lines) = &mut inner.lines {
            lines.push(line);
        }
    }

    pub fn hash(&self) -> u64 {
        self.inner.lock().hasher.finish()
    }

    pub fn lines(&self) -> Vec<String> {
        self.inner.lock().lines.take().unwrap_or_default()
    }
}
