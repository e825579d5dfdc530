//! Sessions against a network on loopback that speaks the true protocol: pairing, log-in, text both ways, and what the owner's
//! death leaves.

#![allow(clippy::unwrap_used, reason = "a test")]

// A client that is the library and nothing else, as the test network is tried with.
#[allow(dead_code, reason = "each program uses its part")]
#[path = "../../../testnet/tests/library/client.rs"]
mod client;
mod coming;
mod contacts;
mod contents;
#[allow(dead_code, reason = "each program uses its part")]
#[path = "../../../testnet/tests/library/control.rs"]
mod control;
mod devices;
mod groups;
mod later;
mod media;
mod pairing;
mod presence;
mod restored;
mod rotation;
#[path = "../world/mod.rs"]
mod world;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings};
use network::driver::{EndReason, InboundKind, Outbound, Purpose, ReceiptStatus, SessionEvent};
use network::operation::RefusedKind;
use serde_json::json;

use self::world::{CHANNEL, FRIEND, World, friend, until};

const STRANGER: &str = "15550000009";

/// How long nothing is stored: less than bytes wait for that until their session is cut.
const UNSTORED: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_pairs_by_qr_writes_is_read_and_logs_in_again_without_another() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "hello").await;
    // The receipt may overtake the network's acknowledgement.
    let (mut is_accepted, mut is_delivered) = (false, false);
    while !(is_accepted && is_delivered) {
        match line.until(|event| Some(event.clone())).await {
            SessionEvent::Accepted { id, .. } => is_accepted |= id.as_str() == "3EB0A1",
            SessionEvent::Inbound(item) => {
                if let InboundKind::Receipt(receipt) = &item.kind {
                    assert_eq!(receipt.message_id.as_str(), "3EB0A1");
                    is_delivered |= receipt.status == ReceiptStatus::Delivered;
                }
            }
            _ => {}
        }
    }
    until("the phone reads it", async || (world.inbox().await == ["hello"]).then_some(())).await;
    line.session.drain().await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    line.send("3EB0A2", "again").await;
    line.accepted("3EB0A2").await;
    until("the phone reads both", async || (world.inbox().await == ["hello", "again"]).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_phone_writes_comes_once_and_in_order_and_is_kept_until_it_is_acknowledged() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for n in 0..3 {
        let body = json!({ "type": "text", "to": CHANNEL, "text": format!("to you {n}") });
        world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    }
    for n in 0..3 {
        let (item, text) = line.message().await;
        assert_eq!(text, format!("to you {n}"), "{item:?}");
    }
    // One that no owner acknowledges comes again to the next.
    let body = json!({ "type": "text", "to": CHANNEL, "text": "unheard" });
    world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    loop {
        if let SessionEvent::Inbound(item) = line.next().await
            && matches!(item.kind, InboundKind::Message(_))
        {
            break;
        }
    }
    let mut line = world.take_over(line).await;
    // What was acknowledged so late that the network did not hear of it comes again, too: the state machine knows it.
    let mut heard = line.message().await.1;
    while heard.starts_with("to you ") {
        heard = line.message().await.1;
    }
    assert_eq!(heard, "unheard");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_at_any_moment_loses_and_doubles_nothing_and_no_key_is_used_twice() {
    const KILLS: usize = 12;
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let mut sent = Vec::new();
    for kill in 0..KILLS {
        let mut open: Vec<String> = Vec::new();
        for n in 0..5 {
            let id = format!("3EB0{kill:02}{n:02}");
            line.send(&id, &id).await;
            open.push(id);
        }
        sent.extend(open.iter().cloned());
        // Now here, now there in the middle of it.
        tokio::time::sleep(Duration::from_millis(7 * kill as u64)).await;
        line = world.take_over(line).await;
        for id in &open {
            // As the outbox does: what was not accepted goes out again, under its id.
            line.send(id, id).await;
        }
        let mut left: HashSet<&str> = open.iter().map(String::as_str).collect();
        while !left.is_empty() {
            let id = line
                .until(|event| match event {
                    SessionEvent::Accepted { id, .. } => Some(id.clone()),
                    _ => None,
                })
                .await;
            left.remove(id.as_str());
        }
    }
    until("the phone has all of it", async || (world.inbox().await.len() >= sent.len()).then_some(())).await;
    assert_eq!(world.inbox().await, sent, "each once, and in order");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_is_not_stored_is_not_answered() {
    let mut world = World::new().await;
    let (mut line, raw) = world.begin_pairing().await;
    world.store.dead.store(true, Ordering::Release);
    let (status, _) = world.call("POST", &format!("/phones/{CHANNEL}/link"), Some(json!({ "raw": raw }))).await;
    assert_eq!(status, 400, "the phone shows a failed link");
    assert_eq!(line.ended().await, EndReason::Fenced);
    world.store = world.store.inherit();
    assert!(world.store.rows.lock().is_empty());
    let mut line = world.pair().await;
    line.send("3EB0A1", "hello").await;
    line.accepted("3EB0A1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_the_network_after_what_it_rests_on_is_stored_and_not_before() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    world.post("/phones", json!({ "number": STRANGER })).await;
    // Somebody with whom a session is to be begun, and then somebody with whom there is one.
    for (id, number) in [("3EB0A1", STRANGER), ("3EB0A2", STRANGER), ("3EB0A3", FRIEND), ("3EB0A4", FRIEND)] {
        let to = Address::parse(&format!("{number}@s.whatsapp.net")).unwrap();
        world.store.slow.store(true, Ordering::Release);
        line.send_to(to, id, Content::Text { text: id.into() }).await;
        let early = tokio::time::timeout(UNSTORED, line.accepted(id)).await;
        assert!(early.is_err(), "{id} was accepted while nothing could be stored");
        let ledger = world.get("/accepted").await;
        assert!(ledger["data"].as_array().unwrap().iter().all(|row| row["id"] != id), "{ledger}");
        world.store.slow.store(false, Ordering::Release);
        line.accepted(id).await;
    }
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_right_has_passed_says_nothing_more() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    // The pairing's own connection may have had some, after the network ended it.
    let before = world.get("/stats").await["late_writes"].clone();
    line.fence.revoke();
    assert_eq!(line.ended().await, EndReason::Fenced);
    assert!(
        line.session
            .send(Outbound {
                id: MessageId("3EB0A1".into()),
                to: friend(),
                content: Content::Text { text: "late".into() },
                around: Surroundings::default(),
            })
            .await
            .is_err()
    );
    assert_eq!(world.get("/stats").await["late_writes"], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_to_a_session_that_closes_in_order_is_not_told_again() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "hello").await;
    let receipt = loop {
        if let SessionEvent::Inbound(item) = line.next().await {
            if matches!(item.kind, InboundKind::Receipt(_)) {
                break item.id.clone();
            }
            line.session.acknowledge(item.id.clone()).await.unwrap();
        }
    };
    let kept = || world.store.rows.lock().keys().filter(|name| name.starts_with("x/")).count();
    until("it is kept", async || (kept() > 0).then_some(())).await;
    line.session.acknowledge(receipt).await.unwrap();
    line.session.drain().await;
    assert_eq!(kept(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_s_last_words_are_understood() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    world.post(&format!("/phones/{CHANNEL}/replace"), json!({})).await;
    assert_eq!(line.ended().await, EndReason::Replaced);
    for (reason, wanted) in
        [(405, EndReason::ClientOutdated), (403, EndReason::Banned { until: None }), (406, EndReason::Invalidated)]
    {
        world.post(&format!("/devices/{CHANNEL}/1/failure"), json!({ "reason": reason })).await;
        let mut line = world.open(Purpose::Login).await;
        assert_eq!(line.ended().await, wanted, "{reason}");
    }
    world.post(&format!("/devices/{CHANNEL}/1/failure"), json!({ "reason": 503 })).await;
    let mut line = world.open(Purpose::Login).await;
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    world.post(&format!("/devices/{CHANNEL}/1/failure"), json!({ "reason": 429 })).await;
    let mut line = world.open(Purpose::Login).await;
    assert_eq!(line.ended().await, EndReason::TooManyLogins);
    world.call("DELETE", &format!("/devices/{CHANNEL}/1/failure"), None).await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    world.post(&format!("/devices/{CHANNEL}/1/stream-error"), json!({ "code": 429 })).await;
    assert_eq!(line.ended().await, EndReason::TooManyLogins, "the library says nothing of it");
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    world.post(&format!("/phones/{CHANNEL}/unlink"), json!({})).await;
    assert_eq!(line.ended().await, EndReason::Unlinked);
    let mut line = world.open(Purpose::Login).await;
    assert_eq!(line.ended().await, EndReason::Unlinked, "and later log-ins are told the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_writes_to_its_own_number_begins_no_session_with_itself() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let own = Address::parse(&format!("{CHANNEL}@s.whatsapp.net")).unwrap();
    line.send_to(own, "3EB0A1", Content::Text { text: "to remember".into() }).await;
    line.accepted("3EB0A1").await;
    // Its device is the phone's first.
    let with_itself = |name: &&String| name.starts_with("s/") && name.contains(":1@");
    assert_eq!(world.store.rows.lock().keys().filter(with_itself).count(), 0);
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_registered_and_what_cannot_be_sent_is_refused_for_good() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let refused = |event: &SessionEvent| match event {
        SessionEvent::Refused { refused, .. } => Some((**refused).clone()),
        _ => None,
    };
    let nobody = Address::parse("15550009999@s.whatsapp.net").unwrap();
    line.send_to(nobody, "3EB0A1", Content::Text { text: "hello".into() }).await;
    assert_eq!(line.until(refused).await.kind, RefusedKind::Recipient);
    line.send_to(friend(), "3EB0A2", Content::Product { product_id: "1".into() }).await;
    let unsupported = line.until(refused).await;
    assert_eq!((unsupported.kind, unsupported.text.as_str()), (RefusedKind::Unsupported, "messages.product"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_written_is_refused_before_those_behind_it_go_out() {
    const OTHER: &str = "15550000003";
    let mut world = World::new().await;
    world.post("/phones", json!({ "number": OTHER })).await;
    let mut line = world.pair().await;
    // Registered, and nobody can tell by which device.
    let (status, _) = world.call("PUT", "/faults", Some(json!({ "usync_empty": [FRIEND] }))).await;
    assert_eq!(status, 200);
    line.send("3EB0A1", "to nobody's device").await;
    let other = Address::parse(&format!("{OTHER}@s.whatsapp.net")).unwrap();
    line.send_to(other, "3EB0A2", Content::Text { text: "behind it".into() }).await;
    let verdict = |event: &SessionEvent| match event {
        SessionEvent::Refused { id, refused } => Some((id.clone(), Some(refused.kind))),
        SessionEvent::Accepted { id, .. } => Some((id.clone(), None)),
        _ => None,
    };
    assert_eq!(line.until(verdict).await, (MessageId("3EB0A1".into()), Some(RefusedKind::Recipient)));
    assert_eq!(line.until(verdict).await, (MessageId("3EB0A2".into()), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_refused_for_now_goes_out_again_soon_and_is_not_overtaken_in_its_chat() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let mut sent = Vec::new();
    for (code, count) in [(429, 3), (500, 2), (503, 1)] {
        let nack = json!({ "nack": { "code": code, "pct": 100.0 } });
        assert_eq!(world.call("PUT", "/faults", Some(nack)).await.0, 200);
        let before = world.get("/stats").await["refused"].as_u64();
        let ids: Vec<String> = (0..count).map(|n| format!("3EB0{code}{n}")).collect();
        for id in &ids {
            line.send(id, id).await;
        }
        let refused = async || (world.get("/stats").await["refused"].as_u64() > before).then_some(());
        until("the network refuses the first", refused).await;
        assert_eq!(world.call("PUT", "/faults", Some(json!({ "nack": null }))).await.0, 200);
        // Nobody gives it again: the session does it by itself.
        for id in &ids {
            line.accepted(id).await;
        }
        sent.extend(ids);
    }
    until("the phone has all of it", async || (world.inbox().await.len() >= sent.len()).then_some(())).await;
    assert_eq!(world.inbox().await, sent, "each once, and in order");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_refused_for_now_keeps_no_other_chat_waiting() {
    const OTHER: &str = "15550000003";
    let mut world = World::new().await;
    world.post("/phones", json!({ "number": OTHER })).await;
    let mut line = world.pair().await;
    let nack = json!({ "nack": { "code": 503, "pct": 100.0 } });
    assert_eq!(world.call("PUT", "/faults", Some(nack)).await.0, 200);
    line.send("3EB0A1", "refused for now").await;
    line.send("3EB0A2", "behind it").await;
    // From the fourth time on it goes out again four seconds later.
    let refused = async || (world.get("/stats").await["refused"].as_u64() >= Some(4)).then_some(());
    until("the network refuses it again and again", refused).await;
    assert_eq!(world.call("PUT", "/faults", Some(json!({ "nack": null }))).await.0, 200);
    let other = Address::parse(&format!("{OTHER}@s.whatsapp.net")).unwrap();
    line.send_to(other, "3EB0A3", Content::Text { text: "to somebody else".into() }).await;
    let accepted = |event: &SessionEvent| match event {
        SessionEvent::Accepted { id, .. } => Some(id.to_string()),
        _ => None,
    };
    for id in ["3EB0A3", "3EB0A1", "3EB0A2"] {
        assert_eq!(line.until(accepted).await, id);
    }
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_phone_cannot_read_it_gets_again_the_same_and_from_the_next_owner_too() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "before").await;
    line.accepted("3EB0A1").await;
    let forget = format!("/phones/{FRIEND}/forget-session");
    world.post(&forget, json!({ "with": CHANNEL })).await;
    line.send("3EB0A2", "again, please").await;
    line.accepted("3EB0A2").await;
    until("the phone reads it", async || (world.inbox().await == ["before", "again, please"]).then_some(())).await;
    // The phone asks while nobody is there.
    world.post(&forget, json!({ "with": CHANNEL })).await;
    line.send("3EB0A3", "of the first owner").await;
    line.accepted("3EB0A3").await;
    let _line = world.take_over(line).await;
    let all = ["before", "again, please", "of the first owner"];
    until("the phone reads it from the next owner", async || (world.inbox().await == all).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_just_after_something_came_in_binds_the_next_owner() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for round in 0..5 {
        line = world.write_after_something_came_in(line, round).await;
    }
    until("the phone has read all", async || (world.inbox().await.len() == 15).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_channel_cannot_read_comes_again_under_its_id_and_is_told_of_once() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let write = format!("/phones/{FRIEND}/messages");
    world.post(&write, json!({ "type": "text", "to": CHANNEL, "text": "first" })).await;
    assert_eq!(line.message().await.1, "first");
    world.post(&format!("/phones/{FRIEND}/corrupt"), json!({ "to": CHANNEL })).await;
    let ids = world.post(&write, json!({ "type": "text", "to": CHANNEL, "text": "damaged on its way" })).await;
    let id = ids["ids"][0].as_str().unwrap().to_owned();
    let of_it = |event: &SessionEvent| match event {
        SessionEvent::Inbound(item) => match &item.kind {
            InboundKind::Message(message) if message.id.as_str() == id => Some(message.content.clone()),
            _ => None,
        },
        _ => None,
    };
    assert_eq!(line.until(of_it).await, Content::Text { text: "damaged on its way".into() });
    assert!(world.get("/crypto").await["retry_receipts"].as_u64() >= Some(1));
    world.assert_clean().await;
}
