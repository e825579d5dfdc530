//! What comes in while owners die, or while nobody is there: each message once or more, always under one name, and none that cannot
//! be read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings};
use network::driver::{InboundKind, Outbound, Purpose, SessionEvent};
use serde_json::json;

use crate::world::{CHANNEL, FRIEND, Line, SOON, World, until};

/// What was told of messages, by their ids, and how many items brought it.
#[derive(Default)]
struct Told {
    messages: BTreeMap<String, BTreeSet<String>>,
    items: usize,
}

impl Told {
    fn take(&mut self, event: &SessionEvent) {
        if let SessionEvent::Inbound(item) = event
            && let InboundKind::Message(message) = &item.kind
        {
            let named = format!("{} {} {} {:?}", item.at.0, message.chat, message.from, message.content);
            self.messages.entry(message.id.to_string()).or_default().insert(named);
        }
    }

    /// Takes what comes for a while, and acknowledges all of it or every other item.
    async fn listen(&mut self, line: &mut Line, time: Duration, acknowledges: bool) {
        let end = Instant::now() + time;
        while let Ok(Some(event)) = tokio::time::timeout_at(end.into(), line.events.recv()).await {
            self.take(&event);
            self.items += 1;
            if let SessionEvent::Inbound(item) = &*event
                && (self.items.is_multiple_of(2) || acknowledges)
            {
                // The owner of this session may have died.
                let _ = line.session.acknowledge(item.id.clone()).await;
            }
        }
    }
}

/// Somebody new in each round, so that both begin a session at once.
fn stranger(round: u64) -> String {
    format!("1555001{round:04}")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_in_while_owners_die_is_read_and_always_told_of_alike() {
    const KILLS: u64 = 60;
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for round in 0..=KILLS {
        world.post("/phones", json!({ "number": stranger(round) })).await;
    }
    let (mut told, mut written) = (Told::default(), Vec::new());
    for kill in 0..KILLS {
        for n in 0..4 {
            let with = stranger(kill + n % 2);
            let id = MessageId(format!("3EB0{kill:02}{n:02}"));
            let to = Address::parse(&format!("{with}@s.whatsapp.net")).unwrap();
            let content = Content::Text { text: "to the phone".into() };
            // The session may not have logged in yet.
            let _ = line.session.send(Outbound { id, to, content, around: Surroundings::default() }).await;
            told.listen(&mut line, Duration::from_millis(kill * 5 % 9), false).await;
            let body = json!({ "type": "text", "to": CHANNEL, "text": "to the channel", "count": 2 });
            let ids = world.post(&format!("/phones/{with}/messages"), body).await;
            written.extend(ids["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
            told.listen(&mut line, Duration::from_millis(kill * 7 % 30), false).await;
        }
        world.store = world.store.inherit();
        line.session.kill();
        drop(line);
        line = world.open(Purpose::Login).await;
        told.listen(&mut line, Duration::from_millis(kill * 11 % 60), false).await;
    }
    let began = Instant::now();
    while !written.iter().all(|id| told.messages.contains_key(id)) {
        assert!(began.elapsed() < SOON, "{} of {} came", told.messages.len(), written.len());
        told.listen(&mut line, Duration::from_millis(50), true).await;
    }
    for (id, names) in &told.messages {
        assert_eq!(names.len(), 1, "{id} is told of as {names:#?}");
        assert!(!names.iter().any(|name| name.contains("Undecryptable")), "{id} could not be read");
    }
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wrote_while_nobody_was_there_is_known_by_both_names_to_the_next_owner() {
    let mut world = World::new().await;
    let line = world.pair().await;
    line.session.drain().await;
    let body = json!({ "type": "text", "to": CHANNEL, "text": "meanwhile" });
    world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    let name = format!("ln/{FRIEND}");
    assert!(!world.store.rows.lock().contains_key(&name), "nobody has written before");
    let mut line = world.open(Purpose::Login).await;
    assert_eq!(line.message().await.1, "meanwhile");
    let stored = async || world.store.rows.lock().contains_key(&name).then_some(());
    until("the LID and the number are stored", stored).await;
    world.assert_clean().await;
}
