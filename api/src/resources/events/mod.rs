//! `GET /v1/events`: the event stream of an account, and tickets for it.
//!
//! - [`feed`]: runs one stream. [`queue`]: frames that wait for its client. [`frame`]: their bytes. [`ticket`]: opens a
//!   stream without a key.

mod feed;
mod frame;
mod queue;
mod ticket;

use std::sync::Arc;

use futures::StreamExt;
use model::error::{CallError, ErrorCode as E};
use model::event::{EventId, EventName};
use model::issue::IssueCode;
use model::payload::ChatTypeFilter;
use salvo::conn::ConnCtrl;
use salvo::http::header::CACHE_CONTROL;
use salvo::http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use shard::stream::{Filter, Start, StreamRequest, StreamResponse, mint_stream};

use self::feed::Feed;
use self::queue::Queue;
use crate::failure;
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::route::{EVENTS_PATH, GET, POST, Route};

const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// Header that keeps a proxy in front of the gateway from buffering frames.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Header that a reconnecting client sends (WHATWG server-sent events).
const LAST_EVENT_ID: &str = "last-event-id";

/// The most channels that a stream can be restricted to.
const MOST_CHANNELS: usize = 100;

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(GET, EVENTS_PATH, open)
            .doc("stream_events", "Receive events as they happen")
            .about(
                "Server-sent events: `event` is the name, `id` the event id, `data` the same body as a webhook's. The \
                 stream is open until the client or the node closes it.",
            )
            .query(|query| {
                read_filter(query);
                last_event_id(query).map(str::to_owned)
            })
            .header("Last-Event-ID", "The id of the last event that was received.", event_id_or_nothing())
            .content(CONTENT_TYPE)
            .errors(&[E::SseConnectionLimit, E::ChannelNotFound, E::ChannelAccessDenied]),
        Route::account(POST, "/v1/events/tickets", ticket::issue)
            .doc("create_stream_ticket", "Get a ticket that opens one stream without a key")
            .created::<ticket::TicketView<'static>>(),
    ]
}

async fn open(call: &mut AccountCall) -> Outcome {
    let (filter, resume) = asked(call)?;
    if call.http.method() == Method::HEAD {
        return Ok(headers(Reply::empty(StatusCode::OK).typed(HeaderValue::from_static(CONTENT_TYPE))));
    }
    let customer = call.customer_id();
    let context = call.context();
    call.cluster().announce_stream(customer, context.deadline).await.map_err(failure::of_update)?;
    let stream = mint_stream();
    let request = StreamRequest::Open { stream: stream.clone(), resume: resume.clone() };
    let Start { after, gap } = match call.cluster().stream(customer, request, &context).await? {
        StreamResponse::Opened(start) => start,
        StreamResponse::Full { open } => {
            return Err(CallError::sse_connection_limit(u32::try_from(open).unwrap_or(u32::MAX)));
        }
        other => return Err(failure::unexpected(&other)),
    };
    let queue = Arc::new(Queue::default());
    queue.push(frame::connected(&stream));
    if let (Some(from), Some(gap)) = (&resume, &gap) {
        queue.push(frame::gap(from, gap));
    }
    let connection = call.http.extensions().get::<ConnCtrl>().cloned();
    let body = queue::body(queue.clone()).map(Ok).boxed();
    let feed = Feed { app: call.app.clone(), caller: call.caller.clone(), stream, queue, filter, after, connection };
    call.app.event_streams.spawn(feed.run());
    Ok(headers(Reply::stream(StatusCode::OK, HeaderValue::from_static(CONTENT_TYPE), body)))
}

fn headers(reply: Reply) -> Reply {
    reply
        .with(CACHE_CONTROL, HeaderValue::from_static("no-store"))
        .with(ACCEL_BUFFERING, HeaderValue::from_static("no"))
}

/// Reads which events the stream shows, and after which event.
fn asked(call: &AccountCall) -> Result<(Filter, Option<EventId>), CallError> {
    let (mut filter, resume) = call.asked(|query| (read_filter(query), resume(call, query)))?;
    for id in &filter.channels {
        call.own_channel(*id)?;
    }
    if let Some(bound) = call.bound_channel() {
        filter.channels = vec![bound];
    }
    Ok((filter, resume))
}

fn read_filter(query: &Query<'_>) -> Filter {
    let channels = query.ids("channel_id", MOST_CHANNELS);
    let chat = query.word("chat_type", ChatTypeFilter::WORDS, ChatTypeFilter::parse);
    Filter { channels, names: names(query), chat: chat.unwrap_or_default() }
}

/// The event names in the comma-separated list, each once. `*` stands for all, as for webhook endpoints.
fn names(query: &Query<'_>) -> Vec<EventName> {
    const EVERY: &str = "*";
    let words = [EventName::WORDS, &[EVERY]].concat();
    let known = |word: &str| if word == EVERY { Some(None) } else { EventName::parse(word).map(Some) };
    // Collecting to `None` on a `*` leaves an empty list, which means all.
    let names: Option<Vec<EventName>> = query.words("events", &words, known).into_iter().collect();
    let mut names = names.unwrap_or_default();
    names.sort();
    names.dedup();
    names
}

/// The schema for the OpenAPI document: an event's id, or an empty text, which counts as absent.
fn event_id_or_nothing() -> Value {
    json!({ "type": "string", "maxLength": 30, "pattern": "^(evt_[0-7][0-9A-HJKMNP-TV-Z]{25})?$" })
}

fn last_event_id<'a>(query: &Query<'a>) -> Option<&'a str> {
    let text = query.text("last_event_id");
    query.note("last_event_id", event_id_or_nothing);
    text
}

/// The id of the last event that the client has seen, from header or query. An empty text counts as absent.
fn resume(call: &AccountCall, query: &Query<'_>) -> Option<EventId> {
    let header = call.http.headers().get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let text = [header, last_event_id(query)].into_iter().flatten().find(|text| !text.is_empty())?;
    let id = EventId::parse(text);
    if id.is_none() {
        query.refuse(
            "last_event_id",
            IssueCode::Format,
            "must be the id of an event, such as evt_01JGFJJZ008N9Y7K4S5T6V7W8X",
        );
    }
    id
}
