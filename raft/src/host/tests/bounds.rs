//! Limits: full disks, entries that are too large, followers that the log no longer reaches, and snapshots.

use super::*;
use crate::codec;
use crate::group::{Leadership, MAX_COMMAND};
use crate::network::{addressed, status};
use crate::room::tests::ALWAYS;
use crate::transport::{Class, MAX_BODY};
use crate::types::Vote;

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_without_room_takes_nothing_and_catches_up_when_there_is_room() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let without = if leader == 3 { 2 } else { 3 };
    assert_eq!(cluster.get(without, "a").await.as_deref(), Some("1"));
    let room = cluster.node(without).host.room().clone();
    room.set_marks(ALWAYS);
    until("the room is looked at", || !room.takes_entries()).await;
    let stood = cluster.group(without).last_index();
    for n in 0..50 {
        cluster.put("b", &n.to_string()).await;
    }
    assert_eq!(cluster.group(without).last_index(), stood, "it takes nothing");
    room.set_marks(NEVER);
    until("the room is looked at", || room.takes_entries()).await;
    assert_eq!(cluster.get(without, "b").await.as_deref(), Some("49"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_followers_have_no_room_is_named_and_stays() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let epoch = cluster.group(leader).leadership().borrow().ready_epoch;
    let followers: Vec<_> = [1, 2, 3].into_iter().filter(|node| *node != leader).collect();
    let rooms = || followers.iter().map(|node| cluster.node(*node).host.room().clone());
    rooms().for_each(|room| room.set_marks(ALWAYS));
    until("the room is looked at", || rooms().all(|room| !room.takes_entries())).await;
    let waits = cluster.group(leader).submit(Bytes::from_static(b"b=1")).unwrap();
    until("it is named", || cluster.node(leader).host.health().stalled == [GROUP]).await;
    rooms().for_each(|room| room.set_marks(NEVER));
    tokio::time::timeout_at(soon().into(), waits).await.unwrap().unwrap();
    assert_eq!(cluster.group(leader).leadership().borrow().ready_epoch, epoch, "another could do no better");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_finds_no_room_gives_up_what_has_come_of_it() {
    let cluster = Cluster::start(&[1, 2], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let folder = cluster.group(2).core.state.install_folder(GROUP);
    let arriving = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let call = async |number: u16, body: &[u8]| {
        let body = addressed(GROUP, body);
        cluster.node(1).peers.call(2, Class::Snapshot, number, body, soon()).await.unwrap()
    };
    assert_eq!(&call(service::SNAPSHOT_BEGIN, &[]).await[..], [status::OK]);
    until("its files are begun", || arriving() == 1).await;
    let room = cluster.node(2).host.room().clone();
    room.set_marks(ALWAYS);
    until("the room is looked at", || !room.takes_entries()).await;
    let first = 0_u64.to_be_bytes();
    assert_eq!(&call(service::SNAPSHOT_CHUNK, &first).await[..], [status::NO_GROUP]);
    until("its files are gone", || arriving() == 0).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_of_an_earlier_term_begins_no_snapshot() {
    let cluster = Cluster::start(&[1, 2], LogLimits::default()).await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let follower = 3 - leader;
    let term = cluster.group(leader).leadership().borrow().term;
    until("the follower keeps to it", || cluster.group(follower).leadership().borrow().term == term).await;
    let begin = async |term: u64| {
        let body = addressed(GROUP, &codec::encode(&Vote::new_committed(term, leader)));
        let peers = &cluster.node(leader).peers;
        peers.call(follower, Class::Snapshot, service::SNAPSHOT_BEGIN, body, soon()).await.unwrap()
    };
    assert_eq!(&begin(term - 1).await[..], [status::BAD]);
    assert_eq!(&begin(term).await[..], [status::OK]);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_mebibyte_is_taken_and_one_byte_more_refused_without_harm() {
    let cluster = Cluster::start(&[1, 2, 3], LogLimits::default()).await;
    let leader = cluster.leader().await;
    let group = cluster.group(leader);
    let of_size = |bytes: usize| Bytes::from(vec![b'='; bytes]);
    group.propose(of_size(MAX_COMMAND), soon()).await.unwrap();
    let refused = group.propose(of_size(MAX_COMMAND + 1), soon()).await;
    assert_eq!(refused, Err(ProposeError::TooLarge { bytes: MAX_COMMAND + 1 }));
    cluster.put("a", "1").await;
    assert_eq!(cluster.leader().await, leader);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_an_earlier_release_logged_reaches_the_followers_though_it_is_larger_than_a_call() {
    let cluster = Cluster::with_large_entries().await;
    let leader = cluster.leader().await;
    let large = Bytes::from(vec![b'='; MAX_BODY + 1]);
    tokio::time::timeout_at(soon().into(), cluster.group(leader).submit_unbounded(large).unwrap())
        .await
        .unwrap()
        .unwrap();
    cluster.put("a", "1").await;
    for id in [1, 2, 3] {
        assert_eq!(cluster.get(id, "a").await.as_deref(), Some("1"));
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_with_an_entry_that_no_follower_can_get_names_itself_and_another_takes_over() {
    let cluster = Cluster::with_large_entries().await;
    cluster.put("a", "1").await;
    let leader = cluster.leader().await;
    let host = &cluster.node(leader).host;
    assert!(host.health().stalled.is_empty());
    let stuck = cluster.group(leader).submit_unbounded(Bytes::from(vec![b'='; 65 << 20])).unwrap();
    let deadline = soon();
    while host.health().stalled != [GROUP] {
        assert!(Instant::now() < deadline, "nothing is said of it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let taken_over = |now: &Leadership| now.leader.is_some_and(|leads| leads != leader);
    let mut leadership = cluster.group(leader).leadership();
    tokio::time::timeout_at(soon().into(), leadership.wait_for(taken_over)).await.unwrap().unwrap();
    assert_eq!(stuck.await, Err(ProposeError::Unknown));
    cluster.put("b", "2").await;
    assert_eq!(cluster.get(leader, "b").await.as_deref(), Some("2"));
    while !host.health().stalled.is_empty() {
        assert!(Instant::now() < deadline, "it is said of one that does not lead");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_the_log_does_not_reach_gets_a_snapshot() {
    let mut cluster = Cluster::start(&[1, 2, 3], small()).await;
    cluster.put("first", "x").await;
    let leader = cluster.leader().await;
    let behind = if leader == 1 { 2 } else { 1 };
    cluster.stop(behind).await;
    for number in 0..30 {
        let group = cluster.group(cluster.leader().await).clone();
        let pending: Vec<_> =
            (0..20).map(|index| group.submit(Bytes::from(format!("{number}={index}"))).unwrap()).collect();
        for pending in pending {
            pending.await.unwrap();
        }
    }
    // The leader purges its log before the follower asks for it.
    cluster.log_starts_behind(leader, 500).await;
    cluster.run(behind).await;
    assert_eq!(cluster.get(behind, "first").await.as_deref(), Some("x"));
    assert_eq!(cluster.get(behind, "29").await.as_deref(), Some("19"));
    cluster.log_starts_behind(behind, 400).await;
    // The replica continues from there, also after a restart.
    cluster.put("after", "y").await;
    assert_eq!(cluster.get(behind, "after").await.as_deref(), Some("y"));
    cluster.stop(behind).await;
    cluster.run(behind).await;
    assert_eq!(cluster.get(behind, "after").await.as_deref(), Some("y"));
    assert_eq!(cluster.get(behind, "first").await.as_deref(), Some("x"));
    cluster.shutdown().await;
}
