//! `GET /v1/messages/{message_id}/deliveries`: the webhook deliveries about a message.

use model::error::CallError;
use model::id::{ChannelId, DeliveryId, MessageId};
use model::issue::{IssueCode, Violation};
use model::page::{Cursor, ListId};

use super::history::all_channels;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::AccountCall;

model::cursor! {
    /// The last delivery of a response that could not hold all.
    DeliveryCursor("message-deliveries.1") { id: DeliveryId }
}

/// Reads the channel, and where the previous response ended.
pub fn read(query: &Query<'_>, list: ListId) -> (Option<ChannelId>, Option<DeliveryId>) {
    (query.id("channel_id"), query.cursor::<DeliveryCursor>(list).map(|cursor| cursor.id))
}

pub async fn of_message(call: &mut AccountCall) -> Outcome {
    let message = MessageId(call.parameter("message_id").to_owned());
    let list = ListId::of(&[call.customer_id().as_bytes(), message.as_str().as_bytes()]);
    let (named, after) = call.asked(|query| read(query, list))?;
    let channels = match (named, call.bound_channel()) {
        (Some(channel), _) => vec![call.own_channel(channel)?.id],
        // A bound key sees only the messages of its channel.
        (None, Some(bound)) => vec![bound],
        (None, None) => all_channels(call),
    };
    let mut found = call.cluster().message_deliveries(channels, message.clone(), after, &call.context()).await?;
    match found.len() {
        0 => Err(CallError::message_not_found(message.as_str())),
        1 => {
            let found = found.remove(0);
            let next = found.stopped_at.map(|id| Some(DeliveryCursor { id }.encode(list)));
            Ok(Reply::ok(&List { data: found.deliveries, next_cursor: next }))
        }
        // Two channels of the account that write to each other have the message under the same id.
        _ => {
            Err(Violation::new(IssueCode::Required, "several channels have this message: name one").at(&["channel_id"]))
        }
    }
}
