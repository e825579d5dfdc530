//! Other devices: of somebody whom the channel writes with, and of its own account. Each is a session of its own here.

use model::address::Address;
use model::message::Content;
use network::driver::{InboundKind, SessionEvent};
use network::operation::groups::{GroupAnswer, GroupOperation};
use network::operation::{Answer, Operation};
use serde_json::json;
use uuid::Uuid;

use crate::world::{CHANNEL, FRIEND, Line, World, friend, until};

/// Links another device, with a state of its own, to a phone.
async fn link(world: &mut World, phone: &str) -> Line {
    let of_the_channel = std::mem::take(&mut world.store);
    let (mut line, raw) = world.begin_pairing().await;
    world.post(&format!("/phones/{phone}/link"), json!({ "raw": raw })).await;
    line.until(|event| matches!(event, SessionEvent::LoggedIn(_)).then_some(())).await;
    world.store = of_the_channel;
    line
}

fn text(text: &str) -> Content {
    Content::Text { text: text.into() }
}

/// Reads until a text of somebody else comes. What a former owner has read may come again before it.
async fn reads(line: &mut Line, text: &str) {
    while line.message().await.1 != text {}
}

/// Reads until a text comes that another device of the same account has sent to somebody.
async fn sees(line: &mut Line, to: &Address, said: &str) {
    line.until(|event| match event {
        SessionEvent::Inbound(item) => match &item.kind {
            InboundKind::OwnMessage(message) => (message.chat == *to && message.content == text(said)).then_some(()),
            _ => None,
        },
        _ => None,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_both_sides_that_are_linked_meanwhile_read_everything_and_are_read() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "to the phone").await;
    line.accepted("3EB0A1").await;
    let mut theirs = link(&mut world, FRIEND).await;
    let mut ours = link(&mut world, CHANNEL).await;
    let channel = Address::parse(&format!("{CHANNEL}@s.whatsapp.net")).unwrap();
    let create = GroupOperation::Create { subject: "Friends".into(), participants: vec![friend()] };
    let (_, answer) = line.ask(Uuid::new_v4(), Operation::Groups(create)).await;
    let Ok(Answer::Groups(GroupAnswer::Created { group, .. })) = answer else { panic!("no group is made") };
    // The owner that knew the devices' names, and the next one.
    for round in 0..2 {
        for (place, to) in [friend(), group.id.clone()].into_iter().enumerate() {
            let id = format!("3EB0B{round}{place}");
            line.send_to(to.clone(), &id, text(&id)).await;
            line.accepted(&id).await;
            reads(&mut theirs, &id).await;
            sees(&mut ours, &to, &id).await;
        }
        for (place, to) in [channel.clone(), group.id.clone()].into_iter().enumerate() {
            let id = format!("3EB0C{round}{place}");
            theirs.send_to(to.clone(), &id, text(&id)).await;
            theirs.accepted(&id).await;
            reads(&mut line, &id).await;
            reads(&mut ours, &id).await;
        }
        let id = format!("3EB0D{round}");
        ours.send_to(friend(), &id, text(&id)).await;
        ours.accepted(&id).await;
        sees(&mut line, &friend(), &id).await;
        reads(&mut theirs, &id).await;
        if round == 0 {
            line = world.take_over(line).await;
        }
    }
    // All that the channel's account wrote: to the phone, to both places in each round, and by its other device.
    until("the phone reads it", async || (world.inbox().await.len() == 7).then_some(())).await;
    let crypto = world.get("/crypto").await;
    for list in ["key_reuse", "prekey_conflicts", "prekey_unknown_rows", "body_conflicts", "foreign_acks", "two_live"] {
        assert_eq!(crypto[list], json!([]), "{list} of {crypto}");
    }
    assert_eq!((&crypto["undecryptable"], &crypto["retry_receipts"]), (&json!(0), &json!(0)), "{crypto}");
}
