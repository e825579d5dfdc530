//! The webhook receivers: one for each behaviour, all on one port.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::receiver::{Received, Receiver, Reply};
use tests::signature;
use tokio_util::task::AbortOnDropHandle;

use crate::history::record::Manner;
use crate::history::{Record, Recorder, Request};

/// The signing secret of all endpoints of a workload.
pub const SECRET: &str = "whsec_of-the-workload-0123456789";

/// Path prefix of endpoints that are created and deleted during a run; their receiver accepts everything.
const PASSING: &str = "/passing/";

/// Response time of the slow receiver. The events of one conversation are delivered one after the other, so it must
/// keep up with the sends of a channel.
const SLOW: Duration = Duration::from_millis(150);

/// Response time of all receivers while they are held.
const HELD: Duration = Duration::from_millis(2500);

/// How often the receiver's own records are dropped.
const FORGET: Duration = Duration::from_secs(5);

pub struct Hooks {
    receiver: Receiver,
    /// Whether all receivers are held.
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
        // The history has everything; the receiver's own memory would grow throughout the run.
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

    /// Makes all receivers take seconds for each response, or behave as usual again.
    pub fn hold(&self, hold: bool) {
        self.holding.store(hold, Ordering::Relaxed);
    }

    pub fn url(&self, hook: &str) -> String {
        self.receiver.url(hook)
    }
}

/// The path of an endpoint with this behaviour; `name` makes it unique.
pub fn hook(manner: Manner, name: &str) -> String {
    format!("/{manner:?}/{name}")
}

/// The path of an endpoint that is created and deleted during the run.
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
        // Only the first attempt fails: a third attempt might come after the end of the run.
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
    // Verified at the signature's own time, so that a clock that jumps does not count as a forgery.
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
