//! The webhook receivers, one for each manner of answering, and all on one port.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::receiver::{Received, Receiver, Reply};
use tests::signature;
use tokio_util::task::AbortOnDropHandle;

use crate::history::record::Manner;
use crate::history::{Record, Recorder, Request};

/// The secret of all endpoints of a workload.
pub const SECRET: &str = "whsec_of-the-workload-0123456789";

/// Paths of endpoints that come and go; their receiver is good.
const PASSING: &str = "/passing/";

/// How long the slow one takes. Events of one conversation go out one after the other, so it has to keep up with the sends of
/// a channel.
const SLOW: Duration = Duration::from_millis(150);

/// How long all take while they are held.
const HELD: Duration = Duration::from_millis(2500);

/// How often what was recorded is forgotten.
const FORGET: Duration = Duration::from_secs(5);

pub struct Hooks {
    receiver: Receiver,
    /// All take their time now.
    holding: Arc<AtomicBool>,
    _forgetting: AbortOnDropHandle<()>,
}

impl Hooks {
    /// Listens on a free port of an address.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn start(address: IpAddr, recorder: Arc<Recorder>) -> std::io::Result<Self> {
        let receiver = Receiver::start_on((address, 0).into()).await?;
        let holding = Arc::new(AtomicBool::new(false));
        let held = holding.clone();
        receiver.answer(move |received| {
            let reply = if held.load(Ordering::Relaxed) { Reply::Slow(HELD, 200) } else { reply(received) };
            recorder.write(&Record::Webhook(request(received, &reply, &recorder)));
            reply
        });
        // The history holds it all; the receiver's own memory would grow for an hour.
        let forgetting = tokio::spawn({
            let receiver = receiver.clone();
            async move {
                loop {
                    tokio::time::sleep(FORGET).await;
                    receiver.clear();
                }
            }
        });
        Ok(Self { receiver, holding, _forgetting: AbortOnDropHandle::new(forgetting) })
    }

    /// Has all receivers take seconds for what they get, or answer as they are made to again.
    pub fn hold(&self, hold: bool) {
        self.holding.store(hold, Ordering::Relaxed);
    }

    pub fn url(&self, hook: &str) -> String {
        self.receiver.url(hook)
    }
}

/// Where an endpoint with a manner listens; `name` makes it one's own.
pub fn hook(manner: Manner, name: &str) -> String {
    format!("/{manner:?}/{name}")
}

/// Where an endpoint listens that comes and goes.
pub fn passing(name: &str) -> String {
    format!("{PASSING}{name}")
}

fn manner(path: &str) -> Manner {
    let all =
        [Manner::Slow, Manner::Flaky, Manner::Broken, Manner::Hangs, Manner::Cuts, Manner::Gone, Manner::Redirects];
    let named = |manner: &Manner| path.trim_start_matches('/').starts_with(&format!("{manner:?}/"));
    all.into_iter().find(named).unwrap_or(Manner::Good)
}

fn reply(received: &Received) -> Reply {
    match manner(&received.path) {
        Manner::Good => Reply::Status(200),
        Manner::Slow => Reply::Slow(SLOW, 200),
        // Never a second time: the third attempt would be as late as the whole run.
        Manner::Flaky if received.index % 5 == 4 && header(received, "x-gateway-attempt") == "1" => Reply::Status(500),
        Manner::Flaky => Reply::Status(204),
        Manner::Broken => Reply::Status(500),
        Manner::Hangs => Reply::Hang,
        Manner::Cuts => Reply::Cut,
        Manner::Gone => Reply::Status(410),
        Manner::Redirects => Reply::Header(302, "location", "/Good/elsewhere".to_owned()),
    }
}

fn header<'a>(received: &'a Received, name: &str) -> &'a str {
    received.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn request(received: &Received, reply: &Reply, recorder: &Recorder) -> Request {
    let header =
        |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body: serde_json::Value = serde_json::from_slice(&received.body).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let signed = header("x-gateway-signature");
    // Measured against its own time: a clock that jumps is no forgery.
    let at = signed.split(',').find_map(|part| part.strip_prefix("t=")?.parse().ok()).unwrap_or_default();
    Request {
        at: recorder.now(),
        hook: received.path.clone(),
        delivery: header("x-gateway-delivery-id"),
        event: text(&body["event"]).unwrap_or_default(),
        event_id: text(&body["event_id"]).unwrap_or_default(),
        channel: text(&body["channel_id"]).unwrap_or_default(),
        message: text(&body["data"]["message_id"]),
        status: text(&body["data"]["status"]),
        from: body["data"]["from"].as_str().and_then(|from| from.split('@').next()).map(str::to_owned),
        signed: Some(signature::verify(SECRET, &signed, &received.body, at).is_ok()),
        answered: match reply {
            Reply::Status(status) | Reply::Header(status, ..) | Reply::Body(status, _) | Reply::Slow(_, status) => {
                Some(*status)
            }
            Reply::Hang | Reply::Cut => None,
        },
    }
}
