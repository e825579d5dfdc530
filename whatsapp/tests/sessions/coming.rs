//! What comes in while owners die: each message once or more, always under one name, and none that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::message::{Content, Surroundings};
use network::driver::{InboundKind, Outbound, Purpose, SessionEvent};
use serde_json::json;

use crate::world::{CHANNEL, FRIEND, Line, SOON, World, friend};

/// What was told of messages, by their ids.
#[derive(Default)]
struct Told(BTreeMap<String, BTreeSet<String>>);

impl Told {
    fn take(&mut self, event: &SessionEvent) {
        if let SessionEvent::Inbound(item) = event
            && let InboundKind::Message(message) = &item.kind
        {
            let named = format!("{} {} {} {:?}", item.at.0, message.chat, message.from, message.content);
            self.0.entry(message.id.to_string()).or_default().insert(named);
        }
    }

    /// Takes what comes for a while; every other item is acknowledged.
    async fn listen(&mut self, line: &mut Line, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(Some(event)) = tokio::time::timeout_at(end.into(), line.events.recv()).await {
            self.take(&event);
            if let SessionEvent::Inbound(item) = &event
                && self.0.len() % 2 == 0
            {
                // Its owner may have died.
                let _ = line.session.acknowledge(item.id.clone()).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_in_while_owners_die_is_read_and_always_told_of_alike() {
    const KILLS: u64 = 40;
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let (mut told, mut written) = (Told::default(), Vec::new());
    for kill in 0..KILLS {
        for n in 0..3 {
            let id = MessageId(format!("3EB0{kill:02}{n:02}"));
            let content = Content::Text { text: "to the phone".into() };
            // It may not have logged in yet.
            let _ = line.session.send(Outbound { id, to: friend(), content, around: Surroundings::default() }).await;
            let body = json!({ "type": "text", "to": CHANNEL, "text": "to the channel", "count": 2 });
            let ids = world.post(&format!("/phones/{FRIEND}/messages"), body).await;
            written.extend(ids["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
            told.listen(&mut line, Duration::from_millis(kill * 7 % 30)).await;
        }
        world.store = world.store.inherit();
        line.session.kill();
        drop(line);
        line = world.open(Purpose::Login).await;
        told.listen(&mut line, Duration::from_millis(kill * 11 % 60)).await;
    }
    let began = Instant::now();
    while !written.iter().all(|id| told.0.contains_key(id)) {
        assert!(began.elapsed() < SOON, "{} of {} came", told.0.len(), written.len());
        told.listen(&mut line, Duration::from_millis(50)).await;
    }
    for (id, names) in &told.0 {
        assert_eq!(names.len(), 1, "{id} is told of as {names:#?}");
        assert!(!names.iter().any(|name| name.contains("Undecryptable")), "{id} could not be read");
    }
    world.assert_clean().await;
}
