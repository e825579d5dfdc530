//! A state that is exported from a group seeds another one.

use super::*;
use crate::backup::file::{FileError, GroupReader};
use crate::backup::seed::Seed;

/// A group's whole state in the format of a backup.
async fn read_out(group: &Group) -> Vec<u8> {
    let mut export = group.export(soon()).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = export.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}

/// Reads a backup to its end; returns the hash of its state.
fn judge(bytes: &[u8]) -> Result<u64, FileError> {
    let mut reader = GroupReader::open(bytes)?;
    while reader.next_pair()?.is_some() {}
    Ok(reader.totals().unwrap().state_hash)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_was_read_out_of_a_follower_begins_a_group_of_one_that_grows() {
    let mut cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    for number in 0..50 {
        cluster.put(&format!("key-{number}"), "old").await;
    }
    let leader = cluster.leader().await;
    let follower = if leader == 1 { 2 } else { 1 };
    let bytes = read_out(cluster.group(follower)).await;
    let (_, hash) = cluster.group(follower).state_hash(soon()).await.unwrap();
    assert_eq!(judge(&bytes).unwrap(), hash);
    let epoch = cluster.group(leader).leadership().borrow().ready_epoch.unwrap();
    for node in [1, 2, 3] {
        cluster.stop(node).await;
    }

    let folder = tempfile::tempdir().unwrap();
    let seed = Seed::create(folder.path(), 7, uuid::Uuid::from_u128(7)).unwrap();
    let mut reader = GroupReader::open(bytes.as_slice()).unwrap();
    let mut group = seed.group(reader.group, reader.at);
    while let Some((key, value)) = reader.next_pair().unwrap() {
        group.put(&key, &value).unwrap();
    }
    group.finish().unwrap();
    seed.finish().unwrap();
    cluster.folders.insert(7, folder);

    cluster.run(7).await;
    assert_eq!(cluster.leader().await, 7);
    let begun = cluster.group(7).leadership().borrow().ready_epoch.unwrap();
    assert!(begun > epoch + 1_000_000, "whoever knew the old epochs takes the new ones for newer: {epoch}, {begun}");
    assert_eq!(cluster.get(7, "key-49").await.as_deref(), Some("old"));
    cluster.put("key-49", "new").await;
    cluster.stop(7).await;
    cluster.run(7).await;
    assert_eq!(cluster.leader().await, 7);
    assert_eq!(cluster.get(7, "key-49").await.as_deref(), Some("new"));

    // A node that joins has no data, and the log is too short: it receives a snapshot.
    cluster.run(8).await;
    cluster.group(7).add_learner(8, soon()).await.unwrap();
    cluster.group(7).change_members(BTreeSet::from([7, 8]), false, soon()).await.unwrap();
    assert_eq!(cluster.get(8, "key-0").await.as_deref(), Some("old"));
    assert_eq!(cluster.get(8, "key-49").await.as_deref(), Some("new"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_not_whole_is_never_taken_for_one() {
    let cluster = Cluster::start(&[1], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let bytes = read_out(cluster.group(1)).await;
    cluster.shutdown().await;
    judge(&bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(matches!(judge(&bytes[..end]), Err(FileError::Incomplete)), "cut off at {end}");
    }
    // Group and position precede the hashed part; the manifest covers them.
    for place in (0..8).chain(26..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        assert!(judge(&damaged).is_err(), "byte {place}");
    }
    assert!(matches!(judge(&[&bytes[..], b"x"].concat()), Err(FileError::Damaged(_))));
}
