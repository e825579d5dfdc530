//! A strict client of the event stream: it keeps the raw bytes as well as the frames that it parses from them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::http::Api;
use crate::wait::eventually;

/// Longer than any test keeps a stream open.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A frame: a comment, or the fields of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub comment: Option<String>,
    pub id: Option<String>,
    pub event: Option<String>,
    pub retry: Option<String>,
    pub data: Vec<String>,
}

impl Frame {
    fn parse(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.split('\n') {
            match line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?} of {text:?}")) {
                ("", comment) => frame.comment = Some(comment.to_owned()),
                ("id", id) => frame.id = Some(id.to_owned()),
                ("event", event) => frame.event = Some(event.to_owned()),
                ("retry", retry) => frame.retry = Some(retry.to_owned()),
                ("data", data) => frame.data.push(data.to_owned()),
                (other, _) => panic!("an unknown field {other:?}: {text:?}"),
            }
        }
        frame
    }

    pub fn is(&self, event: &str) -> bool {
        self.event.as_deref() == Some(event)
    }

    /// The data as JSON.
    ///
    /// # Panics
    /// If the data is not JSON, or not exactly one line.
    pub fn json(&self) -> Value {
        assert_eq!(self.data.len(), 1, "exactly one data line: {self:?}");
        serde_json::from_str(&self.data[0]).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[derive(Default)]
struct Read {
    raw: String,
    frames: Vec<Frame>,
    ended: bool,
}

/// An open stream. Dropping it closes the connection.
pub struct EventSource {
    pub headers: HeaderMap,
    read: Arc<Mutex<Read>>,
    reading: JoinHandle<()>,
}

impl EventSource {
    /// Opens a stream; `query` begins with `?` when it is not empty.
    pub async fn open(api: &Api, query: &str) -> Self {
        Self::resume(api, query, None).await
    }

    /// Opens a stream that resumes after an event.
    ///
    /// # Panics
    /// If the stream is refused.
    pub async fn resume(api: &Api, query: &str, last_event_id: Option<&str>) -> Self {
        Self::try_open(api, query, last_event_id).await.unwrap_or_else(|refusal| panic!("no stream: {refusal}"))
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The refusal, or the error of the transport.
    pub async fn try_open(api: &Api, query: &str, last_event_id: Option<&str>) -> Result<Self, String> {
        let mut request = api.request(Method::GET, &format!("/v1/events{query}")).timeout(TIMEOUT);
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        let mut response = request.send().await.map_err(|error| error.to_string())?;
        let headers = response.headers().clone();
        if response.status() != 200 {
            return Err(format!("{} {}", response.status(), response.text().await.unwrap_or_default()));
        }
        let read = Arc::new(Mutex::new(Read::default()));
        let shared = read.clone();
        let reading = tokio::spawn(async move {
            let mut rest = Vec::new();
            while let Ok(Some(chunk)) = response.chunk().await {
                rest.extend_from_slice(&chunk);
                let mut read = shared.lock().expect("no holder panics");
                while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
                    let text = String::from_utf8(rest.drain(..end + 2).collect()).expect("a stream is UTF-8");
                    read.frames.push(Frame::parse(&text[..text.len() - 2]));
                    read.raw.push_str(&text);
                }
            }
            shared.lock().expect("no holder panics").ended = true;
        });
        Ok(Self { headers, read, reading })
    }

    /// The raw bytes so far.
    pub fn raw(&self) -> String {
        self.read.lock().expect("no holder panics").raw.clone()
    }

    pub fn frames(&self) -> Vec<Frame> {
        self.read.lock().expect("no holder panics").frames.clone()
    }

    /// The customer's events, without the stream's own frames.
    pub fn events(&self) -> Vec<Frame> {
        self.frames().into_iter().filter(|frame| frame.id.is_some()).collect()
    }

    pub fn ids(&self) -> Vec<String> {
        self.events().into_iter().filter_map(|frame| frame.id).collect()
    }

    pub fn has_ended(&self) -> bool {
        self.read.lock().expect("no holder panics").ended
    }

    /// Waits for a frame for which `holds` is true.
    pub async fn wait(&self, what: &str, within: Duration, holds: impl Fn(&Frame) -> bool) -> Frame {
        eventually(what, within, async || {
            let frames = self.frames();
            let found = frames.iter().find(|frame| holds(frame)).cloned();
            found.ok_or_else(|| format!("{} frames, the last: {:?}", frames.len(), frames.last()))
        })
        .await
    }

    /// Waits for an event about a message.
    pub async fn wait_message(&self, event: &str, message: &str, within: Duration) -> Frame {
        let about = |frame: &Frame| frame.is(event) && frame.json()["data"]["message_id"] == message;
        self.wait(&format!("{event} of {message}"), within, about).await
    }

    /// Waits until the stream has ended.
    pub async fn wait_end(&self, within: Duration) {
        eventually("the stream ends", within, async || if self.has_ended() { Ok(()) } else { Err(self.raw()) }).await;
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Asserts that no id occurs twice.
///
/// # Panics
/// If one does.
#[track_caller]
pub fn assert_once<'a>(ids: impl IntoIterator<Item = &'a String>) {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(seen.insert(id), "{id} came twice");
    }
}
