//! Messages: sending, and reading stored ones.

mod deliveries;
mod history;
mod media;
mod send;

use model::error::ErrorCode as E;
use model::media::MediaRef;
use model::page::ListId;
use shard::call::Sent;
use shard::deliveries::view::DeliveryRecord;
use shard::history::StoredMessage;

use crate::resources::media::FETCHED;
use crate::route::{GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(POST, "/v1/channels/{id}/messages", send::send)
            .plan_blocks()
            .doc("send_message", "Send a message")
            .about(
                "The status is `sent` if the network has accepted it, and `queued` if it has not yet; either way it is \
                 sent once. The fields of a type are at the top level, or inside `body`.",
            )
            .body_schema(|here| model::send::schema(here.suffixes), send::examples())
            .accepted::<Sent>()
            .on_network()
            .errors(FETCHED)
            .errors(&[E::UndeliverableRecipient, E::MessageNotFound, E::MediaGone, E::PlanLimit]),
        Route::channel(GET, "/v1/channels/{id}/messages", history::of_channel)
            .doc("list_channel_messages", "List a channel's messages, the newest first")
            .query(history::HistoryParameters::outline)
            .page::<StoredMessage>(),
        Route::channel(GET, "/v1/channels/{id}/messages/{message_id}/media", media::of_message)
            .doc("get_message_media", "Get the media of a message, with a new link")
            .ok::<MediaRef>()
            .on_network()
            .errors(&[E::MessageNotFound, E::NotFound, E::MediaGone, E::MediaTooLarge]),
        Route::account(GET, "/v1/messages", history::of_account)
            .doc("list_messages", "List the messages of all channels, the newest first")
            .query(|query| {
                history::named_channels(query);
                history::HistoryParameters::outline(query);
            })
            .page::<StoredMessage>()
            .errors(&[E::ChannelNotFound, E::ChannelAccessDenied, E::ChannelScopedKey]),
        Route::account(GET, "/v1/messages/{message_id}/deliveries", deliveries::of_message)
            .doc("list_message_deliveries", "List the webhook deliveries that carried a message")
            .about(
                "Name the channel if several of the account have the message. There is a `next_cursor` if there are \
                 too many for one response.",
            )
            .query(|query| deliveries::read(query, ListId::only()))
            .list_or_page::<DeliveryRecord>()
            .errors(&[E::MessageNotFound, E::ChannelNotFound, E::ChannelAccessDenied]),
    ]
}
