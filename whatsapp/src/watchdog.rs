//! Cuts sessions whose fence has passed. It has a thread of its own, since a busy session thread must not keep a
//! session alive beyond its owner's fence.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use network::driver::EndReason;
use parking_lot::Mutex;

use crate::line::Line;

/// Period of the checks. A session outlives its fence by at most this and the duration of one check.
const LOOK_EVERY: Duration = Duration::from_millis(10);

type Lines = Mutex<Vec<Weak<Line>>>;

/// The watchdog. Its thread ends when this is dropped.
pub struct Watchdog {
    lines: Arc<Lines>,
}

impl Watchdog {
    /// # Errors
    /// The thread could not be started.
    pub fn start() -> io::Result<Self> {
        let lines: Arc<Lines> = Arc::default();
        let watched = Arc::downgrade(&lines);
        thread::Builder::new().name("fence-watchdog".into()).spawn(move || {
            while let Some(lines) = watched.upgrade() {
                look(&lines);
                drop(lines);
                thread::sleep(LOOK_EVERY);
            }
        })?;
        Ok(Self { lines })
    }

    /// Watches a session; `false` when `most` sessions are watched already.
    pub fn watch(&self, line: &Arc<Line>, most: usize) -> bool {
        let mut lines = self.lines.lock();
        lines.retain(|line| line.upgrade().is_some_and(|line| !line.stopped().is_cancelled()));
        let has_room = lines.len() < most;
        if has_room {
            lines.push(Arc::downgrade(line));
        }
        has_room
    }
}

fn look(lines: &Lines) {
    let overdue: Vec<_> = lines.lock().iter().filter_map(Weak::upgrade).filter(|line| line.is_overdue()).collect();
    overdue.iter().for_each(|line| line.cut(EndReason::Fenced));
}
