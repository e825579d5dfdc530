//! Event streams, each over many connections through many nodes, which resume where the last one ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::stream::EventSource;
use tokio::task::JoinSet;

use super::Pace;
use super::cast::Cast;
use super::client::{Client, Shared};
use crate::history::record::UNANSWERED;
use crate::history::{Answer, Frame, Op, Outcome, Record};

/// Approximate lifetime of a connection.
const KEPT: Duration = Duration::from_secs(8);
const OPEN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(500);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    let tenants = std::iter::repeat_n(&cast.main, pace.streams).chain([&cast.stranger]);
    for (stream, tenant) in (0..).zip(tenants) {
        clients.spawn(follow(shared.client(tenant), stream));
    }
}

async fn follow(mut client: Client, stream: u32) {
    let mut last: Option<String> = None;
    for connection in 0_u32.. {
        if client.is_stopped() {
            return;
        }
        let node = client.any_node();
        let api = node.customer(&client.shared.http, &client.tenant.key);
        let begin = client.shared.recorder.now();
        let opened = tokio::time::timeout(OPEN, EventSource::try_open(&api, "", last.as_deref())).await;
        let outcome = match &opened {
            Ok(Ok(_)) => Outcome::Done(Answer::Nothing),
            Ok(Err(why)) => Outcome::Unknown { why: why.clone() },
            Err(_) => Outcome::Unknown { why: UNANSWERED.to_owned() },
        };
        client.record(node.id, begin, Op::OpenStream { stream }, outcome);
        let Ok(Ok(source)) = opened else {
            client.pause(AGAIN).await;
            continue;
        };
        let kept = Instant::now();
        while kept.elapsed() < KEPT && !source.has_ended() && !client.is_stopped() {
            client.pause(LOOK).await;
        }
        for frame in source.frames() {
            let Some(event) = frame.event.clone() else { continue };
            let body: serde_json::Value =
                frame.data.first().and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
            let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
            last = frame.id.clone().or(last);
            client.shared.recorder.write(&Record::Frame(Frame {
                at: client.shared.recorder.now(),
                tenant: client.tenant.name.clone(),
                stream,
                connection,
                node: node.id,
                event,
                event_id: frame.id,
                channel: text(&body["channel_id"]),
                message: text(&body["data"]["message_id"]),
                notice: text(&body["data"]["changes"]["subject"]),
            }));
        }
    }
}
