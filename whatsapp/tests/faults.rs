//! Faults that are put back on purpose, and what finds them: a wire that does not wait for the log, a pairing that is answered
//! before it is stored, ratchets that are stored after what they sealed has left.
//!
//! A program of its own, as failpoints are the whole process's; its tests come one after the other for the same reason.

#![allow(clippy::unwrap_used, reason = "a test")]

mod world;

use std::sync::atomic::Ordering;
use std::time::Duration;

use network::driver::{Purpose, SessionEvent};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::world::{CHANNEL, World, until};

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// More than a lease of message keys.
const SENDS: usize = 70;

/// An owner whose commits do not end sends on for a while, and dies; the next one sends too. Returns which keys were used twice.
async fn keys_used_twice(unstored: Duration) -> Value {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0FIRST", "so that there is a session").await;
    line.accepted("3EB0FIRST").await;
    line.session.drain().await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    line.send("3EB0SECOND", "so that its lease is stored").await;
    line.accepted("3EB0SECOND").await;
    until("its lease is stored", async || (world.store.is_quiet()).then_some(())).await;
    world.store.slow.store(true, Ordering::Release);
    for n in 0..SENDS {
        line.send(&format!("3EB0A{n:02}"), "unstored").await;
    }
    // As far as it gets: with the fault, to the end.
    let all = line.until(|event| match event {
        SessionEvent::Accepted { id, .. } if id.as_str() == format!("3EB0A{:02}", SENDS - 1) => Some(()),
        _ => None,
    });
    let _ = tokio::time::timeout(unstored, all).await;
    let mut line = world.take_over(line).await;
    for n in 0..SENDS {
        line.send(&format!("3EB0B{n:02}"), "of the next owner").await;
    }
    line.accepted(&format!("3EB0B{:02}", SENDS - 1)).await;
    world.get("/crypto").await["key_reuse"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_does_not_wait_for_the_log_uses_message_keys_twice_and_ours_does_not() {
    let _alone = ONE_AT_A_TIME.lock().await;
    // Shorter than a wire waits for a quorum, after which the session ends.
    assert_eq!(keys_used_twice(Duration::from_secs(3)).await, json!([]));
    fail::cfg("bug::wire_before_log", "return").unwrap();
    // Each send waits for the network's word on the one before it.
    let found = keys_used_twice(Duration::from_secs(20)).await;
    fail::remove("bug::wire_before_log");
    assert_ne!(found, json!([]), "nobody saw it");
}

/// A pairing whose identity is never stored: whether the phone says that it is linked.
async fn is_linked_to_nothing() -> bool {
    let mut world = World::new().await;
    let (line, raw) = world.begin_pairing().await;
    world.store.slow.store(true, Ordering::Release);
    let (status, _) = world.call("POST", &format!("/phones/{CHANNEL}/link"), Some(json!({ "raw": raw }))).await;
    line.session.kill();
    assert!(world.store.rows.lock().is_empty());
    status == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_is_answered_before_it_is_stored_leaves_a_phone_linked_to_nothing_and_ours_is_not() {
    let _alone = ONE_AT_A_TIME.lock().await;
    assert!(!is_linked_to_nothing().await);
    fail::cfg("bug::sign_before_commit", "return").unwrap();
    let found = is_linked_to_nothing().await;
    fail::remove("bug::sign_before_commit");
    assert!(found, "nobody saw it");
}

/// What an owner writes just after something came in, and the next one; what the phone then could not read.
async fn is_unread() -> u64 {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for round in 0..5 {
        line = world.write_after_something_came_in(line, round).await;
    }
    until("the phone has met all", async || {
        let (read, unread) = (world.inbox().await.len(), world.get("/crypto").await["undecryptable"].as_u64()?);
        (read >= 15 || unread > 0).then_some(unread)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn ratchets_that_are_stored_after_the_wire_leave_what_the_peer_cannot_read_and_ours_do_not() {
    let _alone = ONE_AT_A_TIME.lock().await;
    assert_eq!(is_unread().await, 0);
    fail::cfg("bug::ratchets_after_wire", "return").unwrap();
    let unread = is_unread().await;
    fail::remove("bug::ratchets_after_wire");
    assert!(unread > 0, "nobody saw it");
}
