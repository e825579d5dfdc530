//! A stored message as the interface shows it.

use std::borrow::Cow;

use machine::View;
use model::address::Address;
use model::id::ChannelId;
use model::media::{Media, MediaRef, MediaState};
use model::message::Content;
use serde_json::{Value, json};

use super::deliveries::deliveries_of;
use super::{Direction, StoredMessage, content};
use crate::deliveries::view::DeliveryView;
use crate::keys;
use crate::media::record::MediaRow;
use crate::records::{Failure, LidRow, MOST_RECEIPTS, MessageRow, MessageState, ReceiptRow, decode};

/// All fields of a row, with its status and its deliveries.
pub fn show(view: &dyn View, row: MessageRow, without_deliveries: bool) -> StoredMessage {
    let webhook_deliveries =
        if without_deliveries { Vec::new() } else { deliveries_of(view, &row).iter().map(DeliveryView::of).collect() };
    let state = MessageState::read(view, &row);
    let kind = row.type_name().to_owned();
    // An empty text means that the text was not stored.
    let text = row.content.text().filter(|text| !text.is_empty()).map(str::to_owned);
    let emoji = match &row.content {
        Content::Reaction { emoji, .. } => Some(emoji.clone()),
        _ => None,
    };
    let mut rest = content::rest_of(&row.content, &row.around);
    if kind != row.content.type_name() {
        rest.insert("raw_type".to_owned(), json!(row.content.type_name()));
    }
    if let Some(receipts) = receipts_of(view, &row) {
        rest.insert("receipts".to_owned(), json!(receipts));
    }
    let sender = sender_of(view, &row);
    StoredMessage {
        id: row.id,
        message_id: row.message_id,
        channel_id: row.channel,
        direction: row.direction,
        source: row.source,
        chat_id: best(view, row.channel, &row.chat).into_owned(),
        is_group: row.is_group,
        from_resolved: sender.is_some() || row.from_resolved,
        from_lid: if sender.is_some() { Some(row.from.clone()) } else { row.from_lid },
        from_phone: sender.clone().or(row.from_phone),
        from: sender.unwrap_or(row.from),
        to: best(view, row.channel, &row.to).into_owned(),
        participant: row.participant.map(|author| best(view, row.channel, &author).into_owned()),
        push_name: row.push_name,
        kind,
        text,
        media: row.content.media().map(|media| media_of(view, row.channel, media)),
        message_key: row.content.target().cloned(),
        emoji,
        quoted_message_id: row.around.quoted.map(|quoted| quoted.message_id),
        content: (!rest.is_empty()).then_some(Value::Object(rest)),
        client_ref: row.client_ref,
        status: state.status,
        status_at: state.status_at,
        error: state.error.map(Failure::show),
        request_id: row.request_id,
        correlation_id: row.correlation_id,
        occurred_at: row.occurred_at,
        created_at: row.created_at,
        webhook_deliveries,
    }
}

/// The phone address of an author who was stored under a LID, if it has become known.
fn sender_of(view: &dyn View, row: &MessageRow) -> Option<Address> {
    match best(view, row.channel, &row.from) {
        Cow::Owned(phone) => Some(phone),
        Cow::Borrowed(_) => None,
    }
}

/// The phone address behind a LID, if it is known by now: a conversation that began under the LID continues under the
/// phone address, and is shown as one.
pub fn best<'a>(view: &dyn View, channel: ChannelId, address: &'a Address) -> Cow<'a, Address> {
    let known = if address.is_lid() { view.get(&keys::lid(channel, address.local())) } else { None };
    known.map_or(Cow::Borrowed(address), |row| Cow::Owned(decode::<LidRow>(&row).phone))
}

/// The present state of a message's media; the node that answers the request makes the link.
fn media_of(view: &dyn View, channel: ChannelId, media: &Media) -> MediaRef {
    let row = media.id.and_then(|id| view.get(&keys::media(channel, id)));
    match row {
        Some(row) => decode::<MediaRow>(&row).shown(),
        // The row of media is deleted long after its bytes.
        None => MediaRef { state: MediaState::Gone, ..MediaRef::not_here(media) },
    }
}

/// The receipt of each member for a message to a group, with the names of its events; `None` for other messages.
fn receipts_of(view: &dyn View, row: &MessageRow) -> Option<Vec<Value>> {
    if !row.is_group || row.direction != Direction::Outbound {
        return None;
    }
    let (from, to) = keys::receipts_of(row.channel, row.id);
    let mut receipts: Vec<ReceiptRow> =
        view.scan(&from, &to, MOST_RECEIPTS as usize).iter().map(|(_, receipt)| decode(receipt)).collect();
    receipts.sort_by_key(|receipt| receipt.at);
    let shown = |receipt: ReceiptRow| {
        json!({
            "participant": best(view, row.channel, &receipt.member),
            "status": receipt.status,
            "timestamp": receipt.at.unix_seconds(),
        })
    };
    Some(receipts.into_iter().map(shown).collect())
}
