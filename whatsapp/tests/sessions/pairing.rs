//! Pairing by a code that is typed on the phone, and after another device of the channel's.

use std::sync::atomic::Ordering;

use network::driver::{EndReason, PairCodeError, Purpose, SessionEvent};
use serde_json::json;

use crate::world::{CHANNEL, FRIEND, Line, World, until};

/// Opens a session whose owner knows of no pairing, though one is stored; it is told of that first.
async fn go_on(world: &mut World) -> Line {
    let mut line = world.open(Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
    let paired = line.next().await;
    assert!(matches!(&paired, SessionEvent::Paired(who) if who.phone_number == CHANNEL), "{paired:?}");
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_pairs_by_a_code_and_a_wrong_one_links_nothing() {
    let mut world = World::new().await;
    let (mut line, _) = world.begin_pairing().await;
    let code = line.session.pair_code(CHANNEL, "Gateway").await.unwrap().code;
    assert_eq!((code.len(), code.as_bytes()[4]), (9, b'-'), "{code}");
    let link = format!("/phones/{CHANNEL}/link");
    let (status, _) = world.call("POST", &link, Some(json!({ "pair_code": code }))).await;
    assert_eq!(status, 200);
    line.until(|event| matches!(event, SessionEvent::Paired(who) if who.phone_number == CHANNEL).then_some(())).await;
    line.logged_in().await;
    assert!(matches!(line.session.pair_code(CHANNEL, "Gateway").await, Err(PairCodeError::NotPairing)));
    line.send("3EB0A1", "by code").await;
    line.accepted("3EB0A1").await;
    until("the phone reads it", async || (world.inbox().await == ["by code"]).then_some(())).await;
    line.session.drain().await;
    world.open(Purpose::Login).await.logged_in().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_code_takes_the_place_of_one_that_nobody_has_typed() {
    let mut world = World::new().await;
    let (mut line, _) = world.begin_pairing().await;
    let former = line.session.pair_code(FRIEND, "Gateway").await.unwrap().code;
    let code = line.session.pair_code(CHANNEL, "Gateway").await.unwrap().code;
    assert_ne!(former, code);
    let link = format!("/phones/{CHANNEL}/link");
    let (status, _) = world.call("POST", &link, Some(json!({ "pair_code": code }))).await;
    assert_eq!(status, 200);
    line.logged_in().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_the_network_does_not_give_is_refused_with_its_code() {
    let mut world = World::new().await;
    let (status, _) = world.call("PUT", "/faults", Some(json!({ "refuse_pairing": "code" }))).await;
    assert_eq!(status, 200);
    let (line, _) = world.begin_pairing().await;
    let refused = line.session.pair_code(CHANNEL, "Gateway").await;
    assert!(matches!(refused, Err(PairCodeError::Refused { code: 400, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_device_begins_with_nothing_of_the_one_before_it() {
    let mut world = World::new().await;
    let left = ["gd/1203@g.us", "s/15550000002@s.whatsapp.net.0", "w/seed", "x/0000000000000007"];
    let rows = left.map(|name| (name.to_owned(), b"of the device before".to_vec()));
    *world.store.rows.lock() = rows.clone().into();
    let mut line = world.pair().await;
    line.send("3EB0A1", "of the new device").await;
    line.accepted("3EB0A1").await;
    let stored = world.store.rows.lock().clone();
    for (name, value) in &rows {
        assert_ne!(stored.get(name), Some(value), "{name}");
    }
    until("the phone reads it", async || (world.inbox().await == ["of the new device"]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_is_stored_and_was_told_nobody_is_told_and_goes_on() {
    let mut world = World::new().await;
    let line = world.pair().await;
    world.store = world.store.inherit();
    line.session.kill();
    drop(line);
    let mut line = go_on(&mut world).await;
    line.logged_in().await;
    line.send("3EB0A1", "of the same device").await;
    line.accepted("3EB0A1").await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_is_stored_too_late_for_the_network_to_hear_of_it_is_over_at_the_next_log_in() {
    let mut world = World::new().await;
    let (mut line, raw) = world.begin_pairing().await;
    world.store.slow.store(true, Ordering::Release);
    let (status, _) = world.call("POST", &format!("/phones/{CHANNEL}/link"), Some(json!({ "raw": raw }))).await;
    assert_eq!(status, 400, "the phone shows a failed link");
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    world.store.slow.store(false, Ordering::Release);
    let stored = async || world.store.rows.lock().contains_key("credentials").then_some(());
    until("the device is stored after all", stored).await;
    drop(line);
    let mut line = go_on(&mut world).await;
    assert_eq!(line.ended().await, EndReason::Invalidated);
}
