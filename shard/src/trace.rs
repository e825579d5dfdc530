//! Traces: what a request or an inbound message caused on all nodes, for OpenTelemetry.
//!
//! No trace context is passed between nodes. The ids of a trace and of its first span are derived from the request id
//! or the correlation id, which calls between nodes, stored messages and deliveries carry anyway. So every node can add
//! to the trace, even after a failover or days later, and nodes of several releases are compatible.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use metrics::counter;
use model::time::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

/// Capacity of the queue of spans that wait to be exported; spans beyond it are dropped and counted.
const QUEUE: usize = 8 * 1024;

pub type TraceId = [u8; 16];
pub type SpanId = [u8; 8];

/// The kind of a span, with OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    /// Serves a request.
    Server = 2,
    /// Makes a request.
    Client = 3,
    /// Processes something that arrived unrequested.
    Consumer = 5,
}

/// The position of a span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The root span; one per trace.
    First,
    Within,
}

/// A completed span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: Kind,
    /// Nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    /// Strings and integers.
    pub attributes: Vec<(&'static str, Value)>,
    /// A span of the caller's own trace. It is linked, not joined: a trace must not connect different callers.
    pub link: Option<(TraceId, SpanId)>,
    /// The reason of the failure, if the span failed.
    pub failure: Option<String>,
}

/// Takes completed spans.
struct Recorder {
    queue: mpsc::Sender<Span>,
    sample: f64,
}

/// Installed once by the binary, like the metrics recorder; without it nothing is recorded.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Starts recording the fraction `sample` of all traces; a sampled trace is recorded on every node. `None` if a
/// recorder is installed already.
pub fn install(sample: f64) -> Option<mpsc::Receiver<Span>> {
    let (queue, spans) = mpsc::channel(QUEUE);
    RECORDER.set(Recorder { queue, sample }).ok().map(|()| spans)
}

/// The id of the trace of a request id or a correlation id.
pub fn trace_of(origin: &str) -> TraceId {
    first_bytes("trace", origin)
}

fn first_span_of(origin: &str) -> SpanId {
    first_bytes("span", origin)
}

fn first_bytes<const N: usize>(what: &str, origin: &str) -> [u8; N] {
    let digest = Sha256::new().chain_update(what).chain_update([0]).chain_update(origin).finalize();
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}

/// Whether a trace is sampled. This depends on its id alone, so that all nodes decide alike.
fn is_sampled(trace: &TraceId, sample: f64) -> bool {
    let number = u32::from_be_bytes([trace[0], trace[1], trace[2], trace[3]]);
    f64::from(number) < sample * (f64::from(u32::MAX) + 1.0)
}

/// A span that has not ended.
pub struct Begun {
    span: Span,
    started: Instant,
}

/// Begins a span in the trace of a request id or a correlation id. `None` if the trace is not recorded.
#[expect(clippy::disallowed_methods, reason = "spans last for less than the millisecond of a Timestamp")]
pub fn begin(origin: &str, place: Place, kind: Kind, name: impl FnOnce() -> String) -> Option<Begun> {
    let recorder = RECORDER.get()?;
    let trace = trace_of(origin);
    if !is_sampled(&trace, recorder.sample) {
        return None;
    }
    let first = first_span_of(origin);
    let (id, parent) = match place {
        Place::First => (first, None),
        Place::Within => (rand::random(), Some(first)),
    };
    let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| nanos(since.as_nanos()));
    let span = Span {
        trace,
        id,
        parent,
        name: name(),
        kind,
        start,
        end: start,
        attributes: Vec::new(),
        link: None,
        failure: None,
    };
    Some(Begun { span, started: Instant::now() })
}

fn nanos(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl Begun {
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.span.attributes.push((key, value.into()));
        self
    }

    /// Links the caller's own span, as named by its `traceparent` header (W3C Trace Context).
    pub fn linked(mut self, traceparent: Option<&str>) -> Self {
        self.span.link = traceparent.and_then(parse_traceparent);
        self
    }

    /// Moves the span's start back to `start`, if that is earlier.
    pub fn since(mut self, start: Timestamp) -> Self {
        self.span.start = u64::try_from(start.0).unwrap_or(0).saturating_mul(1_000_000).min(self.span.start);
        self
    }

    pub fn failed(mut self, why: Option<String>) -> Self {
        self.span.failure = why;
        self
    }

    /// The trace id in hex, as in logs.
    pub fn trace(&self) -> String {
        hex::encode(self.span.trace)
    }

    /// Ends the span and hands it to the recorder.
    pub fn end(mut self) {
        let Some(recorder) = RECORDER.get() else { return };
        let began = self.span.end;
        self.span.end = began.saturating_add(nanos(self.started.elapsed().as_nanos()));
        if recorder.queue.try_send(self.span).is_err() {
            dropped(1);
        }
    }
}

/// Counts spans that were dropped.
pub fn dropped(count: u64) {
    counter!("gateway_spans_dropped_total").increment(count);
}

/// Parses `00-<trace>-<span>-<flags>`; later versions begin in the same way.
fn parse_traceparent(text: &str) -> Option<(TraceId, SpanId)> {
    let mut parts = text.trim().split('-');
    let version = parts.next().filter(|version| version.len() == 2 && *version != "ff")?;
    hex::decode(version).ok()?;
    let (mut trace, mut span) = (TraceId::default(), SpanId::default());
    hex::decode_to_slice(parts.next()?, &mut trace).ok()?;
    hex::decode_to_slice(parts.next()?, &mut span).ok()?;
    parts.next().filter(|flags| flags.len() == 2)?;
    (trace != TraceId::default() && span != SpanId::default()).then_some((trace, span))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_trace_follows_from_its_origin_alone() {
        assert_eq!(trace_of("req_1"), trace_of("req_1"));
        assert_ne!(trace_of("req_1"), trace_of("req_2"));
        assert_ne!(trace_of("req_1")[..8], first_span_of("req_1"));
    }

    #[test]
    fn about_the_asked_part_of_traces_is_sampled() {
        let count = |sample: f64| (0..1000).filter(|number| is_sampled(&trace_of(&number.to_string()), sample)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 1000));
        assert!((150..350).contains(&count(0.25)), "{}", count(0.25));
    }

    #[test]
    fn a_traceparent_is_read_or_ignored() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (trace, span) = parse_traceparent(good).unwrap();
        assert_eq!((hex::encode(trace), hex::encode(span)), (good[3..35].to_owned(), good[36..52].to_owned()));
        let bad = [
            "",
            "00-0af7-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ];
        for text in bad {
            assert_eq!(parse_traceparent(text), None, "{text}");
        }
    }
}
