//! Free space on a node's file systems, and what the node may still accept.
//!
//! A log write that finds no space ends the node, so a node stops accepting things before that. Each file system has
//! two marks: below the first ([`Level::Low`]) nothing large is accepted, below the second ([`Level::Full`]) nothing
//! that clients can send without limit. The rest is for the node's own work: deliveries, deletions, votes, and the
//! tables of its stores. Below half of the second mark ([`Room::takes_entries`]), the node refuses entries of other
//! leaders as if it were down, and catches up once there is space.
//!
//! Many file systems also limit the number of files: small media use up files before bytes, and a store that cannot
//! create a file fails as it does without free bytes. So the same two marks apply to files, as shares of their maximum
//! number.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{supervise, telemetry};

/// Interval of the checks. A disk that writes a gigabyte per second must not fill up in between.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Name under which panics of the checks are counted.
const LOOKING: &str = "the look at the disks";

/// Space of a file system that should be free: a percentage within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    pub percent: u8,
    /// Upper bound: a large file system needs no more than this.
    pub most_bytes: u64,
    /// Lower bound: a small file system needs this much, or a quarter of it if it is very small.
    pub least_bytes: u64,
}

impl Mark {
    /// The mark in bytes, for a file system of `total` bytes.
    pub fn on(&self, total: u64) -> u64 {
        let share = (total / 100).saturating_mul(u64::from(self.percent)).min(self.most_bytes);
        share.max(self.least_bytes.min(total / 4))
    }
}

/// Upper bounds of the file marks. The stores create some dozens of files at a time, and the media of all accounts some
/// thousands between a check and the next upload.
const MOST_FILES_LOW: u64 = 64 * 1024;
const MOST_FILES_FULL: u64 = 16 * 1024;

/// The two marks of each file system of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Marks {
    /// Below this, media and large bodies are refused.
    pub low: Mark,
    /// Below this, sends are refused, and inbound messages wait.
    pub full: Mark,
}

impl Default for Marks {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Marks {
    /// The second mark leaves space for a full memtable of the log and of the state, and for merging their tables.
    pub const DEFAULT: Self = Self {
        low: Mark { percent: 15, most_bytes: 4 << 30, least_bytes: 192 << 20 },
        full: Mark { percent: 5, most_bytes: 1 << 30, least_bytes: 96 << 20 },
    };

    /// Standing of a file system, given its previous standing.
    fn judge(&self, space: Space, before: Standing) -> Standing {
        let (full, low) = (self.full.on(space.total), self.low.on(space.total));
        // If the configured marks are too close, low is one and a half times full.
        let low = low.max(full + full / 2);
        // Hysteresis of an eighth: otherwise, single deleted files would lift the level again.
        let mark = |mark: u64, was_below: bool| if was_below { mark + mark / 8 } else { mark };
        let level = if space.free < mark(full, before.level == Level::Full) {
            Level::Full
        } else if space.free < mark(low, before.level >= Level::Low) {
            Level::Low
        } else {
            Level::Enough
        };
        Standing { level, takes_entries: space.free >= mark(full / 2, !before.takes_entries) }
    }

    /// Standing of a file system by its number of files.
    fn judge_files(&self, files: Space, before: Standing) -> Standing {
        let of_files = |mark: Mark, most: u64| Mark { most_bytes: mark.most_bytes.min(most), least_bytes: 0, ..mark };
        let marks = Self { low: of_files(self.low, MOST_FILES_LOW), full: of_files(self.full, MOST_FILES_FULL) };
        marks.judge(files, before)
    }
}

/// How much space is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    #[default]
    Enough,
    /// Media and large bodies are refused.
    Low,
    /// Sends and inbound messages are refused, too.
    Full,
}

/// Standing of one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    level: Level,
    takes_entries: bool,
}

const ROOMY: Standing = Standing { level: Level::Enough, takes_entries: true };

/// Standing of a file system by bytes and by files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standings {
    bytes: Standing,
    files: Standing,
    /// Whether the file system has ever reported free files: some do not count files.
    counts_files: bool,
}

const UNSEEN: Standings = Standings { bytes: ROOMY, files: ROOMY, counts_files: false };

impl Standings {
    /// The worse of the two.
    fn whole(self) -> Standing {
        let Self { bytes, files, .. } = self;
        Standing { level: bytes.level.max(files.level), takes_entries: bytes.takes_entries && files.takes_entries }
    }

    /// Updates the standing.
    fn look(&mut self, marks: &Marks, found: Found) {
        self.bytes = marks.judge(found.bytes, self.bytes);
        self.counts_files |= found.files.is_some_and(|files| files.free > 0);
        if let Some(files) = found.files.filter(|_| self.counts_files) {
            self.files = marks.judge_files(files, self.files);
        }
    }
}

/// Free and total amount, of bytes or of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    free: u64,
    total: u64,
}

/// State of a file system at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    bytes: Space,
    /// `None` if the file system does not report files, or creates space for them as needed.
    files: Option<Space>,
}

impl Found {
    fn of(folder: &Path) -> io::Result<Self> {
        let found = statvfs(folder)?;
        let block = found.fragment_size();
        let bytes = Space { free: found.blocks_available() * block, total: found.blocks() * block };
        let files = Space { free: found.files_available(), total: found.files() };
        Ok(Self { bytes, files: Some(files).filter(|files| files.total > 0 && files.total >= files.free) })
    }
}

/// Free space of a node's stores and of its media, which may be on the same file system.
pub struct Room {
    marks: Mutex<Marks>,
    /// Folders of the log and of the state.
    stores: Vec<PathBuf>,
    media: PathBuf,
    seen: Mutex<Seen>,
}

/// Results of the latest check.
#[derive(Clone, Copy)]
struct Seen {
    stores: Level,
    large: Level,
    takes_entries: bool,
    /// Free bytes of the fullest file system, for log messages and reports.
    least_free: u64,
}

impl Room {
    /// Checks once, and then regularly on a thread of its own until the room is dropped: a disk that hangs must not
    /// block anything else.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn watch(marks: Marks, stores: Vec<PathBuf>, media: PathBuf) -> io::Result<Arc<Self>> {
        let room = Arc::new(Self::new(marks, stores, media));
        let mut standings = vec![UNSEEN; room.stores.len() + 1];
        room.look(&mut standings);
        let watched = Arc::downgrade(&room);
        std::thread::Builder::new().name("room".into()).spawn(move || keep_looking(&watched, standings))?;
        Ok(room)
    }

    fn new(marks: Marks, stores: Vec<PathBuf>, media: PathBuf) -> Self {
        let enough = Level::Enough;
        let seen = Seen { stores: enough, large: enough, takes_entries: true, least_free: u64::MAX };
        Self { marks: Mutex::new(marks), stores, media, seen: Mutex::new(seen) }
    }

    /// Level for the log and the state.
    pub fn stores(&self) -> Level {
        self.seen.lock().stores
    }

    /// Level for media and other large things: the worst of all file systems.
    pub fn large(&self) -> Level {
        self.seen.lock().large
    }

    /// Free bytes of the fullest file system.
    pub fn least_free(&self) -> u64 {
        self.seen.lock().least_free
    }

    /// Whether this node accepts entries of other leaders.
    pub fn takes_entries(&self) -> bool {
        self.seen.lock().takes_entries
    }

    /// Checks all file systems. One that cannot be queried keeps its standing.
    fn look(&self, standings: &mut [Standings]) {
        let marks = *self.marks.lock();
        let (mut least_free, mut fewest) = (u64::MAX, None);
        for (folder, standing) in self.stores.iter().chain([&self.media]).zip(standings.iter_mut()) {
            match Found::of(folder) {
                Ok(found) => {
                    least_free = least_free.min(found.bytes.free);
                    fewest = [fewest, found.files.map(|files| files.free)].into_iter().flatten().min();
                    standing.look(&marks, found);
                }
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "its file system does not answer"),
            }
        }
        let (media, stores) = standings.split_last().expect("media stand behind the stores");
        let stores_level = stores.iter().map(|standing| standing.whole().level).max().unwrap_or_default();
        let now = Seen {
            stores: stores_level,
            large: media.whole().level.max(stores_level),
            takes_entries: stores.iter().all(|standing| standing.whole().takes_entries),
            least_free,
        };
        let before = std::mem::replace(&mut *self.seen.lock(), now);
        tell(before, now, fewest);
    }
}

/// Logs changes, once each.
fn tell(before: Seen, now: Seen, free_files: Option<u64>) {
    const NO_MEDIA: &str = "media and large bodies are refused: there is little free space on a disk";
    const SENDS: &str = "there is space for sends and inbound messages again";
    const NO_SENDS: &str = "sends are refused and inbound messages wait: a disk is nearly full";
    const NO_ENTRIES: &str = "entries of other leaders are refused: a disk is almost full";
    let free_mib = now.least_free >> 20;
    telemetry::room("stores", now.stores as u8);
    telemetry::room("media", now.large as u8);
    match now.large {
        large if large == before.large => {}
        Level::Enough => tracing::info!(free_mib, free_files, "there is space for media and large bodies again"),
        Level::Low | Level::Full => tracing::warn!(free_mib, free_files, "{NO_MEDIA}"),
    }
    match (before.stores == Level::Full, now.stores == Level::Full) {
        (false, true) => tracing::error!(free_mib, free_files, "{NO_SENDS}"),
        (true, false) => tracing::info!(free_mib, free_files, "{SENDS}"),
        _ => {}
    }
    match (before.takes_entries, now.takes_entries) {
        (false, true) => tracing::info!(free_mib, free_files, "entries of other leaders are accepted again"),
        (true, false) => tracing::error!(free_mib, free_files, "{NO_ENTRIES}"),
        _ => {}
    }
}

fn keep_looking(room: &Weak<Room>, mut standings: Vec<Standings>) {
    telemetry::task_begun(LOOKING);
    loop {
        std::thread::sleep(LOOK_EVERY);
        let Some(room) = room.upgrade() else { return };
        look_again(&room, &mut standings);
    }
}

/// A panic must not end the checks: with levels that never change, a node would accept things until its disks are full.
/// Until the next check, the previous levels stand.
fn look_again(room: &Room, standings: &mut [Standings]) {
    supervise::noticed_in_thread(LOOKING, || room.look(standings));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub(crate) mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn a_mark_is_a_share_of_the_disk_within_bounds() {
        let mark = Mark { percent: 5, most_bytes: 2 * GIB, least_bytes: 96 * MIB };
        let table = [
            // 10 GiB: five percent.
            (10 * GIB, 10 * GIB / 100 * 5),
            // A large disk: the upper bound.
            (4000 * GIB, 2 * GIB),
            // A small disk: the lower bound, for tables, ...
            (GIB, 96 * MIB),
            // ... but no more than a quarter of the disk.
            (100 * MIB, 25 * MIB),
        ];
        for (total, expected) in table {
            assert_eq!(mark.on(total), expected, "{total}");
        }
        assert_eq!(Mark { percent: 0, most_bytes: 0, least_bytes: 0 }.on(GIB), 0, "nothing is ever low");
    }

    #[test]
    fn each_mark_is_passed_with_one_byte_less_and_left_with_an_eighth_more() {
        let mark = |bytes| Mark { percent: 0, most_bytes: 0, least_bytes: bytes };
        let marks = Marks { low: mark(16_000), full: mark(8_000) };
        let judge = |free, before| marks.judge(Space { free, total: GIB }, before);
        let mut at = ROOMY;
        let table = [
            (16_000, Level::Enough, true),
            (15_999, Level::Low, true),
            (17_999, Level::Low, true),
            (8_000, Level::Low, true),
            (7_999, Level::Full, true),
            (4_000, Level::Full, true),
            (3_999, Level::Full, false),
            (4_499, Level::Full, false),
            (4_500, Level::Full, true),
            (8_999, Level::Full, true),
            (9_000, Level::Low, true),
            (18_000, Level::Enough, true),
        ];
        for (free, level, takes_entries) in table {
            at = judge(free, at);
            assert_eq!(at, Standing { level, takes_entries }, "with {free}");
        }
    }

    #[test]
    fn a_disk_that_has_few_files_left_is_low_and_full_whatever_bytes_it_has() {
        let roomy = Space { free: 100 * GIB, total: 200 * GIB };
        let mut at = UNSEEN;
        let mut stands = |free, total| {
            at.look(&Marks::DEFAULT, Found { bytes: roomy, files: Some(Space { free, total }) });
            at.whole()
        };
        let table = [
            // A large disk: by number.
            (3_000_000, 3_000_000, Level::Enough, true),
            (MOST_FILES_LOW - 1, 3_000_000, Level::Low, true),
            (MOST_FILES_FULL - 1, 3_000_000, Level::Full, true),
            (MOST_FILES_FULL / 2 - 1, 3_000_000, Level::Full, false),
            (3_000_000, 3_000_000, Level::Enough, true),
            // A small disk: by share.
            (150, 1_000, Level::Enough, true),
            (149, 1_000, Level::Low, true),
            (49, 1_000, Level::Full, true),
            (24, 1_000, Level::Full, false),
            (1_000, 1_000, Level::Enough, true),
            (0, 1_000, Level::Full, false),
        ];
        for (free, total, level, takes_entries) in table {
            assert_eq!(stands(free, total), Standing { level, takes_entries }, "with {free} of {total}");
        }
        // Some file systems do not count files; one that stops reporting them keeps its standing.
        let mut silent = UNSEEN;
        silent.look(&Marks::DEFAULT, Found { bytes: roomy, files: None });
        at.look(&Marks::DEFAULT, Found { bytes: roomy, files: None });
        assert_eq!((silent.whole().level, at.whole().level), (Level::Enough, Level::Full));
        silent.look(&Marks::DEFAULT, Found { bytes: roomy, files: Some(Space { free: 0, total: 9 }) });
        assert_eq!(silent.whole().level, Level::Enough, "it has never counted any");
    }

    #[test]
    fn media_on_a_disk_of_their_own_do_not_hold_the_stores_up() {
        let folder = tempfile::tempdir().unwrap();
        // More than any file system has.
        let never = Mark { percent: 100, most_bytes: u64::MAX, least_bytes: 0 };
        let marks = Marks { low: never, full: Mark { percent: 0, most_bytes: 0, least_bytes: 0 } };
        let room = Room::new(marks, vec![PathBuf::from("/nowhere/at/all")], folder.path().to_owned());
        let mut standings = vec![UNSEEN; 2];
        room.look(&mut standings);
        assert_eq!((room.stores(), room.large(), room.takes_entries()), (Level::Enough, Level::Low, true));
        assert!(room.least_free() < u64::MAX);
    }

    #[test]
    fn a_look_that_panics_is_not_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::new(Marks::DEFAULT, vec![folder.path().to_owned()], folder.path().to_owned());
        // The standing of the media's file system is missing, which panics.
        look_again(&room, &mut []);
        assert_eq!(room.least_free(), u64::MAX);
        look_again(&room, &mut [UNSEEN; 2]);
        assert!(room.least_free() < u64::MAX);
    }

    impl Room {
        /// Simulates disks that become smaller or larger.
        pub(crate) fn set_marks(&self, marks: Marks) {
            *self.marks.lock() = marks;
        }
    }

    /// Marks that no disk falls below, and marks that every disk falls below.
    pub(crate) const NEVER: Marks = all(0, 0);
    pub(crate) const ALWAYS: Marks = all(201, u64::MAX);

    const fn all(percent: u8, most_bytes: u64) -> Marks {
        let mark = Mark { percent, most_bytes, least_bytes: 0 };
        Marks { low: mark, full: mark }
    }
}
