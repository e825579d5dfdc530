//! Finds expired rows and has the state machine delete them, in steps that do not disturb sends: a step is small,
//! shares a log entry with other commits, and is followed by a pause; a node scans one shard at a time. Messages and
//! status changes are here, the rest in submodules.

mod channels;
mod deliveries;
pub(super) mod media;
mod orders;
mod usage;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::{ChannelId, EndpointId};
use model::time::Timestamp;
use raft::machine::{View, just_after};
use raft::supervise;

use crate::command::{Command, Reply};
use crate::history::{Place, is_withheld};
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::records::{ChannelRow, MessageRow, decode};
use crate::retention::Expire;
use crate::settings::SettingsRow;

/// Rows in one step.
const STEP: usize = 200;

/// Pause after a step.
const PAUSE: Duration = Duration::from_millis(50);

/// Channels read at a time.
const CHANNELS: usize = 128;

/// How long status changes are kept.
const STATUS_CHANGE_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// Maximum age of a message that still waits in the outbox; such a message is skipped, and found again later.
const OUTBOX_LIFE: Duration = Duration::from_secs(25 * 3600);

/// How long a message may be on its way into the store.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// How often everything is scanned from the beginning: the network may deliver older messages later.
const RESCAN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// How far a channel has expired. Starting there avoids a scan over the tombstones of deleted rows.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bodies: Timestamp,
    messages: Timestamp,
}

/// Expires rows of the owner's shard regularly, as long as the ownership lasts.
pub async fn run(owner: Arc<Owner>) {
    let mut marks = Marks::new();
    loop {
        // Not at once: a new owner has more urgent work.
        tokio::time::sleep(owner.node.retention.expire_every).await;
        let Ok(_permit) = owner.node.expiring.acquire().await else { return };
        if expire_all(&owner, &mut marks).await.is_err() {
            return owner.lost.cancel();
        }
    }
}

/// How far the shard has expired.
struct Marks {
    of: HashMap<ChannelId, Mark>,
    of_endpoint: HashMap<EndpointId, deliveries::Mark>,
    /// Channels whose LIDs were scanned.
    lids: HashSet<ChannelId>,
    since: Instant,
}

impl Marks {
    fn new() -> Self {
        Self { of: HashMap::new(), of_endpoint: HashMap::new(), lids: HashSet::new(), since: Instant::now() }
    }
}

async fn expire_all(owner: &Arc<Owner>, marks: &mut Marks) -> Result<(), LeadershipLost> {
    if marks.since.elapsed() >= RESCAN_EVERY {
        *marks = Marks::new();
    }
    deliveries::expire_all(owner, marks).await?;
    usage::expire_all(owner).await?;
    channels::expire_deleted(owner).await?;
    let (mut next, end) = keys::channels();
    loop {
        let from = next.clone();
        let to = end.clone();
        let rows = read(owner, move |view| view.scan(&from, &to, CHANNELS)).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        next = just_after(last);
        for (_, row) in &rows {
            let row: ChannelRow = decode(row);
            if !row.deleted {
                expire_channel(owner, row.id, marks).await?;
            }
        }
    }
}

async fn expire_channel(owner: &Arc<Owner>, channel: ChannelId, marks: &mut Marks) -> Result<(), LeadershipLost> {
    let settings = read(owner, move |view| SettingsRow::of(view, channel)).await?.settings;
    let keep = owner.node.retention.of(&settings);
    let now = Timestamp::now();
    let settled = now.minus(OUTBOX_LIFE);
    let mut mark = marks.of.get(&channel).copied().unwrap_or_default();
    let (gone, hidden) = (now.minus(keep.envelopes), now.minus(keep.history));
    mark.messages = expire_rows(owner, channel, mark.messages, gone, Part::Messages).await?.min(settled);
    if hidden > gone {
        let from = mark.bodies.max(gone);
        mark.bodies = expire_rows(owner, channel, from, hidden, Part::Bodies).await?.min(now.minus(UNDER_WAY));
    }
    if mark.messages > Timestamp::default() || mark.bodies > Timestamp::default() {
        marks.of.insert(channel, mark);
    }
    // Orders expire like the messages that brought them.
    orders::expiry(owner, channel, gone).await?;
    // Once in the life of the marks: this reads all that a channel has learned, and the retention is in days.
    if marks.lids.insert(channel) {
        channels::expire_lids(owner, channel).await?;
    }
    expire_status_changes(owner, channel, now.minus(STATUS_CHANGE_LIFE)).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Bodies,
    Messages,
}

/// Expires a channel's rows in `[from, before)`. Returns the time of the last row, or `from` if there was none.
async fn expire_rows(
    owner: &Arc<Owner>,
    channel: ChannelId,
    from: Timestamp,
    before: Timestamp,
    part: Part,
) -> Result<Timestamp, LeadershipLost> {
    let (mut next, end) = keys::messages(channel, Some(from), Some(before));
    let mut reached = from;
    while next < end {
        let (begin, to) = (next.clone(), end.clone());
        let (rows, last) = read(owner, move |view| due(view, &begin, &to, part)).await?;
        let Some(last) = last else { break };
        reached = keys::place_of_message(&last).map_or(reached, |(at, _)| at);
        next = just_after(&last);
        if !rows.is_empty() {
            let step = match part {
                Part::Bodies => Expire::Bodies { channel, rows },
                Part::Messages => Expire::Messages { channel, rows },
            };
            commit(owner, step).await?;
        }
    }
    Ok(reached)
}

/// The next rows of a range to expire, and the key of the last row read.
fn due(view: &dyn View, from: &[u8], to: &[u8], part: Part) -> (Vec<Place>, Option<Vec<u8>>) {
    let mut pairs = view.scan(from, to, STEP);
    let last = pairs.last().map(|(key, _)| key.clone());
    if part == Part::Bodies {
        pairs.retain(|(_, row)| !is_withheld(&decode::<MessageRow>(row)));
    }
    (pairs.iter().filter_map(|(key, _)| keys::place_of_message(key)).collect(), last)
}

async fn expire_status_changes(owner: &Arc<Owner>, id: ChannelId, before: Timestamp) -> Result<(), LeadershipLost> {
    let due = move |view: &dyn View| {
        let changes = view.scan_range(keys::status_changes(id, Some((before, 0))), STEP);
        changes.iter().filter_map(|(key, _)| keys::place_of_change(key)).collect::<Vec<_>>()
    };
    in_steps(owner, STEP, due, |changes| Expire::StatusChanges { channel: id, changes }).await
}

/// Expires due rows, `most` at a time, until there are fewer.
async fn in_steps<T: Send + 'static>(
    owner: &Arc<Owner>,
    most: usize,
    due: impl Fn(&dyn View) -> Vec<T> + Copy + Send + 'static,
    expire: impl Fn(Vec<T>) -> Expire,
) -> Result<(), LeadershipLost> {
    loop {
        let due = read(owner, due).await?;
        let is_last = due.len() < most;
        if !due.is_empty() {
            commit(owner, expire(due)).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Reads on a thread where this blocks nobody.
async fn read<T: Send + 'static>(
    owner: &Arc<Owner>,
    reading: impl FnOnce(&dyn View) -> T + Send + 'static,
) -> Result<T, LeadershipLost> {
    let reader = owner.reader.clone();
    supervise::joined(supervise::on_thread(move || reading(&reader))).await.ok_or(LeadershipLost)
}

/// Commits a step until all of it is done, and lets others go first after each commit.
async fn commit(owner: &Arc<Owner>, step: Expire) -> Result<(), LeadershipLost> {
    loop {
        let committed = owner.committer.commit_deferred(vec![Command::Expire(step.clone())]).await?;
        let replies = committed.await.map_err(|_| LeadershipLost)?;
        tokio::time::sleep(PAUSE).await;
        if replies.first() != Some(&Reply::More) {
            let (what, count) = step.counted();
            metrics::counter!("gateway_trimmed_total", "what" => what).increment(count as u64);
            return Ok(());
        }
    }
}
