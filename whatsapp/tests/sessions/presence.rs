//! What the channel shows of itself.

use model::presence::Presence;
use network::operation::presence::{PresenceAnswer, PresenceOperation};
use network::operation::{Answer, RefusedKind};
use serde_json::json;
use uuid::Uuid;

use crate::world::{CHANNEL, World, friend, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_shown_that_the_channel_writes_and_records_and_does_so_no_more() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let shows = [(Presence::Typing, "composing"), (Presence::Recording, "recording"), (Presence::Paused, "paused")];
    for (presence, shown) in shows {
        let operation = PresenceOperation::Show { presence, to: Some(friend()) };
        let (_, answer) = line.ask(Uuid::new_v4(), operation.into()).await;
        assert_eq!(answer, Ok(Answer::Presence(PresenceAnswer::Done)));
        let is_shown = async || {
            let devices = world.get(&format!("/devices/{CHANNEL}")).await;
            (devices["data"][0]["shows"][friend().as_str()] == shown).then_some(())
        };
        until("the network is told", is_shown).await;
    }
    let operation = PresenceOperation::Subscribe { contacts: vec![friend()] };
    let (_, answer) = line.ask(Uuid::new_v4(), operation.into()).await;
    assert_eq!(answer.unwrap_err().kind, RefusedKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_not_to_be_shown_is_not_when_it_has_another_name() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    // The network shows nobody who has no name.
    let operation = PresenceOperation::Show { presence: Presence::Unavailable, to: None };
    let (_, answer) = line.ask(Uuid::new_v4(), operation.into()).await;
    assert_eq!(answer.unwrap_err().kind, RefusedKind::Conflict);
    world.post("/phones", json!({ "number": CHANNEL, "name": "Shop" })).await;
    // The library shows it as available first.
    let is_hidden = async || {
        let devices = world.get(&format!("/devices/{CHANNEL}")).await;
        (devices["data"][0]["shows"][""] == "unavailable").then_some(())
    };
    until("it is not shown", is_hidden).await;
}
