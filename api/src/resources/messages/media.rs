//! `GET /v1/channels/{id}/messages/{message_id}/media`: the media of a stored message.

use model::error::CallError;
use model::id::MessageId;
use shard::call::request::MessageMedia;

use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;

/// Returns a message's media with a fresh link. Bytes that are not stored are fetched from the network again.
pub async fn of_message(call: &mut ChannelCall) -> Outcome {
    let message_id = MessageId(call.parameter("message_id").to_owned());
    if message_id.0.len() > LONGEST_ID {
        return Err(CallError::message_not_found(&message_id.0));
    }
    let row = call.ask(MessageMedia(message_id)).await?;
    Ok(Reply::ok(&call.cluster().media().reference(&row)))
}

/// The longest message id that is looked up, in bytes.
const LONGEST_ID: usize = 255;
