//! `gateway listen`: prints events as they arrive, and forwards them to a receiver under development.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use model::event::EventId;
use model::id::ChannelId;
use model::time::Timestamp;
use reqwest::{Client, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::access::{Account, failure};
use super::forward::Receiver;
use super::frames::{Frame, Frames};
use crate::caller::text_of;
use crate::cli::receiving::ListenArgs;
use crate::console::{is_read, printable, say, say_json, warn};
use crate::refusal::{Refusal, distrust, in_short};

/// The gateway sends something every 15 s; after three intervals of silence, the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// Pause before the next node is tried after a disconnect.
const PAUSE: Duration = Duration::from_secs(1);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout of opening the stream.
const OPENING: Duration = Duration::from_secs(15);

/// Listens until it is stopped.
///
/// # Errors
/// A [`Refusal`] when the gateway refuses the key or a filter.
pub async fn run(args: ListenArgs) -> anyhow::Result<()> {
    let account = Account::find(&args.account)?;
    let receiver = args.forward_to.clone().map(|url| Receiver::new(url, args.signing_secret.clone())).transpose()?;
    let client = Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT);
    let client = account.trust.apply(client)?.build().context("making an HTTP client")?;
    let (query, json) = (query(&args), args.json);
    let listening = Listening { account, receiver, client, query, json, last: None, began: None, told: HashMap::new() };
    tokio::select! {
        ended = listening.run() => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// The query of the stream. Names and ids consist of letters, digits and dots, so nothing is escaped.
fn query(args: &ListenArgs) -> String {
    let mut parts: Vec<String> = args.channel.iter().map(|id| format!("channel_id={}", ChannelId(*id))).collect();
    if !args.events.is_empty() {
        let names: Vec<&str> = args.events.iter().map(|name| name.as_str()).collect();
        parts.push(format!("events={}", names.join(",")));
    }
    parts.join("&")
}

struct Listening {
    account: Account,
    receiver: Option<Receiver>,
    client: Client,
    query: String,
    json: bool,
    /// The last event, after which the stream resumes.
    last: Option<String>,
    /// The start of the first stream, as an event id that no event has. After a disconnect before the first event, the
    /// stream resumes from here.
    began: Option<EventId>,
    /// The last error printed for each node since one answered.
    told: HashMap<String, String>,
}

impl Listening {
    async fn run(mut self) -> anyhow::Result<()> {
        for node in self.account.nodes.clone().iter().cycle() {
            match self.listen(node).await {
                Ok(()) if !is_read() => return Ok(()),
                Ok(()) => warn(format_args!("gateway: {node} ended the stream; reconnecting")),
                Err(error) if error.is::<Refusal>() => return Err(error),
                Err(error) => {
                    let error = match distrust(&error) {
                        Some(remedy) => format!("{}; {remedy}", in_short(&error)),
                        None => in_short(&error),
                    };
                    // An unchanged error is not printed again every second.
                    if self.told.insert(node.clone(), error.clone()).as_ref() != Some(&error) {
                        warn(format_args!("gateway: {error}; trying again"));
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Listens at one node until the stream ends.
    async fn listen(&mut self, node: &str) -> anyhow::Result<()> {
        let again = self.began.is_some();
        let mut response = self.open(node).await?;
        self.told.clear();
        let mut frames = Frames::default();
        let mut is_heard = false;
        loop {
            let piece = timeout(SILENCE, response.chunk()).await;
            let piece = piece.with_context(|| format!("{node} said nothing for {SILENCE:?}"))?;
            let piece = piece.map_err(reqwest::Error::without_url).with_context(|| format!("{node} was cut off"))?;
            let Some(piece) = piece else { return Ok(()) };
            let whole = frames.take(&piece)?;
            if self.began.is_none() {
                self.began = frames.stream().and_then(|stream| EventId::parse(&format!("evt_{stream}")));
            }
            if !is_heard {
                // From here on nothing is missed: the name of the stream says where it began.
                warn(format_args!("gateway: listening at {node}; press Ctrl-C to stop"));
                is_heard = true;
            }
            for frame in whole {
                if again && self.is_of_before(&frame) {
                    continue;
                }
                self.hear(frame).await;
                if !is_read() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether a frame's event is older than the first stream. Ids do not tell, because events from the network have
    /// ids with the network's time.
    fn is_of_before(&self, frame: &Frame) -> bool {
        let (None, Some(began), Some(_)) = (&self.last, &self.began, &frame.id) else { return false };
        let envelope: Value = serde_json::from_str(&frame.data).unwrap_or_default();
        let occurred_at = envelope["occurred_at"].as_str().and_then(Timestamp::parse_iso);
        occurred_at.is_some_and(|at| at < began.time())
    }

    async fn open(&self, node: &str) -> anyhow::Result<Response> {
        let mut request = self.client.get(format!("{node}/v1/events?{}", self.query)).bearer_auth(&self.account.key);
        if let Some(last) = self.last.as_deref().or(self.began.as_ref().map(EventId::as_str)) {
            request = request.header("last-event-id", last);
        }
        let answer = timeout(OPENING, request.send()).await;
        let answer = answer.with_context(|| format!("{node} did not answer within {OPENING:?}"))?;
        let answer = answer.map_err(reqwest::Error::without_url).with_context(|| format!("{node} does not answer"))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body: Value = serde_json::from_str(&text_of(answer).await.unwrap_or_default()).unwrap_or_default();
        let scopes = "use a key with the scope events.read, of all channels or of the one that is named";
        Err(failure(node, status, &body, scopes, "check the names and ids"))
    }

    async fn hear(&mut self, frame: Frame) {
        let Some(id) = frame.id else {
            match (frame.event.as_str(), &self.began) {
                // No event has that id, so the stream starts with the oldest event that the gateway has.
                ("stream.gap", Some(began)) if self.last.is_none() => warn(format_args!(
                    "gateway: no event had come before the interruption; continuing with those since {} that the gateway still has",
                    began.time()
                )),
                ("stream.gap", _) => warn("gateway: some events were missed: the stream was interrupted for too long"),
                ("stream.overflow", _) => warn("gateway: events came faster than they were read; continuing"),
                _ => {}
            }
            return;
        };
        if self.json {
            say_json(&frame.data);
        } else {
            say(printable(&format!("{}  {id}  {}", Timestamp::now().to_iso(), frame.event)));
        }
        if let Some(receiver) = &self.receiver {
            match receiver.send(&frame.event, &id, frame.data).await {
                Ok((status, took)) => warn(format_args!("  -> {status} after {} ms", took.as_millis())),
                Err(error) => warn(format_args!("  -> {}", in_short(&error))),
            }
        }
        self.last = Some(id);
    }
}
