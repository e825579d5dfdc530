//! Every event name, and a test in which it results from something that happened on the network. The events of a
//! channel's own life are tested here.

use model::event::EventName;
use serde_json::json;
use tests::documents::root;
use tests::scene::{Scene, assert_has};
use tests::sources::Sources;

const TABLE: &[(EventName, &str)] = &[
    (EventName::MessageReceived, "every_body_has_the_fields_of_its_type"),
    (EventName::MessageSent, "every_type_without_bytes_arrives_in_both_shapes"),
    (EventName::MessageReaction, "a_reaction_of_the_peers_has_an_event_of_its_own"),
    (EventName::MessageStatus, "every_type_without_bytes_arrives_in_both_shapes"),
    (EventName::ChannelConnected, "the_life_of_a_channel_is_told"),
    (EventName::ChannelDisconnected, "the_life_of_a_channel_is_told"),
    (EventName::ChannelStatus, "the_life_of_a_channel_is_told"),
    (EventName::QrUpdated, "the_life_of_a_channel_is_told"),
    (EventName::GroupCreated, "a_group_is_made_shown_changed_and_left_through_any_node"),
    (EventName::GroupUpdated, "a_group_is_made_shown_changed_and_left_through_any_node"),
    (EventName::GroupParticipantAdded, "members_come_and_go_with_a_result_for_each"),
    (EventName::GroupParticipantRemoved, "members_come_and_go_with_a_result_for_each"),
    (EventName::GroupAdminPromoted, "members_come_and_go_with_a_result_for_each"),
    (EventName::GroupAdminDemoted, "members_come_and_go_with_a_result_for_each"),
    (EventName::ChatUpdated, "the_flags_of_a_chat_change_here_and_on_the_phone_and_are_told_once"),
    (EventName::ChatArchived, "the_flags_of_a_chat_change_here_and_on_the_phone_and_are_told_once"),
    (EventName::ChatPinned, "the_flags_of_a_chat_change_here_and_on_the_phone_and_are_told_once"),
    (EventName::PresenceUpdated, "a_subscription_tells_of_somebody_until_it_ends"),
    (EventName::OrderPlaced, "orders_and_carts_of_others_are_told_and_orders_are_kept"),
    (EventName::OrderCancelled, "orders_and_carts_of_others_are_told_and_orders_are_kept"),
    (EventName::CartUpdated, "orders_and_carts_of_others_are_told_and_orders_are_kept"),
    (EventName::StoryViewed, "a_story_is_posted_viewed_once_by_each_and_deleted"),
    (EventName::CallOffered, "a_call_is_offered_and_rejected_with_or_without_naming_the_caller"),
    (EventName::CallTerminated, "a_call_ends_for_each_reason_and_says_which"),
    (EventName::ContactResolved, "a_hidden_number_is_reached_once_it_is_known"),
];

#[test]
fn every_event_name_is_produced_in_a_test_that_exists() {
    let sources = Sources::read();
    for name in EventName::ALL {
        let entries: Vec<_> = TABLE.iter().filter(|(listed, _)| *listed == name).collect();
        assert_eq!(entries.len(), 1, "{} stands in the table once", name.as_str());
        let test = entries[0].1;
        let source = sources.with_test(test).unwrap_or_else(|| panic!("{}: no test is called {test}", name.as_str()));
        let quoted = format!("\"{}\"", name.as_str());
        assert!(source.contains(&quoted), "{test} expects no {}", name.as_str());
    }
}

#[test]
fn the_console_has_a_line_for_every_event() {
    let words = std::fs::read_to_string(root().join("console/src/words.ts")).unwrap();
    let missing: Vec<_> = EventName::WORDS.iter().filter(|name| !words.contains(&format!("\"{name}\": \""))).collect();
    assert!(missing.is_empty(), "endpoints cannot choose {missing:?}");
}

#[tokio::test]
async fn the_life_of_a_channel_is_told() {
    let scene = Scene::begin().await;
    let qr = scene.event("qr.updated", "the first", |data| data["sequence"] == 1).await;
    assert!(qr["qr"].as_str().unwrap().starts_with("data:image/png;base64,"), "{qr}");
    let connected = scene.event("channel.connected", "after the pairing", |_| true).await;
    assert_has(&connected, &json!({ "phone_number": scene.channel.number }));
    let moved = scene.event("channel.status", "to connected", |data| data["status"] == "connected").await;
    assert_has(&moved, &json!({ "previous_status": "connecting", "reason": "login_ok" }));

    let unlink = format!("/phones/{}/unlink", scene.channel.number);
    assert_eq!(scene.simulator.api().post(&unlink, json!({})).await.status, 204);
    let gone = scene.event("channel.disconnected", "after the unlink", |data| data["reason"] == "logout").await;
    assert_has(&gone, &json!({ "will_retry": false, "next_retry_at": null }));
    let moved = scene.event("channel.status", "to logged_out", |data| data["status"] == "logged_out").await;
    assert_has(&moved, &json!({ "previous_status": "connected", "reason": "logout" }));
}
