//! Snapshots: a group's whole state, sent to a peer that is too far behind for the log.
//!
//! The sender stores nothing: a [`Source`] reads from a RocksDB snapshot that is held while it is read. The receiver
//! writes the pairs to table files ([`Sink`]), syncs them, and replaces the state with them ([`install`]) so that a
//! crash at any moment leaves either the old state or the new one ([`recover`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rocksdb::{IngestExternalFileOptions, SstFileWriter, WriteBatch};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::disk::{StateDisk, state_end, state_key};
use crate::codec::{self, invalid_data};
use crate::failpoint::{self, Point};
use crate::folder::unless_missing;
use crate::machine::GroupId;
use crate::supervise;
use crate::types::SnapshotMeta;

/// Size of a chunk: the pairs of one message.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks buffered between reading and sending, and between receiving and writing.
const CHUNKS_WAITING: usize = 4;
/// Size of a table file.
const FILE_BYTES: u64 = 64 << 20;

/// A snapshot's content as openraft passes it around.
pub(crate) enum SnapshotData {
    /// A view of this node's state; nothing is read until it is needed.
    Source(Source),
    /// Received and on disk, ready to be installed.
    Received(Received),
    /// Only a position: openraft needs no more of a snapshot that was built.
    Position,
}

/// The state of a group at one moment, to be read in chunks.
pub(crate) struct Source {
    start: oneshot::Sender<()>,
    chunks: mpsc::Receiver<io::Result<Bytes>>,
}

impl Source {
    /// Takes a snapshot of the database, and reads the position from the same snapshot. It is held until the source is
    /// read to its end or dropped.
    pub(crate) async fn take(disk: Arc<StateDisk>, group: GroupId) -> io::Result<(SnapshotMeta, Self)> {
        let (meta_out, meta) = oneshot::channel();
        let (start, wanted) = oneshot::channel();
        let (out, chunks) = mpsc::channel(CHUNKS_WAITING);
        let held = disk.clone();
        disk.blocking(move || {
            let disk = held;
            let snapshot = disk.db.snapshot();
            let found = disk
                .applied_in(&snapshot, group)
                .inspect_err(|error| disk.fail("read", error))
                .map(|applied| SnapshotMeta { last_log_id: applied.last, last_membership: applied.membership });
            // Either side may be gone: the snapshot is no longer wanted.
            if meta_out.send(found).is_err() || wanted.blocking_recv().is_err() {
                return;
            }
            let read = || read_chunks(&disk, &snapshot, group, &out);
            let failed = match supervise::noticed_in_thread("the reading of a snapshot", read) {
                Some(Ok(())) => return,
                Some(Err(error)) => {
                    disk.fail("read", &error);
                    error
                }
                // The chunks read so far must not be taken for the whole state.
                None => io::Error::other("reading the snapshot panicked"),
            };
            let _ = out.blocking_send(Err(failed));
        });
        let meta = meta.await.map_err(|_| io::Error::other("reading the snapshot was cancelled"))??;
        Ok((meta, Self { start, chunks }))
    }

    /// Starts reading.
    pub(crate) fn read(self) -> mpsc::Receiver<io::Result<Bytes>> {
        // Fails only if the reading task is gone; the channel then ends.
        let _ = self.start.send(());
        self.chunks
    }

    /// Copies the state to files on this node, as if a peer had sent it.
    pub(crate) async fn copy_to(self, disk: &StateDisk, group: GroupId) -> io::Result<Received> {
        let sink = Sink::start(disk, group);
        let mut chunks = self.read();
        while let Some(chunk) = chunks.recv().await {
            sink.push(chunk?).await?;
        }
        sink.finish().await
    }
}

fn read_chunks(
    disk: &StateDisk,
    snapshot: &rocksdb::Snapshot<'_>,
    group: GroupId,
    out: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let mut iterator = disk.pairs_in(snapshot, group);
    let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
    while let Some((key, value)) = iterator.item() {
        let key = &key[2..];
        chunk.put_u32(key.len() as u32);
        chunk.put_u32(value.len() as u32);
        chunk.put_slice(key);
        chunk.put_slice(value);
        if chunk.len() >= CHUNK_BYTES && out.blocking_send(Ok(chunk.split().freeze())).is_err() {
            return Ok(());
        }
        iterator.next();
    }
    iterator.status().map_err(io::Error::other)?;
    if !chunk.is_empty() {
        // Fails if the receiver is gone; it needs no report.
        let _ = out.blocking_send(Ok(chunk.freeze()));
    }
    Ok(())
}

/// A folder of table files; removed when it is dropped before an install has begun.
///
/// Each transfer has its own folder: a new transfer must never touch the files of one that is being installed.
struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    fn create(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        Ok(Self { path, kept: false })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the files of a dropped snapshot");
        }
    }
}

/// A snapshot that is complete and synced on disk, but not installed yet.
pub(crate) struct Received {
    folder: Folder,
    files: Vec<PathBuf>,
}

/// Writes the chunks of one snapshot to table files.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Bytes>,
    written: tokio::task::JoinHandle<io::Result<Received>>,
}

impl Sink {
    pub(crate) fn start(disk: &StateDisk, group: GroupId) -> Self {
        let (chunks, incoming) = mpsc::channel(CHUNKS_WAITING);
        let folder = disk.install_folder(group).join(uuid::Uuid::new_v4().to_string());
        let written = disk.blocking(move || write_files(folder, group, incoming));
        Self { chunks, written }
    }

    /// Passes on the next chunk; waits while the disk is behind. The cause of an error is returned by [`Sink::finish`].
    pub(crate) async fn push(&self, chunk: Bytes) -> io::Result<()> {
        self.chunks.send(chunk).await.map_err(|_| io::Error::other("the snapshot could not be written"))
    }

    /// Call after the last chunk: returns when the files are synced.
    pub(crate) async fn finish(self) -> io::Result<Received> {
        drop(self.chunks);
        self.written.await.map_err(io::Error::other)?
    }
}

fn write_files(folder: PathBuf, group: GroupId, mut incoming: mpsc::Receiver<Bytes>) -> io::Result<Received> {
    let folder = Folder::create(folder)?;
    let options = StateDisk::state_options();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut open: Option<SstFileWriter<'_>> = None;
    let damaged = || invalid_data("a chunk of the snapshot is damaged");
    while let Some(mut chunk) = incoming.blocking_recv() {
        while chunk.has_remaining() {
            if chunk.remaining() < 8 {
                return Err(damaged());
            }
            let (key, value) = (chunk.get_u32() as usize, chunk.get_u32() as usize);
            if chunk.remaining() < key.saturating_add(value) {
                return Err(damaged());
            }
            let (key, value) = (chunk.split_to(key), chunk.split_to(value));
            let writer = match &mut open {
                Some(writer) => writer,
                none => {
                    let path = folder.path.join(format!("{:06}.sst", files.len()));
                    let writer = SstFileWriter::create(&options);
                    writer.open(&path).map_err(io::Error::other)?;
                    files.push(path);
                    none.insert(writer)
                }
            };
            writer.put(state_key(group, &key), &value).map_err(io::Error::other)?;
            if writer.file_size() >= FILE_BYTES {
                // `finish` syncs the file.
                writer.finish().map_err(io::Error::other)?;
                open = None;
            }
        }
    }
    if let Some(mut writer) = open {
        writer.finish().map_err(io::Error::other)?;
    }
    sync_above(&folder.path)?;
    Ok(Received { folder, files })
}

/// Syncs a transfer's folder and its parents up to the node's data folder: once a marker names its files, a missing
/// file counts as installed.
fn sync_above(folder: &Path) -> io::Result<()> {
    const TRANSFER_GROUP_INSTALLS_NODE: usize = 4;
    folder.ancestors().take(TRANSFER_GROUP_INSTALLS_NODE).try_for_each(|folder| fs::File::open(folder)?.sync_all())
}

/// Written before an install: says that these files are replacing a group's state.
#[derive(Serialize, Deserialize)]
struct Marker {
    folder: PathBuf,
    files: Vec<PathBuf>,
    meta: SnapshotMeta,
    /// The files stay until the marker is deleted, so a missing one was lost. Release 0.1.0 moved them into the store,
    /// and its markers lack this field.
    #[serde(default)]
    files_stay: bool,
}

/// Replaces a group's state with a received snapshot. Blocks on disk.
pub(crate) fn install(disk: &StateDisk, group: GroupId, meta: &SnapshotMeta, mut received: Received) -> io::Result<()> {
    all_there(&received.files)?;
    failpoint::reach(Point::SnapshotReceived);
    // From here on, the marker owns the files: if this fails, the next start needs them.
    received.folder.kept = true;
    let (folder, files) = (received.folder.path.clone(), received.files.clone());
    let marker = Marker { folder, files, meta: meta.clone(), files_stay: true };
    let mut batch = WriteBatch::default();
    disk.put_installing(&mut batch, group, &codec::encode(&marker));
    disk.write_through(group, batch)?;
    failpoint::reach(Point::SnapshotMarked);
    finish(disk, group, &marker)
}

fn all_there(files: &[PathBuf]) -> io::Result<()> {
    let Some(missing) = files.iter().find(|file| !file.exists()) else { return Ok(()) };
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is gone", missing.display())))
}

/// Completes an install from any point: repeats all steps.
fn finish(disk: &StateDisk, group: GroupId, marker: &Marker) -> io::Result<()> {
    if marker.files_stay {
        all_there(&marker.files)?;
    }
    if marker.files.iter().all(|file| file.exists()) {
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(disk.state(), state_key(group, &[]), state_end(group));
        disk.write_through(group, batch)?;
        if !marker.files.is_empty() {
            let mut options = IngestExternalFileOptions::default();
            options.set_move_files(true);
            // Ingests all files in one step and by a second name, because RocksDB moves what it ingests.
            let given = marker.files.iter().map(|file| second_name(file)).collect::<io::Result<Vec<PathBuf>>>()?;
            disk.db.ingest_external_file_cf_opts(disk.state(), &options, given).map_err(io::Error::other)?;
        }
    }
    failpoint::reach(Point::SnapshotInPlace);
    let mut batch = WriteBatch::default();
    if let Some(last) = &marker.meta.last_log_id {
        disk.put_applied(&mut batch, group, last, 0);
    }
    disk.put_membership(&mut batch, group, &marker.meta.last_membership);
    disk.delete_installing(&mut batch, group);
    disk.write_through(group, batch)?;
    remove_folder(&marker.folder)
}

/// Hard-links a file under a second name beside it.
fn second_name(file: &Path) -> io::Result<PathBuf> {
    let mut name = file.as_os_str().to_owned();
    // The second name contains the first, so that an error message about it shows both.
    name.push(".given");
    let name = PathBuf::from(name);
    // An interrupted install leaves this file.
    match fs::remove_file(&name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(file, &name)?;
    Ok(name)
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    unless_missing(fs::remove_dir_all(folder))
}

/// Called when a group starts: finishes an install whose marker was written. Blocks on disk.
pub(crate) fn recover(disk: &StateDisk, group: GroupId) -> io::Result<()> {
    let Some(marker) = disk.installing(group)? else { return Ok(()) };
    finish(disk, group, &codec::decode(marker)?)
}

/// Called when the host starts, before any snapshot can arrive: deletes files that have no marker. Blocks on disk.
pub(crate) fn clean(disk: &StateDisk) -> io::Result<()> {
    let Some(folders) = unless_missing(fs::read_dir(&disk.installs).map(Some))? else { return Ok(()) };
    for folder in folders {
        let folder = folder?;
        let group = folder.file_name().to_str().and_then(|name| name.parse().ok());
        if group.map(|group| disk.installing(group)).transpose()?.flatten().is_none() {
            remove_folder(&folder.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::folder::USUAL_BUFFER;
    use crate::machine::View;
    use crate::state::reader::StateReader;
    use crate::types::log_id;

    fn open(path: &Path) -> Arc<StateDisk> {
        StateDisk::open(&path.join("data"), path.join("install"), USUAL_BUFFER, Arc::new(|reason| panic!("{reason}")))
            .unwrap()
    }

    fn put(disk: &StateDisk, group: GroupId, key: &[u8], value: &[u8]) {
        let mut batch = WriteBatch::default();
        batch.put_cf(disk.state(), state_key(group, key), value);
        disk.put_applied(&mut batch, group, &log_id(2, 41), 0);
        disk.write(group, batch).unwrap();
    }

    fn keys(disk: &Arc<StateDisk>, group: GroupId) -> Vec<Vec<u8>> {
        let pairs = StateReader::new(disk.clone(), group).scan(&[], &[0xff; 8], usize::MAX);
        pairs.into_iter().map(|(key, _)| key).collect()
    }

    async fn transfer(from: &Arc<StateDisk>, to: &Arc<StateDisk>, group: GroupId) -> (SnapshotMeta, Received) {
        let (meta, source) = Source::take(from.clone(), group).await.unwrap();
        // Written after the snapshot was taken, so not part of it.
        put(from, group, b"later", b"x");
        (meta, source.copy_to(to, group).await.unwrap())
    }

    #[tokio::test]
    async fn a_snapshot_replaces_the_state_and_leaves_other_groups_alone() {
        let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (open(left.path()), open(right.path()));
        for index in 0..3000_u32 {
            put(&from, 1, &index.to_be_bytes(), &[7; 1000]);
        }
        put(&to, 1, b"old", b"x");
        put(&to, 2, b"other", b"x");
        let (meta, received) = transfer(&from, &to, 1).await;
        install(&to, 1, &meta, received).unwrap();
        assert_eq!(keys(&to, 1).len(), 3000);
        assert_eq!(keys(&to, 2), [b"other"]);
        assert_eq!(to.applied(1).unwrap().last, Some(log_id(2, 41)));
        assert_eq!(fs::read_dir(to.install_folder(1)).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_interrupted_install_is_finished_or_undone_at_start() {
        let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (open(left.path()), open(right.path()));
        put(&from, 1, b"new", b"x");
        put(&to, 1, b"old", b"x");

        // Before the marker: undone when the host starts, and not when a group starts, since it may be arriving then.
        let (meta, mut received) = transfer(&from, &to, 1).await;
        received.folder.kept = true;
        recover(&to, 1).unwrap();
        assert!(received.files[0].exists());
        clean(&to).unwrap();
        assert_eq!(keys(&to, 1), [b"old"]);
        assert!(!received.files[0].exists());
        // Without its files, the snapshot is never taken for an installed one.
        assert!(install(&to, 1, &meta, received).is_err());
        assert_eq!(keys(&to, 1), [b"old"]);

        // After the marker and before the files are ingested: finished.
        let (_, mut received) = transfer(&from, &to, 1).await;
        received.folder.kept = true;
        let (folder, files) = (received.folder.path.clone(), received.files.clone());
        let mut marker = Marker { folder, files, meta: meta.clone(), files_stay: true };
        mark(&to, &marker);
        clean(&to).unwrap();
        // Twice, as after a crash just before the marker was deleted.
        let kept = right.path().join("kept");
        fs::create_dir(&kept).unwrap();
        let again: Vec<PathBuf> = marker.files.iter().map(|file| kept.join(file.file_name().unwrap())).collect();
        marker.files.iter().zip(&again).for_each(|(file, again)| {
            fs::copy(file, again).unwrap();
        });
        recover(&to, 1).unwrap();
        assert_eq!(keys(&to, 1)[1], b"new");
        assert!(to.installing(1).unwrap().is_none() && !marker.files[0].exists());
        (marker.folder, marker.files) = (kept, again);
        mark(&to, &marker);
        recover(&to, 1).unwrap();
        assert_eq!(keys(&to, 1)[1], b"new");
        assert!(to.installing(1).unwrap().is_none());

        // With the marker, missing files were lost, unless the marker is of the release that moved them.
        mark(&to, &marker);
        let refused = recover(&to, 1).unwrap_err().to_string();
        assert!(refused.contains(&marker.files[0].display().to_string()) && refused.contains("is gone"), "{refused}");
        marker.files_stay = false;
        mark(&to, &marker);
        recover(&to, 1).unwrap();
        assert_eq!(keys(&to, 1)[1], b"new");
        assert!(to.installing(1).unwrap().is_none());
    }

    fn mark(disk: &StateDisk, marker: &Marker) {
        let mut batch = WriteBatch::default();
        disk.put_installing(&mut batch, 1, &codec::encode(marker));
        disk.write_through(1, batch).unwrap();
    }

    #[tokio::test]
    async fn files_that_were_damaged_before_they_were_in_place_are_refused_by_name() {
        let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (open(left.path()), open(right.path()));
        for index in 0..1000_u32 {
            put(&from, 1, &index.to_be_bytes(), &[7; 1000]);
        }
        let (meta, received) = transfer(&from, &to, 1).await;
        let file = received.files[0].clone();
        let length = fs::metadata(&file).unwrap().len();
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
        let refused = install(&to, 1, &meta, received).unwrap_err().to_string();
        assert!(refused.contains(&file.display().to_string()), "{refused}");
        // The marker stays: the next start tries again and fails with the same error.
        let refused = recover(&to, 1).unwrap_err().to_string();
        assert!(refused.contains(&file.display().to_string()), "{refused}");
    }

    #[tokio::test]
    async fn an_empty_state_is_a_snapshot_too() {
        let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (open(left.path()), open(right.path()));
        put(&to, 1, b"old", b"x");
        let (meta, source) = Source::take(from, 1).await.unwrap();
        let received = source.copy_to(&to, 1).await.unwrap();
        install(&to, 1, &meta, received).unwrap();
        assert_eq!(keys(&to, 1), Vec::<Vec<u8>>::new());
    }

    #[tokio::test]
    async fn a_transfer_that_is_given_up_leaves_nothing_and_touches_no_other() {
        let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (open(left.path()), open(right.path()));
        put(&from, 1, b"new", b"x");
        let (meta, first) = transfer(&from, &to, 1).await;
        let (_, second) = transfer(&from, &to, 1).await;
        drop(second);
        install(&to, 1, &meta, first).unwrap();
        assert_eq!(keys(&to, 1), [b"new"]);
        assert_eq!(fs::read_dir(to.install_folder(1)).unwrap().count(), 0);
    }
}
