//! The part of the shard's state machine that maintains the rows of media, the references to bytes, and the due times.
//!
//! Invariants: a row that is `ready` has exactly one reference to its bytes, and no other row has one; every row has
//! one due entry, at its `due_at`; an account's counts of stored bytes and files are the sums over its counted rows
//! here.

use machine::record::{decode, encode};
use machine::{State, View};
use model::id::{ChannelId, CustomerId, MediaId};
use model::media::MediaState;
use model::time::Timestamp;

use super::command::{MediaCommand, MediaRoom};
use super::record::{DELETED_KEPT, GONE_KEPT, MediaRow};
use crate::keys;
use crate::records::ChannelRow;
use crate::reply::Reply;

/// Up to this many files of an account in a shard count by their bytes alone. Above it, each file counts at least what
/// a file system allocates for one: small files would use up a disk's inodes, for all accounts, long before they fill a
/// quota.
const FEW_FILES: u64 = 1_024;
const BYTES_OF_A_FILE: u64 = 16 << 10;

/// Applies one command.
pub fn command(state: &mut dyn State, command: MediaCommand) -> Reply {
    match command {
        MediaCommand::Add(row) => add(state, &row),
        MediaCommand::AddWithin { row, limit, elsewhere } => {
            let is_new = state.get(&keys::media(row.channel, row.id)).is_none();
            match over(state, &row, MediaRoom { limit, elsewhere }).filter(|_| is_new) {
                Some(used) => Reply::OverQuota { used },
                None => add(state, &row),
            }
        }
        MediaCommand::Ready { channel, id, stored, expires_at } => change(state, channel, id, |row| {
            if row.deleted || row.state == MediaState::Ready {
                return false;
            }
            *row = row.clone().with_bytes(stored);
            if let Some(at) = expires_at {
                row.expires_at = at;
            }
            row.due_at = row.expires_at;
            true
        }),
        MediaCommand::GivenUp { channel, id, state: given_up } => change(state, channel, id, |row| {
            if row.deleted || !row.may_come() {
                return false;
            }
            row.state = given_up;
            if given_up == MediaState::Skipped {
                row.handle = None;
            }
            true
        }),
        MediaCommand::AtNetwork { channel, id, handle, expires_at } => change(state, channel, id, |row| {
            row.handle = Some(handle);
            row.handle_expires_at = expires_at;
            true
        }),
        MediaCommand::Due(items) => {
            items.into_iter().for_each(|(at, channel, id)| due(state, at, channel, id));
            Reply::Done
        }
        MediaCommand::Delete { channel, id, at } => change(state, channel, id, |row| {
            if row.deleted {
                return false;
            }
            row.deleted = true;
            row.state = MediaState::Gone;
            row.due_at = at.plus(DELETED_KEPT);
            true
        }),
    }
}

/// The bytes that the account stores in this shard, if its quota has no space for a row's bytes in addition.
pub fn over(state: &dyn State, row: &MediaRow, room: MediaRoom) -> Option<u64> {
    let used = kept_bytes(state, row.customer);
    (room.elsewhere.saturating_add(used).saturating_add(row.counted_bytes()) > room.limit).then_some(used)
}

/// Deletes at most `limit` rows of a deleted channel's media, with their references; returns how many.
pub fn delete_of_channel(state: &mut dyn State, channel: ChannelId, limit: usize) -> usize {
    let rows = state.scan_range(keys::media_of(channel, None), limit);
    for (_, row) in &rows {
        remove(state, &decode(row));
    }
    rows.len()
}

fn add(state: &mut dyn State, row: &MediaRow) -> Reply {
    let channel: Option<ChannelRow> = state.get(&keys::channel(row.channel)).map(|bytes| decode(&bytes));
    match channel {
        Some(channel) if channel.deleted => return Reply::ChannelDeleted,
        Some(_) => {}
        // Without the channel's row, its media would not be found when the channel is deleted.
        None => state.put(&keys::channel(row.channel), &encode(&ChannelRow::new(row.channel, row.customer))),
    }
    if state.get(&keys::media(row.channel, row.id)).is_some() {
        return Reply::Unchanged;
    }
    write(state, row);
    Reply::Done
}

/// Changes a row and everything that depends on it; `with` returns whether it changed the row.
fn change(state: &mut dyn State, channel: ChannelId, id: MediaId, with: impl FnOnce(&mut MediaRow) -> bool) -> Reply {
    let Some(bytes) = state.get(&keys::media(channel, id)) else { return Reply::Unchanged };
    let before: MediaRow = decode(&bytes);
    let mut row = before.clone();
    if !with(&mut row) {
        return Reply::Unchanged;
    }
    remove(state, &before);
    write(state, &row);
    Reply::Done
}

fn due(state: &mut dyn State, at: Timestamp, channel: ChannelId, id: MediaId) {
    if state.get(&keys::media_due(at, channel, id)).is_none() {
        return;
    }
    let Some(bytes) = state.get(&keys::media(channel, id)) else {
        state.delete(&keys::media_due(at, channel, id));
        return;
    };
    let row: MediaRow = decode(&bytes);
    remove(state, &row);
    if row.deleted || at > row.expires_at {
        return;
    }
    write(state, &MediaRow { state: MediaState::Gone, due_at: row.expires_at.plus(GONE_KEPT), ..row });
}

/// The bytes of an account's media that are stored in this shard, as counted towards the quota.
pub fn kept_bytes(view: &(impl View + ?Sized), customer: CustomerId) -> u64 {
    let files = counted(view, &keys::media_files(customer));
    let least = if files > FEW_FILES { files.saturating_mul(BYTES_OF_A_FILE) } else { 0 };
    counted(view, &keys::media_kept(customer)).max(least)
}

fn counted(view: &(impl View + ?Sized), key: &[u8]) -> u64 {
    view.get(key).map_or(0, |count| decode(&count))
}

/// Updates the counts of a row's account: `with` computes each count from the old one and the row's share. An account
/// without media leaves no rows behind.
fn count(state: &mut dyn State, row: &MediaRow, with: fn(u64, u64) -> u64) {
    if !row.is_counted() {
        return;
    }
    for (key, part) in [(keys::media_kept(row.customer), row.counted_bytes()), (keys::media_files(row.customer), 1)] {
        match with(counted(state, &key), part) {
            0 => state.delete(&key),
            now => state.put(&key, &encode(&now)),
        }
    }
}

fn write(state: &mut dyn State, row: &MediaRow) {
    count(state, row, u64::saturating_add);
    state.put(&keys::media(row.channel, row.id), &encode(row));
    state.put(&keys::media_due(row.due_at, row.channel, row.id), &[]);
    if let Some(sha256) = row.kept() {
        state.put(&keys::blob_ref(sha256, row.channel, row.id), &[]);
    }
    if row.state == MediaState::Pending {
        state.put(&keys::media_pending(row.channel, row.id), &[]);
    }
}

fn remove(state: &mut dyn State, row: &MediaRow) {
    count(state, row, u64::saturating_sub);
    state.delete(&keys::media(row.channel, row.id));
    state.delete(&keys::media_due(row.due_at, row.channel, row.id));
    if let Some(sha256) = row.kept() {
        state.delete(&keys::blob_ref(sha256, row.channel, row.id));
    }
    state.delete(&keys::media_pending(row.channel, row.id));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::time::Duration;

    use machine::MemoryState;
    use model::media::Sha256Hex;

    use super::*;
    use crate::media::record::{MediaDirection, StoredBytes};

    const NOW: Timestamp = Timestamp(1_767_225_600_000);
    const RETENTION: Duration = Duration::from_secs(14 * 86_400);

    fn stored() -> StoredBytes {
        StoredBytes {
            sha256: Sha256Hex("ab".repeat(32)),
            size: 5,
            width: Some(1),
            height: Some(2),
            mime_type: Some("image/png".into()),
        }
    }

    fn pending() -> MediaRow {
        let (customer, channel) = (CustomerId::random(), ChannelId::random());
        MediaRow::new(MediaId::new(), customer, channel, MediaDirection::Inbound, "image/jpeg", NOW, RETENTION)
    }

    fn row(state: &MemoryState, of: &MediaRow) -> Option<MediaRow> {
        state.get(&keys::media(of.channel, of.id)).map(|bytes| decode(&bytes))
    }

    fn references(state: &MemoryState) -> usize {
        state.scan_range(keys::blob_refs_after(None), 100).len()
    }

    fn due_entries(state: &MemoryState) -> Vec<(Timestamp, ChannelId, MediaId)> {
        let (from, to) = keys::media_due_before(Timestamp(i64::MAX));
        state.scan(&from, &to, 100).iter().filter_map(|(key, _)| keys::parse_media_due(key)).collect()
    }

    fn ready(of: &MediaRow) -> MediaCommand {
        MediaCommand::Ready { channel: of.channel, id: of.id, stored: stored(), expires_at: None }
    }

    #[test]
    fn pending_media_becomes_ready_once() {
        let (mut state, new) = (MemoryState::new(), pending());
        assert_eq!(command(&mut state, MediaCommand::Add(Box::new(new.clone()))), Reply::Done);
        assert_eq!(command(&mut state, MediaCommand::Add(Box::new(new.clone()))), Reply::Unchanged);
        assert_eq!(references(&state), 0);
        assert_eq!(command(&mut state, ready(&new)), Reply::Done);
        assert_eq!(command(&mut state, ready(&new)), Reply::Unchanged);
        let now = row(&state, &new).unwrap();
        assert_eq!((now.state, now.mime_type.as_str(), now.size), (MediaState::Ready, "image/png", Some(5)));
        assert_eq!((references(&state), due_entries(&state)), (1, vec![(new.expires_at, new.channel, new.id)]));
    }

    #[test]
    fn what_is_due_goes_first_and_leaves_its_row_for_a_while() {
        let (mut state, new) = (MemoryState::new(), pending().with_bytes(stored()));
        command(&mut state, MediaCommand::Add(Box::new(new.clone())));
        let entries = due_entries(&state);
        command(&mut state, MediaCommand::Due(entries));
        assert_eq!(row(&state, &new).unwrap().state, MediaState::Gone);
        assert_eq!(references(&state), 0);
        let later = due_entries(&state);
        assert_eq!(later, [(new.expires_at.plus(GONE_KEPT), new.channel, new.id)]);
        // The entry that an earlier owner had found due is not due any more.
        command(&mut state, MediaCommand::Due(vec![(new.expires_at, new.channel, new.id)]));
        assert_eq!(row(&state, &new).unwrap().state, MediaState::Gone);
        command(&mut state, MediaCommand::Due(later));
        assert_eq!(state.len(), 1, "the channel's row is left");
    }

    #[test]
    fn deleted_media_stays_deleted_and_then_vanishes() {
        let (mut state, new) = (MemoryState::new(), pending());
        command(&mut state, MediaCommand::Add(Box::new(new.clone())));
        let delete = MediaCommand::Delete { channel: new.channel, id: new.id, at: NOW };
        assert_eq!(command(&mut state, delete.clone()), Reply::Done);
        assert_eq!(command(&mut state, delete), Reply::Unchanged);
        assert_eq!(command(&mut state, ready(&new)), Reply::Unchanged);
        assert!(row(&state, &new).unwrap().deleted);
        let entries = due_entries(&state);
        command(&mut state, MediaCommand::Due(entries));
        assert_eq!(state.len(), 1, "the channel's row is left");
    }

    #[test]
    fn bytes_that_were_fetched_again_start_their_retention_anew() {
        let (mut state, new) = (MemoryState::new(), pending());
        command(&mut state, MediaCommand::Add(Box::new(new.clone())));
        let entries = due_entries(&state);
        command(&mut state, MediaCommand::Due(entries));
        let expires_at = Some(new.expires_at.plus(RETENTION));
        let (channel, id) = (new.channel, new.id);
        command(&mut state, MediaCommand::Ready { channel, id, stored: stored(), expires_at });
        assert_eq!(row(&state, &new).unwrap().kept(), Some(&stored().sha256));
        assert_eq!(due_entries(&state), [(new.expires_at.plus(RETENTION), channel, id)]);
        let entries = due_entries(&state);
        command(&mut state, MediaCommand::Due(entries));
        assert_eq!((row(&state, &new).unwrap().state, references(&state)), (MediaState::Gone, 0));
    }

    #[test]
    fn an_accounts_bytes_are_counted_for_as_long_as_they_are_kept() {
        let mut state = MemoryState::new();
        let counted = |row: MediaRow| MediaRow { counted: true, ..row };
        let first = counted(pending());
        let of_account = |row: MediaRow| MediaRow { customer: first.customer, ..row };
        let kept = |state: &MemoryState| kept_bytes(state, first.customer);
        command(&mut state, MediaCommand::Add(Box::new(first.clone())));
        assert_eq!(kept(&state), 0, "bytes that are still to come");
        for _ in 0..2 {
            command(&mut state, ready(&first));
            assert_eq!(kept(&state), 5, "however often they are told of");
        }
        let uncounted = of_account(pending().with_bytes(stored()));
        command(&mut state, MediaCommand::Add(Box::new(uncounted)));
        command(&mut state, MediaCommand::Add(Box::new(counted(pending().with_bytes(stored())))));
        assert_eq!(kept(&state), 5, "rows of before there were quotas, and those of others");
        let second = counted(of_account(pending().with_bytes(stored())));
        let third = counted(of_account(pending().with_bytes(stored())));
        for row in [&second, &third] {
            command(&mut state, MediaCommand::Add(Box::new(row.clone())));
        }
        assert_eq!(kept(&state), 15);
        command(&mut state, MediaCommand::Delete { channel: second.channel, id: second.id, at: NOW });
        assert_eq!(kept(&state), 10, "deleted");
        command(&mut state, MediaCommand::Due(vec![(first.expires_at, first.channel, first.id)]));
        assert_eq!(kept(&state), 5, "its time is over");
        delete_of_channel(&mut state, third.channel, 10);
        assert_eq!(kept(&state), 0, "its channel is deleted");
        assert!(state.get(&keys::media_kept(first.customer)).is_none());
    }

    #[test]
    fn many_small_files_count_as_what_file_systems_set_aside_for_them() {
        let mut state = MemoryState::new();
        let customer = CustomerId::random();
        let row = || MediaRow { counted: true, customer, ..pending().with_bytes(stored()) };
        let rows: Vec<MediaRow> = (0..=FEW_FILES).map(|_| row()).collect();
        let mut kept = Vec::new();
        for row in &rows {
            command(&mut state, MediaCommand::Add(Box::new(row.clone())));
            kept.push(kept_bytes(&state, customer));
        }
        let most = (FEW_FILES + 1) * BYTES_OF_A_FILE;
        assert_eq!(kept[kept.len() - 2..], [FEW_FILES * 5, most]);
        let more = MediaCommand::AddWithin { row: Box::new(row()), limit: most, elsewhere: 0 };
        assert_eq!(command(&mut state, more), Reply::OverQuota { used: most });
        for row in &rows {
            command(&mut state, MediaCommand::Delete { channel: row.channel, id: row.id, at: NOW });
        }
        assert!(kept_bytes(&state, customer) == 0 && state.get(&keys::media_files(customer)).is_none());
    }

    #[test]
    fn a_row_beyond_the_quota_is_refused_and_a_repeat_of_one_that_was_taken_is_not() {
        let mut state = MemoryState::new();
        let row = |customer| MediaRow { counted: true, customer, ..pending().with_bytes(stored()) };
        let customer = CustomerId::random();
        let add =
            |row: &MediaRow, elsewhere| MediaCommand::AddWithin { row: Box::new(row.clone()), limit: 20, elsewhere };
        let first = row(customer);
        assert_eq!(command(&mut state, add(&first, 15)), Reply::Done, "it fills the quota");
        assert_eq!(command(&mut state, add(&row(customer), 11)), Reply::OverQuota { used: 5 });
        assert_eq!(command(&mut state, add(&row(customer), 10)), Reply::Done);
        assert_eq!(command(&mut state, add(&first, 20)), Reply::Unchanged);
        assert_eq!(kept_bytes(&state, customer), 10);
    }

    #[test]
    fn a_deleted_channel_leaves_nothing() {
        let (mut state, new) = (MemoryState::new(), pending().with_bytes(stored()));
        command(&mut state, MediaCommand::Add(Box::new(new.clone())));
        assert_eq!(delete_of_channel(&mut state, new.channel, 10), 1);
        assert_eq!(state.len(), 1, "the channel's row is left");
    }
}
