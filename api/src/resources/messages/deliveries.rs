//! `GET /v1/messages/{message_id}/deliveries`: what webhooks were told of a message.

use model::error::CallError;
use model::id::{ChannelId, MessageId};
use model::issue::{IssueCode, Violation};

use super::history::all_channels;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::AccountCall;

pub async fn of_message(call: &mut AccountCall) -> Outcome {
    let query = call.query();
    let named: Option<ChannelId> = query.id("channel_id");
    let named = query.finish(named)?;
    let channels = match (named, call.bound_channel()) {
        (Some(channel), _) => vec![call.own_channel(channel)?.id],
        // A bound key sees the messages of its channel, and no others.
        (None, Some(bound)) => vec![bound],
        (None, None) => all_channels(call),
    };
    let message = MessageId(call.parameter("message_id").to_owned());
    let mut found = call.cluster().message_deliveries(channels, message.clone(), &call.context()).await?;
    match found.len() {
        0 => Err(CallError::message_not_found(message.as_str())),
        1 => Ok(Reply::ok(&List::whole(found.remove(0).deliveries))),
        // Two channels of the account that write to each other know the message by the same id.
        _ => {
            Err(Violation::new(IssueCode::Required, "several channels have this message: name one").at(&["channel_id"]))
        }
    }
}
